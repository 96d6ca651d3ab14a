package mounts

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// number picks a descriptor number for what a path in /proc/self/fd names. In a compat tree the caller's descriptors are the program's, so
// it is one that is not open.
func (l *lowering) number() int {
	n := sys.SpareFD(l.taken)
	l.taken = append(l.taken, n)
	return n
}

func (l *lowering) bind(op Op) error {
	stat, err := l.resolver.Stat(op.Source)
	if err == nil && op.KeepLink && stat.Type() == unix.S_IFLNK {
		return l.symlink(op, stat.Target)
	}
	if err == nil && stat.Type() == unix.S_IFLNK {
		stat, err = resolve(l.resolver, op.Source)
	}
	if op.Optional && Absent(err) {
		l.resolved.Missing = true
		return nil
	}
	if err != nil {
		return err
	}
	if err := l.accept(op, stat); err != nil {
		return err
	}
	dir := stat.Type() == unix.S_IFDIR
	dest, err := l.mountPoint(op, op.Dest, dir)
	if errors.Is(err, errSkip) {
		l.resolved.Missing = true
		return nil
	}
	if err != nil {
		return err
	}
	l.openSource(stat.Path, l.src)
	if err := l.attach(op.Flags, stat.Path, dest, dir); err != nil {
		return err
	}
	l.view.cover(dest, node{origin: host, source: stat.Path, dir: dir})
	l.resolved.Dest, l.resolved.Source, l.resolved.File = dest, stat.Path, !dir
	return nil
}

// accept says whether what stands at the source may be shown.
func (l *lowering) accept(op Op, stat Stat) error {
	// What lies below a writable grant may be exchanged for a symlink between the looks at it as a source and as a place.
	noFollow := op.NoFollow || slices.ContainsFunc(l.writable, func(w string) bool { return w != op.Source && within(op.Source, w) })
	if noFollow && len(stat.Links) > 0 {
		return planted(op.Source, stat.Links[0], stat.Path)
	}
	if len(op.Within) > 0 && !slices.ContainsFunc(op.Within, func(dir string) bool { return within(stat.Path, dir) }) {
		return hint("grant a path inside "+strings.Join(op.Within, " or "), "%s leads to %s, outside what is permitted", op.Source, stat.Path)
	}
	if err := rightType(op, stat); err != nil || op.Quiet || op.Only == "device" {
		return err
	}
	return l.noKernelFiles(op, stat)
}

// kernelTypes are file systems through which a kernel is controlled or watched.
var kernelTypes = []string{"proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "bpf", "devtmpfs", "devpts", "configfs",
	"efivarfs", "pstore", "binfmt_misc"}

// noKernelFiles refuses a source with such a file system in it, as a chroot has: the sandbox covers only its own.
func (l *lowering) noKernelFiles(op Op, stat Stat) error {
	if err := l.readMounts(); err != nil {
		return err
	}
	at, _ := At(l.mounts, stat.Path)
	for _, m := range append(Below(l.mounts, stat.Path), at) {
		mask := m.FSType == "devtmpfs" && m.Root == "/null" // as this package and others cover files
		if slices.Contains(kernelTypes, m.FSType) && !mask {
			return hint("name the directories beside it", "%s shows the %s at %s of the host", op.Source, m.FSType, m.Point)
		}
	}
	return nil
}

func (l *lowering) readMounts() (err error) {
	if l.mounts == nil {
		l.mounts, err = l.resolver.Mountinfo()
	}
	return err
}

func rightType(op Op, stat Stat) error {
	switch t := stat.Type(); op.Only {
	case "device":
		for _, n := range deviceNodes {
			if path.Base(op.Source) == n.Name && t == unix.S_IFCHR && stat.Rdev == unix.Mkdev(n.Major, n.Minor) {
				return nil
			}
		}
		return fmt.Errorf("%s of the host is not the device of that name", op.Source)
	case "socket":
		if t != unix.S_IFSOCK {
			return fmt.Errorf("%s is %s, not a socket", op.Source, typeName(t))
		}
	case "directory":
		if t != unix.S_IFDIR {
			return hint("name a directory", "%s is %s, not a directory", op.Source, typeName(t))
		}
	default:
		if t != unix.S_IFDIR && t != unix.S_IFREG {
			return hint("grant a file or a directory", "%s is %s", op.Source, typeName(t))
		}
	}
	return nil
}

