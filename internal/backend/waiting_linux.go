package backend

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// waiting is a run that has no sandbox yet, because it waits for something else. It notes the signals and the end of the caller meanwhile.
type waiting struct {
	opts   Options
	parent int           // pidfd, or -1
	early  []unix.Signal // signals that do not end the run; the command gets them
}

// stop returns an error if the run must not go on: because the caller has ended, or because of a cancellation or a signal.
func (w *waiting) stop() error {
	select {
	case <-w.opts.Cancel: // a nil channel is never ready
		return &Error{Stage: InterruptedStage, Err: errors.New("it was asked to end before there was a sandbox")}
	default:
	}
	if w.parent >= 0 {
		if ended, _ := await(w.parent, 0); ended {
			return errOrphan
		}
	}
	if w.opts.Signals == 0 {
		return nil
	}
	for sig := range received(w.opts.Signals) {
		switch sig {
		case unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT:
			return &Error{Stage: InterruptedStage, Op: unix.SignalName(sig), Err: errors.New(unix.SignalName(sig) + " came before there was a sandbox")}
		}
		w.early = append(w.early, sig)
	}
	return nil
}

// InterruptedStage is the stage of errors of runs that were ended before they began. Their op is the signal's name.
const InterruptedStage = "interrupted"

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
