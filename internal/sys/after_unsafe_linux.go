package sys

import (
	"bytes"
	"encoding/binary"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file has what a process does after it has forked a sandbox. None of it allocates: the child has the same pages, so each page that one
// of the two writes is copied.

// ownFDs is the directory of a process's own descriptors: proc_pid_fd(5).
const ownFDs = "/proc/self/fd"

var ownFDsC = [...]byte{'/', 'p', 'r', 'o', 'c', '/', 's', 'e', 'l', 'f', '/', 'f', 'd', 0}

// OpenFDs appends the numbers of this process's open descriptors to open.
func OpenFDs(open []int) ([]int, error) {
	at := unix.AT_FDCWD
	fd, _, e := syscall.Syscall6(unix.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(&ownFDsC)), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0, 0, 0)
	if e != 0 {
		return nil, &os.PathError{Op: "open", Path: ownFDs, Err: e}
	}
	dir := int(fd)
	defer unix.Close(dir)
	var buf [2048]byte
	for {
		n, err := unix.Getdents(dir, buf[:])
		if err != nil {
			return nil, &os.PathError{Op: "getdents64", Path: ownFDs, Err: err}
		}
		if n <= 0 {
			return open, nil
		}
		for rest := buf[:n]; len(rest) > 0; {
			var name []byte
			name, _, rest = NextEntry(rest)
			if fd := number(name); fd >= 0 && fd != dir {
				open = append(open, fd)
			}
		}
	}
}

// meanwhile calls Meanwhile, unless that has been done: a fork may first be tried in namespaces that were made ahead.
func (p *Program) meanwhile() {
	if fn := p.Meanwhile; fn != nil {
		p.Meanwhile = nil
		fn()
	}
}

// Again returns a function that makes the calls as [Program.Run] does, any number of times. An error is the errno of the call that failed.
func (p *Program) Again() func() error {
	m := assemble(p, -1)
	return func() error {
		m.errno = 0
		end := run(m, 0, len(m.code))
		runtime.KeepAlive(p)
		if end < 0 {
			return syscall.Errno(m.errno)
		}
		return nil
	}
}

// NextEntry decodes the first struct linux_dirent64 of a buffer that getdents64(2) has filled. The name lies in the buffer, and a NUL follows it. kind
// is DT_UNKNOWN if the file system does not say. rest is the buffer after it.
func NextEntry(buf []byte) (name []byte, kind uint8, rest []byte) {
	const sizeAt, kindAt, nameAt = 16, 18, 19
	size := binary.NativeEndian.Uint16(buf[sizeAt:])
	name = buf[nameAt:size]
	return name[:bytes.IndexByte(name, 0)], buf[kindAt], buf[size:]
}

// EntryName returns a path for [OpenEntry].
func EntryName(path string) []byte { return append([]byte(path), 0)[:len(path)] }

// OpenEntry is openat(2) of a name that [NextEntry] or [EntryName] has returned.
func OpenEntry(dir int, name []byte, flags int) (fd int, err error) {
	if cap(name) == len(name) || name[:len(name)+1][len(name)] != 0 {
		return -1, unix.EINVAL
	}
	r, _, e := syscall.Syscall6(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(unsafe.SliceData(name))), uintptr(flags), 0, 0, 0)
	if e != 0 {
		return -1, e
	}
	return int(r), nil
}

// number returns the number that a text is, or -1.
func number(text []byte) (n int) {
	for _, c := range text {
		if c < '0' || c > '9' {
			return -1
		}
		n = 10*n + int(c-'0')
	}
	return n
}

// Recvmsg is recvmsg(2) without the sender's address, for which unix.Recvmsg takes the heap.
func Recvmsg(fd int, b, oob []byte, flags int) (n, oobn int, err error) {
	part := unix.Iovec{Base: unsafe.SliceData(b)}
	part.SetLen(len(b))
	message := unix.Msghdr{Iov: &part, Iovlen: 1, Control: unsafe.SliceData(oob)}
	message.SetControllen(len(oob))
	r, _, e := syscall.Syscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&message)), uintptr(flags))
	runtime.KeepAlive(b)
	runtime.KeepAlive(oob)
	if e != 0 {
		return 0, 0, e
	}
	return int(r), int(message.Controllen), nil
}

// FilterThreads sets no_new_privs, installs a filter on every thread of this process by the one call that reaches them all
// (SECCOMP_FILTER_FLAG_TSYNC, seccomp(2)), and reports whether every thread has both.
func FilterThreads(filter []unix.SockFilter) bool {
	if unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != nil {
		return false
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	notSynced, _, e := syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	return e == 0 && notSynced == 0 // the number of a thread that the kernel could not change
}
