package stages

import (
	"errors"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// spawnCommand appends the fork of the process that runs the exec stages and becomes the command. With a real bubblewrap it starts
// bubblewrap instead.
func (l *Lowering) spawnCommand() error {
	if l.bwrap != nil {
		return l.spawnBwrap()
	}
	by := verify.Command // selects the stages of the table that this process runs
	switch l.plan.Backend {
	case plan.BackendLandlock:
		by = verify.Bare
	case plan.BackendNone:
		by = verify.Unconfined
	}
	return l.Spawn(func() error { return l.Append(verify.Confinement[:], by) })
}

// Spawn appends the fork of a child that makes the calls of body, and sends the child's pidfd to the caller.
func (l *Lowering) Spawn(body func() error) error {
	l.step("command", "fork")
	if l.plan.Bare() {
		l.parents = make([]byte, 8)
		l.Program.Add(unix.SYS_GETPID).Into(sys.Cell(l.parents)) // the child compares it with its parent's pid: see checkParentAlive
	}
	l.command = l.Program.Slot()
	message := newFDMessage('P')
	var err error
	l.Program.Spawn(l.command, message.fd(), func() { err = body() })
	if err != nil {
		return err
	}
	l.forked = l.Program.Len()
	l.step("command", "report pidfd")
	l.send(message)
	if l.tty != 0 {
		l.Program.Add(unix.SYS_CLOSE, sys.Of(l.tty)) // the child has its own copy
	}
	return nil
}

// session puts the command into a new session (setsid(2)), so that it has no controlling terminal to push input into: CVE-2017-5226. If the
// plan has a terminal, the sandbox's own terminal becomes the controlling one and the three standard descriptors.
func (l *Lowering) session() error {
	l.step("command", "session")
	l.Program.Add(unix.SYS_SETSID)
	if l.tty == 0 {
		return nil
	}
	// After setsid: only a session leader without a controlling terminal may take one (ioctl_tty(2)).
	l.Program.Add(unix.SYS_IOCTL, sys.Of(l.tty), sys.Words(unix.TIOCSCTTY, "TIOCSCTTY"), sys.Int(0))
	for fd := range 3 {
		l.Program.Add(unix.SYS_DUP3, sys.Of(l.tty), sys.Int(fd), sys.Int(0))
	}
	return nil
}

// descriptors closes every descriptor but 0, 1, 2 and the two channels, so that the command inherits no other: CVE-2024-21626.
// Exec closes the channels, which are close-on-exec; the end of the report channel reports that exec has happened.
func (l *Lowering) descriptors() error {
	l.step("descriptors", "close all but 0, 1, 2 and the channels")
	return l.closeAllBut(3, l.channels())
}

// channels returns the channels, and the caller's ruleset.
func (l *Lowering) channels() []int {
	keep := []int{l.fds.Report, l.fds.Status}
	if l.fds.Ruleset > 0 {
		keep = append(keep, l.fds.Ruleset)
	}
	return keep
}

// ready waits for the message that lets the command begin. The caller sends it when it can pass signals on, or when it has given up its
// privileges. As a rule the message is there by now.
func (l *Lowering) ready() error {
	l.step("command", "wait for the caller")
	l.Program.Add(unix.SYS_RECVFROM, sys.Int(l.fds.Status), sys.Bytes(make([]byte, 1)), sys.Int(1), sys.Int(0), sys.Null(), sys.Null()).Min(1)
	l.checkCallerAlive() // an unread message hid the end of the socket from pid 1's check
	return nil
}

// ownNull replaces the host's /dev/null by the sandbox's wherever it is a standard descriptor. In a sandbox that root starts, a descriptor
// of the host's /dev/null is enough to change its mode.
func (l *Lowering) ownNull() error {
	if l.tty != 0 || !hasDev(l.plan) {
		return nil
	}
	modes, err := standardNulls()
	null := l.Program.Slot()
	for fd, mode := range modes {
		if mode >= 0 {
			l.Program.Add(unix.SYS_OPENAT, sys.AtCWD(), sys.Str("/dev/null"), sys.Int(mode)).Keep(null)
			l.Program.Add(unix.SYS_DUP3, sys.Of(null), sys.Int(fd), sys.Int(0))
			l.Program.Add(unix.SYS_CLOSE, sys.Of(null))
		}
	}
	return err
}

// standardNulls returns the access mode of each standard descriptor that is the host's /dev/null, and -1 for one that is not.
func standardNulls() (modes [3]int, err error) {
	for fd := range 3 {
		st, flags, failed := statFD(uintptr(fd))
		modes[fd] = -1
		switch {
		case errors.Is(failed, unix.EBADF): // closed
		case failed != nil:
			err = failed
		case IsNull(st):
			modes[fd] = flags & unix.O_ACCMODE
		}
	}
	return modes, err
}

// userNamespace moves the command's process into a user namespace of its own.
func (l *Lowering) userNamespace() error {
	l.ownUsers()
	return nil
}

// ownUsers moves this process into a new user namespace that owns neither the mounts nor pid 1: capabilities in it have no power over them.
// It maps the plan's ids to uid and gid 0 of the first namespace, which the caller's ids are mapped to.
func (l *Lowering) ownUsers() {
	l.step("identity", "second user namespace")
	l.Program.Add(unix.SYS_UNSHARE, sys.Words(unix.CLONE_NEWUSER, "CLONE_NEWUSER"))
	l.writeMaps(l.plan.Identity.UID, 0, l.plan.Identity.GID, 0)
}

// directory enters the command's working directory. It resolves the path inside the sandbox, so no link of the host leads out:
// CVE-2024-21626.
func (l *Lowering) directory() error {
	l.Program.At(sys.Step{Stage: "directory", Op: "chdir", Path: l.plan.Dir})
	l.Program.Add(unix.SYS_CHDIR, sys.Str(l.plan.Dir))
	return nil
}
