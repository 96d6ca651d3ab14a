// Package wire is what processes of nsrun send to each other: messages of one value, as JSON in a memory file, with descriptors. A program and
// its spawner do, and nsrun and its pid 1 of a container.
//
//	err := wire.Send(socket, request, stdin, stdout, stderr)
//	fds, err := wire.Receive(socket, &request)
//
// It protects against nothing: both ends are the same program, run by the same user.
package wire

import (
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// Send sends v as JSON in a memory file, with descriptors after it.
func Send(socket int, v any, fds ...int) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	file, err := sys.MemoryFile(data)
	if err != nil {
		return err
	}
	defer file.Close()
	all := append([]int{int(file.Fd())}, fds...)
	for {
		err := unix.Sendmsg(socket, []byte{'m'}, unix.UnixRights(all...), nil, unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("sendmsg", err)
		}
	}
}

// maxPassed is the largest number of descriptors that a message has: SCM_MAX_FD of include/net/scm.h.
const maxPassed = 253

// ErrCut says that a message has come without all of its descriptors: the kernel had no numbers left for them (unix(7), on SCM_RIGHTS).
var ErrCut error = cut{}

// cut is a type of its own because fmt.Errorf, called at the start of every program that has this package, takes 40 us.
type cut struct{}

func (cut) Error() string { return "the limit on open files is reached: " + unix.EMFILE.Error() }

func (cut) Unwrap() error { return unix.EMFILE }

// Receive takes what [Send] has sent: v from the memory file, and the other descriptors. [io.EOF] is the socket's end, and an
// [*os.SyscallError] that nothing can be received; after another error the next message can be.
func Receive(socket int, v any) (fds []int, err error) {
	oob := make([]byte, unix.CmsgSpace(4*maxPassed))
	var n, oobn, flags int
	for ends := 0; ; {
		n, oobn, flags, _, err = unix.Recvmsg(socket, make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
		if err == nil && n == 0 { // maybe of before a message: __skb_wait_for_more_packets in net/core/datagram.c
			ends++
			if ends < 2 {
				continue
			}
		}
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, os.NewSyscallError("recvmsg", err)
	}
	if n == 0 {
		return nil, io.EOF
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err == nil && len(messages) == 1 {
		fds, err = unix.ParseUnixRights(&messages[0])
	}
	switch {
	case flags&unix.MSG_CTRUNC != 0:
		CloseAll(fds)
		return nil, ErrCut
	case err != nil || len(fds) == 0:
		return nil, errors.Join(errors.New("bug: a message without descriptors"), err)
	}
	file := os.NewFile(uintptr(fds[0]), "message")
	defer file.Close()
	data, err := io.ReadAll(file)
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		CloseAll(fds[1:])
		return nil, err
	}
	return fds[1:], nil
}

// CloseAll closes descriptors that came with a message.
func CloseAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
