package backend

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// Bounds of the search for FIFOs in one policy: entries that it reads, and FIFOs that it returns. They keep its time below about 3 ms.
const (
	mostLooks = 4096
	mostPipes = 64
)

// Tree is a directory of the host that is shown at Dest. Without names the paths in it that other mounts cover.
type Tree struct {
	Source, Dest string
	Without      map[string]bool
}

// FindPipes finds the FIFOs in directories. It looks at the host, and changes nothing.
func FindPipes(trees []Tree) (plan.Pipes, error) {
	s := pipeSearch{looks: mostLooks, buf: make([]byte, 32<<10)}
	for _, t := range trees {
		if err := s.search(t); err != nil {
			return s.pipes, err
		}
	}
	return s.pipes, nil
}

// pipeSearch is the state of a search: how many entries it may still read, and its result.
type pipeSearch struct {
	looks int
	pipes plan.Pipes
	buf   []byte // for entries
}

// search reads a tree's directories, those near its top first.
func (s *pipeSearch) search(t Tree) error {
	fail := func(name string, err error) error {
		return &Error{Stage: "mount", Op: "look for FIFOs", Path: path.Join(t.Source, name), Err: err}
	}
	top, err := openDir(unix.AT_FDCWD, t.Source, 0)
	switch {
	case mounts.Absent(err): // also a file; the mount reports the error
		return nil
	case errors.Is(err, fs.ErrPermission):
		s.pipes.Unseen = append(s.pipes.Unseen, t.Dest)
		return nil
	case err != nil:
		return fail("", err)
	}
	defer unix.Close(top)
	whole := true
	for dirs := []string{""}; len(dirs) > 0; dirs = dirs[1:] {
		more, all, err := s.readBelow(top, dirs[0], t)
		if err != nil {
			return fail(dirs[0], err)
		}
		dirs, whole = append(dirs, more...), whole && all
	}
	if !whole {
		s.pipes.Unseen = append(s.pipes.Unseen, t.Dest)
	}
	return nil
}

// openDir opens a directory.
func openDir(dir int, name string, flags int) (fd int, err error) {
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		fd, err = unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK|unix.O_CLOEXEC|flags, 0)
	}
	return fd, err
}

// openBelow opens the directory dir below top name by name. It follows no symlink, so the search stays in the tree even if a process
// changes the tree meanwhile.
func openBelow(top int, dir string) (int, error) {
	fd := -1
	for name := range strings.SplitSeq(dir, "/") {
		next, err := openDir(top, name, unix.O_NOFOLLOW)
		if fd >= 0 {
			unix.Close(fd)
		}
		if err != nil {
			return -1, err
		}
		fd, top = next, next
	}
	return fd, nil
}

// readBelow reads one directory below top, or top itself. It returns its subdirectories, and whether it has seen all entries.
func (s *pipeSearch) readBelow(top int, dir string, t Tree) (dirs []string, all bool, err error) {
	if s.looks <= 0 {
		return nil, false, nil
	}
	if dir == "" {
		return s.read(top, dir, t)
	}
	fd, err := openBelow(top, dir)
	switch {
	case mounts.Absent(err): // it has changed since
		return nil, true, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	defer unix.Close(fd)
	return s.read(fd, dir, t)
}

// read reads the directory dir, which fd has open.
func (s *pipeSearch) read(fd int, dir string, t Tree) (dirs []string, all bool, err error) {
	for {
		n, err := unix.Getdents(fd, s.buf)
		if n <= 0 || err != nil {
			return dirs, err == nil, err
		}
		for rest := s.buf[:n]; len(rest) > 0; {
			var e dirEntry
			if e, rest = nextEntry(rest); e.name == "." || e.name == ".." {
				continue
			}
			name := path.Join(dir, e.name)
			switch kind := e.kind(fd); {
			case t.Without[name]:
			case kind == unix.DT_DIR:
				dirs = append(dirs, name)
			case kind == unix.DT_FIFO && len(s.pipes.Found) == mostPipes:
				return dirs, false, nil
			case kind == unix.DT_FIFO:
				s.pipes.Found = append(s.pipes.Found, plan.Pipe{Source: path.Join(t.Source, name), Dest: path.Join(t.Dest, name)})
			}
			if s.looks--; s.looks == 0 {
				return dirs, false, nil
			}
		}
	}
}

// dirEntry is a name in a directory, with its type as in d_type of getdents64(2).
type dirEntry struct {
	name string
	typ  uint8
}

// nextEntry decodes the first entry in buf, and returns the rest of buf. [os.File.ReadDir] would call lstat(2) for each name.
func nextEntry(buf []byte) (dirEntry, []byte) {
	name, kind, rest := sys.NextEntry(buf)
	return dirEntry{string(name), kind}, rest
}

// kind returns the entry's type. A file system that does not report types is asked for it.
func (e dirEntry) kind(dir int) uint8 {
	var st unix.Stat_t
	if e.typ != unix.DT_UNKNOWN || unix.Fstatat(dir, e.name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return e.typ
	}
	return uint8(st.Mode & unix.S_IFMT >> 12) // IFTODT of dirent.h
}
