package sys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sent is a message of kindSend: one byte, and a descriptor.
type sent struct {
	message rawMsghdr
	vector  [2]uintptr
	control [3]uintptr // a cmsghdr, and the descriptor: cmsg(3)
	kind    uintptr
}

// sendDescriptor sends the descriptor in slot c.keep on the socket c.from.
//
//go:nosplit
//go:norace
//go:nocheckptr
func sendDescriptor(m *machine, c *Call) {
	s := &m.sent
	s.kind = uintptr(c.to) // both architectures are little-endian
	s.vector = [2]uintptr{uintptr(unsafe.Pointer(&s.kind)), 1}
	s.control = [3]uintptr{unix.SizeofCmsghdr + 4, unix.SOL_SOCKET | unix.SCM_RIGHTS<<32, m.slots[c.keep]}
	s.message = rawMsghdr{iov: uintptr(unsafe.Pointer(&s.vector)), iovlen: 1, control: uintptr(unsafe.Pointer(&s.control)), ctrllen: unsafe.Sizeof(s.control)}
	for {
		_, _, e := syscall.RawSyscall(unix.SYS_SENDMSG, uintptr(c.from), uintptr(unsafe.Pointer(&s.message)), unix.MSG_NOSIGNAL)
		if m.errno = uintptr(e); e != unix.EINTR {
			return
		}
	}
}
