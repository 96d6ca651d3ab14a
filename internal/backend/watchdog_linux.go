package backend

import (
	"errors"
	"fmt"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/rlimit"
	"golang.org/x/sys/unix"
)

// The backend "bwrap" has a watchdog: a process between nsrun and bubblewrap, as the subreaper of the backend landlock stands beside its command.
// bubblewrap's monitor lets its child go on by an eventfd. If the monitor is killed before that, the child waits for ever and holds the caller's
// standard descriptors (bubblewrap issue 700); a death signal of the child's comes too late, and one of the monitor's makes it worse.
//
// So whichever of the three is killed, at any moment, one of the others kills the process group that the watchdog leads. It has the watchdog,
// the monitor and the sandbox's pid 1, with which the kernel ends all that is in the pid namespace; one kill(2) of a group is a step that no
// fork outruns, and only a process that calls setsid(2) or setpgid(2) leaves a group, which none of the three does.
//
//	killed      kills the group
//	nsrun       the watchdog: its socket has ended
//	bubblewrap  the watchdog: its child has ended
//	watchdog    nsrun, which waits for the watchdog
//
// If nsrun and the watchdog are killed together, bubblewrap's --die-with-parent remains. It covers all moments but the few system calls between
// the monitor's request for a death signal and its write to the eventfd.

// bwrapStart is what a watchdog starts bubblewrap with.
type bwrapStart struct {
	name  string // the program
	args  []string
	files []int // what it finds from descriptor 2 on; their numbers are beyond those places
}

// lowerWatchdog writes the life of a watchdog. The number of f.report, too, is beyond the places of b.files.
func lowerWatchdog(p *plan.Plan, f fds, b bwrapStart) (*Lowered, error) {
	l := newLowering(p, f, false)
	l.p.Grow(48 + 2*len(b.files))
	l.bwrap = &b
	err := l.stages(verify.Init[:], verify.Watchdog)
	return &Lowered{Program: l.p, forked: l.forked}, err
}

// spawnBwrap starts bubblewrap. It gets no death signal: see above. It gets no environment either, which the command could read in
// /proc/1/environ; its own comes with the request.
func (l *lowering) spawnBwrap() error {
	b := l.bwrap
	step := sys.Step{Stage: "bwrap", Op: "start", Path: b.name}
	l.p.At(step)
	l.command = l.p.Slot()
	var err error
	l.p.Spawn(l.command, nil, func() {
		l.unblockSignals()
		l.p.At(step)
		for i, fd := range b.files {
			l.p.Add(unix.SYS_DUP3, sys.Int(fd), sys.Int(2+i), sys.Int(0))
		}
		if original, ok := rlimit.Original(); ok { // the exec stages take the limit that they find for the caller's
			err = rlimit.Lower(l.p, original)
			l.p.At(step)
		}
		l.p.Add(unix.SYS_EXECVE, sys.Str(b.name), sys.List(append([]string{"bwrap"}, b.args...)), sys.List(nil))
	})
	l.forked = l.p.Len()
	return err
}

// watchBwrap gives up what is bubblewrap's, waits until bubblewrap or nsrun has ended, and kills the process group, which ends this process too.
func (l *lowering) watchBwrap() error {
	l.step("watchdog", "close all")
	for _, fd := range append([]int{0, 1, 2, l.fds.report}, l.bwrap.files...) {
		l.p.Add(unix.SYS_CLOSE, sys.Int(fd)).Tolerate(unix.EBADF, 0)
	}
	l.step("watchdog", "wait")
	l.p.Guard(l.command, l.fds.status, l.children, false)
	l.step("watchdog", "kill")
	l.p.Add(unix.SYS_KILL, sys.Int(0), sys.Words(int(unix.SIGKILL), "SIGKILL"))
	return nil
}

// adoptOrphans makes this process the parent of what bubblewrap's monitor or the watchdog leave behind, until undo is called.
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

// gone kills what is left of the watchdog's process group, waits until all of it has ended, and takes what the watchdog has reported. The
// watchdog has ended by then, but for an error, and its number cannot mean another group before it has been waited for.
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
	for o.exit == nil && o.readStatus() { // nobody is left to wait for: it ends
	}
	if o.exit == nil && o.failure == nil && watchdog.Exited() {
		err = fmt.Errorf("the process that watches bubblewrap ended with status %d and reported nothing", watchdog.ExitStatus())
	}
	return watchdog, err
}

// waitGroup waits for a process, and for the other children of this one that are in the process group that it has led.
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

// waitFor waits for a child, or for one of a process group: wait4(2).
func waitFor(which int) (status unix.WaitStatus, err error) {
	for {
		if _, err = unix.Wait4(which, &status, 0, nil); !errors.Is(err, unix.EINTR) {
			return status, err
		}
	}
}