func typeName(t uint32) string {
	switch t {
	case unix.S_IFIFO:
		return "a FIFO"
	case unix.S_IFSOCK:
		return "a socket"
	case unix.S_IFCHR, unix.S_IFBLK:
		return "a device"
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFREG:
		return "a file"
	}
	return fmt.Sprintf("of type %o", t)
}

// mountAttr is struct mount_attr of mount_setattr(2).
type mountAttr struct{ Set, Clear, Propagation, UsernsFD uint64 }

func (a *mountAttr) String() string {
	var words []string
	for _, w := range flagTable {
		if a.Set&w.attr != 0 {
			words = append(words, string(w.flag))
		}
	}
	return "{set " + strings.Join(words, "|") + "}"
}

// flagTable translates words. MS_* and MOUNT_ATTR_* differ in value only from noatime on.
var flagTable = [...]struct {
	flag Flag
	attr uint64
	ms   uintptr
}{
	{ReadOnly, unix.MOUNT_ATTR_RDONLY, unix.MS_RDONLY},
	{NoSuid, unix.MOUNT_ATTR_NOSUID, unix.MS_NOSUID},
	{NoDev, unix.MOUNT_ATTR_NODEV, unix.MS_NODEV},
	{NoExec, unix.MOUNT_ATTR_NOEXEC, unix.MS_NOEXEC},
}

func (s Flags) attr() (attr uint64) {
	for _, w := range flagTable {
		if s.Has(w.flag) {
			attr |= w.attr
		}
	}
	return attr
}

func (s Flags) ms() (ms uintptr) {
	for _, w := range flagTable {
		if s.Has(w.flag) {
			ms |= w.ms
		}
	}
	return ms
}

// attach mounts a copy of the tree at l.src, which is the host's at path source or, without one, the sandbox's own, on dest, and closes
// l.src.
func (l *lowering) attach(flags Flags, source, dest string, dir bool) error {
	if !l.have.NewAPI {
		return l.attachOld(flags, source, dest)
	}
	p := l.p
	p.Add(unix.SYS_OPEN_TREE, sys.Of(l.src), sys.Str(""),
		sys.Words(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE,
			"OPEN_TREE_CLONE|OPEN_TREE_CLOEXEC|AT_EMPTY_PATH|AT_RECURSIVE")).Keep(l.tree)
	p.Add(unix.SYS_CLOSE, sys.Of(l.src))
	recursive := uint64(0)
	if dir {
		recursive = unix.AT_RECURSIVE
	}
	l.setFlags(l.tree, flags, recursive)
	l.move(dest)
	return nil
}

// move attaches the detached tree in l.tree at dest.
func (l *lowering) move(dest string) {
	p := l.p
	l.openDest(dest, l.dst)
	p.Add(unix.SYS_MOVE_MOUNT, sys.Of(l.tree), sys.Str(""), sys.Of(l.dst), sys.Str(""),
		sys.Words(unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH, "MOVE_MOUNT_F_EMPTY_PATH|MOVE_MOUNT_T_EMPTY_PATH"))
	p.Add(unix.SYS_CLOSE, sys.Of(l.tree))
	p.Add(unix.SYS_CLOSE, sys.Of(l.dst))
}

