package backend

import (
	"errors"
	"fmt"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// adoptOrphans makes this process the parent of the children that bubblewrap's monitor and the watchdog leave behind, until undo is called.
func adoptOrphans() (undo func(), err error) {
	var was int32
	get, set := &sys.Program{}, func(on int32) error {
		return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, uintptr(on), 0, 0, 0)
	}
	get.Add(unix.SYS_PRCTL, sys.Words(unix.PR_GET_CHILD_SUBREAPER, "PR_GET_CHILD_SUBREAPER"), sys.Struct(&was))
	if err = get.Run(); err == nil {
		err = set(1)
	}
	return func() { _ = set(was) }, err
}

// gone kills the rest of the watchdog's process group, waits until all of the group has ended, and reads the watchdog's reports. The
// watchdog has ended by then, unless there was an error. The kernel cannot reuse its number for another group before this process has
// waited for it.
func (o *bwrapRun) gone() (watchdog unix.WaitStatus, err error) {
	_ = unix.Kill(-o.pid, unix.SIGKILL)
	watchdog, err = waitGroup(o.pid)
	o.mu.Lock()
	o.ended = true
	o.mu.Unlock()
	if err != nil {
		return watchdog, err
	}
	o.readReport()
	for o.exit == nil && o.readStatus() { // every sender has ended, so the socket ends
	}
	if o.exit == nil && o.failure == nil && watchdog.Exited() {
		err = fmt.Errorf("the process that watches bubblewrap ended with status %d and reported nothing", watchdog.ExitStatus())
	}
	return watchdog, err
}

// waitGroup waits for the leader of a process group, and for the other children of this process in that group.
func waitGroup(leader int) (status unix.WaitStatus, err error) {
	status, err = waitFor(leader)
	for err == nil {
		_, err = waitFor(-leader)
	}
	if errors.Is(err, unix.ECHILD) {
		err = nil
	}
	return status, err
}

// waitFor waits for a child, or, if which is negative, for a child in that process group: wait4(2).
func waitFor(which int) (status unix.WaitStatus, err error) {
	for {
		if _, err = unix.Wait4(which, &status, 0, nil); !errors.Is(err, unix.EINTR) {
			return status, err
		}
	}
}
