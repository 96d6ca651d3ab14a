package mounts

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// Stat describes what is at a path of the host.
type Stat struct {
	Path   string   // the path with every symlink resolved but one at the end; absolute and clean
	Mode   uint32   // file type and permission bits, as stat(2) gives them
	Rdev   uint64   // the device number of a node
	Target string   // of a symlink: its target
	Magic  bool     // a procfs link that the kernel does not follow by its Target: /proc/PID/cwd, root, exe, fd/N
	Links  []string // the symlinks, on the way or at the end, that the caller may replace, and that an earlier run could have planted
}

// Type returns the file type bits.
func (l Stat) Type() uint32 { return l.Mode & unix.S_IFMT }

// Resolver answers lowering's questions about the host. The error for a path that does not exist is [os.ErrNotExist].
type Resolver interface {
	// Stat resolves path. It does not follow a symlink at the end.
	Stat(path string) (Stat, error)
	// Mountinfo returns the caller's mounts.
	Mountinfo() ([]Mount, error)
}

// Host is the [Resolver] that asks the running kernel. The zero value is ready to use; call Close afterwards. It keeps a descriptor of the
// directory that it looked into last, because paths often lie side by side.
type Host struct {
	// Mapped is set if the tree is built in a user namespace that maps only the caller. Then Stat also reaches what the capabilities of
	// such a namespace reach.
	Mapped bool

	dir string // path of fd, free of symlinks; empty if there is no fd
	fd  int
}

