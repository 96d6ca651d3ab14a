package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/manifest"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
	"github.com/nsrun/nsrun/nsrun/tools"
	"golang.org/x/sys/unix"
)

// ending is one line for a run that nsrun has ended, or that a limit has: the bound, its value, where the value comes from, and how to raise it. It
// is empty for every other run. p is the plan that was run.
func (f *flags) ending(p *plan.Plan, r result.Result, environ []string) string {
	switch r.Verdict {
	case result.Timeout:
		return "the time is up after " + time.Duration(p.Timeout).String() + f.from("timeout", f.wished.Timeout != 0 && time.Duration(p.Timeout) != f.wished.Timeout)
	case result.CPU:
		return f.limited(p, policy.CPUSeconds, "a process has used its CPU time")
	case result.FileSize:
		return f.limited(p, policy.FileSizeMB, "a file would be larger than it may be")
	case result.Memory:
		return f.limited(p, policy.MemoryMB, "the processes need more memory than they may have")
	case result.Pids:
		return f.limited(p, policy.Pids, "there are more processes than there may be")
	case result.Output:
		if p.Output == nil || !reached(r, p.Output.Bytes) {
			return "" // a note says why the output was lost
		}
		return f.limited(p, policy.OutputBytes, "more was written than may be passed on")
	case result.Interrupted:
		return "ended by " + signalName(r.Code) + ", which nsrun was sent"
	}
	return f.exited(p, r, environ)
}

// reached reports whether standard output or error has passed on as many bytes as it may.
func reached(r result.Result, most int64) bool {
	return slices.ContainsFunc([]*int64{r.StdoutBytes, r.StderrBytes}, func(n *int64) bool { return n != nil && *n >= most })
}

// signalName is that of the signal that an exit code stands for.
func signalName(code int) string {
	const killed = 128
	for _, s := range forwarded {
		if int(s) == code-killed {
			return unix.SignalName(s)
		}
	}
	return fmt.Sprintf("signal %d", code-killed)
}

// timeAsked reports whether anybody has said how long the run may take: a flag, a manifest, or --tty, whose run has no timeout.
func (f *flags) timeAsked() bool {
	unasked := defaultTimeout
	if f.manifest != "" {
		unasked = manifest.DefaultTimeout
	}
	return f.timeoutGiven || f.asked.Timeout != unasked
}

// limited is the ending at a limit.
func (f *flags) limited(p *plan.Plan, name, what string) string {
	row, _ := policy.LookupLimit(name)
	value, set := p.Bound(name)
	if !set {
		return ""
	}
	asked, wished := f.wished.Limit(name)
	unit := row.Unit
	if unit != "" {
		unit = " " + unit
	}
	return fmt.Sprintf("%s: %s is %d%s%s", what, name, value, unit, f.from(name, wished && asked != value))
}

// from says where the value of a bound comes from, and how to raise it. cut says that it is not the one that was wished.
func (f *flags) from(name string, cut bool) string {
	flag, key := "--limit "+name+"=NUMBER", `"limits": {"`+name+`": NUMBER}`
	given := slices.ContainsFunc(f.limits, func(l string) bool { return strings.HasPrefix(l, name+"=") })
	_, inManifest := f.asked.Limit(name)
	if name == "timeout" {
		flag, key, given, inManifest = "--timeout DURATION", `"limits": {"timeout": "DURATION"}`, f.timeoutGiven, f.manifest != ""
	}
	switch {
	case cut:
		return ", which is the most that the operator's ceiling permits"
	case given:
		return ", as the flag says; raise it with " + flag
	case inManifest && name == "timeout" && f.asked.Timeout == manifest.DefaultTimeout:
		return ", the default for manifests; raise it with " + key + " in " + f.manifest + ", or " + flag
	case inManifest:
		return ", as " + f.manifest + " says; raise it with " + key + " there, or " + flag
	}
	return ", the default; raise it with " + flag
}

// exited returns advice for a command that ended by itself with a status for which the usual cause is known, and otherwise nothing.
func (f *flags) exited(p *plan.Plan, r result.Result, environ []string) string {
	code := 0
	if r.ExitStatus != nil {
		code = *r.ExitStatus
	}
	switch {
	case r.Code != 0 && slices.Contains(r.Hit, policy.TmpfsMB):
		return f.limited(p, policy.TmpfsMB, "there is next to no room left in the private places")
	case r.Code != 0 && slices.Contains(r.Hit, policy.HomeMB):
		return f.limited(p, policy.HomeMB, "there is next to no room left in the home directory")
	case r.Signal == "SIGSYS":
		return "killed by SIGSYS: a system call of another architecture, or one that a filter kills for"
	case code == result.CodeNotExecutable && f.wished.NoExec:
		return "exit code 126: with noexec nothing runs from a place that the command can write"
	case code == result.CodeNotFound:
		if hidden := runner.HiddenDirs(p, environ); hidden != "" {
			return "exit code 127: a program that was not found may lie in a directory of PATH that is not in view: " + hidden + "; show it with --ro"
		}
	}
	if code == 0 || p.Backend == plan.BackendNone {
		return ""
	}
	if n, ok := tools.Unshown(p.Notes, p.Command); ok && !f.verbose {
		return fmt.Sprintf("exit code %d: %s", code, n)
	}
	if names := tools.SuggestFor(f.wished, p.Command, tools.Here()); len(names) > 0 {
		line := fmt.Sprintf("exit code %d: if it misses something of the host's, try --tool %s; nsrun tool show %s says what that adds", code, strings.Join(names, ","), names[0])
		if explainable(p) {
			line += ", and --explain what was refused"
		}
		return line
	}
	return ""
}

// explainMissing adds to the error of a program that is not in view, and to the result, where the host has it, and the flag that shows it.
func explainMissing(err error, r *result.Result, p *plan.Plan, environ []string) {
	var failed *runner.Error
	if p == nil || !errors.As(err, &failed) || !errors.Is(err, runner.ErrNotFound) {
		return
	}
	if at, grant := runner.HiddenProgram(p, environ); at != "" {
		failed.Hint = "the host has " + at + ", which is not in view; show it with --ro " + grant
		r.Hint = failed.Hint
	}
}
