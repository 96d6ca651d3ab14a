package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
	"golang.org/x/sys/unix"
)

// Access is what a host path is wanted for.
type Access int

// The accesses.
const (
	ForReading Access = iota // it must exist
	ForWriting               // it must be writable inside; it need not exist, and neither need the directories on the way to it
)

// HostPath is a path inside as the host has it.
type HostPath struct {
	// Path is absolute, and without a symlink when it was resolved.
	Path string

	root, below string // what was granted, and the path below it; "." for itself
	file        bool   // what was granted is not a directory
	access      Access
}

// Open is that of nsrun.HostPath.
func (h *HostPath) Open(flag int, mode os.FileMode) (*os.File, error) {
	const writes = os.O_WRONLY | os.O_RDWR | os.O_CREATE | os.O_TRUNC | os.O_APPEND
	if h.access != ForWriting && flag&writes != 0 {
		return nil, &os.PathError{Op: "open", Path: h.Path, Err: errors.New("it was resolved for reading")}
	}
	how := &unix.OpenHow{Flags: uint64(flag|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY) &^ unix.O_TRUNC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	if flag&os.O_CREATE != 0 {
		how.Mode = uint64(mode.Perm())
	}
	root, name := unix.AT_FDCWD, h.root
	if !h.file {
		fd, err := openat2(unix.AT_FDCWD, h.root, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_DIRECTORY, Resolve: how.Resolve})
		if err != nil {
			return nil, err
		}
		defer unix.Close(fd)
		root, name = fd, h.below
		how.Resolve |= unix.RESOLVE_BENEATH
	}
	fd, err := openat2(root, name, how)
	if err != nil {
		return nil, err
	}
	return h.plain(fd, flag)
}

// plain makes a file of a descriptor, if it is one that can be waited for.
func (h *HostPath) plain(fd, flag int) (*os.File, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	if kind := st.Mode & unix.S_IFMT; err == nil && kind != unix.S_IFREG && kind != unix.S_IFDIR {
		err = errors.New("not a regular file, nor a directory")
	}
	if err == nil && flag&os.O_TRUNC != 0 {
		err = unix.Ftruncate(fd, 0)
	}
	if err == nil {
		err = unix.SetNonblock(fd, false)
	}
	if err != nil {
		unix.Close(fd)
		return nil, &os.PathError{Op: "open", Path: h.Path, Err: err}
	}
	return os.NewFile(uintptr(fd), h.Path), nil
}

// ResolvePath is that of nsrun.Session.
func (s *Session) ResolvePath(name string, access Access) (*HostPath, error) {
	sandbox, err := s.ready(context.Background())
	if err != nil {
		return nil, err
	}
	refuse := func(text, fix string, err error) (*HostPath, error) {
		return nil, &policy.Fault{Field: "path", Text: fmt.Sprintf("%q %s", name, text), Fix: fix, Err: err}
	}
	if name == "" || strings.Contains(name, "\x00") {
		return refuse("is empty, or holds a NUL byte", "give a path inside", nil)
	}
	inside := name
	if !path.IsAbs(inside) {
		inside = s.plan.Dir + "/" + inside
	}
	inside = path.Clean(inside)
	grant, ok := sandbox.Source(inside)
	if !ok {
		return refuse("is not on the host: only the sandbox has it", "use a place that is granted, such as the workspace", nil)
	}
	if access == ForWriting && grant.ReadOnly {
		return refuse("is read-only inside", "grant it for writing", nil)
	}
	h := &HostPath{root: grant.Source, file: grant.File, access: access}
	h.below = "." + strings.TrimPrefix(inside, grant.Dest)
	real, err := h.resolve(access == ForWriting)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse("does not exist", "make it first, or ask for it for writing", err)
	case err != nil:
		return refuse(fmt.Sprintf("cannot be resolved: %v", err), "use a path without links that lead out of what is granted", err)
	}
	h.Path = real
	if real != h.root {
		h.below = strings.TrimPrefix(real, strings.TrimSuffix(h.root, "/")+"/")
	}
	// What a link has led to may be covered inside by something else: a mask, or a directory that is read-only there.
	again, ok := sandbox.Source(path.Clean(grant.Dest + "/" + strings.TrimPrefix(real, h.root)))
	if !ok || again != grant {
		return refuse("leads to a place that is something else inside", "use a path without links", nil)
	}
	return h, nil
}

// resolve returns where the path really is, below what was granted. With create its last names need not be there.
func (h *HostPath) resolve(create bool) (string, error) {
	if h.file && h.below != "." {
		return "", unix.ENOTDIR
	}
	fd, err := openat2(unix.AT_FDCWD, h.root, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
	if err != nil {
		return "", err
	}
	root := os.NewFile(uintptr(fd), h.root)
	defer root.Close()
	if h.file {
		return h.root, nil
	}
	fd, err = beneath(root, h.below, 0)
	there, last := h.below, ""
	for errors.Is(err, fs.ErrNotExist) && create && there != "." {
		if link, e := beneath(root, there, unix.O_NOFOLLOW); e == nil {
			unix.Close(link)
			return "", errors.New("there is a link to nothing")
		}
		there, last = path.Dir(there), path.Join(path.Base(there), last)
		fd, err = beneath(root, there, unix.O_DIRECTORY)
	}
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return "", err
	}
	if real = path.Join(real, last); !policy.Inside(real, h.root) {
		return "", fmt.Errorf("it was moved to %s meanwhile", real)
	}
	return real, nil
}

// beneath opens a name below root, as a place alone, following the links that stay there.
func beneath(root *os.File, name string, flags uint64) (int, error) {
	return openat2(int(root.Fd()), name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS})
}

// openat2 is openat2(2), Linux 5.6.
func openat2(dir int, name string, how *unix.OpenHow) (int, error) {
	for tries := 0; ; tries++ {
		fd, err := unix.Openat2(dir, name, how)
		if (errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)) && tries < 100 { // something was renamed meanwhile
			continue
		}
		if err != nil {
			return -1, &os.PathError{Op: "openat2", Path: name, Err: err}
		}
		return fd, nil
	}
}
