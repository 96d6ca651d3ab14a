package mounts

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
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

// Host is the [Resolver] that asks the running kernel. The zero value is ready to use; call Close afterwards. It keeps descriptors of some
// directories that it has looked into, because paths often lie side by side.
type Host struct {
	// Mapped is set if the tree is built in a user namespace that maps only the caller. Then Stat also reaches what the capabilities of
	// such a namespace reach.
	Mapped bool

	dirs []directory // the one opened first comes first
}

// directory is one that Host has open.
type directory struct {
	path string // free of symlinks
	fd   int

	asked, replaceable, magic bool // of a symlink in it; known if asked is set
}

// maxDirs is how many directories a Host keeps open.
const maxDirs = 4

// Absent reports whether an error of a [Resolver] means that nothing is there. No other error is a reason to leave something out.
func Absent(err error) bool { return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

const maxLinks = 40 // as the kernel's MAXSYMLINKS

// Close closes the descriptors that are kept.
func (h *Host) Close() {
	for _, d := range h.dirs {
		unix.Close(d.fd)
	}
	h.dirs = h.dirs[:0]
}

// Stat resolves path through descriptors: one openat2 for a directory without symlinks on the way, and one fstatat for each name in it. Any
// other path is walked name by name.
func (h *Host) Stat(name string) (Stat, error) {
	if strings.Contains(name+"/", "/../") {
		return h.walk(name) // ".." after a symlink is the parent of its target, so the path cannot be cleaned
	}
	name = path.Clean(name)
	dir, err := h.enter(path.Dir(name))
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstatat(dir.fd, path.Base(name), &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		return h.walk(name) // EPERM: the seccomp filter of a container refuses openat2
	case errors.Is(err, unix.EACCES) && h.Mapped:
		return h.walk(name)
	case err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return dir.link(name, &st)
	case err != nil:
		return Stat{}, &os.PathError{Op: "look at", Path: name, Err: err}
	}
	return Stat{Path: name, Mode: st.Mode, Rdev: st.Rdev}, nil
}

// link describes a symlink in the directory d.
func (d *directory) link(name string, st *unix.Stat_t) (stat Stat, err error) {
	stat = Stat{Path: name, Mode: st.Mode, Rdev: st.Rdev}
	if stat.Target, err = readlink(d.fd, path.Base(name)); err == nil && !d.asked {
		d.magic, err = hasMagic(d.fd)
		d.replaceable, d.asked = replaceable(d.fd, d.path), err == nil
	}
	if err != nil {
		return Stat{}, &os.PathError{Op: "look at", Path: name, Err: err}
	}
	stat.Magic = d.magic
	if d.magic && isOwn(d.path, path.Base(name)) {
		return Stat{}, &os.PathError{Op: "look at", Path: name, Err: ownError{}}
	}
	if d.replaceable || own(st.Uid) {
		stat.Links = []string{name}
	}
	return stat, nil
}

// enter opens a directory, unless it is open.
func (h *Host) enter(dir string) (*directory, error) {
	for i := range h.dirs {
		if h.dirs[i].path == dir {
			return &h.dirs[i], nil
		}
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return nil, err
	}
	if len(h.dirs) == maxDirs {
		unix.Close(h.dirs[0].fd)
		h.dirs = append(h.dirs[:0], h.dirs[1:]...)
	}
	h.dirs = append(h.dirs, directory{path: dir, fd: fd})
	return &h.dirs[len(h.dirs)-1], nil
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
	stat.Magic, err = hasMagic(w.dir)
	if err == nil && stat.Magic && isOwn(w.at, name) {
		err = &os.PathError{Op: "look at", Path: stat.Path, Err: ownError{}}
	}
	if owned(fd) || replaceable(w.dir, w.at) {
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

// replaceable reports whether a sandbox that the caller started could have made a symlink in the directory that dir has open. That holds if
// the caller can write to it, or owns it and could make it writable; and anywhere, if the caller owns the symlink. Root can write
// everywhere, so for root only symlinks in rootsOwn are trusted.
func replaceable(dir int, path string) bool {
	if os.Geteuid() == 0 {
		return !slices.Contains(rootsOwn, path)
	}
	if owned(dir) {
		return true
	}
	err := unix.Faccessat(dir, ".", unix.W_OK, unix.AT_EACCESS)
	refused := errors.Is(err, unix.EACCES) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.EPERM) // EPERM: immutable (chattr(1))
	return !refused                                                                                    // any other error proves nothing
}

// owned reports whether the caller owns what fd has open, or that cannot be known. Root's ownership means nothing: see replaceable.
func owned(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) != nil || own(st.Uid)
}

func own(uid uint32) bool { return uid != 0 && uid == uint32(os.Geteuid()) }

// hasMagic reports whether the symlinks in the directory that dir has open are procfs links that the kernel resolves itself. Those in the
// root of a procfs, such as self and mounts, are plain symlinks.
func hasMagic(dir int) (bool, error) {
	const procRoot = 1 // PROC_ROOT_INO
	var fs unix.Statfs_t
	if err := unix.Fstatfs(dir, &fs); err != nil || fs.Type != unix.PROC_SUPER_MAGIC {
		return false, err
	}
	var st unix.Stat_t
	err := unix.Fstat(dir, &st)
	return st.Ino != procRoot, err
}

// ownError is the error for a link that isOwn is true of: for the caller there is nothing.
type ownError struct{}

func (ownError) Error() string { return "a descriptor of this process's own" }
func (ownError) Unwrap() error { return unix.ENOENT }

// isOwn reports whether the link name in a directory of procfs is a descriptor of this process that is not its caller's. Its own ones are close-on-exec, and
// those of its caller, which has executed it, are not. While early calls are made it has the host's root open, and a walk opens directories: a caller that names a
// closed descriptor would get one of these.
func isOwn(dir, name string) bool {
	fd, err := strconv.Atoi(name)
	process, ok := strings.CutSuffix(dir, "/fd") // PROCFS/PID/fd, or PROCFS/PID/task/TID/fd
	if err != nil || !ok {
		return false
	}
	if tasks := path.Dir(process); path.Base(tasks) == "task" {
		process = path.Dir(tasks)
	}
	self, err := os.Readlink(path.Dir(process) + "/self")
	if err != nil || self != path.Base(process) {
		return false
	}
	return !sys.Inherited(fd)
}

// examine returns the type, mode and target of what fd has open.
func examine(fd int, name string) (Stat, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Stat{}, &os.PathError{Op: "stat", Path: name, Err: err}
	}
	stat := Stat{Path: name, Mode: st.Mode, Rdev: st.Rdev}
	if stat.Type() == unix.S_IFLNK {
		target, err := readlink(fd, "")
		if err != nil {
			return Stat{}, &os.PathError{Op: "readlink", Path: name, Err: err}
		}
		stat.Target = target
	}
	return stat, nil
}

// readlink returns the target of a symlink in a directory, or of the symlink that dir itself has open.
func readlink(dir int, name string) (string, error) {
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(dir, name, buf[:])
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
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
