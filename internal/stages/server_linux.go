package stages

import (
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// In a session's sandbox pid 1, or the subreaper, is a server: it builds the sandbox as for one command, and then starts
// commands on request (sys.Program.Serve). Its program holds the calls that are the same for all commands. The other calls come with the
// request, which the caller writes: see request_linux.go.

// LowerServer returns the program of a session's server. f.Status is a stream socket here.
func LowerServer(p *plan.Plan, resolver mounts.Resolver, f FDs, trace bool) (*Lowered, error) {
	l := New(p, resolver, f, trace)
	l.Program.ForRequests() // first: requests use the lowest slots by number
	if p.Bare() {
		return l.Lower(verify.SubreaperServer)
	}
	return l.Lower(verify.Server)
}

// commandUsers makes the user namespace that all commands run in, which owns no other namespace, and keeps a descriptor of it. A helper
// enters it, because the server itself must stay in the namespace that owns the mounts. The server owns the new namespace, so it may send
// children into it without a capability (cap_capable in security/commoncap.c).
func (l *Lowering) commandUsers() error {
	l.step("identity", "second user namespace")
	helper := l.Program.Slot()
	l.Program.SpawnHelper(helper, func() { // the helper shares the server's descriptors and slots
		l.ownUsers()
		l.Program.At(sys.Step{Stage: "identity", Op: "open", Path: "/proc/self/ns/user"})
		l.Program.Add(unix.SYS_OPENAT, sys.AtCWD(), sys.Str("/proc/self/ns/user"), sys.Words(unix.O_RDONLY|unix.O_CLOEXEC, "O_RDONLY|O_CLOEXEC")).Keep(sys.SlotUsers)
	})
	l.Program.Expect(helper, false, unix.ECHILD)
	return nil
}

// ruleset builds the Landlock ruleset once, in the server. restrict enforces it on each command.
func (l *Lowering) ruleset() error {
	if l.plan.Landlock == nil {
		return nil
	}
	r, err := l.landlockRules()
	if err != nil {
		return err
	}
	l.prepared = landlock.Build(l.Program, r)
	return nil
}

// nullStdio replaces the standard descriptors by an empty file, so that no other descriptor gets their numbers, and reports to the caller
// that the server is ready.
func (l *Lowering) nullStdio() error {
	l.step("server", "standard descriptors")
	empty := l.Program.Slot()
	l.Program.Add(unix.SYS_MEMFD_CREATE, sys.Str("nothing"), sys.Words(unix.MFD_CLOEXEC, "MFD_CLOEXEC")).Keep(empty)
	for fd := range 3 { // close-on-exec: each command gets its own
		l.Program.Add(unix.SYS_DUP3, sys.Of(empty), sys.Int(fd), sys.Words(unix.O_CLOEXEC, "O_CLOEXEC"))
	}
	l.Program.Add(unix.SYS_CLOSE, sys.Of(empty))
	l.step("server", "ready")
	l.Program.Add(unix.SYS_WRITE, sys.Int(l.fds.Report), sys.Bytes(make([]byte, sys.FailureSize)), sys.Int(sys.FailureSize)).Min(sys.FailureSize) // all zero: no failure
	l.Program.Add(unix.SYS_CLOSE, sys.Int(l.fds.Report))
	return nil
}

// serve appends the server's loop, and with it the calls of supervisors (Prepare, Terminal) and of commands (Confine).
func (l *Lowering) serve() error {
	l.step("server", "serve")
	var err error
	part := func(table []verify.Stage, by verify.Runner) func() {
		return func() {
			if err == nil {
				err = l.Append(table, by)
			}
		}
	}
	// The supervisor opens the terminal, because it sends the master to the caller.
	terminal := func() { l.openTerminal(sys.SlotMaster, sys.SlotTerminal, nil) }
	l.Program.Serve(sys.Service{Socket: l.fds.Status, Signals: l.children, Scope: l.plan.Scoped(), Die: l.plan.Bare(), Look: l.plan.BoundedHome,
		Prepare: part(verify.Init[:], verify.Supervisor), Terminal: terminal, Confine: part(verify.Confinement[:], verify.Shared)})
	return err
}

// supervisorScope puts the supervisor into a Landlock domain whose processes can signal none outside of it, so that its kill(-1) reaches
// only its own command and the processes which that has started.
func (l *Lowering) supervisorScope() error {
	if l.plan.Scoped() {
		landlock.Lower(l.Program, l.plan.SignalDomain())
	}
	return nil
}

// restrict enforces the ruleset that the server has built.
func (l *Lowering) restrict() error {
	if l.plan.Landlock != nil {
		landlock.Restrict(l.Program, sys.Of(l.prepared))
	}
	return nil
}

// closeRest closes every descriptor above 2. Exec closes them too; with this stage the confinement does not depend on close-on-exec flags. In a
// plan that explains, 3 becomes the socket that the listener is sent over, if the request has one.
func (l *Lowering) closeRest() error {
	first := 3
	if l.plan.Explain != nil {
		l.step("descriptors", "keep the listener's socket")
		l.Program.Add(unix.SYS_DUP3, sys.Of(sys.SlotListener), sys.Int(listenerSocket), sys.Words(unix.O_CLOEXEC, "O_CLOEXEC")).Tolerate(unix.EINVAL, 0) // it is 3
		l.Program.Else(func() { l.Program.Add(unix.SYS_CLOSE, sys.Int(listenerSocket)).Tolerate(unix.EBADF, 0) }, unix.EBADF)
		first = listenerSocket + 1
	}
	if l.plan.Mechanisms.CloseRange {
		l.step("descriptors", "close all others")
		l.Program.Add(unix.SYS_CLOSE_RANGE, sys.Int(first), sys.Int(1<<31-1), sys.Int(0))
	}
	return nil
}

// endSubreaper kills the remaining processes when the caller has ended or has closed the session, and waits until they have ended.
func (l *Lowering) endSubreaper() error {
	l.killRest()
	l.Program.Drain()
	return nil
}
