package mounts

import (
	"errors"
	"fmt"
	"os"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// openMapped opens name in directory dir, which the caller may not search, with the capabilities of a user namespace in which the caller alone is
// mapped: user_namespaces(7), "Interaction of user and group IDs". They reach what belongs to the caller, and nothing else. A process with threads
// cannot enter such a namespace, so a child does, which shares the descriptors: what it opens takes the number of a copy of dir.
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

// openInChild opens name in the directory that fd is open at, and puts it in the place of fd.
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
		return unix.EACCES // there are no user namespaces: it stays as it is
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
	case failed, err == nil && status != 0: // the namespace gives no capabilities, or a filter has killed the child
		return unix.EACCES
	}
	return err
}

// mapCaller maps the caller to itself in the user namespace of a new process. A file that cannot be written is closed all the same, since
// the caller shares it; then the capabilities reach nothing.
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
