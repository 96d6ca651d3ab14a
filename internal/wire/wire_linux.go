// Package wire has the messages between a program that imports the package nsrun and its spawner, the process that forks its sandboxes.
//
//	program                                        spawner
//	   │  socket: one message for each sandbox        │
//	   │  [reply socket, memfd: Request as JSON] ───► │  forks, waits until the sandbox is ready for commands
//	   │                                              │
//	   │  reply socket: one message, and the end      │
//	   │ ◄───── [memfd: Answer as JSON, and if it     │
//	   │          succeeded: the sandbox's socket     │
//	   │          and the pidfd of its first process] │
//
// After the answer the program talks to that sandbox itself, over the sandbox's socket: see [sys.Program.Serve]. When the first socket ends,
// the spawner ends, and all its sandboxes with it. For a backend without sessions the program starts a process for each command instead, and
// the Answer has the outcome of that command.
//
//	err := wire.Send(socket, wire.NewRequest(plan, nil), reply)
//	fds, err := wire.Receive(reply, &answer)
//
// It protects against nothing: both ends are the same program, run by the same user.
package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// Request asks for a sandbox.
type Request struct {
	Plan      *plan.Plan `json:"plan"`
	Protected []string   `json:"protected,omitempty"`
	// Command and Env are the plan's, byte for byte: JSON has no strings that are not UTF-8.
	Command [][]byte `json:"command,omitempty"`
	Env     [][]byte `json:"env,omitempty"`
}

// NewRequest is a request for p.
func NewRequest(p *plan.Plan, protected []string) Request {
	return Request{Plan: p, Protected: protected, Command: words[[]byte](p.Command), Env: words[[]byte](p.Env)}
}

// Whole returns the plan as it was requested.
func (o *Request) Whole() *plan.Plan {
	p := *o.Plan
	p.Command, p.Env = words[string](o.Command), words[string](o.Env)
	return &p
}

func words[To, From []byte | string](in []From) []To {
	out := make([]To, len(in))
	for i, w := range in {
		out[i] = To(w)
	}
	return out
}

// Answer reports what came of a Request. Of its parts one is given.
type Answer struct {
	Info    json.RawMessage `json:"info,omitempty"`    // a backend.Info, of a sandbox that serves
	Outcome json.RawMessage `json:"outcome,omitempty"` // a backend.Outcome, of a command that has run
	Failure *fault.Error    `json:"failure,omitempty"`
}

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

// maxPassed is the largest number of descriptors that come with a message.
const maxPassed = 4

// ErrCut says that a message has come without all of its descriptors: the kernel had no numbers left for them (unix(7), on SCM_RIGHTS).
var ErrCut = fmt.Errorf("the limit on open files is reached: %w", unix.EMFILE)

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
