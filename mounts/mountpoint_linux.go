package mounts

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// openHow is struct open_how of openat2(2).
type openHow struct{ Flags, Mode, Resolve uint64 }

func (h *openHow) String() string {
	switch h.Resolve {
	case unix.RESOLVE_NO_XDEV:
		return "{O_PATH, RESOLVE_NO_XDEV}"
	case unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH:
		return "{O_PATH, RESOLVE_NO_SYMLINKS|RESOLVE_BENEATH}"
	}
	return "{O_PATH, RESOLVE_NO_SYMLINKS}"
}

// errSkip means that an optional operation has no mount point.
var errSkip = errors.New("bug: skipped operation reported as an error")

// mountPoint makes sure that a mount point for a directory or a file exists at dest, and returns its path. It creates one only in the
// sandbox's own file systems; on the host the mount point must exist. The resolver looks at the host now. If the place changes before the
// child runs, the child's walk fails.
func (l *lowering) mountPoint(op Op, dest string, dir bool) (string, error) {
	return l.mountPointFollowing(op, dest, dir, maxLinks)
}

// mountPointFollowing is mountPoint with the number of symlinks that FollowDest may still follow.
func (l *lowering) mountPointFollowing(op Op, dest string, dir bool, left int) (string, error) {
	n, at, rest := l.view.find(dest)
	switch {
	// The symlink of an operation may lead to any directory, also to one that a bind shows.
	case n.origin == link:
		return "", hint("name the directory that it leads to", "%s is a symlink in the sandbox; nothing is mounted through one", at)
	case rest == "":
		return dest, sameType(dest, n.dir, dir)
	case !n.dir:
		return "", fmt.Errorf("%s is a file", at)
	case n.origin == private:
		l.makeParents(dest)
		if dir {
			l.mkdir(dest, 0o755)
		} else {
			l.p.Add(unix.SYS_MKNODAT, sys.Of(l.root), sys.Str(relative(dest)), sys.Words(unix.S_IFREG|0o444, "S_IFREG|0444"), sys.Int(0))
		}
		return dest, nil
	// For example devpts or an overlay: nothing can be made there, and the host has no matching place.
	case n.source == "":
		return "", fmt.Errorf("nothing can be mounted in %s", at)
	}
	stat, err := l.resolver.Stat(n.source + "/" + rest)
	switch {
	// Nothing is created on the host, so that a run leaves its directories as they were.
	case Absent(err):
		if op.Optional {
			return "", errSkip
		}
		return "", hint("create it on the host, or mount somewhere else", "%s does not exist in %s, which is the host's; nothing is created there", dest, at)
	case err != nil:
		return "", err
	// A symlink in the host's path could be exchanged between this look and the mount (CVE-2019-16884, CVE-2021-30465).
	case stat.Path != n.source+"/"+rest:
		return "", hint("name the directory that it leads to", "%s is reached through a symlink on the host; nothing is mounted through one", dest)
	case stat.Type() == unix.S_IFLNK:
		return l.followDest(op, dest, dir, stat, left)
	}
	return dest, sameType(dest, stat.Type() == unix.S_IFDIR, dir)
}

// followDest returns the mount point to which the host's symlink at dest leads inside the sandbox, if op.FollowDest permits that. The
// target gets the same checks as any destination.
func (l *lowering) followDest(op Op, dest string, dir bool, stat Stat, left int) (string, error) {
	if !op.FollowDest || left == 0 {
		return "", hint("mount at "+stat.Target+" instead", "%s is a symlink on the host; nothing is mounted on one", dest)
	}
	// A relative target begins at the symlink's directory in the sandbox. The host's directory may be another one.
	target := stat.Target
	if !path.IsAbs(target) {
		target = path.Join(path.Dir(dest), target)
	}
	return l.mountPointFollowing(op, path.Clean(target), dir, left-1)
}

// checkDir returns an error if dir, the start directory, will not exist in the sandbox. It decides before anything is started. If a symlink
// is on the way it does not decide, and chdir in the child does.
func (l *lowering) checkDir(dir string) error {
	if dir == "" {
		return nil
	}
	n, _, rest := l.view.find(dir)
	isDir, err := n.dir, error(nil)
	switch {
	case n.origin == link || rest == "":
		isDir = isDir || n.origin == link
	case n.source == "":
		err = unix.ENOENT
	default:
		var stat Stat
		stat, err = l.resolver.Stat(n.source + "/" + rest)
		isDir = stat.Type() == unix.S_IFDIR || stat.Type() == unix.S_IFLNK
	}
	if err == nil && !isDir {
		err = unix.ENOTDIR
	}
	if Absent(err) {
		return &fault.Error{Stage: "directory", Op: "chdir", Path: dir, Err: fmt.Errorf("the sandbox will not have it: %w", err),
			Hint: "choose a directory that the sandbox shows, with --chdir"}
	}
	return nil
}

// sameType returns an error unless the mount point is a directory exactly if the source is one.
func sameType(dest string, have, want bool) error {
	switch {
	case have && !want:
		return fmt.Errorf("%s is a directory and a file cannot be mounted on it", dest)
	case !have && want:
		return fmt.Errorf("%s is a file and a directory cannot be mounted on it", dest)
	}
	return nil
}

// makeParents makes the missing directories above dest, in a file system of the sandbox.
func (l *lowering) makeParents(dest string) {
	for _, dir := range l.view.missing(dest) {
		l.mkdir(dir, 0o755)
		l.view.set(dir, node{origin: private, dir: true})
	}
}

