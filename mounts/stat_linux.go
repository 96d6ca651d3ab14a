package mounts

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Stat is what stands at a path of the host.
type Stat struct {
	Path   string   // the path with every symlink resolved but a last one; absolute and clean
	Mode   uint32   // file type and permission bits, as stat(2) gives them
	Rdev   uint64   // the device number of a node
	Target string   // where it leads, if it is itself a symlink
	Magic  bool     // it is a link of procfs that the kernel follows by other means than Target: /proc/PID/cwd, root, exe, fd/N
	Links  []string // the symlinks, passed on the way or last, that the caller could replace: an earlier run could have planted them
}

// Type returns the file type bits.
func (l Stat) Type() uint32 { return l.Mode & unix.S_IFMT }

// Resolver answers what lowering asks about the host. A path that does not exist is an error that is [os.ErrNotExist].
type Resolver interface {
	// Stat resolves path; a symlink at its end is returned as such.
	Stat(path string) (Stat, error)
	// Mountinfo returns the caller's mounts.
	Mountinfo() ([]Mount, error)
}

// Host is the Looker that asks the running kernel. The zero value is ready to use; Close it when done. It keeps a descriptor of the
// directory it looked into last, since what is looked at tends to lie side by side.
type Host struct {
	// Mapped says that the tree is built by a process whose user namespace maps the caller: what is looked at is what the capabilities of such
	// a namespace reach, beside what the caller itself may look at.
	Mapped bool

	dir string // of fd, free of symlinks; empty for none
	fd  int
}

// Absent reports whether an error of a [Resolver] says that nothing is there. No other one is a reason to leave something out.
func Absent(err error) bool { return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

const maxLinks = 40 // as the kernel's MAXSYMLINKS

// Close gives up the directory that is kept.
func (h *Host) Close() {
	if h.dir != "" {
		unix.Close(h.fd)
		h.dir = ""
	}
}

// Stat resolves path by descriptors: one openat2 for a directory that is reached without symlinks, one fstatat for what is in it.
func (h *Host) Stat(name string) (Stat, error) {
	if strings.Contains(name+"/", "/../") {
		return h.walk(name) // what is above a symlink is above what it leads to
	}
	name = path.Clean(name)
	err := h.enter(path.Dir(name))
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstatat(h.fd, path.Base(name), &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		return h.walk(name) // EPERM: the seccomp filter of a container that does not know openat2
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

// walker resolves a path name by name, holding a descriptor of the directory it stands in.
type walker struct {
	dir   int
	at    string
	rest  []string
	links []string
	left  int // symlinks it will still follow
	// mapped is that of [Host].
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

// next takes one name: into a directory, or through a symlink that is not the last name.
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

// enter moves to the directory name below dir, whose path is at.
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

func (w *walker) open(dir int, name string, flags int) (int, error) {
	fd, err := unix.Openat(dir, name, flags, 0)
	if errors.Is(err, unix.EACCES) && w.mapped {
		return openMapped(dir, name, uint64(flags))
	}
	return fd, err
}

// rootsOwn are the directories whose symlinks are the system's layout. Elsewhere root's own sandboxes may have been.
var rootsOwn = []string{"/", "/etc", "/run", "/usr", "/usr/lib", "/usr/local", "/var"}

// replaceable reports whether the symlink link, in the directory that the walker stands in, may be the work of a sandbox that the
// caller started: the directory can be written to, or belongs to the caller, who can take the right to write away again, or the link
// itself is the caller's. Root owns too much for that to tell; for it only the system's own directories count.
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
	refused := errors.Is(err, unix.EACCES) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.EPERM) // EPERM: it is immutable (chattr(1))
	return !refused                                                                                    // any other error says nothing
}

// magic reports whether the symlink link, in the directory that the walker stands in, is one of procfs, but for the plain ones in its root.
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
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("mounts of the host: %w", err)
	}
	return ParseMountinfo(data)
}

// resolve follows symlinks at the end of path too.
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
			name = path.Dir(stat.Path) + "/" + name // not path.Join: .. may follow a symlink
		}
	}
	return Stat{}, &os.PathError{Op: "look at", Path: name, Err: unix.ELOOP}
}
