package watch

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Grant is a directory of the host that a command may write to. Of a file only its own row is looked at, if the table has one.
type Grant struct {
	// Source is its path on the host.
	Source string
	// Paths are further places in it that are to stay as they are, relative to it.
	Paths []string
}

// Options say how much is done.
type Options struct {
	// Strict has [Watch.Kept] list all places of the table, not those alone that are read-only by default.
	Strict bool
	// Revert has [Watch.Finish] put back what has changed.
	Revert bool
}

// Change is one thing that makes the host run something, and was not there before, or was another.
type Change struct {
	Path string // on the host
	What string // "core.fsmonitor is new", "new file"
	Why  string // what acts on it
	// Reverted says that it was put back; Left says why not.
	Reverted bool
	Left     string
}

// Watch is what was found before a command runs.
type Watch struct {
	opts  Options
	roots []*root
}

type root struct {
	Grant
	fd     int
	only   string // of a grant that is a file, its name; Source is the directory that it lies in
	before *look
}

// Open looks at grants. Those that are not there have no places.
func Open(grants []Grant, opts Options) *Watch {
	w := &Watch{opts: opts}
	for _, g := range grants {
		r := &root{Grant: g}
		fd, err := openRoot(g.Source)
		if errors.Is(err, unix.ENOTDIR) {
			r.only, r.Source = path.Base(g.Source), path.Dir(g.Source)
			fd, err = openRoot(r.Source)
		}
		if err != nil {
			continue
		}
		r.fd = fd
		r.before = r.look(w.opts, nil)
		w.roots = append(w.roots, r)
	}
	return w
}

// openRoot opens a directory, if need be without the right to list it.
func openRoot(name string) (int, error) {
	const flags = unix.O_DIRECTORY | unix.O_CLOEXEC
	fd, err := retry(func() (int, error) { return unix.Open(name, unix.O_RDONLY|flags, 0) })
	if errors.Is(err, unix.EACCES) {
		return retry(func() (int, error) { return unix.Open(name, unix.O_PATH|flags, 0) })
	}
	return fd, err
}

// Close closes the descriptors. It may be called twice, and of nil.
func (w *Watch) Close() {
	if w == nil {
		return
	}
	for _, r := range w.roots {
		if r.fd >= 0 {
			unix.Close(r.fd)
		}
		r.fd = -1
	}
}

// Kept returns the files and directories in a grant that are to be read-only while the command runs, relative to the grant, and where that really is, free
// of symlinks. There are none if that is not known.
func (w *Watch) Kept(source string) (real string, names []string) {
	if w == nil {
		return "", nil
	}
	for _, r := range w.roots {
		if r.Source != source || r.only != "" || len(r.before.kept) == 0 {
			continue
		}
		real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", r.fd))
		if err != nil || !path.IsAbs(real) {
			return "", nil
		}
		return real, slices.Clone(r.before.kept)
	}
	return "", nil
}

// Uncompared returns places of which too much would have to be looked at.
func (w *Watch) Uncompared() (paths []string) {
	if w == nil {
		return nil
	}
	for _, r := range w.roots {
		for _, at := range r.before.odd {
			paths = append(paths, path.Join(r.Source, at))
		}
	}
	return paths
}

// look looks at a root, the second time for what the first look found, too.
func (r *root) look(opts Options, first *leads) *look {
	l := newLook(r.fd, r.Source)
	l.keep, l.strict, l.first = opts.Revert, opts.Strict, first == nil
	if r.only != "" {
		l.single(r.only)
		return l
	}
	l.whole(first)
	for _, name := range r.Paths {
		l.own(name)
	}
	l.follow(first)
	return l
}

// whyOwn is the reason of places that the user has named.
const whyOwn = "the policy protects it"

// own looks at a place that the user has named: its mode counts, too, and that it is gone.
func (l *look) own(name string) {
	l.at(l.root, nil, "", name, func(dir int, last, at string) {
		fd, err := openDir(dir, last)
		if err == nil {
			unix.Close(fd)
			l.row(dir, nil, path.Dir(at), ownTree(last))
		} else {
			l.file(dir, last, at, whyOwn, true)
		}
		if l.first {
			l.keepReadOnly(dir, last, at)
		}
	})
}

// Finish looks again and returns what has changed, ordered by path. With Options.Revert it puts that back. The command, and all that it has started,
// must have ended. Notes say what was moved out of the way.
func (w *Watch) Finish() (changes []Change, notes []string) {
	if w == nil {
		return nil, nil
	}
	for _, r := range w.roots {
		if r.fd < 0 {
			continue
		}
		after := r.look(Options{}, &r.before.leads)
		found := r.compare(after)
		if w.opts.Revert && len(found) > 0 {
			notes = append(notes, r.revert(found)...)
		}
		for _, c := range found {
			changes = append(changes, c.Change)
		}
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.What, b.What)) })
	return changes, notes
}

// change is one below a root.
type change struct {
	Change
	at item
}

// compare lists what is new or changed in the second look, and what the user has named and is gone.
func (r *root) compare(after *look) (found []*change) {
	add := func(k item, what, why string) {
		found = append(found, &change{Change{Path: path.Join(r.Source, k.path), What: what, Why: why}, k})
	}
	for k, is := range after.items {
		was, known := r.before.items[k]
		switch {
		case known && was.value == is.value:
		case k.key != "" && known:
			add(k, k.key+" is changed", is.why)
		case k.key != "":
			add(k, k.key+" is new", is.why)
		case is.words != "":
			add(k, is.words, is.why)
		case known || r.before.lostAbove(k.path):
			add(k, "changed", is.why)
		default:
			add(k, "new file", is.why)
		}
	}
	for k, was := range r.before.items {
		if _, still := after.items[k]; !still && was.why == whyOwn {
			add(k, "gone", was.why)
		}
	}
	slices.SortFunc(found, func(a, b *change) int {
		return cmp.Or(strings.Compare(a.at.path, b.at.path), strings.Compare(a.at.key, b.at.key))
	})
	return found
}

// lostAbove reports whether a directory above a path was not looked into.
func (l *look) lostAbove(name string) bool {
	for name != "." {
		name = path.Dir(name)
		if slices.Contains(l.odd, name) {
			return true
		}
	}
	return false
}
