package stages

import (
	"errors"
	"os"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/landlock"
	"golang.org/x/sys/unix"
)

// spreading grants a directory above something that is covered: each other entry by itself, because a Landlock rule for a directory applies to all
// below it. Directories on the way to a cover can be listed. It decides about what it has open, and allocates nothing for an entry: see AddLater.
type spreading struct {
	covered []string
	public  bool // what not everybody may read is granted to nobody
	// grant is called for each rule. fd is open at what it is for. The rule of an entry has the directory's path, and name is not nil.
	grant  func(fd int, name []byte, rule landlock.PathRule) error
	bufs   [][]byte // for the names, by level
	levels int
}

// reserve makes room for the names in a directory, which is level 0, and in those on the way to what is covered: no others are listed.
func (s *spreading) reserve(dir string, covered []string) {
	for _, c := range covered {
		for levels := strings.Count(c, "/") - strings.Count(strings.TrimSuffix(dir, "/"), "/"); len(s.bufs) < levels; {
			s.bufs = append(s.bufs, make([]byte, 2<<10))
		}
	}
}

// here is the name of the directory that is open, with its NUL.
var here = [2]byte{'.'}

// directory grants what is in the directory that is at a path from the one that dir has open.
func (s *spreading) directory(dir int, from []byte, rule landlock.PathRule) error {
	failed := func(op string, err error) error { return &os.PathError{Op: op, Path: rule.Path, Err: err} }
	dir, err := sys.OpenEntry(dir, from, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if rule.Optional && errors.Is(err, unix.ENOENT) {
		return nil
	} else if err != nil {
		return failed("open", err)
	}
	defer unix.Close(dir)
	listing := landlock.PathRule{Path: rule.Path, Access: rule.Access & landlock.ReadDir, Optional: rule.Optional, Exact: true}
	if err := s.grant(dir, nil, listing); err != nil {
		return err
	}
	buf := s.bufs[s.levels]
	s.levels++
	defer func() { s.levels-- }()
	rule.Optional = true // of an entry: it may disappear before it is open
	for {
		n, err := unix.Getdents(dir, buf)
		if err != nil {
			return failed("list", err)
		}
		if n == 0 {
			return nil
		}
		for rest := buf[:n]; len(rest) > 0; {
			var name []byte
			name, _, rest = sys.NextEntry(rest)
			if err := s.entry(dir, name, rule); err != nil {
				return err
			}
		}
	}
}

// entry grants an entry of a directory that is open, or what is in it.
func (s *spreading) entry(dir int, name []byte, rule landlock.PathRule) error {
	failed := func(op string, err error) error { return &os.PathError{Op: op, Path: named(name, rule).Path, Err: err} }
	covered, above := s.covers(rule.Path, name)
	if covered || string(name) == "." || string(name) == ".." {
		return nil
	}
	fd, err := sys.OpenEntry(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if errors.Is(err, unix.ENOENT) { // it is gone meanwhile
		return nil
	} else if err != nil {
		return failed("open", err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return failed("stat", err)
	}
	kind := st.Mode & unix.S_IFMT
	if kind == unix.S_IFLNK || s.public && !public(st.Mode) { // the target of a link has a rule of its own, or none
		return nil
	}
	if rule.File = kind != unix.S_IFDIR; rule.File || above == "" {
		return s.grant(fd, name, rule)
	}
	rule.Path = above
	return s.directory(fd, here[:1], rule)
}

// covers reports whether an entry of a directory is covered. If something below it is, above is its path.
func (s *spreading) covers(dir string, name []byte) (covered bool, above string) {
	dir = strings.TrimSuffix(dir, "/")
	for _, c := range s.covered {
		end := len(dir) + 1 + len(name)
		// The first byte of a name comes first, as it decides for most of them.
		if len(c) < end || c[len(dir)+1] != name[0] || c[:len(dir)] != dir || c[len(dir)] != '/' || c[len(dir)+1:end] != string(name) {
			continue
		}
		if covered = covered || len(c) == end; len(c) > end && c[end] == '/' {
			above = c[:end]
		}
	}
	return covered, above
}

// public reports whether everybody may read a file of this mode, or list and enter a directory.
func public(mode uint32) bool {
	want := uint32(unix.S_IROTH)
	if mode&unix.S_IFMT == unix.S_IFDIR {
		want |= unix.S_IXOTH
	}
	return mode&want == want
}
