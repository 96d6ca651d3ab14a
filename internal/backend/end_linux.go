package backend

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// End is this process's end of a pipe or socket: a non-blocking descriptor. It stays out of Go's poller until [End.File], because each
// descriptor that the poller watches wakes one more thread when it becomes ready, which takes a processor from a command that ends soon. Until
// [End.File] has been called, only one goroutine may use it.
type End struct {
	fd   int // -1 once closed
	file *os.File
}

// NewEnd takes over a descriptor, and makes it non-blocking.
func NewEnd(fd int) (*End, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	return &End{fd: fd}, nil
}

// FileEnd returns a file as an end.
func FileEnd(f *os.File) *End { return &End{fd: -1, file: f} }

// File returns the end as a file that can be waited for and closed by any goroutine.
func (e *End) File() *os.File {
	if e.file == nil {
		e.file = os.NewFile(uintptr(e.fd), "end")
	}
	return e.file
}

// Control calls f with the descriptor.
func (e *End) Control(f func(fd uintptr)) error {
	if e.file == nil {
		f(uintptr(e.fd))
		return nil
	}
	conn, err := e.file.SyscallConn()
	if err == nil {
		err = conn.Control(f)
	}
	return err
}

// Close closes the end.
func (e *End) Close() error {
	if e.file != nil {
		return e.file.Close()
	}
	fd := e.fd
	if e.fd = -1; fd < 0 {
		return os.ErrClosed
	}
	return unix.Close(fd)
}

// Await waits at most d until one of the ends can be read from, and reports which can. It leaves out those that are nil. It occupies a thread
// meanwhile, so it is for waits that are shorter than the time in which Go parks a goroutine and wakes another thread for it.
func Await(d time.Duration, ends ...*End) []bool {
	fds, ready := make([]unix.PollFd, len(ends)), make([]bool, len(ends))
	for i, e := range ends {
		fds[i] = unix.PollFd{Fd: -1, Events: unix.POLLIN} // poll(2) ignores negative descriptors
		if e != nil {
			fds[i].Fd = int32(e.fd)
		}
	}
	ts := unix.NsecToTimespec(d.Nanoseconds())
	if n, err := unix.Ppoll(fds, &ts, nil); n <= 0 || err != nil {
		return ready
	}
	for i := range fds {
		ready[i] = fds[i].Revents != 0
	}
	return ready
}
