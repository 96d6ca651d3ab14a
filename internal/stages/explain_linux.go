package stages

import (
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/seccomp"
	"golang.org/x/sys/unix"
)

// Listener is the message by which a command's process sends the listener of its filter.
const Listener = 'L'

// listen installs the plan's filters like seccomp, or, in a plan that explains, the one that asks a listener in the place of those that it
// stands for, and sends the listener to the caller. A process that has a listener already, because another program has started nsrun with one,
// gets the plan's own filters, and so does one that may open no more files: the caller is sent nothing.
func (l *Lowering) listen() error {
	if l.plan.Explain == nil {
		return l.ownFilters()
	}
	filter, _, beside, err := l.plan.ExplainFilters(goarch)
	if err != nil {
		return err
	}
	l.step("seccomp", "listener")
	listener := l.Program.Slot()
	seccomp.LowerListener(l.Program, filter, l.plan.Explain.Killable, listener)
	const over = unix.EEXIST // a jump is a failure that is tolerated
	l.Program.Then(func() {
		l.Program.Send(l.fds.Status, Listener, listener)
		l.Program.Add(unix.SYS_CLOSE, sys.Of(listener))
		seccomp.Lower(l.Program, beside...)
		l.Program.Fail(over)
	}, unix.EBUSY, unix.EMFILE)
	l.Program.Then(func() { err = l.ownFilters() }, over)
	return err
}
