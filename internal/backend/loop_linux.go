package backend

import (
	"cmp"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// endTimeout is the longest time that the end of a killed process takes on a machine under load.
const endTimeout = 20 * time.Second

// maxFew is how many sources take no heap: two channels, the caller, signals, and four of two pumps.
const maxFew = 8

// source is a descriptor that a loop waits for, and the function that serves it.
type source struct {
	fd     int         // a negative one is ignored
	events int16       // of poll(2); POLLIN if 0
	ready  func() bool // serves the descriptor, and reports whether the loop goes on
}

// once returns a source that ends the loop.
func once(fd int, serve func()) *source {
	return &source{fd: fd, ready: func() bool { serve(); return false }}
}

// loop waits for sources and serves those that are ready, in order, until one of them ends the loop. Before each wait it calls turn, unless
// that is nil. turn returns how long the wait may take (negative: for ever), or ends the loop; idle reports that the last wait took all of
// its time. turn checks the clocks, because no wait ends by its time if a source is always ready. All waiting for a sandbox is done here.
func loop(turn func(idle bool) (wait time.Duration, more bool), sources ...*source) error {
	var few [maxFew]unix.PollFd // on the stack, as it is written after the fork: see package sys
	fds := few[:]
	if len(sources) > maxFew {
		fds = make([]unix.PollFd, len(sources))
	}
	fds = fds[:len(sources)]
	for idle := false; ; {
		wait, more := time.Duration(-1), true
		if turn != nil {
			wait, more = turn(idle)
		}
		if !more {
			return nil
		}
		for i, s := range sources {
			fds[i] = unix.PollFd{Fd: int32(s.fd), Events: cmp.Or(s.events, unix.POLLIN)}
		}
		var timeout *unix.Timespec
		if wait >= 0 {
			ts := unix.NsecToTimespec(wait.Nanoseconds())
			timeout = &ts
		}
		n, err := unix.Ppoll(fds, timeout, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("ppoll", err)
		}
		idle = n == 0 && err == nil
		for i, s := range sources {
			if n > 0 && fds[i].Revents != 0 && s.fd >= 0 && !s.ready() { // an earlier source may have made fd negative
				return nil
			}
		}
	}
}

// await waits until fd can be read from, at most for the given time, and reports whether it can. A negative time means for ever.
func await(fd int, most time.Duration) (ready bool, err error) {
	until := time.Now().Add(most)
	err = loop(func(idle bool) (time.Duration, bool) {
		if most < 0 {
			return -1, true
		}
		left := max(time.Until(until), 0)
		return left, !idle || left > 0
	}, once(fd, func() { ready = true }))
	return ready, err
}