// mkdir makes dir in a file system of the sandbox. The path has no symlink and no other process can change it, so it can be named from the
// root's descriptor without a walk.
func (l *lowering) mkdir(dir string, mode uint32) {
	l.p.Add(unix.SYS_MKDIRAT, sys.Of(l.root), sys.Str(relative(dir)), octalMode(mode))
}

// octalMode returns a mode as an argument that listings show in octal.
func octalMode(mode uint32) sys.Arg { return sys.Words(uint64(mode), modeText(mode)) }

// modeText prints a mode as %04o does. No other part of an ordinary run needs package fmt, whose first use costs a start some 10 us.
func modeText(mode uint32) string {
	digits := strconv.FormatUint(uint64(mode), 8)
	return "0000"[:max(0, 4-len(digits))] + digits
}

// relative returns dest as seen from the new root's descriptor.
func relative(dest string) string {
	if dest == "/" {
		return "."
	}
	return strings.TrimPrefix(dest, "/")
}

// openDest opens dest below the new root into slot and follows no symlink. CVE-2026-87766 was a mount point made through a planted symlink.
func (l *lowering) openDest(dest string, slot sys.Slot) {
	if l.have.Openat2 {
		// RESOLVE_BENEATH also refuses ".." and absolute paths that would leave the new root.
		how := &openHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH}
		l.p.Add(unix.SYS_OPENAT2, sys.Of(l.root), sys.Str(relative(dest)), sys.Struct(how), sys.Size(how)).Keep(slot)
		return
	}
	l.walkTo(sys.Of(l.root), relative(dest), slot)
}

// openSource opens a path of the host into slot. Lowering has resolved the path, so it must still be free of symlinks: RESOLVE_NO_SYMLINKS,
// or the walk, refuses one that was swapped in since (attack case ST06).
func (l *lowering) openSource(source string, slot sys.Slot) {
	root, name := sys.AtCWD(), source
	// In a compat tree "/" is no longer the host's root by then, so the path begins at a descriptor of it.
	if l.compat() {
		root, name = sys.Of(l.host), relative(source)
	}
	// Compat trees only: the kernel alone can follow this procfs link, so RESOLVE_NO_SYMLINKS cannot be used.
	if slices.Contains(l.magicLinks, source) {
		l.p.Add(unix.SYS_OPENAT, root, sys.Str(name), sys.Words(unix.O_PATH|unix.O_CLOEXEC, "O_PATH|O_CLOEXEC")).Keep(slot)
		return
	}
	if l.have.Openat2 {
		how := &openHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
		l.p.Add(unix.SYS_OPENAT2, root, sys.Str(name), sys.Struct(how), sys.Size(how)).Keep(slot)
		return
	}
	if l.compat() {
		l.walkTo(root, name, slot)
		return
	}
	l.p.Add(unix.SYS_OPENAT, sys.AtCWD(), sys.Str("/"), sys.Words(unix.O_PATH|unix.O_CLOEXEC, "O_PATH|O_CLOEXEC")).Keep(slot)
	if source != "/" {
		l.walkFrom(slot, relative(source), slot)
	}
}

// walkTo opens rel below dir into slot, name by name, for kernels without openat2.
func (l *lowering) walkTo(dir sys.Arg, rel string, slot sys.Slot) {
	l.p.Add(unix.SYS_OPENAT, dir, sys.Str("."), sys.Words(unix.O_PATH|unix.O_CLOEXEC, "O_PATH|O_CLOEXEC")).Keep(slot)
	if rel != "." {
		l.walkFrom(slot, rel, slot)
	}
}

// walkFrom opens rel below the directory that from has open, name by name, into slot. It closes from. A symlink on the way fails with
// ENOTDIR (O_NOFOLLOW with O_DIRECTORY), one at the end with ELOOP.
func (l *lowering) walkFrom(from sys.Slot, rel string, slot sys.Slot) {
	next := l.p.Slot()
	names := strings.Split(rel, "/")
	for i, name := range names {
		flags, words := uint64(unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC), "O_PATH|O_NOFOLLOW|O_CLOEXEC"
		if i < len(names)-1 {
			flags, words = flags|unix.O_DIRECTORY, words+"|O_DIRECTORY" // a symlink is ENOTDIR
		}
		l.p.Add(unix.SYS_OPENAT, sys.Of(from), sys.Str(name), sys.Words(flags, words)).Keep(next)
		l.p.Add(unix.SYS_CLOSE, sys.Of(from))
		// Only dup copies a descriptor between slots; F_DUPFD_CLOEXEC keeps it close-on-exec.
		l.p.Add(unix.SYS_FCNTL, sys.Of(next), sys.Words(unix.F_DUPFD_CLOEXEC, "F_DUPFD_CLOEXEC"), sys.Int(0)).Keep(slot)
		l.p.Add(unix.SYS_CLOSE, sys.Of(next))
		from = slot
	}
	// O_PATH|O_NOFOLLOW opens a symlink at the end itself. readlinkat with an empty path succeeds only for a symlink (readlink(2)), and
	// then the next step fails.
	l.p.Add(unix.SYS_READLINKAT, sys.Of(slot), sys.Str(""), sys.Bytes(make([]byte, 8)), sys.Int(8)).
		Tolerate(unix.ENOENT, 1).Tolerate(unix.EINVAL, 1)
	l.p.Fail(unix.ELOOP)
}
