package backend

import (
	"runtime"

	"github.com/nsrun/nsrun/internal/denial"
	"github.com/nsrun/nsrun/nsrun/result"
)

// explain answers the listener of the command's filter, which it takes over. If it cannot, the listener is closed, and the command's calls fail.
func (r *run) explain(listener int) {
	_, joined, _, err := r.plan.ExplainFilters(runtime.GOARCH)
	if err == nil {
		r.watch, err = denial.Start(listener, denial.Config{Plan: r.plan, Filters: joined, Rules: r.lowered.Rules, Home: r.opts.Home})
	}
	if err != nil {
		r.breaks(&Error{Stage: "explain", Err: err})
	}
}

// explained is what was refused. No process of the sandbox is alive any more.
func (r *run) explained() ([]result.Denial, *result.Explained) {
	if r.watch == nil {
		return nil, &result.Explained{Level: "off", Unavailable: "this process is under another program's seccomp listener, or may open no more files"}
	}
	return r.watch.Finish()
}
