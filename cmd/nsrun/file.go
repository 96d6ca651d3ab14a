package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/mounts"
	"golang.org/x/sys/unix"
)

// resultFD takes the number out of FD:n; it is -1 for the name of a file.
func resultFD(where string) (int, error) {
	number, ok := strings.CutPrefix(where, "FD:")
	if !ok {
		return -1, nil
	}
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 0 {
		return -1, fmt.Errorf("--result %s: write FD: and the number of an open descriptor", where)
	}
	return fd, nil
}

// openResult opens where the result goes, before the run: a file, made with mode 0600, or a descriptor that the caller passed.
func openResult(where string) (*os.File, error) {
	fd, err := resultFD(where)
	if err != nil {
		return nil, err
	}
	if fd >= 0 {
		mode, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		switch {
		case err != nil:
			return nil, fmt.Errorf("--result %s: the descriptor is not open; open it, as in %d>result.json", where, fd)
		case mode&unix.O_ACCMODE == unix.O_RDONLY || mode&unix.O_PATH != 0:
			return nil, fmt.Errorf("--result %s: the descriptor is not open for writing; open it as in %d>result.json", where, fd)
		}
		// A copy: 1 and 2 remain the command's.
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil, fmt.Errorf("--result %s: %w", where, err)
		}
		return os.NewFile(uintptr(own), where), nil
	}
	f, err := openIn(where)
	var planted *fault.Error
	switch {
	case errors.As(err, &planted):
		return nil, fmt.Errorf("--result: %w; %s", err, planted.Hint)
	case errors.Is(err, unix.ELOOP):
		return nil, fmt.Errorf("--result %s: is a symlink, and none is followed; name the file itself", where)
	case errors.Is(err, unix.ENXIO):
		return nil, fmt.Errorf("--result %s: nobody reads this FIFO; start its reader first, or pass a descriptor as FD:3", where)
	case err != nil:
		return nil, fmt.Errorf("--result: %w", err)
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		err = f.Truncate(0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("--result: %w", err)
	}
	return f, nil
}

// openIn opens a file for writing, or makes it. Neither it nor what a sandboxed program could have planted on the way may be a symlink.
func openIn(name string) (*os.File, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	dir, _, err := mounts.OpenDir(filepath.Dir(abs))
	var failed *os.PathError
	if errors.As(err, &failed) {
		err = &os.PathError{Op: "open", Path: name, Err: failed.Err}
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_NONBLOCK | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(int(dir.Fd()), filepath.Base(abs), flags, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// refusePrivilege refuses to run set-uid, set-gid or with file capabilities: nsrun needs none of them, and its caller could turn
// them against the host (CVE-2016-8659).
func refusePrivilege() error {
	if os.Getuid() != os.Geteuid() || os.Getgid() != os.Getegid() {
		return errors.New("nsrun must not be set-uid or set-gid; remove the bit: chmod ug-s")
	}
	if os.Geteuid() == 0 {
		return nil
	}
	if capabilities() != 0 {
		return errors.New("nsrun must not have capabilities; remove them: setcap -r, or start it without ambient ones")
	}
	return nil
}
