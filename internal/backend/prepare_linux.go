package backend

import (
	"runtime"
	"slices"

	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/rlimit/cgroup"
	"golang.org/x/sys/unix"
)

// lockThread keeps the calling goroutine on its thread, until the function that it returns is called. Where no goroutine is locked no thread of
// Go's ever ends (runtime/proc.go, mexit), and to lock one starts another thread.
func lockThread(opts Options) (unlock func()) {
	if opts.Sole {
		return func() {}
	}
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

// settle is for a process that exists for one sandbox. What such a process writes after the fork is copied, as the child has the same pages.
//
// settle lets the goroutines run that Go's runtime has made at its start and that have not run yet: later that takes one more thread. It
// restores the action of SIGCHLD, which is nothing: the processes that made the namespaces end after the fork, and nobody is interested in it.
func settle() {
	runtime.Gosched()
	sys.SetAction(unix.SIGCHLD, false)
}

// prepared is what prepare has made for a run before the fork.
type prepared struct {
	ch      *channels
	pumps   *pumps
	own     *stages.SelfTestTarget // close closes it; nil if a test owns the target
	target  *stages.SelfTestTarget
	lowered *stages.Lowered
	ruleset int // for the rules that are added later: see stages.RulesLater; 0 if there is none
}

// targetFor returns the target of the plan's self-test. The caller closes own if it is not nil.
func (s *seam) targetFor(p *plan.Plan) (target, own *stages.SelfTestTarget, err error) {
	if s.target != nil {
		return s.target, nil, nil
	}
	own, err = stages.NewSelfTestTarget(p)
	return own, own, err
}

// lowered lowers a plan for this host.
func (s *seam) lowered(lower func(*plan.Plan, mounts.Resolver, stages.FDs, bool) (*stages.Lowered, error), p *plan.Plan, f stages.FDs) (*stages.Lowered, error) {
	if s.lower != nil {
		return s.lower(f)
	}
	host := hostFor(p)
	defer host.Close()
	return lower(p, host, f, false)
}

// hostFor returns the resolver of a plan's paths. A bubblewrap command line reaches the caller's files by the capabilities of its own user
// namespace; nsrun's sandboxes show only what the caller itself may see.
func hostFor(p *plan.Plan) *mounts.Host {
	return &mounts.Host{Mapped: p.Bwrap != nil && slices.Contains(p.Namespaces, plan.User)}
}

// prepare does everything before the fork that can fail. The caller closes the result, even after an error.
func prepare(p *plan.Plan, opts Options, group *cgroup.Group) (s prepared, err error) {
	if s.ch, err = openChannels(); err != nil {
		return s, explain(&Error{Stage: "channels", Err: err}, p)
	}
	if s.pumps, err = openPumps(p); err != nil {
		return s, explain(&Error{Stage: "channels", Err: err}, p)
	}
	if s.target, s.own, err = opts.seam.targetFor(p); err != nil {
		return s, &Error{Stage: stages.SelfTestStage, Err: err}
	}
	var size *unix.Winsize
	if p.Terminal && opts.Terminal != nil {
		size = opts.Terminal.size()
	}
	f := stages.FDs{Report: s.ch.childReport, Status: s.ch.childStatus, Target: s.target, Group: group, Output: s.pumps.child, Size: size,
		Early: opts.Sole && !opts.Verify && len(p.SelfTest) == 0 && opts.Inject == nil}
	if f.Early && stages.RulesLater(p) {
		if s.ruleset, err = landlock.Create(p.Landlock.Ruleset); err != nil {
			return s, wrapLowering(err, p)
		}
		f.Ruleset = s.ruleset
	}
	s.lowered, err = opts.seam.lowered(stages.Lower, p, f)
	if err != nil {
		return s, wrapLowering(err, p)
	}
	if err := protect(p, s.lowered.Resolved, opts.Protected); err != nil {
		return s, err
	}
	if opts.Verify || len(p.SelfTest) > 0 {
		if err := s.lowered.Verified(p, f); err != nil {
			return s, err
		}
	}
	if opts.Inject != nil {
		opts.Inject(s.lowered.Program)
	}
	return s, nil
}

// addLater adds the Landlock rules that are added while the sandbox is made, if there are any.
func (s *prepared) addLater(p *plan.Plan, opts Options) error {
	if err := s.lowered.AddLater(!opts.Brief || p.Explain != nil); err != nil {
		return wrapLowering(err, p)
	}
	return nil
}

// closeChild closes what the child has inherited, and this process needs no more.
func (s *prepared) closeChild() {
	s.ch.closeChild()
	s.pumps.closeChild()
	s.closeRuleset()
}

func (s *prepared) closeRuleset() {
	if s.ruleset > 0 {
		unix.Close(s.ruleset)
		s.ruleset = 0
	}
}

// close releases everything that prepare has made.
func (s *prepared) close() {
	s.closeRuleset()
	if s.own != nil {
		s.own.Close()
	}
	if s.pumps != nil {
		s.pumps.close()
	}
	if s.ch != nil {
		s.ch.close()
	}
}
