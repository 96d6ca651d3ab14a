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

// channels are both ends of the report channel and the status socket: two pairs of sockets. As bubblewrap pid 1 has the first for a moment after the command has
// begun, and nobody can open a socket in /proc, as they could a pipe. They are numbers, not files: an os.File asks for the poller, whose set-up
// costs a start some 100 us.
type channels struct {
	report, status           int // this process's ends; -1 once closed
	childReport, childStatus int
}

// openChannels makes the channels. None is at 0, 1 or 2: Go's runtime has opened those if the caller had not.
func openChannels() (*channels, error) {
	report, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		unix.Close(report[0])
		unix.Close(report[1])
		return nil, os.NewSyscallError("socketpair", err)
	}
	return &channels{
		report: report[0], childReport: report[1],
		status: pair[0], childStatus: pair[1],
	}, nil
}

// closeChild closes the child's ends in this process. Only then do this process's ends end when the child does.
func (c *channels) closeChild() { closeEach(&c.childReport, &c.childStatus) }

// close closes all ends.
func (c *channels) close() { closeEach(&c.childReport, &c.childStatus, &c.report, &c.status) }

// closeEach closes the descriptors that are not -1, and sets them to -1.
func closeEach(fds ...*int) {
	for _, fd := range fds {
		if *fd >= 0 {
			unix.Close(*fd)
		}
		*fd = -1
	}
}
