package backend

import (
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// The sandbox of a session has a server in the place of pid 1, or of the subreaper: it builds the sandbox as for one command, and then starts
// commands on request (sys.Program.Serve). What is the same for all commands is part of its program; what is not comes with the request,
// written by the caller: see request_linux.go.

// lowerServer writes p as the life of a server. Channel f.status is a stream socket here.
func lowerServer(p *plan.Plan, resolver mounts.Resolver, f fds, trace bool) (*Lowered, error) {
	l := newLowering(p, f, trace)
	l.p.ForRequests()
	if usesSubreaper(p) {
		return l.lower(verify.SubreaperServer, resolver)
	}
	return l.lower(verify.Server, resolver)
}

// commandUsers makes the user namespace that all commands live in, which owns nothing, and keeps a descriptor of it. Its owner, this
// process, may send children into it without a capability (cap_capable in security/commoncap.c).
func (l *lowering) commandUsers() error {
	l.step("identity", "second user namespace")
	helper := l.p.Slot()
	l.p.SpawnHelper(helper, func() {
		l.ownUsers()
		l.p.At(sys.Step{Stage: "identity", Op: "open", Path: "/proc/self/ns/user"})
		l.p.Add(unix.SYS_OPENAT, sys.AtCWD(), sys.Str("/proc/self/ns/user"), sys.Words(unix.O_RDONLY|unix.O_CLOEXEC, "O_RDONLY|O_CLOEXEC")).Keep(sys.SlotUsers)
	})
	l.p.Expect(helper, false, unix.ECHILD)
	return nil
}

// ruleset builds what Landlock will enforce on every command, once.
func (l *lowering) ruleset() error {
	if l.plan.Landlock == nil {
		return nil
	}
	r, err := l.landlockRules()
	if err != nil {
		return err
	}
	l.prepared = landlock.Build(l.p, r)
	return nil
}

// nullStdio puts an empty file in the place of the standard descriptors, so that nothing else gets their numbers, and tells the caller
// that all is ready.
func (l *lowering) nullStdio() error {
	l.step("server", "standard descriptors")
	empty := l.p.Slot()
	l.p.Add(unix.SYS_MEMFD_CREATE, sys.Str("nothing"), sys.Words(unix.MFD_CLOEXEC, "MFD_CLOEXEC")).Keep(empty)
	for fd := range 3 {
		l.p.Add(unix.SYS_DUP3, sys.Of(empty), sys.Int(fd), sys.Words(unix.O_CLOEXEC, "O_CLOEXEC"))
	}
	l.p.Add(unix.SYS_CLOSE, sys.Of(empty))
	l.step("server", "ready")
	l.p.Add(unix.SYS_WRITE, sys.Int(l.fds.report), sys.Bytes(make([]byte, sys.FailureSize)), sys.Int(sys.FailureSize)).Min(sys.FailureSize) // no failure
	l.p.Add(unix.SYS_CLOSE, sys.Int(l.fds.report))
	return nil
}

func (l *lowering) serve() error {
	l.step("server", "serve")
	var err error
	part := func(table []verify.Stage, by verify.Runner) func() {
		return func() {
			if err == nil {
				err = l.stages(table, by)
			}
		}
	}
	terminal := func() { l.openTerminal(sys.SlotMaster, sys.SlotTerminal, nil) }
	l.p.Serve(sys.Service{Socket: l.fds.status, Signals: l.children, Scope: l.plan.Scoped(), Die: usesSubreaper(l.plan),
		Prepare: part(verify.Init[:], verify.Supervisor), Terminal: terminal, Confine: part(verify.Confinement[:], verify.Shared)})
	return err
}

// supervisorScope puts a supervisor into a Landlock domain whose processes can signal nobody outside of it.
func (l *lowering) supervisorScope() error {
	if l.plan.Scoped() {
		landlock.Lower(l.p, landlock.Ruleset{Scoped: landlock.ScopeSignal})
	}
	return nil
}

func (l *lowering) restrict() error {
	if l.plan.Landlock != nil {
		landlock.Restrict(l.p, l.prepared)
	}
	return nil
}

// closeRest closes what exec would close as well, so that nothing depends on that.
func (l *lowering) closeRest() error {
	if l.plan.Mechanisms.CloseRange {
		l.step("descriptors", "close all but 0, 1, 2")
		l.p.Add(unix.SYS_CLOSE_RANGE, sys.Int(3), sys.Int(1<<31-1), sys.Int(0))
	}
	return nil
}

// endSubreaper kills what is left when the caller is gone or has closed the session.
func (l *lowering) endSubreaper() error {
	l.killRest()
	l.p.Drain()
	return nil
}
