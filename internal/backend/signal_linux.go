package backend

import (
	"errors"
	"iter"
	"time"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// signals is the source that forwards signals.
func (r *run) signals() *source {
	s := &source{fd: r.opts.Signals}
	if s.fd == 0 {
		s.fd = -1
	}
	s.ready = func() bool {
		for sig := range received(s.fd) {
			r.forward(sig)
		}
		return true
	}
	return s
}

// received yields the signals that have come to the pipe of [sys.SignalPipe].
func received(pipe int) iter.Seq[unix.Signal] {
	return func(yield func(unix.Signal) bool) {
		var number [1]byte
		for {
			if n, err := sys.Read(pipe, number[:]); n != 1 || err != nil || !yield(unix.Signal(number[0])) {
				return
			}
		}
	}
}

// forward passes a signal on, or ends the run by it: see [Run].
func (r *run) forward(sig unix.Signal) {
	switch sig {
	case unix.SIGWINCH:
		if r.opts.Terminal != nil && r.plan.Terminal {
			r.opts.Terminal.resize()
			return
		}
		r.send(sig, true)
	case unix.SIGINT:
		if r.interrupted() {
			r.kill()
			return
		}
		r.end(sig, true)
	case unix.SIGTERM:
		r.end(sig, false)
	case unix.SIGHUP, unix.SIGQUIT:
		r.send(sig, true)
	default:
		r.send(sig, false)
	}
}

// interrupted notes a SIGINT, and reports whether there was one before.
func (r *run) interrupted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	again := r.out.Killed == unix.SIGINT
	if !r.out.TimedOut {
		r.out.Killed = unix.SIGINT
	}
	return again
}

// end passes on a signal that asks the command to end. From the first one on the command has the plan's grace.
func (r *run) end(sig unix.Signal, group bool) {
	r.mu.Lock()
	if !r.asked {
		time.AfterFunc(time.Duration(r.plan.KillGrace), r.kill) // does nothing once all has ended
	}
	r.asked = true
	if !r.out.TimedOut {
		r.out.Killed = sig
	}
	r.mu.Unlock()
	r.send(sig, group)
}

// endedBy clears out.Killed unless the command died of the signal that this process has passed on. The caller holds r.mu.
func (r *run) endedBy(status unix.WaitStatus) {
	if !status.Signaled() || status.Signal() != r.out.Killed {
		r.out.Killed = 0
	}
}

// pending is a signal for the command or its process group that has not been sent yet.
type pending struct {
	sig   unix.Signal
	group bool
}

// send sends a signal to the command, or keeps it until there is one, which takes milliseconds.
func (r *run) send(sig unix.Signal, group bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch p := (pending{sig, group}); {
	case r.ended:
	case r.command < 0:
		r.early = append(r.early, p)
	default:
		r.deliver(p)
	}
}

const pidfdSignalProcessGroup = 1 << 2 // PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9

// deliver sends a signal by the command's pidfd. Before Linux 6.9 it cannot reach the process group, and the command alone gets it.
func (r *run) deliver(p pending) {
	if p.group {
		if err := unix.PidfdSendSignal(r.command, p.sig, nil, pidfdSignalProcessGroup); !errors.Is(err, unix.EINVAL) {
			return
		}
	}
	_ = unix.PidfdSendSignal(r.command, p.sig, nil, 0) // an error means that the command has ended
}

// kill ends the sandbox at once.
func (r *run) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killed = true
	switch {
	case r.ended:
	case r.plan.Bare() || r.plan.Backend == plan.BackendBwrap:
		// A subreaper or a watchdog must live to kill the others. It does so when the socket ends.
		_ = unix.Shutdown(r.ch.status, unix.SHUT_RDWR)
	default:
		_ = unix.PidfdSendSignal(r.pidfd, unix.SIGKILL, nil, 0)
	}
}
