package stages

import (
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/rlimit"
	"golang.org/x/sys/unix"
)

// The backend "bwrap" has a watchdog, which is a process between nsrun and bubblewrap. It exists because of a gap in bubblewrap: the
// monitor lets its child go on by an eventfd. If the monitor is killed before that, the child waits for ever and holds the caller's standard
// descriptors (bubblewrap issue 700). A death signal of the child comes too late, and one of the monitor makes it worse.
//
// So if nsrun, bubblewrap or the watchdog is killed, at any moment, another of them kills the process group that the watchdog leads. The
// group has the watchdog, the monitor and the sandbox's pid 1, with which the kernel ends its pid namespace. One kill(2) of a group is a step
// that no fork outruns, and a process leaves a group only by setsid(2) or setpgid(2), which none of these calls.
//
//	killed      the process that kills the group
//	nsrun       the watchdog, when its socket ends
//	bubblewrap  the watchdog, when its child ends
//	watchdog    nsrun, which waits for the watchdog
//
// If nsrun and the watchdog are killed together, bubblewrap's --die-with-parent remains. It covers all moments but the few system calls
// between the monitor's request for a death signal and its write to the eventfd.

// BwrapStart holds the parameters of the bubblewrap that a watchdog starts.
type BwrapStart struct {
	Name  string // the program
	Args  []string
	Files []int // its descriptors from 2 on; here they have numbers above those, so that none overwrites another
}

// LowerWatchdog returns the program of a watchdog. f.Report, too, must be above the descriptors that b.Files become.
func LowerWatchdog(p *plan.Plan, f FDs, b BwrapStart) (*Lowered, error) {
	l := New(p, nil, f, false)
	l.Program.Grow(48 + 2*len(b.Files))
	l.bwrap = &b
	err := l.Append(verify.Init[:], verify.Watchdog)
	return l.Lowered(), err
}

// spawnBwrap starts bubblewrap. It requests no death signal: see above. It passes no environment, because the command could read that in
// /proc/1/environ; the command's own environment comes with the request.
func (l *Lowering) spawnBwrap() error {
	b := l.bwrap
	step := sys.Step{Stage: "bwrap", Op: "start", Path: b.Name}
	l.Program.At(step)
	l.command = l.Program.Slot()
	var err error
	l.Program.Spawn(l.command, nil, func() {
		l.unblockSignals()
		l.Program.At(step)
		for i, fd := range b.Files {
			l.Program.Add(unix.SYS_DUP3, sys.Int(fd), sys.Int(2+i), sys.Int(0))
		}
		if original, ok := rlimit.Original(); ok { // the exec stages take the limit that they find as the caller's
			err = rlimit.Lower(l.Program, original)
			l.Program.At(step)
		}
		l.Program.Add(unix.SYS_EXECVE, sys.Str(b.Name), sys.List(append([]string{"bwrap"}, b.Args...)), sys.List(nil))
	})
	l.forked = l.Program.Len()
	return err
}

// watchBwrap closes bubblewrap's descriptors, waits until bubblewrap or nsrun has ended, and kills the process group, this process
// included.
func (l *Lowering) watchBwrap() error {
	l.step("watchdog", "close all")
	for _, fd := range append([]int{0, 1, 2, l.fds.Report}, l.bwrap.Files...) {
		l.Program.Add(unix.SYS_CLOSE, sys.Int(fd)).Tolerate(unix.EBADF, 0)
	}
	l.step("watchdog", "wait")
	l.Program.Guard(l.command, l.fds.Status, l.children, false)
	l.step("watchdog", "kill")
	l.Program.Add(unix.SYS_KILL, sys.Int(0), sys.Words(int(unix.SIGKILL), "SIGKILL"))
	return nil
}
