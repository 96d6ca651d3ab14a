// Package nofile remembers the limit on open files that this process was started with.
//
// Go's package syscall raises the soft RLIMIT_NOFILE of every program at start-up and restores it only in its own exec. A raw
// execve would hand the raised limit to the command, where select(2) breaks on descriptors above 1023. The original value has to
// be read before package syscall is initialised. The language specification orders initialisation by import path among packages
// whose imports are done; this package imports nothing but unsafe and its path sorts before "syscall", so it comes first. A test
// holds that to be true.
//
// It does not restore anything: package rlimit's callers do.
package nofile

import "unsafe"

// Limit is a soft and a hard limit, in descriptors.
type Limit struct{ Soft, Hard uint64 }

// original is read during initialisation, for the reason above; it never changes after.
var original = read()

// Original returns the limit that the process was started with, and whether it could be read.
func Original() (Limit, bool) { return original, original.Hard != 0 }

//go:linkname rawSyscall6 syscall.RawSyscall6
func rawSyscall6(nr, a1, a2, a3, a4, a5, a6 uintptr) (r1, r2, errno uintptr)

const rlimitNofile = 7

func read() (l Limit) {
	if _, _, e := rawSyscall6(sysPrlimit64, 0, rlimitNofile, 0, uintptr(unsafe.Pointer(&l)), 0, 0); e != 0 {
		return Limit{}
	}
	return l
}
