package engine

import (
	"errors"
	"os"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// Preview lowers a plan for this host without starting anything. The channels print as the first two numbers that are free.
func Preview(p *plan.Plan) (*Lowered, error) {
	l, err := Lower(p, mounts.Host{}, fds{report: 3, status: 4}, true)
	if err != nil {
		return nil, wrapLowering(err)
	}
	return l, nil
}

// Text prints the clone and the program, one call a line.
func (l *Lowered) Text() string {
	text := "# namespaces (clone)\n      clone("
	for _, f := range []struct {
		flag uintptr
		name string
	}{
		{unix.CLONE_NEWUSER, "CLONE_NEWUSER"}, {unix.CLONE_NEWNS, "CLONE_NEWNS"}, {unix.CLONE_NEWPID, "CLONE_NEWPID"},
		{unix.CLONE_NEWIPC, "CLONE_NEWIPC"}, {unix.CLONE_NEWUTS, "CLONE_NEWUTS"}, {unix.CLONE_NEWNET, "CLONE_NEWNET"},
		{unix.CLONE_NEWCGROUP, "CLONE_NEWCGROUP"},
	} {
		if l.Flags&f.flag != 0 {
			text += f.name + "|"
		}
	}
	return text + "CLONE_PIDFD|SIGCHLD)\n" + l.Program.String()
}

// Orphaned returns a channel that is closed when the process that started this one has ended. It watches a pidfd, not
// PR_SET_PDEATHSIG, which would fire as soon as the thread that forked ends: a caller may start us from a short-lived one.
func Orphaned() (<-chan struct{}, error) {
	gone := make(chan struct{})
	parent := os.Getppid()
	if parent == 0 {
		return gone, nil // it lives in a namespace outside of ours, and cannot be watched
	}
	fd, err := unix.PidfdOpen(parent, 0)
	if errors.Is(err, unix.ESRCH) || os.Getppid() != parent {
		close(gone)
		return gone, nil
	}
	if err != nil {
		return nil, &Error{Stage: "die with parent", Err: err}
	}
	go func() {
		defer unix.Close(fd)
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			if n, err := unix.Poll(fds, -1); n > 0 || !errors.Is(err, unix.EINTR) {
				close(gone)
				return
			}
		}
	}()
	return gone, nil
}
