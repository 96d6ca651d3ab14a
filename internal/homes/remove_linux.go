package homes

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// removeTree removes a directory and all that is in it, whatever modes a run has left there. It goes by descriptors and follows no link. However deep
// the tree is, two descriptors are enough: see empty.
func removeTree(parent int, name string) error {
	const tries = 3         // a process that is being killed may still write
	for try := 0; ; try++ { // most commands leave it empty
		err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
		if err == nil || !errors.Is(err, unix.ENOTEMPTY) || try == tries {
			return os.NewSyscallError("unlinkat", err)
		}
		if err := empty(parent, name); err != nil {
			return err
		}
	}
}

// empty removes what is in a directory. Each directory below it is moved up into it before it is emptied: a command can make a tree that is deeper than
// any limit on paths or descriptors.
func empty(parent int, name string) error {
	top, err := openDir(parent, name)
	if err != nil {
		return err
	}
	defer top.Close()
	dirs, err := unlinkAll(top)
	if err != nil {
		return err
	}
	moved, prefix := 0, SpareName() // which a command could not choose
	for len(dirs) > 0 {
		last := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		sub, err := openDir(int(top.Fd()), last)
		if err != nil {
			return err
		}
		below, err := unlinkAll(sub)
		for i := 0; i < len(below) && err == nil; i++ {
			to := fmt.Sprintf("%s-%d", prefix, moved)
			moved++
			dirs = append(dirs, to)
			err = move(sub, below[i], top, to)
		}
		sub.Close()
		if err != nil {
			return err
		}
		if err := unix.Unlinkat(int(top.Fd()), last, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOTEMPTY) { // removeTree tries again
			return os.NewSyscallError("unlinkat", err)
		}
	}
	return nil
}

// unlinkAll removes all entries of a directory but the directories among them, which it returns.
func unlinkAll(dir *os.File) (dirs []string, err error) {
	const batch = 1024
	for {
		names, err := dir.Readdirnames(batch)
		for _, name := range names {
			switch err := unix.Unlinkat(int(dir.Fd()), name, 0); {
			case errors.Is(err, unix.EISDIR):
				dirs = append(dirs, name)
			case err != nil && !errors.Is(err, unix.ENOENT):
				return nil, os.NewSyscallError("unlinkat", err)
			}
		}
		if errors.Is(err, io.EOF) || err == nil && len(names) == 0 {
			return dirs, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// move moves a directory. The kernel changes what ".." is in it, so its owner must be able to write to it (rename(2), EACCES).
func move(from *os.File, name string, to *os.File, as string) error {
	err := unix.Renameat(int(from.Fd()), name, int(to.Fd()), as)
	if errors.Is(err, unix.EACCES) {
		makeRemovable(int(from.Fd()), name)
		err = unix.Renameat(int(from.Fd()), name, int(to.Fd()), as)
	}
	return os.NewSyscallError("renameat", err)
}

// openDir opens a directory that is no link, and lets its owner list and empty it.
func openDir(parent int, name string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(parent, name, flags, 0)
	if errors.Is(err, unix.EACCES) {
		makeRemovable(parent, name)
		fd, err = unix.Openat(parent, name, flags, 0)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err == nil && st.Mode&0o700 != 0o700 {
		_ = unix.Fchmod(fd, 0o700) // what cannot be removed then says why
	}
	return os.NewFile(uintptr(fd), name), nil
}

// makeRemovable lets the owner list and empty a directory. A link is not followed: fchmodat2 came with Linux 6.6, so this goes by a
// descriptor.
func makeRemovable(parent int, name string) {
	fd, err := unix.Openat(parent, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return // it cannot be removed then, which says why
	}
	defer unix.Close(fd)
	_ = unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o700)
}
