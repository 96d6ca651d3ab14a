package denial

import (
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/nsrun/result"
	"golang.org/x/sys/unix"
)

// argument is where a call has something.
type argument struct {
	call string
	at   int
}

// atFlags says which argument has flags AT_..., and accessModes which one what access(2) asks for.
var (
	atFlags = []argument{{"newfstatat", 3}, {"statx", 2}, {"faccessat2", 3}, {"fchownat", 4}, {"fchmodat2", 3}, {"utimensat", 3}, {"unlinkat", 2}, {"execveat", 4}}

	accessModes = []argument{{"access", 1}, {"faccessat", 2}, {"faccessat2", 2}}

	atLinks = []string{"lstat", "lchown", "readlink", "readlinkat"} // they do not follow the last link
)

// argumentOf returns the argument of a call that a table has.
func argumentOf(table []argument, call string) (at int, ok bool) {
	for _, a := range table {
		if a.call == call {
			return a.at, true
		}
	}
	return 0, false
}

// asks sets what a call's flags ask for.
func (e *event) asks(args [6]uint64) {
	var at uint64
	if i, ok := argumentOf(atFlags, e.name); ok {
		at = args[i]
	}
	if i, ok := argumentOf(accessModes, e.name); ok {
		e.mode = uint32(args[i])
	}
	const exclusive = unix.O_CREAT | unix.O_EXCL
	e.nofollow = e.call.act == entry || e.call.act == bindTo || at&unix.AT_SYMLINK_NOFOLLOW != 0 || slices.Contains(atLinks, e.name) ||
		e.call.act == open && (e.flags&unix.O_NOFOLLOW != 0 || e.flags&exclusive == exclusive)
	e.removes = e.name == "rmdir" || e.name == "unlinkat" && at&unix.AT_REMOVEDIR != 0
}

// source is the event of the file that link(2) makes another name of.
func (e event) source(follow bool) event {
	e.call, e.nofollow = call{act: look}, !follow
	return e
}

// asked is what a call asks for, beside its path.
func (e *event) asked() string {
	const flags = unix.O_ACCMODE | unix.O_CREAT | unix.O_EXCL | unix.O_TRUNC | unix.O_DIRECTORY | unix.O_PATH
	all := e.flags&flags | uint64(e.mode&7)<<32 | uint64(e.call.act)<<40
	for i, is := range []bool{e.nofollow, e.removes, e.second} {
		if is {
			all |= 1 << (48 + i)
		}
	}
	return strconv.FormatUint(all, 16)
}

// writes reports whether a call changes what is there, or asks whether it may. Landlock has no say in access(2),
// nor in chmod(2) and its like.
func (e *event) writes(bare bool) bool {
	switch e.call.act {
	case entry, bindTo:
		return true
	case inode:
		return !bare || e.name == "truncate"
	case open:
		return e.flags&unix.O_ACCMODE != unix.O_RDONLY || e.flags&unix.O_TRUNC != 0
	case look:
		return e.mode&unix.W_OK != 0 && !bare
	}
	return false
}

