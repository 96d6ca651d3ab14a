package stages

import (
	"runtime"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

const goarch = runtime.GOARCH

// fdMessage is a one-byte message that carries a descriptor, laid out for sendmsg(2) beforehand. The kernel writes the descriptor's number
// into control when it makes the descriptor, and reads it there when it sends the message.
type fdMessage struct {
	header  unix.Msghdr
	vector  unix.Iovec
	control struct {
		unix.Cmsghdr
		FD int32
		_  int32
	}
	kind [1]byte
}

// newFDMessage returns a message of the given kind: P with a pidfd, T with a terminal.
func newFDMessage(kind byte) *fdMessage {
	m := &fdMessage{kind: [1]byte{kind}}
	m.vector.Base = &m.kind[0]
	m.vector.SetLen(1)
	m.header.Iov = &m.vector
	m.header.Iovlen = 1
	m.control.Level, m.control.Type = unix.SOL_SOCKET, unix.SCM_RIGHTS
	m.control.SetLen(unix.CmsgLen(4))
	m.header.Control = sys.BytePointer(&m.control)
	m.header.SetControllen(unix.CmsgSpace(4))
	return m
}

func (m *fdMessage) fd() *int32     { return &m.control.FD }
func (m *fdMessage) String() string { return "{" + string(m.kind[:]) + ", SCM_RIGHTS}" }

// send appends the call that sends m's descriptor to the caller. A later stage closes this process's copy with all others.
func (l *Lowering) send(m *fdMessage) {
	l.Program.Add(unix.SYS_SENDMSG, sys.Int(l.fds.Status), sys.Struct(m), sys.Words(unix.MSG_NOSIGNAL, "MSG_NOSIGNAL"))
}

// terminal opens a pseudo-terminal on the sandbox's own devpts and sends its master to the caller. The other end comes from an ioctl on the
// master; it is never opened by path: CVE-2025-52565.
func (l *Lowering) terminal() error {
	if !l.plan.Terminal {
		return nil
	}
	master, message := l.Program.Slot(), newFDMessage('T')
	l.tty = l.Program.Slot()
	l.openTerminal(master, l.tty, message.fd())
	if l.fds.Size != nil { // the caller could set the size only after it has the master, when the command may have begun
		l.resizeTerminal(master, l.fds.Size)
	}
	l.send(message)
	l.Program.Add(unix.SYS_CLOSE, sys.Of(master))
	return nil
}

// openTerminal keeps both ends of a new pseudo-terminal. If number is not nil, it receives the master's descriptor number.
func (l *Lowering) openTerminal(master, tty sys.Slot, number *int32) {
	const flags, words = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC, "O_RDWR|O_NOCTTY|O_CLOEXEC"
	l.step("terminal", "open")
	open := l.Program.Add(unix.SYS_OPENAT, sys.AtCWD(), sys.Str("/dev/pts/ptmx"), sys.Words(flags, words)).Keep(master)
	if number != nil {
		open.Into(number)
	}
	var unlock int32
	l.Program.Add(unix.SYS_IOCTL, sys.Of(master), sys.Words(unix.TIOCSPTLCK, "TIOCSPTLCK"), sys.Struct(&unlock))
	l.Program.Add(unix.SYS_IOCTL, sys.Of(master), sys.Words(unix.TIOCGPTPEER, "TIOCGPTPEER"), sys.Words(flags, words)).Keep(tty)
}

// resizeTerminal sets the size of a terminal: ioctl_tty(2), TIOCSWINSZ.
func (l *Lowering) resizeTerminal(terminal sys.Slot, size *unix.Winsize) {
	l.Program.Add(unix.SYS_IOCTL, sys.Of(terminal), sys.Words(unix.TIOCSWINSZ, "TIOCSWINSZ"), sys.Bytes(winsize(size)))
}

// winsize returns struct winsize as bytes. Both supported architectures are little-endian.
func winsize(size *unix.Winsize) []byte {
	return []byte{byte(size.Row), byte(size.Row >> 8), byte(size.Col), byte(size.Col >> 8), 0, 0, 0, 0}
}
