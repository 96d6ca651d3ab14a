package entry

import (
	"sync/atomic"
	"unsafe"
)

// raiseAhead has the loopback device brought up in a network namespace that was made ahead, while the run is planned: it takes the kernel 85 us, and
// every sandbox with such a namespace has it up. The program brings it up again, which is nothing then, and reports the error if it cannot.
const raiseAhead = true

// loopback is struct ifreq with IFF_UP and IFF_RUNNING (netdevice(7)).
var loopback = struct {
	name  [16]byte
	flags uint16
	_     [22]byte
}{name: [16]byte{'l', 'o'}, flags: 0x1 | 0x40}

// raising is how far that has come: a futex. The process that does it must not be killed meanwhile. Its socket would stay open in this process, and keep the
// namespace, which counts against a limit.
var raising uint32

const (
	raiseNot   = iota // it has not begun
	raiseBegun        // there may be a socket
	raiseOver         // there is none any more, or will not be
)

// endRaising waits until the loopback device has been brought up by the process pid, or prevents that.
func endRaising(pid int32) {
	if atomic.CompareAndSwapUint32(&raising, raiseNot, raiseOver) {
		return
	}
	for atomic.LoadUint32(&raising) == raiseBegun && !ended(pid) {
		WaitFor(&raising, raiseBegun)
	}
}

// raiseLoopback brings it up. The socket is in the table of descriptors of the process that starts this sandbox. If a standard descriptor is closed
// there, the socket would get its number, and the runtime would take it for open.
//
//go:nosplit
//go:norace
//go:nocheckptr
func raiseLoopback() {
	const (
		getFD    = 1       // F_GETFD, which fails if a descriptor is not open
		inet     = 2       // AF_INET
		datagram = 2       // SOCK_DGRAM
		cloexec  = 0x80000 // SOCK_CLOEXEC
		setFlags = 0x8914  // SIOCSIFFLAGS
	)
	if !raiseAhead {
		return
	}
	for fd := uintptr(0); fd < 3; fd++ {
		if _, _, e := rawSyscall6(sysFcntl, fd, getFD, 0, 0, 0, 0); e != 0 {
			return
		}
	}
	if !atomic.CompareAndSwapUint32(&raising, raiseNot, raiseBegun) {
		return
	}
	if fd, _, e := rawSyscall6(sysSocket, inet, datagram|cloexec, 0, 0, 0, 0); e == 0 {
		rawSyscall6(sysIoctl, fd, setFlags, uintptr(unsafe.Pointer(&loopback)), 0, 0, 0)
		rawSyscall6(sysClose, fd, 0, 0, 0, 0, 0)
	}
	atomic.StoreUint32(&raising, raiseOver)
	Wake(&raising)
}
