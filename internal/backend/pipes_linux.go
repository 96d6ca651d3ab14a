package backend

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

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
	s := pipeSearch{looks: mostLooks}
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
}

// search reads a tree's directories, those near its top first. os.Root keeps the search in the tree, even if a process changes the tree
// meanwhile.
func (s *pipeSearch) search(t Tree) error {
	fail := func(name string, err error) error {
		return &Error{Stage: "mount", Op: "look for FIFOs", Path: path.Join(t.Source, name), Err: err}
	}
	info, err := os.Stat(t.Source)
	if mounts.Absent(err) || err == nil && !info.IsDir() { // the mount reports the error
		return nil
	}
	var root *os.Root
	if err == nil {
		root, err = os.OpenRoot(t.Source)
	}
	if errors.Is(err, fs.ErrPermission) {
		s.pipes.Unseen = append(s.pipes.Unseen, t.Dest)
		return nil
	}
	if err != nil {
		return fail("", err)
	}
	defer root.Close()
	whole := true
	for dirs := []string{"."}; len(dirs) > 0; dirs = dirs[1:] {
		more, all, err := s.read(root, dirs[0], t)
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

// read reads one directory. It returns its subdirectories, and whether it has seen all entries.
func (s *pipeSearch) read(root *os.Root, dir string, t Tree) (dirs []string, all bool, err error) {
	if s.looks <= 0 {
		return nil, false, nil
	}
	f, err := root.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	switch {
	case mounts.Absent(err), errors.Is(err, unix.ELOOP): // it has changed since
		return nil, true, nil
	case errors.Is(err, fs.ErrPermission):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	defer f.Close()
	for s.looks > 0 {
		entries, err := f.ReadDir(min(256, s.looks))
		s.looks -= len(entries)
		for _, entry := range entries {
			name := path.Join(dir, entry.Name())
			switch {
			case t.Without[name]:
			case entry.IsDir():
				dirs = append(dirs, name)
			case entry.Type()&fs.ModeNamedPipe != 0:
				if len(s.pipes.Found) == mostPipes {
					return dirs, false, nil
				}
				s.pipes.Found = append(s.pipes.Found, plan.Pipe{Source: path.Join(t.Source, name), Dest: path.Join(t.Dest, name)})
			}
		}
		if errors.Is(err, io.EOF) {
			return dirs, true, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
	return dirs, false, nil
}
