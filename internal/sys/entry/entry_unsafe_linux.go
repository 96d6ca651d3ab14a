// Package entry remembers what this process was started with and Go's runtime changes: the limit on open files and the ignored signals.
//
// Go's package syscall raises the soft RLIMIT_NOFILE of every program at start-up and restores it only in its own exec. A raw execve would
// hand the raised limit to the command, where select(2) breaks on descriptors above 1023. The original value has to be read before package
// syscall is initialised. The language specification orders initialisation by import path among packages whose imports are done; this
// package imports only parts of the runtime and its path sorts before "syscall", so it comes first. A test holds that to be true.
//
// In the program nsrun, begin runs even before Go's runtime: see begin_unsafe_linux.go. In another program that imports nsrun it does
// not, and what it would have found stays unknown.
//
// This package restores nothing but the limit that it has lowered itself, and protects against nothing.
package entry

import "unsafe"

// Limit is a soft and a hard limit, in descriptors.
type Limit struct{ Soft, Hard uint64 }

// original is read during initialisation, for the reason above; it never changes after.
var original = read()

// Nofile returns the limit on open files that the process was started with, and whether it could be read.
func Nofile() (Limit, bool) { return original, original.Hard != 0 }

//go:linkname rawSyscall6 syscall.RawSyscall6
func rawSyscall6(nr, a1, a2, a3, a4, a5, a6 uintptr) (r1, r2, errno uintptr)

// read returns the limit on open files, and restores it if begin has lowered it.
func read() (l Limit) {
	release()
	grow()
	restoreSlack()
	if found.lowered {
		rawSyscall6(sysPrlimit64, 0, rlimitNofile, uintptr(unsafe.Pointer(&found.nofile)), 0, 0, 0)
		return found.nofile
	}
	if _, _, e := rawSyscall6(sysPrlimit64, 0, rlimitNofile, 0, uintptr(unsafe.Pointer(&l)), 0, 0); e != 0 {
		return Limit{}
	}
	return l
}

// grow makes the runtime give the main goroutine a stack of 32 KiB at once. Where the stack grows by doubling, a start touches each size of
// stack, and what the runtime needs to copy one, for the first time: some 200 us of page faults.
func grow()
