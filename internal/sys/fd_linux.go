package sys

import (
	"errors"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Read reads from a descriptor once, and again when a signal has interrupted it.
func Read(fd int, b []byte) (n int, err error) {
	for {
		if n, err = unix.Read(fd, b); !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
}

// ReadFile is [os.ReadFile] for the files of procfs and sysfs, which never block. It leaves out the poller of package os, whose set-up costs
// the first file of a process some 100 us. An error is a [*os.PathError].
func ReadFile(name string) ([]byte, error) {
	fd, err := openFile(name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	data := make([]byte, 0, 4096)
	for {
		n, err := Read(fd, data[len(data):cap(data)])
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: name, Err: err}
		}
		if n == 0 {
			return data, nil
		}
		if data = data[:len(data)+n]; len(data) == cap(data) {
			data = slices.Grow(data, len(data))
		}
	}
}

// openFile opens a file to read.
func openFile(name string) (int, error) {
	for {
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			return fd, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return -1, &os.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

// Inherited reports whether fd came to this process from its caller: descriptors that Go opens, or this module, are close-on-exec.
func Inherited(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}

// SpareFD returns a descriptor number that is neither open nor in used, for a descriptor that needs a fixed number. The descriptors that the
// child opens get the lowest free numbers and must not meet this one, so some numbers below it are free: if there are none below 250, where
// the kernel's table of a new process ends, because the caller has many descriptors open, the number is higher. If the limit on open files
// leaves none, the error is EMFILE.
func SpareFD(used []int) (int, error) {
	limit := 64
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) == nil {
		limit = int(min(r.Cur, 1<<20)) // fs.nr_open is as much, unless it was raised
	}
	const (
		apart  = 8  // other threads may open descriptors before the child is there
		opened = 6  // by the child, at most so many at once: the roots, an anchor, a source, a tree and a destination
		both   = 24 // with those that this process has open while early calls are made: it has them in common with the process that makes them
	)
	for top := 250; top < limit; top *= 2 {
		if n := spareBelow(top, used, apart, both); n > 0 {
			return n, nil
		}
	}
	for _, left := range []int{both, opened} {
		if n := spareBelow(limit, used, 1, left); n > 0 {
			return n, nil
		}
	}
	return -1, unix.EMFILE
}

// spareBelow returns the highest spare number below top, or -1 if of the numbers below it, each so far apart, fewer than left are free.
func spareBelow(top int, used []int, apart, left int) int {
	free := func(n int) bool {
		_, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0)
		return err != nil && !slices.Contains(used, n)
	}
	n := top - 1
	for n > 3 && !free(n) {
		n--
	}
	for below := n - apart; below >= 0 && left > 0; below -= apart {
		if free(below) {
			left--
		}
	}
	if left > 0 {
		return -1
	}
	return n
}

// MemoryFile returns a close-on-exec file in memory that contains data, at its start.
func MemoryFile(data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("nsrun", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "data")
	_, err = f.Write(data)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