// setFlags adds flags to the mount that the descriptor in slot is the root of.
func (l *lowering) setFlags(slot sys.Slot, flags Flags, recursive uint64) {
	if !l.have.NewAPI {
		l.p.Add(unix.SYS_DUP3, sys.Of(slot), sys.Int(l.fdDest), sys.Words(unix.O_CLOEXEC, "O_CLOEXEC"))
		l.remountOld(flags, nil)
		return
	}
	attr := &mountAttr{Set: flags.attr()}
	words := "AT_EMPTY_PATH"
	if recursive != 0 {
		words += "|AT_RECURSIVE"
	}
	l.p.Add(unix.SYS_MOUNT_SETATTR, sys.Of(slot), sys.Str(""), sys.Words(unix.AT_EMPTY_PATH|recursive, words), sys.Struct(attr), sys.Size(attr))
}

// attachOld does the same with mount(2). Flags of a bind take a remount, which must repeat the flags that the kernel has locked
// (mount_namespaces(7)), and one more for each submount; which there are is in mountinfo.
func (l *lowering) attachOld(flags Flags, source, dest string) error {
	if err := l.readMounts(); err != nil {
		return err
	}
	p := l.p
	cloexec := sys.Words(unix.O_CLOEXEC, "O_CLOEXEC")
	p.Add(unix.SYS_DUP3, sys.Of(l.src), sys.Int(l.fdSource), cloexec)
	p.Add(unix.SYS_CLOSE, sys.Of(l.src))
	l.openDest(dest, l.dst)
	p.Add(unix.SYS_DUP3, sys.Of(l.dst), sys.Int(l.fdDest), cloexec)
	p.Add(unix.SYS_CLOSE, sys.Of(l.dst))
	p.Add(unix.SYS_MOUNT, sys.Str(l.procFD(l.fdSource)), sys.Str(l.procFD(l.fdDest)), sys.Null(), sys.Words(unix.MS_BIND|unix.MS_REC, "MS_BIND|MS_REC"), sys.Null())
	p.Add(unix.SYS_CLOSE, sys.Int(l.fdSource))
	p.Add(unix.SYS_CLOSE, sys.Int(l.fdDest))
	if dest == "/" {
		l.reopenRoot() // remount what was just mounted, not what it covers
	}
	if source == "" {
		l.remountAt(dest, flags, nil)
		return nil
	}
	at, _ := At(l.mounts, source)
	l.remountAt(dest, flags, at.Options)
	for _, sub := range Below(l.mounts, source) {
		l.remountAt(join(dest, strings.TrimPrefix(strings.TrimPrefix(sub.Point, source), "/")), flags, sub.Options)
	}
	return nil
}

func (l *lowering) remountAt(dest string, flags Flags, locked []string) {
	l.openDest(dest, l.dst)
	l.p.Add(unix.SYS_DUP3, sys.Of(l.dst), sys.Int(l.fdDest), sys.Words(unix.O_CLOEXEC, "O_CLOEXEC"))
	l.p.Add(unix.SYS_CLOSE, sys.Of(l.dst))
	l.remountOld(flags, locked)
}

// remountOld sets flags on the mount that fdDest is the root of, and closes it.
func (l *lowering) remountOld(flags Flags, locked []string) {
	ms, words := uintptr(unix.MS_REMOUNT|unix.MS_BIND)|flags.ms(), "MS_REMOUNT|MS_BIND"
	for _, option := range locked {
		ms |= Flags{Flag(option)}.ms()
		if option == "nosymfollow" {
			ms |= unix.MS_NOSYMFOLLOW
		}
	}
	for _, w := range flagTable {
		if ms&w.ms != 0 {
			words += "|" + string(w.flag)
		}
	}
	l.p.Add(unix.SYS_MOUNT, sys.Null(), sys.Str(l.procFD(l.fdDest)), sys.Null(), sys.Words(ms, words), sys.Null())
	l.p.Add(unix.SYS_CLOSE, sys.Int(l.fdDest))
}

// procFD is the path of descriptor fd, which mount(2) follows to what is open there.
func (l *lowering) procFD(fd int) string { return fmt.Sprintf("%s/proc/self/fd/%d", l.prefix, fd) }
