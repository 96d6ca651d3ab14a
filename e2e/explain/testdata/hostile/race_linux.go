package main

import (
	"os"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// openRaw opens the path at an address.
func openRaw(at uintptr) error {
	dir := unix.AT_FDCWD
	fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(dir), at, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	unix.Close(int(fd))
	return nil
}

// area maps two pages, the second of which cannot be accessed.
func area() []byte {
	page := os.Getpagesize()
	mem, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	check(err)
	check(unix.Mprotect(mem[page:], unix.PROT_NONE))
	return mem
}

func address(mem []byte) uintptr { return uintptr(unsafe.Pointer(&mem[0])) }

// rewrite opens, N times, a path that another thread makes now one and now another of.
func rewrite(args []string) {
	mem := area()
	var end atomic.Bool
	over := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(over)
		for !end.Load() {
			for _, name := range args[:2] {
				copy(mem, name+"\x00")
			}
		}
	}()
	for range number(args[2]) {
		count(openRaw(address(mem)))
	}
	end.Store(true)
	<-over
}

// chdirs opens a relative path, N times, while another thread goes from one directory to another and back.
func chdirs(args []string) {
	var end atomic.Bool
	over := make(chan struct{})
	check(unix.Chdir(args[0]))
	go func() {
		runtime.LockOSThread()
		defer close(over)
		for !end.Load() {
			check(unix.Chdir(args[1]))
			check(unix.Chdir(args[0]))
		}
	}()
	for range number(args[3]) {
		count(openPath(args[2], unix.O_RDONLY))
	}
	end.Store(true)
	<-over
}

// child opens a path in a child, which ends at once, and returns its pid. The child makes system calls alone: it has no other thread.
func child(at uintptr) int {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		check(errno)
	}
	if pid == 0 {
		dir := unix.AT_FDCWD
		_, _, errno := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(dir), at, unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
		unix.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(errno), 0, 0)
	}
	return int(pid)
}

// exits opens a path in N children, each of which ends at once.
func exits(args []string) {
	runtime.LockOSThread()
	mem := area()
	copy(mem, args[0]+"\x00")
	for range number(args[1]) {
		var status unix.WaitStatus
		_, err := unix.Wait4(child(address(mem)), &status, 0, nil)
		check(err)
		count(unix.Errno(status.ExitStatus()))
	}
}

// killed kills N children, each of which does nothing but open a path: most of them wait for an answer then.
func killed(args []string) {
	runtime.LockOSThread()
	mem, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	check(err)
	copy(mem[8:], args[0]+"\x00")
	opened := (*atomic.Uint64)(unsafe.Pointer(&mem[0]))
	for i := range number(args[1]) {
		opened.Store(0)
		pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno != 0 {
			check(errno)
		}
		for dir := unix.AT_FDCWD; pid == 0; opened.Add(1) {
			unix.RawSyscall6(unix.SYS_OPENAT, uintptr(dir), address(mem[8:]), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
		}
		for opened.Load() == 0 {
			runtime.Gosched()
		}
		for range i % 64 {
			unix.Getppid() // so that the moment differs
		}
		check(unix.Kill(int(pid), unix.SIGKILL))
		_, err := unix.Wait4(int(pid), nil, 0, nil)
		check(err)
		count(nil)
	}
}

// faults makes calls whose paths cannot be read.
func faults() {
	mem, page := area(), os.Getpagesize()
	dir := unix.AT_FDCWD
	cwd := uintptr(dir)
	copy(mem, ".\x00")
	here := address(mem)
	unended := mem[page-3:]
	copy(unended, "abc")
	for _, at := range []uintptr{1, here + uintptr(page), ^uintptr(0) - 8, here + uintptr(page) - 3, 0} {
		for _, c := range [][]uintptr{
			{unix.SYS_OPENAT, cwd, at, unix.O_RDONLY, 0}, {unix.SYS_OPENAT, cwd, at, unix.O_WRONLY | unix.O_CREAT, 0o600}, {unix.SYS_OPENAT2, cwd, here, at, 24},
			{unix.SYS_OPENAT2, cwd, at, here + 64, 24}, {unix.SYS_MKDIRAT, cwd, at, 0o700}, {unix.SYS_UNLINKAT, cwd, at, 0}, {unix.SYS_RENAMEAT2, cwd, here, cwd, at, 0},
			{unix.SYS_RENAMEAT2, cwd, at, cwd, here, 0}, {unix.SYS_SYMLINKAT, here, cwd, at}, {unix.SYS_LINKAT, cwd, at, cwd, here, 0}, {unix.SYS_FCHMODAT, cwd, at, 0o600},
			{unix.SYS_EXECVE, at, 0, 0}, {unix.SYS_EXECVEAT, cwd, at, 0, 0, 0}, {unix.SYS_CHDIR, at}, {unix.SYS_TRUNCATE, at, 0}, {unix.SYS_FACCESSAT, cwd, at, 0},
			{unix.SYS_STATX, cwd, at, 0, 0, here + 1024}, {unix.SYS_READLINKAT, cwd, at, here + 1024, 64},
		} {
			var a [7]uintptr
			copy(a[:], c)
			_, _, errno := unix.Syscall6(a[0], a[1], a[2], a[3], a[4], a[5], a[6])
			count(errno)
		}
		for _, call := range []uintptr{unix.SYS_CONNECT, unix.SYS_BIND} {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			check(err)
			_, _, errno := unix.Syscall(call, uintptr(fd), at, 110)
			count(errno)
			unix.Close(fd)
		}
	}
}

// pageEnd opens a path of 4095 bytes, the longest there is, whose NUL is the last byte before memory that cannot be accessed; then one that is too long
// by a byte, and one that does not end there.
func pageEnd(name string) {
	mem, page := area(), os.Getpagesize()
	put := func(size int, nul string) uintptr {
		text := name
		for len(text) < size {
			text = "/" + text
		}
		text += nul
		at := mem[page-len(text) : page]
		copy(at, text)
		return address(at)
	}
	count(openRaw(put(4095, "\x00")))
	count(openRaw(put(4095, "")))
	count(openRaw(put(4096, "")))
}
