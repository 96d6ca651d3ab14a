package mounts

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nsrun/nsrun/internal/fault"
	"golang.org/x/sys/unix"
)

// planted returns the error for a path through a symlink that a sandboxed program could have planted, see [Stat].
func planted(name, link, real string) error {
	return &fault.Error{Err: fmt.Errorf("%s is reached through the symlink %s, which a sandboxed program could have planted", name, link),
		Hint: "name " + real + " instead, if that is what you mean"}
}

// OpenDir opens a directory with O_PATH and returns its path without symlinks. It is for a directory in which this process makes or writes
// files on behalf of its caller. A path through a symlink that an earlier sandbox could have planted is a [*Error] with a hint.
func OpenDir(name string) (*os.File, string, error) {
	var host Host
	defer host.Close()
	stat, err := resolve(&host, name)
	switch {
	case err != nil:
		return nil, "", err
	case len(stat.Links) > 0:
		return nil, "", planted(name, stat.Links[0], stat.Path)
	}
	fd, err := OpenExact(stat.Path)
	if err != nil {
		return nil, "", &os.PathError{Op: "open", Path: stat.Path, Err: err}
	}
	return os.NewFile(uintptr(fd), stat.Path), stat.Path, nil
}

// OpenExact opens an absolute path with O_PATH. A symlink on the way or at the end is an error.
func OpenExact(name string) (int, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // before Linux 5.6, or refused by a container's filter
		return openNames(name)
	}
	return fd, err
}

// openNames opens an absolute path name by name. It opens a symlink itself (O_NOFOLLOW): the next name then fails with ENOTDIR, and at the
// end of the path the error is ELOOP.
func openNames(name string) (int, error) {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for part := range strings.SplitSeq(name, "/") {
		if err != nil || part == "" {
			continue
		}
		dir := fd
		fd, err = unix.Openat(dir, part, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		unix.Close(dir)
	}
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = unix.ELOOP
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
