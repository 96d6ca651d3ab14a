package sys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file has the calls of a program that look at data, or copy it.

// compare fails with c.errno if two parts of a buffer differ.
//
//go:nosplit
//go:norace
//go:nocheckptr
func compare(m *machine, c *Call) {
	m.errno = 0
	buf := unsafe.Pointer(c.into)
	for i := uintptr(0); i < uintptr(c.from); i++ {
		if *(*byte)(unsafe.Add(buf, i)) != *(*byte)(unsafe.Add(buf, uintptr(c.to)+i)) {
			m.errno = uintptr(c.errno)
			return
		}
	}
}

// copyAll reads c.from to its end and writes what it reads to the descriptor in slot c.keep.
//
//go:nosplit
//go:norace
//go:nocheckptr
func copyAll(m *machine, c *Call) {
	buf := uintptr(unsafe.Pointer(c.into))
	for {
		n, _, e := syscall.RawSyscall(unix.SYS_READ, uintptr(c.from), buf, copySize)
		if e == unix.EINTR {
			continue
		}
		m.errno = uintptr(e)
		if e != 0 || n == 0 {
			return
		}
		for done := uintptr(0); done < n; {
			w, _, e := syscall.RawSyscall(unix.SYS_WRITE, m.slots[c.keep], buf+done, n-done)
			if e == unix.EINTR {
				continue
			}
			if m.errno = uintptr(e); e != 0 {
				return
			}
			done += w
		}
	}
}
