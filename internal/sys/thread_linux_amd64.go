package sys

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// readThreadPointer writes the thread pointer to the address into.
//
//go:nosplit
//go:norace
func readThreadPointer(into uintptr) {
	const getFS = 0x1003 // ARCH_GET_FS: arch_prctl(2)
	syscall.RawSyscall(unix.SYS_ARCH_PRCTL, getFS, into, 0)
}
