package watch

import (
	"errors"
	"path"
	"strings"

	"github.com/nsrun/nsrun/nsrun/hostrun"
	"golang.org/x/sys/unix"
)

// Bounds of a look. Anything beyond them is compared by its inode, size and times alone, and is not put back.
const (
	maxEntries  = 256     // of one row
	maxBytes    = 1 << 20 // of the files of one row
	maxGitDirs  = 64      // of submodules, and of worktrees
	maxIncludes = 8       // files that configurations include, and directories of hooks that they name
	maxLinks    = 32      // files that symlinks lead to
	maxLevels   = 4       // of directories in the name of a submodule
)

// item is one thing that makes the host run something: a file, or a setting in one.
type item struct {
	path string // below the root of the grant
	key  string // of a setting, or empty
}

// state is what is known of an item. Two equal values are taken for the same.
type state struct {
	value string
	words string // what to say if it is new or changed, where "new file" and "changed" do not fit
	why   string
}

// saved is what was at a path.
type saved struct {
	mode     uint32 // as stat(2) gives it
	uid, gid uint32
	data     []byte // of a file; the target of a symlink
	lost     string // why it cannot be put back; of a directory, why what is below it cannot
}

// look is what was found below one root.
type look struct {
	root   int
	source string // its path
	keep   bool   // contents, to put them back
	strict bool
	first  bool // kept is wanted
	items  map[item]state
	saved  map[string]saved
	listed map[string]names // all that was in a directory; with saved it says what was not there
	absent map[string]bool  // of directories that were not listed
	kept   []string         // files and directories that are to be read-only
	odd    []string         // what cannot be compared
	leads
	current hostrun.Row // that is looked at
	gitDirs int
}

// leads are files that lie elsewhere below the root and act on the host because something in the table names them. The second look takes them from the
// first: it compares the same files.
type leads struct {
	includes []string // by a configuration
	hooks    []string // directories, by core.hooksPath
	gitDir   string   // by a .git file
	bare     bool     // the root is a git directory
	links    []lead   // by a symlink
}

type lead struct{ path, why string }

func newLook(root int, source string) *look {
	return &look{root: root, source: source, items: map[item]state{}, saved: map[string]saved{}, listed: map[string]names{}, absent: map[string]bool{}}
}

// names are those of a directory, or nil if there are too many to list them at once: each is looked for by itself then.
type names map[string]bool

func (n names) may(name string) bool { return n == nil || n[name] }

// listBytes holds the names of most directories that a project's root is. One call fills it.
const listBytes = 8 << 10

// list returns the names in a directory that was just opened.
func (l *look) list(dir int, at string) names {
	all := list(dir)
	if all != nil && l.keep {
		l.listed[at] = all
	}
	return all
}

func list(dir int) names {
	var buf [listBytes]byte
	all := names{}
	n, err := unix.Getdents(dir, buf[:])
	if err != nil {
		return nil
	}
	_, _, found := unix.ParseDirent(buf[:n], -1, nil)
	for _, name := range found {
		all[name] = true
	}
	if n, err = unix.Getdents(dir, buf[:]); n != 0 || err != nil {
		return nil
	}
	return all
}

// openDir opens a directory in another one.
func openDir(dir int, name string) (int, error) {
	return retry(func() (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
}

func retry(open func() (int, error)) (fd int, err error) {
	for range 100 {
		if fd, err = open(); !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
	return fd, err
}

// single looks at one file, by the rows of the directory that it lies in.
func (l *look) single(name string) {
	rows := hostrun.Rows(hostrun.Root)
	if path.Base(l.source) == ".git" {
		rows = hostrun.Rows(hostrun.GitDir)
	}
	for _, row := range rows {
		if row.Path == name {
			l.row(l.root, nil, "", row)
		}
	}
}

// at looks at a path below the directory dir, whose own path is base, and calls found with the directory that holds its last name. It records the
// directories on the way.
func (l *look) at(dir int, in names, base, name string, found func(dir int, name, at string)) {
	first, rest, more := strings.Cut(name, "/")
	if !in.may(first) {
		return
	}
	at := path.Join(base, first)
	if !more {
		found(dir, first, at)
		return
	}
	fd, err := openDir(dir, first)
	if errors.Is(err, unix.ENOENT) {
		l.absent[at] = true
		return
	}
	if err != nil { // a file or a symlink in the place of a directory, or one that cannot be listed
		l.file(dir, first, at, "what lies in it acts on the host", false)
		return
	}
	defer unix.Close(fd)
	l.directory(fd, at)
	l.at(fd, nil, at, rest, found)
}

// directory records that there is one.
func (l *look) directory(fd int, at string) {
	if _, known := l.saved[at]; known || !l.keep {
		return
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil {
		l.saved[at] = saved{mode: st.Mode, uid: st.Uid, gid: st.Gid}
	}
}

// whole looks at everything in the root.
func (l *look) whole(first *leads) {
	if first != nil { // it has read the directory to the end
		_, _ = unix.Seek(l.root, 0, unix.SEEK_SET)
	}
	in := l.list(l.root, "")
	if in.may(".git") {
		l.git(first)
	}
	if l.bare = bare(l.root, in) || first != nil && first.bare; l.bare { // one that the command has broken counts, as it can be mended
		l.gitDir(l.root, in, "")
	}
	for _, row := range hostrun.Rows(hostrun.Root) {
		l.row(l.root, in, "", row)
	}
}

// row looks at one row of the table.
func (l *look) row(dir int, in names, base string, row hostrun.Row) {
	l.current = row
	l.at(dir, in, base, row.Path, func(dir int, name, at string) {
		switch row.Compared {
		case hostrun.File:
			l.file(dir, name, at, row.Why, false)
		case hostrun.Tree:
			l.tree(dir, name, at, row, false)
		case hostrun.Hooks:
			l.tree(dir, name, at, row, true)
		case hostrun.GitConfig:
			l.config(dir, name, at, row)
		case hostrun.CommonDir:
			l.commonDir(dir, name, at, row)
		case hostrun.Todo:
			l.todo(dir, name, at, row)
		}
		if l.first && (row.Mounted || l.strict && row.Base == hostrun.Root) {
			l.keepReadOnly(dir, name, at)
		}
	})
}

// keepReadOnly lists a place that can be mounted over itself: a symlink, or what is special, is not.
func (l *look) keepReadOnly(dir int, name, at string) {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return
	}
	if kind := st.Mode & unix.S_IFMT; kind == unix.S_IFREG || kind == unix.S_IFDIR {
		l.kept = append(l.kept, at)
	}
}
