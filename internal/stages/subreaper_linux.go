package stages

import (
	"os"
	"slices"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// The backends "landlock" and "none" have no pid namespace. A subreaper replaces pid 1: a process beside the command that
// adopts the processes that the command leaves behind, and kills all of them when the command or nsrun has ended.

// ownSession moves the subreaper out of the caller's session: a terminal's signals go to the caller, which passes them on.
func (l *Lowering) ownSession() error {
	l.step("subreaper", "session")
	l.Program.Add(unix.SYS_SETSID)
	return nil
}

// setChildSubreaper makes this process the parent of orphans below it (prctl(2), PR_SET_CHILD_SUBREAPER).
func (l *Lowering) setChildSubreaper() error {
	l.step("subreaper", "subreaper")
	l.Program.Add(unix.SYS_PRCTL, sys.Words(unix.PR_SET_CHILD_SUBREAPER, "PR_SET_CHILD_SUBREAPER"), sys.Int(1), sys.Int(0), sys.Int(0), sys.Int(0))
	return nil
}

// killScope puts the subreaper into a Landlock domain whose processes, itself included, can signal none outside of it. kill(-1) then ends
// the command and every process that it has started, even those outside of its process group, in one step that no fork can outrun: the
// kernel holds tasklist_lock meanwhile. If the scope did not work, that call would end every process of the user; so the program goes on
// only if it cannot signal nsrun.
func (l *Lowering) killScope() error {
	if !l.plan.KillScope {
		return nil
	}
	landlock.Lower(l.Program, l.plan.SignalDomain())
	l.Program.At(sys.Step{Stage: "subreaper", Op: "kill scope"})
	l.Program.Add(unix.SYS_KILL, sys.Int(os.Getpid()), sys.Int(0)).Tolerate(unix.EPERM, 1)
	l.Program.Fail(unix.EPERM) // reached if kill succeeds
	return nil
}

// grants resolves the plan's paths on this host, for the command's Landlock rules. It appends no system call.
func (l *Lowering) grants() (err error) {
	l.resolved, err = mounts.Resolve(l.plan.Mounts, l.resolver)
	return err
}

// awaitChildren blocks all signals and opens a signalfd for SIGCHLD. It comes before the first fork, so that no SIGCHLD is lost. The exec
// stages unblock the signals for the command.
func (l *Lowering) awaitChildren() error {
	l.step("subreaper", "signals")
	// A signal set has 64 bits; bit n-1 is signal n.
	all, child := slices.Repeat([]byte{0xff}, 8), make([]byte, 8)
	child[(unix.SIGCHLD-1)/8] = 1 << ((unix.SIGCHLD - 1) % 8)
	l.Program.Add(unix.SYS_RT_SIGPROCMASK, sys.Words(unix.SIG_SETMASK, "SIG_SETMASK"), sys.Bytes(all), sys.Null(), sys.Int(8))
	l.children = l.Program.Slot()
	l.Program.Add(unix.SYS_SIGNALFD4, sys.Int(-1), sys.Bytes(child), sys.Int(8), sys.Words(unix.SFD_CLOEXEC, "SFD_CLOEXEC")).Keep(l.children)
	return nil
}

// startWatchdog forks a process in the subreaper's Landlock domain that only waits for the subreaper's end, and then kills the other
// processes of the domain. The command can keep the subreaper busy with orphans until a limit on CPU time ends it (RLIMIT_CPU is
// inherited). The watchdog uses no CPU time, so the command cannot do that to it. The subreaper's own kill ends the watchdog, too.
func (l *Lowering) startWatchdog() error {
	if !l.plan.KillScope {
		return nil
	}
	l.step("subreaper", "start watchdog")
	self, poll := l.Program.Slot(), &unix.PollFd{Events: unix.POLLIN}
	l.Program.Add(unix.SYS_GETPID).Keep(self)
	// A fork, not a vfork: the subreaper goes on at once, with its own memory.
	l.Program.Beside(func() {
		l.step("subreaper", "watchdog")
		l.Program.Add(unix.SYS_CLOSE_RANGE, sys.Int(0), sys.Int(1<<31-1), sys.Int(0)).Tolerate(sys.Any, 0)
		l.Program.Add(unix.SYS_PIDFD_OPEN, sys.Of(self), sys.Int(0)).Into(&poll.Fd).Tolerate(sys.Any, 1) // the subreaper has ended: skip the wait
		l.Program.Add(unix.SYS_PPOLL, sys.Struct(poll), sys.Int(1), sys.Null(), sys.Null(), sys.Int(0)).Tolerate(sys.Any, 0)
		l.Program.Add(unix.SYS_KILL, sys.Int(-1), sys.Words(int(unix.SIGKILL), "SIGKILL")).Tolerate(sys.Any, 0)
	})
	return nil
}

// dieWithSubreaper requests SIGKILL for the time when the subreaper ends, and then checks that it has not ended before: the kernel sends no
// signal for an earlier end.
func (l *Lowering) dieWithSubreaper() error {
	l.deathSignal(unix.SIGKILL)
	l.step("command", "die with nsrun's own process beside it")
	l.checkParentAlive()
	return nil
}

// unblock unblocks signals for a command without a sandbox. Unlike handlers and mask, it keeps the signals that the caller ignores, and the
// caller's umask.
func (l *Lowering) unblock() error {
	l.unblockSignals()
	return nil
}

// unblockSignals undoes awaitChildren.
func (l *Lowering) unblockSignals() {
	l.step("signals", "unblock")
	l.Program.Add(unix.SYS_RT_SIGPROCMASK, sys.Words(unix.SIG_SETMASK, "SIG_SETMASK"), sys.Bytes(make([]byte, 8)), sys.Null(), sys.Int(8))
}

// superviseCommand closes the descriptors that the subreaper does not need, waits for the command's end, and kills the processes that are
// left. Without a kill scope it kills the process group of the command's session, which a filter of the backend landlock keeps processes
// from leaving.
func (l *Lowering) superviseCommand() error {
	l.step("subreaper", "close all")
	for _, fd := range []int{0, 1, 2, l.fds.Report} { // or the pipes of the command and the report would not end
		l.Program.Add(unix.SYS_CLOSE, sys.Int(fd)).Tolerate(unix.EBADF, 0)
	}
	l.step("subreaper", "wait")
	l.Program.Guard(l.command, l.fds.Status, l.children, !l.plan.KillScope)
	if l.plan.KillScope {
		l.killRest()
	}
	if l.plan.Backend == plan.BackendLandlock { // with none, processes may have left the group, and nsrun does not wait for them
		l.step("subreaper", "drain")
		l.Program.Drain()
	}
	return nil
}

// killRest kills every process that this one can signal: those of its Landlock domain.
func (l *Lowering) killRest() {
	l.step("subreaper", "kill")
	l.Program.Add(unix.SYS_KILL, sys.Int(-1), sys.Words(int(unix.SIGKILL), "SIGKILL")).Tolerate(unix.ESRCH, 0).Tolerate(unix.EPERM, 0)
}
