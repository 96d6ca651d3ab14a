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

// SpareFD returns a descriptor number that is neither open nor in used, for a descriptor that needs a fixed number: the highest one below
// 250 and below the limit on open files. The descriptors that a program opens get low numbers. If they could get so high that they meet this
// one, because the limit is low, the error is EMFILE.
func SpareFD(used []int) (int, error) {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		r.Cur = 64
	}
	free := func(n int) bool {
		_, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0)
		return err != nil && !slices.Contains(used, n)
	}
	n := int(min(r.Cur, 250)) - 1
	for n > 3 && !free(n) {
		n--
	}
	const opened = 6 // at most so many at once: the roots, an anchor, a source, a tree and a destination
	for below, left := n-1, opened; left > 0; below-- {
		if below < 0 {
			return -1, unix.EMFILE
		}
		if free(below) {
			left--
		}
	}
	return n, nil
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
