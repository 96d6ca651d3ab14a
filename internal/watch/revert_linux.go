package watch

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/hostrun"
	"golang.org/x/sys/unix"
)

func ownTree(name string) hostrun.Row {
	return hostrun.Row{Base: hostrun.GitDir, Path: name, Compared: hostrun.Tree, Depth: 4, Why: whyOwn}
}

// revert puts back what has changed, and looks once more at what came of it. Files that are new are removed; directories that are new are moved out of
// the way, as they can hold more than what was compared.
func (r *root) revert(found []*change) (notes []string) {
	failed := map[string]error{}
	done := map[string]bool{}
	for _, c := range found {
		unit, was, err := r.unit(c.at.path)
		if err == nil && !done[unit] {
			done[unit] = true
			var note string
			if note, err = r.restore(unit, was); note != "" {
				notes = append(notes, note)
			}
			failed[unit] = err
		} else if err == nil {
			err = failed[unit]
		}
		if err != nil {
			c.Left = err.Error()
		}
	}
	again := r.compare(r.look(Options{}, &r.before.leads))
	for _, c := range found {
		still := slices.ContainsFunc(again, func(o *change) bool { return o.at == c.at })
		switch {
		case !still && c.Left == "":
			c.Reverted = true
		case c.Left == "":
			c.Left = "it has changed again"
		}
	}
	return notes
}

// unit is what has to be put back for a path: itself, or the first directory above it that was none before, or is none now. was is nil if nothing was
// there.
func (r *root) unit(name string) (unit string, was *saved, err error) {
	l := r.before
	for i := range len(name) + 1 {
		if i < len(name) && name[i] != '/' {
			continue
		}
		unit = name[:i]
		s, known := l.saved[unit]
		switch {
		case known && s.lost != "":
			return unit, nil, errors.New(s.lost)
		case !known && l.wasAbsent(unit):
			return unit, nil, nil
		case !known:
			return unit, nil, errors.New("it is not known whether " + unit + " was there before")
		case s.mode&unix.S_IFMT != unix.S_IFDIR:
			return unit, &s, nil
		case unit == name || !r.isDir(unit):
			return unit, &s, nil
		}
	}
	return unit, nil, errors.New("it is not known what it was")
}

// isDir reports whether a path is that of a directory now.
func (r *root) isDir(name string) bool {
	fd, err := r.openAbove(name + "/.")
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// wasAbsent reports whether nothing was at a path.
func (l *look) wasAbsent(name string) bool {
	dir := path.Dir(name)
	if dir == "." {
		dir = ""
	}
	in, listed := l.listed[dir]
	return l.absent[name] || listed && !in[path.Base(name)]
}

// restore makes what is at a path what it was. A note says what was moved.
func (r *root) restore(unit string, was *saved) (note string, err error) {
	dir, err := r.openAbove(unit)
	if err != nil {
		return "", err
	}
	defer unix.Close(dir)
	name := path.Base(unit)
	if was != nil && was.mode&unix.S_IFMT == unix.S_IFDIR && unit == ".git" {
		if note, err = r.moveAway(dir, name, unit); err == nil {
			err = errors.New("it was a directory, and nsrun keeps no copy of it")
		}
		return note, err
	}
	var st unix.Stat_t
	there := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
	isDir := there && st.Mode&unix.S_IFMT == unix.S_IFDIR
	if isDir {
		note, err = r.moveAway(dir, name, unit)
	}
	switch {
	case err != nil:
	case was == nil && there && !isDir:
		err = unix.Unlinkat(dir, name, 0)
	case was == nil:
	case was.mode&unix.S_IFMT == unix.S_IFDIR:
		if there && !isDir {
			err = unix.Unlinkat(dir, name, 0)
		}
		if err == nil {
			err = r.remake(dir, name, unit, was)
		}
	default:
		err = write(dir, name, was)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return note, fmt.Errorf("put %s back: %w", unit, err)
	}
	return note, nil
}

// openAbove opens the directory that a path lies in, name by name.
func (r *root) openAbove(name string) (int, error) {
	fd, err := unix.FcntlInt(uintptr(r.fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return -1, err
	}
	dir := path.Dir(name)
	for part := range strings.SplitSeq(dir, "/") {
		if part == "." {
			continue
		}
		next, err := retry(func() (int, error) {
			return unix.Openat(fd, part, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		})
		unix.Close(fd)
		if err != nil {
			return -1, fmt.Errorf("%s cannot be entered: %w", dir, err)
		}
		fd = next
	}
	return fd, nil
}

// moveAway gives what is at a name another one, beside it.
func (r *root) moveAway(dir int, name, unit string) (note string, err error) {
	for i := range 1000 {
		to := fmt.Sprintf("%s.nsrun-reverted-%d", name, i)
		err = unix.Renameat2(dir, name, dir, to, unix.RENAME_NOREPLACE)
		if err == nil {
			return fmt.Sprintf("%s was moved to %s", path.Join(r.Source, unit), path.Join(r.Source, path.Dir(unit), to)), nil
		}
		if !errors.Is(err, unix.EEXIST) {
			break
		}
	}
	if errors.Is(err, unix.ENOENT) {
		return "", nil
	}
	return "", err
}

// remake makes a directory, and in it what was in it, as far as that was looked at.
func (r *root) remake(dir int, name, unit string, was *saved) error {
	if err := unix.Mkdirat(dir, name, 0o700); err != nil {
		return err
	}
	fd, err := openDir(dir, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for at, s := range r.before.saved {
		if path.Dir(at) != unit {
			continue
		}
		switch {
		case s.lost != "":
			err = errors.Join(err, errors.New(at+": "+s.lost))
		case s.mode&unix.S_IFMT == unix.S_IFDIR:
			err = errors.Join(err, r.remake(fd, path.Base(at), at, &s))
		default:
			err = errors.Join(err, write(fd, path.Base(at), &s))
		}
	}
	own(fd, was)
	return errors.Join(err, unix.Fchmod(fd, was.mode&0o7777))
}

// own gives a file its owner back, where root runs: nobody else could change that.
func own(fd int, was *saved) {
	if os.Geteuid() == 0 {
		_ = unix.Fchown(fd, int(was.uid), int(was.gid))
	}
}

// write puts a file or symlink in the place of what is at a name: whole, by rename(2), as somebody may read it meanwhile.
func write(dir int, name string, was *saved) error {
	tmp := fmt.Sprintf(".nsrun-%d-%s", os.Getpid(), name)
	if len(tmp) > unix.NAME_MAX {
		tmp = tmp[:unix.NAME_MAX]
	}
	_ = unix.Unlinkat(dir, tmp, 0)
	if was.mode&unix.S_IFMT == unix.S_IFLNK {
		if err := unix.Symlinkat(string(was.data), dir, tmp); err != nil {
			return err
		}
		return unix.Renameat(dir, tmp, dir, name)
	}
	fd, err := unix.Openat(dir, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), tmp)
	_, err = f.Write(was.data)
	own(fd, was)
	err = errors.Join(err, unix.Fchmod(fd, was.mode&0o7777), f.Close())
	if err == nil {
		err = unix.Renameat(dir, tmp, dir, name)
	}
	if err != nil {
		_ = unix.Unlinkat(dir, tmp, 0)
	}
	return err
}
