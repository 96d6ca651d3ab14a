package sys

import (
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// SpareFD returns a descriptor number that is neither open nor in used, for a descriptor that needs a fixed number: the highest one below
// 250 and below the limit on open files. The descriptors that a program opens get low numbers.
func SpareFD(used []int) int {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &r) != nil {
		r.Cur = 64
	}
	n := int(min(r.Cur, 250)) - 1
	for ; n > 3; n-- {
		if _, err := unix.FcntlInt(uintptr(n), unix.F_GETFD, 0); err != nil && !slices.Contains(used, n) {
			break
		}
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
