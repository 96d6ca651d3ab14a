package backend

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// sendRelease sends the message that the command's process waits for. It returns no error if that process has ended: the process has failed
// then, and its report has the reason.
func sendRelease(socket int) error {
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		err = unix.Send(socket, []byte{'g'}, unix.MSG_NOSIGNAL)
	}
	if err == nil || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return nil
	}
	return &Error{Stage: "channels", Op: "let the command begin", Err: err}
}

// channels are both ends of the report pipe and the status socket.
type channels struct {
	report, status           *os.File // this process's ends
	childReport, childStatus int
}

// openChannels makes the channels. None is at 0, 1 or 2: Go's runtime has opened those if the caller had not.
func openChannels() (*channels, error) {
	var pipe, pair [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("pipe2", err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		unix.Close(pipe[0])
		unix.Close(pipe[1])
		return nil, os.NewSyscallError("socketpair", err)
	}
	return &channels{
		report: os.NewFile(uintptr(pipe[0]), "report"), childReport: pipe[1],
		status: os.NewFile(uintptr(pair[0]), "status"), childStatus: pair[1],
	}, nil
}

// closeChild closes the child's ends in this process. Only then do this process's ends end when the child does.
func (c *channels) closeChild() {
	for _, fd := range []*int{&c.childReport, &c.childStatus} {
		if *fd >= 0 {
			unix.Close(*fd)
		}
		*fd = -1
	}
}

// close closes all ends.
func (c *channels) close() {
	c.closeChild()
	c.report.Close()
	c.status.Close()
}
