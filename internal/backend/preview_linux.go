package backend

import (
	"errors"
	"os"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// Preview lowers a plan for this host and starts nothing. The channels print as descriptors 3 and 4.
func Preview(p *plan.Plan) (*Lowered, error) {
	host := hostFor(p)
	defer host.Close()
	return preview(Lower, p, host)
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

// parent returns a pidfd of the process that started this one, or -1 if that process is in an outer pid namespace. This process watches the
// pidfd instead of using PR_SET_PDEATHSIG, whose signal comes as soon as the thread that forked ends: a caller may start nsrun from a
// short-lived thread.
func parent() (int, error) {
	pid := os.Getppid()
	if pid == 0 {
		return -1, nil // it is in an outer pid namespace
	}
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case err != nil && !errors.Is(err, unix.ESRCH):
		return -1, &Error{Stage: OrphanStage, Op: "pidfd_open", Err: err}
	case err != nil || os.Getppid() != pid:
		if err == nil {
			unix.Close(fd)
		}
		return -1, errOrphan
	}
	return fd, nil
}

// OrphanStage is the stage of errors of runs whose caller has ended.
const OrphanStage = "die with parent"

var errOrphan = &Error{Stage: OrphanStage, Err: errors.New("the process that started this one has ended")}

// PreviewServer is [Preview] of a session's sandbox.
func PreviewServer(p *plan.Plan) (*Lowered, error) {
	var host mounts.Host
	defer host.Close()
	return preview(lowerServer, p, &host)
}

// preview lowers a plan with trace, and verifies the program.
func preview(lower func(*plan.Plan, mounts.Resolver, fds, bool) (*Lowered, error), p *plan.Plan, resolver mounts.Resolver) (*Lowered, error) {
	f := fds{report: 3, status: 4}
	l, err := lower(p, resolver, f, true)
	if err != nil {
		return nil, wrapLowering(err)
	}
	return l, l.verified(p, f)
}
