package watch

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/hostrun"
	"golang.org/x/sys/unix"
)

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
	part.keep, part.current = l.keep, row
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

// budget counts down how many entries and bytes a look at one row may still read.
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