// wouldLet opens, for looking, the host's target of a call, which is what its path names or the directory of that; it is -1 if the host would
// refuse the call as well.
func (l *looker) wouldLet(e event, name, target string) (fd int, err error) {
	var flags uint64
	if e.nofollow && target == name {
		flags = unix.O_NOFOLLOW
	}
	if fd, err = l.host.openAs(target, flags); err != nil {
		if answers(err) {
			return -1, nil
		}
		return -1, err
	}
	fits := lets(e, fd, target != name)
	if fits && target != name {
		fits, err = l.fits(e, name)
	}
	if !fits {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// stays reports whether a target that the host has is still not there inside, and then still on the host. The command shares directories with the host:
// what it makes between the look inside and that on the host is not hidden.
func (l *looker) stays(e event, name, target string) (bool, error) {
	fd, err := l.inside(target, e.nofollow && target == name)
	if err == nil {
		unix.Close(fd)
		return false, nil
	}
	if !answers(err) {
		return false, err
	}
	fd, err = l.wouldLet(e, name, target)
	closeFD(fd)
	return fd >= 0, err
}

// fits reports whether the host has, or has not, the entry that a call makes, removes or renames, as it asks for.
func (l *looker) fits(e event, name string) (bool, error) {
	fd, err := l.host.openAs(strings.TrimRight(name, "/"), unix.O_NOFOLLOW)
	if err != nil && !answers(err) {
		return false, err
	}
	if err != nil {
		return e.call.creates || e.second || e.call.act == open, nil
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	directory := st.Mode&unix.S_IFMT == unix.S_IFDIR
	switch {
	case e.call.creates:
		return false, nil
	case e.removes:
		return directory && st.Nlink <= 2, nil // more are directories in it; files are not seen without opening it
	case e.name == "unlink" || e.name == "unlinkat":
		return !directory, nil
	case e.call.act == open: // a link that leads to nothing
		return e.flags&unix.O_EXCL == 0, nil
	}
	return true, nil
}

// lets reports whether the host lets this thread do what a call asks for: to what is open, or to an entry of that directory.
func lets(e event, fd int, parent bool) bool {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return false
	}
	kind, owner := st.Mode&unix.S_IFMT, int(st.Uid) == os.Geteuid()
	if parent || e.call.act == entry || e.call.act == bindTo {
		return kind == unix.S_IFDIR && may(fd, unix.W_OK|unix.X_OK)
	}
	switch e.call.act {
	case open:
		return letsOpen(e.flags, kind, fd)
	case execute:
		return kind == unix.S_IFREG && may(fd, unix.X_OK)
	case connect:
		return kind == unix.S_IFSOCK && may(fd, unix.W_OK)
	case inode:
		switch {
		case e.name == "truncate":
			return kind == unix.S_IFREG && may(fd, unix.W_OK)
		case strings.HasPrefix(e.name, "utime"):
			return owner || may(fd, unix.W_OK)
		}
		return owner
	}
	switch {
	case e.name == "chdir":
		return kind == unix.S_IFDIR && may(fd, unix.X_OK)
	case strings.HasPrefix(e.name, "readlink"):
		return kind == unix.S_IFLNK
	}
	return e.mode == 0 || may(fd, e.mode)
}

// letsOpen is lets for open(2).
func letsOpen(flags uint64, kind uint32, fd int) bool {
	const exclusive, temporary = unix.O_CREAT | unix.O_EXCL, unix.O_TMPFILE
	mode := map[uint64]uint32{unix.O_RDONLY: unix.R_OK, unix.O_WRONLY: unix.W_OK, unix.O_RDWR: unix.R_OK | unix.W_OK}[flags&unix.O_ACCMODE]
	switch {
	case flags&unix.O_DIRECTORY != 0 && kind != unix.S_IFDIR:
		return false
	case flags&unix.O_PATH != 0:
		return true
	case flags&exclusive == exclusive, kind == unix.S_IFLNK, kind == unix.S_IFSOCK:
		return false
	case kind == unix.S_IFDIR && flags&temporary != temporary && (mode != unix.R_OK || flags&unix.O_CREAT != 0):
		return false
	}
	return may(fd, mode)
}

// covers reports whether what a call opens in the sandbox only covers what the host has there, and cannot be opened: a file that nobody may read, or a
// device, as one that can be opened was sorted out before.
func (l *looker) covers(e event, at int) bool {
	if e.call.act != open || e.flags&unix.O_PATH != 0 || l.Plan.Bare() {
		return false
	}
	return isDevice(at) || e.flags&unix.O_ACCMODE != unix.O_WRONLY && !may(at, unix.R_OK)
}

// isDevice reports whether what is open is a character device, as /dev/null is, by which the sandbox covers files.
func isDevice(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR
}

// opensDevices reports whether devices can be opened on the mount of what is open.
func opensDevices(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && st.Flags&unix.ST_NODEV == 0
}

// masked is the denial of what is covered. No grant uncovers it.
func (l *looker) masked(e event, name string) (*result.Denial, error) {
	fd, err := l.wouldLet(e, name, name)
	if fd < 0 {
		return nil, err
	}
	defer unix.Close(fd)
	if l.secret(name, fd) {
		return &result.Denial{Kind: "secret", Op: e.name, Rule: "view"}, nil
	}
	return &result.Denial{Kind: "fs", Op: e.name, Path: path.Clean(name), Inside: "nothing", Host: reached(fd), Rule: "view"}, nil
}

// may reports whether this thread may do to what is open what access(2) asks for.
func may(fd int, mode uint32) bool {
	return unix.Faccessat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), mode, unix.AT_EACCESS) == nil
}

// written reports whether a read-only mount keeps a file of that mode from being written: not a FIFO, nor a device.
func written(mode uint32) bool {
	kind := mode & unix.S_IFMT
	return kind == unix.S_IFREG || kind == unix.S_IFDIR || kind == unix.S_IFLNK
}

// grantable is what has to be granted for a path to a file of that mode: for a FIFO its directory, and for a device nothing helps, as it cannot be
// opened on a mount of the sandbox.
func grantable(at string, mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFIFO:
		return path.Dir(path.Clean(at))
	case unix.S_IFCHR, unix.S_IFBLK:
		return ""
	}
	return path.Clean(at)
}
