package sys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The ways of a forked process to wait for its children. All are under the contract of [Program.Fork]'s child.

//go:nosplit
//go:norace
//go:nocheckptr
func reap(m *machine, c *Call) {
	reported := false
	for {
		r, _, e := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&m.exit.Status)), 0,
			uintptr(unsafe.Pointer(&m.exit.Usage)), 0, 0)
		if e == unix.EINTR {
			continue
		}
		m.errno = uintptr(e)
		if reported && e == unix.ECHILD {
			m.errno = 0
			return
		}
		if e != 0 {
			return
		}
		if r != m.slots[c.keep] {
			continue
		}
		syscall.RawSyscall(unix.SYS_WRITE, uintptr(c.from), uintptr(unsafe.Pointer(&m.exit)), unsafe.Sizeof(m.exit))
		if c.to == 0 {
			return
		}
		reported = true
		if m.last = uintptr(m.exit.Status) >> 8 & 0xff; m.exit.Status&0x7f != 0 {
			m.last = 128 + uintptr(m.exit.Status)&0x7f
		}
	}
}

// guard waits with poll(2) rather than wait4(2), to notice its reader's end too: a death signal would end this process before those it
// keeps.
//
//go:nosplit
//go:norace
//go:nocheckptr
func guard(m *machine, c *Call) {
	m.polls[0] = unix.PollFd{Fd: int32(m.slots[c.to]), Events: unix.POLLIN}
	m.polls[1] = unix.PollFd{Fd: c.from}
	for {
		_, _, e := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&m.polls)), 2, 0, 0, 0, 0)
		if e == unix.EINTR {
			continue
		}
		if m.errno = uintptr(e); e != 0 || m.polls[1].Revents != 0 {
			killGroup(m, c)
			return
		}
		syscall.RawSyscall(unix.SYS_READ, m.slots[c.to], uintptr(unsafe.Pointer(&m.info)), unsafe.Sizeof(m.info))
		if ended(m, c) {
			syscall.RawSyscall(unix.SYS_WRITE, uintptr(c.from), uintptr(unsafe.Pointer(&m.exit)), unsafe.Sizeof(m.exit))
			return
		}
	}
}

// ended reaps what there is to reap, and reports whether the child of guard was among it.
//
//go:nosplit
//go:norace
//go:nocheckptr
func ended(m *machine, c *Call) bool {
	for {
		m.info[4] = 0 // si_pid: stays 0 if nobody has ended
		_, _, e := syscall.RawSyscall6(unix.SYS_WAITID, unix.P_ALL, 0, uintptr(unsafe.Pointer(&m.info)), unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, 0, 0)
		if e == unix.EINTR {
			continue
		}
		pid := uintptr(m.info[4])
		if e != 0 || pid == 0 {
			return false
		}
		mine := pid == m.slots[c.keep]
		if mine {
			killGroup(m, c)
		}
		syscall.RawSyscall6(unix.SYS_WAIT4, pid, uintptr(unsafe.Pointer(&m.exit.Status)), 0, uintptr(unsafe.Pointer(&m.exit.Usage)), 0, 0)
		if mine {
			return true
		}
	}
}

//go:nosplit
//go:norace
func killGroup(m *machine, c *Call) {
	if c.min != 0 {
		syscall.RawSyscall(unix.SYS_KILL, -m.slots[c.keep], uintptr(unix.SIGKILL), 0)
	}
}

//go:nosplit
//go:norace
//go:nocheckptr
func reapAll(m *machine) {
	for {
		_, _, e := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), 0, 0, 0, 0, 0)
		if e != 0 && e != unix.EINTR {
			m.errno = 0 // ECHILD
			return
		}
	}
}

//go:nosplit
//go:norace
//go:nocheckptr
func expect(m *machine, c *Call) {
	for {
		_, _, e := syscall.RawSyscall6(unix.SYS_WAIT4, m.slots[c.keep], uintptr(unsafe.Pointer(&m.exit.Status)), 0, 0, 0, 0)
		if e == unix.EINTR {
			continue
		}
		m.errno = uintptr(e)
		status := m.exit.Status & 0xffff // as wait4 gives it: the code in the second byte, a signal in the first
		if e == 0 && status != 0 && (c.to == 0 || status&0x7f == 0) {
			m.errno = uintptr(c.errno)
		}
		return
	}
}
