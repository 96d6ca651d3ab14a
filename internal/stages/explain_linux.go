package stages

import (
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/nsrun/nsrun/seccomp"
	"golang.org/x/sys/unix"
)

// Listener is the message by which a command's process sends the listener of its filter.
const Listener = 'L'

// listenerSocket is the descriptor by which a command of a session sends it, if its request has come with one: see [Lowering.closeRest].
const listenerSocket = 3

// listen installs the plan's filters like seccomp, or, in a plan that explains, the one that asks a listener in the place of those that it
// stands for, and sends the listener to the caller. A process that has a listener already, because another program has started nsrun with one,
// gets the plan's own filters, and so does one that may open no more files: the caller is sent nothing. A command of a session listens if its
// request asks for that.
func (l *Lowering) listen() error {
	if l.plan.Explain == nil {
		return l.ownFilters()
	}
	filter, beside, err := l.plan.ExplainFilters(goarch)
	if err != nil {
		return err
	}
	l.step("seccomp", "listener")
	const over = unix.EEXIST // a jump is a failure that is tolerated
	listens := func(socket int) {
		listener := l.Program.Slot()
		seccomp.LowerListener(l.Program, filter, l.plan.Explain.Killable, listener)
		l.Program.Then(func() {
			l.Program.Send(socket, Listener, listener)
			l.Program.Add(unix.SYS_CLOSE, sys.Of(listener))
			seccomp.Lower(l.Program, beside...)
			l.Program.Fail(over)
		}, unix.EBUSY, unix.EMFILE)
	}
	if l.by == verify.Shared {
		l.Program.Add(unix.SYS_FCNTL, sys.Int(listenerSocket), sys.Words(unix.F_GETFD, "F_GETFD"))
		l.Program.Then(func() { listens(listenerSocket) }, unix.EBADF)
	} else {
		listens(l.fds.Status)
	}
	l.Program.Then(func() { err = l.ownFilters() }, over)
	return err
}