// Absent reports whether an error of a [Resolver] means that nothing is there. No other error is a reason to leave something out.
func Absent(err error) bool { return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

const maxLinks = 40 // as the kernel's MAXSYMLINKS

// Close closes the descriptor that is kept.
func (h *Host) Close() {
	if h.dir != "" {
		unix.Close(h.fd)
		h.dir = ""
	}
}

// Stat resolves path through descriptors: one openat2 for a directory without symlinks on the way, and one fstatat for each name in it. Any
// other path is walked name by name.
func (h *Host) Stat(name string) (Stat, error) {
	if strings.Contains(name+"/", "/../") {
		return h.walk(name) // ".." after a symlink is the parent of its target, so the path cannot be cleaned
	}
	name = path.Clean(name)
	err := h.enter(path.Dir(name))
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstatat(h.fd, path.Base(name), &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		return h.walk(name) // EPERM: the seccomp filter of a container refuses openat2
	case errors.Is(err, unix.EACCES) && h.Mapped:
		return h.walk(name)
	case err != nil:
		return Stat{}, &os.PathError{Op: "look at", Path: name, Err: err}
	}
	stat := Stat{Path: name, Mode: st.Mode, Rdev: st.Rdev}
	if stat.Type() == unix.S_IFLNK {
		return h.walk(name)
	}
	return stat, nil
}

// enter opens the directory dir, unless it is the one that is kept.
func (h *Host) enter(dir string) error {
	if h.dir == dir {
		return nil
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return err
	}
	h.Close()
	h.dir, h.fd = dir, fd
	return nil
}

// walker resolves a path name by name. It holds a descriptor of its current directory.
type walker struct {
	dir   int
	at    string
	rest  []string
	links []string
	left  int // symlinks it may still follow
	// mapped is [Host.Mapped].
	mapped bool
}

func (h *Host) walk(name string) (Stat, error) {
	w := walker{dir: -1, rest: strings.Split(name, "/"), left: maxLinks, mapped: h.Mapped}
	defer func() { unix.Close(w.dir) }()
	stat, err := w.walk()
	if err != nil {
		return stat, &os.PathError{Op: "look at", Path: name, Err: err}
	}
	stat.Links = w.links
	return stat, nil
}

func (w *walker) walk() (Stat, error) {
	if err := w.enter(unix.AT_FDCWD, "/", "/"); err != nil {
		return Stat{}, err
	}
	for {
		name := w.rest[0]
		w.rest = w.rest[1:]
		last := len(w.rest) == 0
		if name == "" || name == "." || name == ".." {
			// w.at holds no symlinks, so .. is its parent.
			if name == ".." {
				if err := w.enter(w.dir, "..", path.Dir(w.at)); err != nil {
					return Stat{}, err
				}
			}
			if last {
				return examine(w.dir, w.at)
			}
			continue
		}
		stat, err := w.next(name)
		if err != nil || last {
			return stat, err
		}
	}
}

// next resolves one name: it enters a directory, or prepends the target of a symlink, unless the symlink is the last name.
func (w *walker) next(name string) (Stat, error) {
	fd, err := w.open(w.dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		return Stat{}, err
	}
	stat, err := examine(fd, path.Join(w.at, name))
	if err != nil {
		unix.Close(fd)
		return stat, err
	}
	if stat.Type() != unix.S_IFLNK {
		unix.Close(w.dir)
		w.dir, w.at = fd, stat.Path
		return stat, nil
	}
	stat.Magic, err = w.magic(fd)
	if w.replaceable(fd) {
		w.links = append(w.links, stat.Path)
	}
	unix.Close(fd)
	if err != nil || len(w.rest) == 0 {
		return stat, err
	}
	if w.left--; w.left < 0 {
		return Stat{}, unix.ELOOP
	}
	w.rest = append(strings.Split(stat.Target, "/"), w.rest...)
	if path.IsAbs(stat.Target) {
		return stat, w.enter(unix.AT_FDCWD, "/", "/")
	}
	return stat, nil
}

// enter makes the directory name below dir the current one. Its path is at.
func (w *walker) enter(dir int, name, at string) error {
	fd, err := w.open(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	if w.dir >= 0 {
		unix.Close(w.dir)
	}
	w.dir, w.at = fd, at
	return nil
}

// open opens name in directory dir, if need be with the capabilities of a user namespace (openMapped).
func (w *walker) open(dir int, name string, flags int) (int, error) {
	fd, err := unix.Openat(dir, name, flags, 0)
	if errors.Is(err, unix.EACCES) && w.mapped {
		return openMapped(dir, name, uint64(flags))
	}
	return fd, err
}

// rootsOwn are the directories whose symlinks belong to the system's layout. Sandboxes that root started may have written anywhere else.
var rootsOwn = []string{"/", "/etc", "/run", "/usr", "/usr/lib", "/usr/local", "/var"}

// replaceable reports whether a sandbox that the caller started could have made the symlink link in the walker's current directory. That
// holds if the caller can write to the directory, or owns the directory and could make it writable, or owns the symlink. Root can write
// everywhere, so for root only symlinks in rootsOwn are trusted.
func (w *walker) replaceable(link int) bool {
	if os.Geteuid() == 0 {
		return !slices.Contains(rootsOwn, w.at)
	}
	var dir, own unix.Stat_t
	if unix.Fstat(w.dir, &dir) != nil || unix.Fstat(link, &own) != nil {
		return true
	}
	uid := uint32(os.Geteuid())
	if dir.Uid == uid || own.Uid == uid {
		return true
	}
	err := unix.Faccessat(w.dir, ".", unix.W_OK, unix.AT_EACCESS)
	refused := errors.Is(err, unix.EACCES) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.EPERM) // EPERM: immutable (chattr(1))
	return !refused                                                                                    // any other error proves nothing
}

// magic reports whether the symlink link, in the walker's current directory, is a procfs link that the kernel resolves itself. The links in
// the root of a procfs, such as self and mounts, are plain symlinks.
func (w *walker) magic(link int) (bool, error) {
	const procRoot = 1 // PROC_ROOT_INO
	var fs unix.Statfs_t
	if err := unix.Fstatfs(link, &fs); err != nil || fs.Type != unix.PROC_SUPER_MAGIC {
		return false, err
	}
	var dir unix.Stat_t
	err := unix.Fstat(w.dir, &dir)
	return dir.Ino != procRoot, err
}

// examine returns the type, mode and target of what fd has open.
func examine(fd int, name string) (Stat, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Stat{}, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	stat := Stat{Path: name, Mode: st.Mode, Rdev: st.Rdev}
	if stat.Type() == unix.S_IFLNK {
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(fd, "", buf)
		if err != nil {
			return Stat{}, &os.PathError{Op: "readlink", Path: name, Err: err}
		}
		stat.Target = string(buf[:n])
	}
	return stat, nil
}

// Mountinfo reads /proc/self/mountinfo.
func (*Host) Mountinfo() ([]Mount, error) {
	data, err := sys.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("mounts of the host: %w", err)
	}
	return ParseMountinfo(data)
}

// resolve is resolver.Stat, but follows a symlink at the end of path too.
func resolve(resolver Resolver, name string) (Stat, error) {
	var links []string
	for range maxLinks {
		stat, err := resolver.Stat(name)
		if err != nil {
			return stat, err
		}
		links = append(links, stat.Links...)
		if stat.Type() != unix.S_IFLNK {
			stat.Links = links
			return stat, nil
		}
		if name = stat.Target; !path.IsAbs(name) {
			name = path.Dir(stat.Path) + "/" + name // not path.Join, which would drop a symlink before ".."
		}
	}
	return Stat{}, &os.PathError{Op: "look at", Path: name, Err: unix.ELOOP}
}
