package sys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// How a forked process waits for its children. All of this is under the contract of [Program.Fork]'s child.

// reap waits for children until the one in slot c.keep has ended, and writes its Exit record. With c.to it then waits until no child is
// left, and sets this process's exit code: the child's, or 128 and the number of the signal that ended it.
//
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
		if reported && e == unix.ECHILD { // the last child has ended
			m.errno = 0
			return
		}
		if e != 0 {
			return
		}
		if r != m.slots[c.keep] { // an orphan
			continue
		}
		if c.to == 0 { // else a filter of the caller's may hold here, too, and allow no statfs(2)
			lookAtRoot(m, c.a[0])
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

// guard waits for the child in slot c.keep and writes its Exit record. It waits with ppoll(2), not wait4(2), to notice the end of the
// reader, too. A death signal instead would end this process before the processes that it must kill.
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

// ended reaps the children that have ended, and reports whether the guarded child was one of them.
//
//go:nosplit
//go:norace
//go:nocheckptr
func ended(m *machine, c *Call) bool {
	for {
		m.info[4] = 0 // si_pid: stays 0 if no child has ended
		// WNOWAIT: the child stays a zombie, so that its pid is valid until its group is killed.
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
			killGroup(m, c) // before the wait, which frees the pid for another process
		}
		syscall.RawSyscall6(unix.SYS_WAIT4, pid, uintptr(unsafe.Pointer(&m.exit.Status)), 0, uintptr(unsafe.Pointer(&m.exit.Usage)), 0, 0)
		if mine {
			return true
		}
	}
}

// rootPath is "/" for the kernel.
var rootPath = [2]byte{'/'}

// lookAtRoot adds to the Exit record how full the root's file system is, and that of a place, if that is not 0.
//
//go:nosplit
//go:norace
//go:nocheckptr
func lookAtRoot(m *machine, place uintptr) {
	syscall.RawSyscall(unix.SYS_STATFS, uintptr(unsafe.Pointer(&rootPath)), uintptr(unsafe.Pointer(&m.exit.Root)), 0)
	if place != 0 {
		syscall.RawSyscall(unix.SYS_STATFS, place, uintptr(unsafe.Pointer(&m.exit.Place)), 0)
	}
}

// killGroup kills the guarded child's process group, if Guard was asked to.
//
//go:nosplit
//go:norace
func killGroup(m *machine, c *Call) {
	if c.min != 0 {
		syscall.RawSyscall(unix.SYS_KILL, -m.slots[c.keep], uintptr(unix.SIGKILL), 0)
	}
}

// reapAll waits until no child is left.
//
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

// expect waits for one child, and fails with c.errno unless it ended as it should: with exit code 0, or, with c.to, by a signal.
//
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
		status := m.exit.Status & 0xffff // of wait4(2): the exit code in the second byte, a signal in the first
		if e == 0 && status != 0 && (c.to == 0 || status&0x7f == 0) {
			m.errno = uintptr(c.errno)
		}
		return
	}
}
