package watch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/hostrun"
	"golang.org/x/sys/unix"
)

// Bounds of a look. What is beyond them is compared by its inode, size and times alone, and is not put back.
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
	items  map[item]state
	saved  map[string]saved
	listed map[string]names // all that was in a directory; with saved it says what was not there
	absent map[string]bool  // of directories that were not listed
	kept   []string         // files and directories that are to be read-only
	odd    []string         // what cannot be compared
	leads
	row0    hostrun.Row // that is looked at
	gitDirs int
}

// leads are files that lie elsewhere below the root and act on the host because something in the table names them. The second look takes them from the
// first: it compares the same files.
type leads struct {
	includes []string // by a configuration
	hooks    []string // directories, by core.hooksPath
	gitDir   string   // by a .git file
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
	_, _ = unix.Seek(l.root, 0, unix.SEEK_SET) // the second look reads it again
	in := l.list(l.root, "")
	if in.may(".git") {
		l.git(first)
	}
	if bare(l.root, in) {
		l.gitDir(l.root, in, "")
	}
	for _, row := range hostrun.Rows(hostrun.Root) {
		l.row(l.root, in, "", row)
	}
}

// bare reports whether git takes a directory itself for a git directory: see is_git_directory in git's setup.c.
func bare(dir int, in names) bool {
	if in != nil {
		return in["HEAD"] && in["objects"] && in["refs"] || in["HEAD"] && in["commondir"]
	}
	var st unix.Stat_t
	return unix.Fstatat(dir, "HEAD", &st, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// git looks at the root's .git.
func (l *look) git(first *leads) {
	const name = ".git"
	fd, err := openDir(l.root, name)
	switch {
	case err == nil:
		defer unix.Close(fd)
		l.directory(fd, name)
		if l.strict {
			l.kept = append(l.kept, name)
		}
		l.gitDir(fd, l.list(fd, name), name)
	case errors.Is(err, unix.ENOENT):
		l.absent[name] = true
	default:
		data := l.file(l.root, name, name, hostrun.WhyGitDir, false)
		if l.strict && data != nil {
			l.kept = append(l.kept, name)
		}
		if target, ok := strings.CutPrefix(string(data), "gitdir: "); ok && first == nil {
			l.leads.gitDir, _ = l.below("", strings.TrimSpace(target))
		}
		if first == nil {
			first = &l.leads
		}
		if to := first.gitDir; to != "" {
			l.at(l.root, nil, "", to+"/.", func(dir int, _, _ string) { l.gitDir(dir, l.list(dir, to), to) })
		}
	}
}

// below makes of a path that something in the directory dir names one below the root, if it lies there.
func (l *look) below(dir, name string) (string, bool) {
	switch {
	case !path.IsAbs(name):
		name = path.Join(dir, name)
	case name == l.source:
		return "", false
	default:
		rest, ok := strings.CutPrefix(path.Clean(name), strings.TrimSuffix(l.source, "/")+"/")
		if !ok {
			return "", false
		}
		name = rest
	}
	return name, name != "." && name != ".." && name != "" && !strings.HasPrefix(name, "../")
}

// gitDir looks at a git directory.
func (l *look) gitDir(dir int, in names, base string) {
	for _, row := range hostrun.Rows(hostrun.GitDir) {
		l.row(dir, in, base, row)
	}
	if in.may("modules") {
		l.modules(dir, "modules", path.Join(base, "modules"), maxLevels)
	}
	if in.may("worktrees") {
		l.each(dir, "worktrees", path.Join(base, "worktrees"), func(fd int, _, at string) {
			for _, row := range hostrun.Rows(hostrun.Worktree) {
				l.row(fd, nil, at, row)
			}
		})
	}
}

// each opens the directories in one, of which it takes so many as are looked at.
func (l *look) each(dir int, name, at string, found func(fd int, name, at string)) {
	fd, err := openDir(dir, name)
	if err != nil {
		l.file(dir, name, at, hostrun.WhyGitDir, false)
		return
	}
	defer unix.Close(fd)
	l.directory(fd, at)
	all, whole := l.listUpTo(fd, at, maxEntries)
	if !whole {
		l.tooMany(fd, at, hostrun.WhyGitDir)
		return
	}
	for _, name := range all {
		sub, err := openDir(fd, name)
		switch {
		case err == nil:
			l.directory(sub, path.Join(at, name))
			if l.gitDirs++; l.gitDirs > maxGitDirs {
				l.tooMany(sub, path.Join(at, name), hostrun.WhyGitDir)
			} else {
				found(sub, name, path.Join(at, name))
			}
			unix.Close(sub)
		case errors.Is(err, unix.ELOOP):
			l.file(fd, name, path.Join(at, name), hostrun.WhyGitDir, false)
		}
	}
}

// modules looks at the git directories of submodules, whose names can have slashes.
func (l *look) modules(dir int, name, at string, levels int) {
	l.each(dir, name, at, func(fd int, _, at string) {
		in := l.list(fd, at)
		switch {
		case bare(fd, in):
			l.gitDir(fd, in, at)
		case levels > 1:
			l.modules(fd, ".", at, levels-1) // opened anew, as it was listed
		}
	})
}

// row looks at one row of the table.
func (l *look) row(dir int, in names, base string, row hostrun.Row) {
	l.row0 = row
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
		if row.Mounted || l.strict && row.Base == hostrun.Root {
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

// file looks at one that counts as it is, and returns its content. what is not a file of a bounded size is compared by what stat(2) says.
func (l *look) file(dir int, name, at, why string, mode bool) []byte {
	s, data, st := l.read(dir, name, at, maxBytes)
	if s.value == "" {
		return nil
	}
	if mode {
		s.value += fmt.Sprintf(" %o", st.Mode&0o7777)
	}
	s.why = why
	l.items[item{at, ""}] = s
	return data
}

// read returns the state of a file, and its content if it is regular and has at most so many bytes. A state without a value is that nothing is there.
func (l *look) read(dir int, name, at string, most int64) (s state, data []byte, st unix.Stat_t) {
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if errors.Is(err, unix.ENOENT) {
			l.absent[at] = true
		} else {
			s = state{value: "not looked at: " + err.Error(), words: "cannot be looked at: " + err.Error()}
			l.save(at, saved{lost: "it could not be looked at before"})
		}
		return s, nil, st
	}
	return l.content(dir, name, at, most, st)
}

// content is read for what is there.
func (l *look) content(dir int, name, at string, most int64, st unix.Stat_t) (state, []byte, unix.Stat_t) {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return l.regular(dir, name, at, most, st)
	case unix.S_IFLNK:
		var buf [unix.PathMax]byte
		n, err := unix.Readlinkat(dir, name, buf[:])
		if err != nil {
			n = 0
		}
		l.save(at, saved{mode: st.Mode, data: bytes.Clone(buf[:n])})
		if to, ok := l.below(path.Dir(at), string(buf[:n])); ok && len(l.links) < maxLinks {
			l.links = append(l.links, lead{to, l.row0.Why})
		}
		return state{value: "symlink to " + string(buf[:n]), words: "is a symlink now"}, nil, st
	case unix.S_IFDIR:
		l.save(at, saved{mode: st.Mode, lost: "it was a directory, and nsrun keeps no copy of it"})
		return state{value: "directory " + stamp(st), words: "is a directory that is not looked into"}, nil, st
	}
	l.save(at, saved{lost: "it was no file before"})
	return state{value: fmt.Sprint("special ", st.Dev, st.Ino, st.Mode), words: "is " + kind(st.Mode) + " now"}, nil, st
}

// regular is read for a regular file.
func (l *look) regular(dir int, name, at string, most int64, st unix.Stat_t) (state, []byte, unix.Stat_t) {
	odd := func(words string) (state, []byte, unix.Stat_t) {
		l.save(at, saved{mode: st.Mode, lost: "no copy was kept: it " + words})
		return state{value: words + " " + stamp(st), words: words}, nil, st
	}
	if st.Size > most {
		return odd(fmt.Sprintf("has more than %d bytes, and is not compared", most))
	}
	fd, err := retry(func() (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return odd("cannot be read: " + err.Error())
	}
	defer unix.Close(fd)
	data := make([]byte, st.Size+1)
	n := 0
	for int64(n) < st.Size+1 {
		got, err := unix.Read(fd, data[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return odd("cannot be read: " + err.Error())
		}
		if n += got; got == 0 || int64(n) == st.Size {
			break
		}
	}
	data = data[:n]
	sum := sha256.Sum256(data)
	value := "file " + hex.EncodeToString(sum[:])
	if st.Mode&0o111 != 0 {
		value += " executable"
	}
	if l.keep {
		l.save(at, saved{mode: st.Mode, uid: st.Uid, gid: st.Gid, data: data})
	}
	return state{value: value}, data, st
}

func (l *look) save(at string, s saved) {
	if l.keep {
		l.saved[at] = s
	}
}

// stamp is what changes when a program changes something: nothing but the kernel sets st_ctime.
func stamp(st unix.Stat_t) string {
	return fmt.Sprint(st.Dev, st.Ino, st.Mode, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
}

func kind(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFIFO:
		return "a FIFO"
	case unix.S_IFSOCK:
		return "a socket"
	}
	return "a device"
}

// tooMany records a directory of which too much would have to be looked at.
func (l *look) tooMany(fd int, at, why string) {
	var st unix.Stat_t
	_ = unix.Fstat(fd, &st)
	const words = "holds too much to be compared"
	l.items[item{at, ""}] = state{value: words + " " + stamp(st), words: words, why: why}
	l.save(at, saved{mode: st.Mode, lost: "no copy was kept: it " + words})
	l.odd = append(l.odd, at)
}

// listUpTo lists a directory that was just opened, and reports whether it has no more than so many entries.
func (l *look) listUpTo(dir int, at string, most int) (all []string, whole bool) {
	var buf [listBytes]byte
	for {
		n, err := unix.Getdents(dir, buf[:])
		if err != nil {
			return nil, false
		}
		if n == 0 {
			slices.Sort(all)
			if l.keep {
				l.listed[at] = names{}
				for _, name := range all {
					l.listed[at][name] = true
				}
			}
			return all, true
		}
		_, _, all = unix.ParseDirent(buf[:n], -1, all)
		if len(all) > most {
			return nil, false
		}
	}
}

// tree looks at the entries of a directory. Of hooks only those count that git runs.
func (l *look) tree(dir int, name, at string, row hostrun.Row, hooks bool) {
	fd, err := openDir(dir, name)
	if err != nil {
		l.file(dir, name, at, row.Why, false)
		return
	}
	defer unix.Close(fd)
	l.directory(fd, at)
	part := newLook(l.root, l.source)
	part.keep, part.row0 = l.keep, row
	left := budget{entries: maxEntries, bytes: maxBytes}
	if !part.entries(fd, at, row, hooks, max(1, row.Depth), &left) {
		l.tooMany(fd, at, row.Why)
		return
	}
	maps.Copy(l.items, part.items)
	maps.Copy(l.saved, part.saved)
	maps.Copy(l.listed, part.listed)
	l.links = append(l.links, part.links...)
}

// budget is what is left of the bounds of a row.
type budget struct {
	entries int
	bytes   int64
}

// entries looks at those of an open directory. It reports false if they are too many, or too large.
func (l *look) entries(dir int, at string, row hostrun.Row, hooks bool, depth int, left *budget) bool {
	all, whole := l.listUpTo(dir, at, left.entries)
	if !whole {
		return false
	}
	left.entries -= len(all)
	for _, name := range all {
		where := path.Join(at, name)
		if hooks && strings.HasSuffix(name, ".sample") {
			continue
		}
		var st unix.Stat_t
		if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue // gone meanwhile
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR && depth > 1 {
			sub, err := openDir(dir, name)
			if err != nil {
				return false
			}
			l.directory(sub, where)
			ok := l.entries(sub, where, row, hooks, depth-1, left)
			unix.Close(sub)
			if !ok {
				return false
			}
			continue
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			continue // deeper than the row says
		}
		s, data, st := l.content(dir, name, where, maxBytes, st)
		if left.bytes -= int64(len(data)); left.bytes < 0 {
			return false
		}
		if hooks && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o111 == 0 {
			continue // git does not run it
		}
		if s.value != "" {
			s.why = row.Why
			l.items[item{where, ""}] = s
		}
	}
	return true
}

// commonDir looks at the file commondir of a worktree, which is usual if it names the directory two above.
func (l *look) commonDir(dir int, name, at string, row hostrun.Row) {
	s, data, _ := l.read(dir, name, at, maxBytes)
	if s.value != "" && strings.TrimSpace(string(data)) != "../.." {
		s.why = row.Why
		l.items[item{at, ""}] = s
	}
}

// todo looks at the list of a rebase.
func (l *look) todo(dir int, name, at string, row hostrun.Row) {
	s, data, st := l.read(dir, name, at, maxBytes)
	if s.value == "" {
		return
	}
	s.why = row.Why
	if data == nil && st.Size > 0 {
		l.items[item{at, ""}] = s
	}
	if lines := hostrun.TodoCommands(data); len(lines) > 0 {
		l.items[item{at, ""}] = state{value: strings.Join(lines, "\n"), words: "has commands", why: row.Why}
	}
}
