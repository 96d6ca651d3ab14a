package mounts

import (
	"errors"
	"fmt"
	"os"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// openMapped opens name in directory dir if the caller may not search dir. It uses the capabilities of a user namespace in which only the
// caller is mapped; they reach the caller's own files and no others (user_namespaces(7), "Interaction of user and group IDs").
//
// A process with threads cannot enter a user namespace. So a child process does, which shares the descriptor table and replaces a copy of
// dir by what it opens.
func openMapped(dir int, name string, flags uint64) (fd int, err error) {
	fd, err = unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := openInChild(fd, name, flags); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// openInChild opens name in the directory that fd has open, and replaces fd by it.
func openInChild(fd int, name string, flags uint64) error {
	var report [2]int
	if err := unix.Pipe2(report[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	defer unix.Close(report[0])
	var p sys.Program
	mapCaller(&p)
	opened, at := p.Slot(), p.Len()
	p.Add(unix.SYS_OPENAT, sys.Int(fd), sys.Str(name), sys.Hex(flags)).Keep(opened)
	p.Add(unix.SYS_DUP3, sys.Of(opened), sys.Int(fd), sys.Words(unix.O_CLOEXEC, "O_CLOEXEC"))
	p.Add(unix.SYS_CLOSE, sys.Of(opened))
	pid, pidfd, err := p.Fork(unix.CLONE_NEWUSER|unix.CLONE_FILES, report[1])
	if err != nil {
		unix.Close(report[1])
		return unix.EACCES // no user namespaces: the caller's own error stands
	}
	unix.Close(pidfd)
	var status unix.WaitStatus
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		_, err = unix.Wait4(pid, &status, 0, nil)
	}
	unix.Close(report[1]) // not before: the child shares it
	buf := make([]byte, sys.FailureSize)
	n, _ := unix.Read(report[0], buf)
	failure, failed := sys.ParseFailure(buf[:max(n, 0)])
	switch {
	case failed && int(failure.Index) == at:
		return unix.Errno(failure.Errno)
	case failed, err == nil && status != 0: // the namespace grants no capabilities, or a seccomp filter killed the child
		return unix.EACCES
	}
	return err
}

// mapCaller maps the caller to itself in the user namespace of a new process. A write may fail, and then the capabilities reach nothing.
// The file is closed in any case, because the descriptor table is shared with the caller.
func mapCaller(p *sys.Program) {
	file := p.Slot()
	for _, f := range [][2]string{
		{"uid_map", fmt.Sprintf("%d %[1]d 1\n", os.Geteuid())}, {"setgroups", "deny\n"}, {"gid_map", fmt.Sprintf("%d %[1]d 1\n", os.Getegid())},
	} {
		p.Add(unix.SYS_OPENAT, sys.AtCWD(), sys.Str("/proc/self/"+f[0]), sys.Words(unix.O_WRONLY|unix.O_CLOEXEC, "O_WRONLY|O_CLOEXEC")).Keep(file)
		p.Add(unix.SYS_WRITE, sys.Of(file), sys.Bytes([]byte(f[1])), sys.Int(len(f[1]))).Tolerate(sys.Any, 0)
		p.Add(unix.SYS_CLOSE, sys.Of(file))
	}
}
