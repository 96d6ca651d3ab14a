package main

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func pointer[T any](v *T) uintptr { return uintptr(unsafe.Pointer(v)) }

// block blocks signals for the calling thread.
func block(mask uint64) {
	unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, uintptr(unsafe.Pointer(&mask)), 0, 8, 0, 0)
}
