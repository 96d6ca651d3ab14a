package backend

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// waiting is a run that has to wait for somebody before there is a sandbox, and what it heeds meanwhile.
type waiting struct {
	opts    Options
	parent  int // pidfd, or -1
	signals <-chan os.Signal
	early   []unix.Signal // that do not end it, for the command
}

// stop says why a run is not to go on: its caller has gone, or it was told to end.
func (w *waiting) stop() error {
	select {
	case <-w.opts.Cancel: // never, if it is nil
		return &Error{Stage: InterruptedStage, Err: errors.New("it was asked to end before there was a sandbox")}
	default:
	}
	if w.parent >= 0 {
		if ended, _ := await(w.parent, 0); ended {
			return errOrphan
		}
	}
	if w.opts.Signals == nil {
		return nil
	}
	if w.signals == nil {
		w.signals = w.opts.Signals()
	}
	for {
		select {
		case s := <-w.signals:
			switch sig, _ := s.(unix.Signal); sig {
			case unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT:
				return &Error{Stage: InterruptedStage, Op: unix.SignalName(sig), Err: errors.New(unix.SignalName(sig) + " came before there was a sandbox")}
			default:
				w.early = append(w.early, sig)
			}
		default:
			return nil
		}
	}
}

// InterruptedStage is the stage of errors of runs that were told to end before they began. Their op is the signal's name.
const InterruptedStage = "interrupted"
