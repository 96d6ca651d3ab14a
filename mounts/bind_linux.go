package mounts

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// number picks a descriptor number that a path in /proc/self/fd can name. It is one that is not open: in a compat tree the program also
// inherits the caller's descriptors.
func (l *lowering) number() int {
	n, err := sys.SpareFD(l.taken)
	if err != nil {
		l.noNumber = err
	}
	l.taken = append(l.taken, n)
	return n
}

// picked returns the descriptor number in *n. The first call for n picks it, which takes system calls.
func (l *lowering) picked(n *int) int {
	if *n == 0 {
		*n = l.number()
	}
	return *n
}

// bind shows the host's source at op.Dest. The source is resolved now and opened in the child without following symlinks, so a symlink
// planted in between makes the start fail instead of leading elsewhere (CVE-2019-16884, CVE-2021-30465).
func (l *lowering) bind(op Op) error {
	stat, err := l.resolver.Stat(op.Source)
	// A symlink such as /bin becomes the same symlink in the sandbox, where its target is looked up anew.
	if err == nil && op.KeepLink && stat.Type() == unix.S_IFLNK {
		return l.symlink(op, stat.Target)
	}
	if err == nil && stat.Type() == unix.S_IFLNK {
		stat, err = resolve(l.resolver, op.Source)
	}
	// Only absence leaves a source out. An optional source that exists and cannot be examined is an error, but for the host's sysfs: systems that
	// hide the hardware close it to all but root, and no program could have done it.
	if op.Optional && (Absent(err) || errors.Is(err, unix.EACCES) && within(op.Source, "/sys")) {
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
	// The resolved path is opened, never op.Source again: its symlinks may have changed since the checks.
	l.openSource(stat.Path, l.src)
	if err := l.attach(op.Flags, stat.Path, dest, dir); err != nil {
		return err
	}
	l.view.cover(dest, node{origin: host, source: stat.Path, dir: dir})
	l.resolved.Dest, l.resolved.Source, l.resolved.File = dest, stat.Path, !dir
	return nil
}

// accept returns an error if the operation does not permit what is at the source.
func (l *lowering) accept(op Op, stat Stat) error {
	// A program in an earlier sandbox may have written below a writable grant. Anything there may be a symlink that it planted.
	if len(stat.Links) > 0 && (op.NoFollow || l.belowWritable(op.Source)) {
		return planted(op.Source, stat.Links[0], stat.Path)
	}
	// The resolved path counts, because a symlink in a permitted directory may lead out of it.
	if len(op.Within) > 0 && !slices.ContainsFunc(op.Within, func(dir string) bool { return within(stat.Path, dir) }) {
		return hint("grant a path inside "+strings.Join(op.Within, " or "), "%s leads to %s, outside what is permitted", op.Source, stat.Path)
	}
	if err := rightType(op, stat); err != nil || op.Quiet || op.Only == "device" {
		return err
	}
	return l.noKernelFiles(op, stat)
}

// noteWritable records the sources of writable binds.
func (l *lowering) noteWritable(ops []Op) {
	l.writable = map[string]bool{}
	for _, op := range ops {
		if op.Kind == Bind && !op.Flags.Has(ReadOnly) {
			l.writable[op.Source] = true
		}
	}
}

// belowWritable reports whether the source of a writable bind is above the absolute path source.
func (l *lowering) belowWritable(source string) bool {
	for source != "/" {
		if source = parent(source); l.writable[source] {
			return true
		}
	}
	return false
}

// kernelTypes are file systems that control or reveal the kernel.
var kernelTypes = []string{"proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "bpf", "devtmpfs", "devpts", "configfs",
	"efivarfs", "pstore", "binfmt_misc"}

// noKernelFiles refuses a source that contains one of kernelTypes, as a chroot does. The sandbox masks the dangerous files only in the
// procfs that it mounts itself.
func (l *lowering) noKernelFiles(op Op, stat Stat) error {
	if err := l.readMounts(); err != nil {
		return err
	}
	// A bind shows its submounts too, so each of them is checked, and the mount that contains the source.
	at, _ := At(l.mounts, stat.Path)
	for _, m := range append(Below(l.mounts, stat.Path), at) {
		mask := m.FSType == "devtmpfs" && m.Root == "/null" // /dev/null over a file: a mask, by this package or another program
		if slices.Contains(kernelTypes, m.FSType) && !mask {
			return hint("name the directories beside it", "%s shows the %s at %s of the host", op.Source, m.FSType, m.Point)
		}
	}
	return nil
}

// readMounts reads the host's mount table, once.
func (l *lowering) readMounts() (err error) {
	if l.mounts == nil {
		l.mounts, err = l.resolver.Mountinfo()
	}
	return err
}

// rightType checks the file type of a source. A device must also have the number that belongs to its name: in CVE-2025-31133, /dev/null was
// something else.
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
			return hint("name a socket, or show it with --ro", "%s is %s, not a socket", op.Source, typeName(t))
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

// typeName returns a file type for error messages, with its article.
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

// flagTable has the kernel's two values of each flag. MS_* and MOUNT_ATTR_* agree for these four; they differ from noatime on.
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

// attach mounts a copy of what l.src has open on dest, with flags, and closes l.src. source is its path on the host, or "" for a file that
// the sandbox made itself.
//
// The copy is detached while it gets its flags (open_tree, mount_setattr), so no path ever leads to a mount with too few flags. For a
// directory the flags also hold for every submount.
func (l *lowering) attach(flags Flags, source, dest string, dir bool) error {
	if !l.have.NewAPI {
		return l.attachOld(flags, source, dest)
	}
	l.copyTree(l.src, l.tree, unix.AT_RECURSIVE)
	l.p.Add(unix.SYS_CLOSE, sys.Of(l.src))
	l.finish(flags, dest, dir)
	return nil
}

// copyTree makes a detached copy of what from has open, with AT_RECURSIVE of its submounts, too. No path is resolved a second time.
func (l *lowering) copyTree(from, to sys.Slot, recursive uint64) {
	words := "OPEN_TREE_CLONE|OPEN_TREE_CLOEXEC|AT_EMPTY_PATH"
	if recursive != 0 {
		words += "|AT_RECURSIVE"
	}
	l.p.Add(unix.SYS_OPEN_TREE, sys.Of(from), sys.Str(""),
		sys.Words(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|recursive, words)).Keep(to)
}

// finish sets flags on the detached copy in l.tree, then attaches it at dest. In the other order a read-only grant could be written for a
// moment.
func (l *lowering) finish(flags Flags, dest string, dir bool) {
	recursive := uint64(0)
	if dir {
		recursive = unix.AT_RECURSIVE
	}
	l.setFlags(l.tree, flags, recursive)
	l.move(l.tree, dest)
	l.p.Add(unix.SYS_CLOSE, sys.Of(l.tree))
}

// move attaches the detached copy in tree at dest. It names dest by a path only if no symlink can be on the way.
func (l *lowering) move(tree sys.Slot, dest string) {
	p := l.p
	if dir, name, ok := l.place(dest); ok {
		p.Add(unix.SYS_MOVE_MOUNT, sys.Of(tree), sys.Str(""), dir, sys.Str(name),
			sys.Words(unix.MOVE_MOUNT_F_EMPTY_PATH, "MOVE_MOUNT_F_EMPTY_PATH"))
		return
	}
	l.openDest(dest, l.dst)
	// Both ends are descriptors, so a symlink that is planted now has no effect.
	p.Add(unix.SYS_MOVE_MOUNT, sys.Of(tree), sys.Str(""), sys.Of(l.dst), sys.Str(""),
		sys.Words(unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH, "MOVE_MOUNT_F_EMPTY_PATH|MOVE_MOUNT_T_EMPTY_PATH"))
	p.Add(unix.SYS_CLOSE, sys.Of(l.dst))
}

// setFlags adds flags to the mount whose root slot has open, and with AT_RECURSIVE to the mounts below it. It takes no flag away: the mask
// of cleared flags is 0.
func (l *lowering) setFlags(slot sys.Slot, flags Flags, recursive uint64) {
	if !l.have.NewAPI {
		l.p.Add(unix.SYS_DUP3, sys.Of(slot), sys.Int(l.picked(&l.fdDest)), sys.Words(unix.O_CLOEXEC, "O_CLOEXEC"))
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

// attachOld is attach by mount(2), for kernels before Linux 5.12. A bind mount takes no flags there. They need a remount, which must repeat
// the flags that the kernel has locked (mount_namespaces(7)), and another remount for each submount. Mountinfo lists the submounts.
//
// The mounts have too few flags between the bind and the remount. Nothing can use that moment, because the command has not been started.
func (l *lowering) attachOld(flags Flags, source, dest string) error {
	if err := l.readMounts(); err != nil {
		return err
	}
	p := l.p
	cloexec := sys.Words(unix.O_CLOEXEC, "O_CLOEXEC")
	// Paths in /proc/self/fd name what is open, so mount(2) resolves no path that could have changed.
	p.Add(unix.SYS_DUP3, sys.Of(l.src), sys.Int(l.picked(&l.fdSource)), cloexec)
	p.Add(unix.SYS_CLOSE, sys.Of(l.src))
	l.openDest(dest, l.dst)
	p.Add(unix.SYS_DUP3, sys.Of(l.dst), sys.Int(l.picked(&l.fdDest)), cloexec)
	p.Add(unix.SYS_CLOSE, sys.Of(l.dst))
	p.Add(unix.SYS_MOUNT, sys.Str(l.procFD(l.picked(&l.fdSource))), sys.Str(l.procFD(l.picked(&l.fdDest))), sys.Null(), sys.Words(unix.MS_BIND|unix.MS_REC, "MS_BIND|MS_REC"), sys.Null())
	p.Add(unix.SYS_CLOSE, sys.Int(l.picked(&l.fdSource)))
	p.Add(unix.SYS_CLOSE, sys.Int(l.picked(&l.fdDest)))
	if dest == "/" {
		l.reopenRoot() // the remount must reach the new mount, not the one below it
	}
	if source == "" {
		l.remountAt(dest, flags, nil)
		return nil
	}
	at, _ := At(l.mounts, source)
	l.remountAt(dest, flags, at.Options)
	// A bind remount changes one mount only (mount(2), MS_REMOUNT).
	for _, sub := range Below(l.mounts, source) {
		l.remountAt(join(dest, strings.TrimPrefix(strings.TrimPrefix(sub.Point, source), "/")), flags, sub.Options)
	}
	return nil
}

// remountAt opens dest again, which is now the mounted tree, and sets flags and the locked options on it.
func (l *lowering) remountAt(dest string, flags Flags, locked []string) {
	l.openDest(dest, l.dst)
	l.p.Add(unix.SYS_DUP3, sys.Of(l.dst), sys.Int(l.picked(&l.fdDest)), sys.Words(unix.O_CLOEXEC, "O_CLOEXEC"))
	l.p.Add(unix.SYS_CLOSE, sys.Of(l.dst))
	l.remountOld(flags, locked)
}

// remountOld sets flags on the mount whose root fdDest has open, and closes fdDest. locked are mount options, as mountinfo has them;
// without them the kernel refuses the remount with EPERM.
func (l *lowering) remountOld(flags Flags, locked []string) {
	ms, words := uintptr(unix.MS_REMOUNT|unix.MS_BIND)|flags.ms(), "MS_REMOUNT|MS_BIND"
	// A remount clears each flag that it does not repeat, and nosymfollow is one that a host may have set.
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
	l.p.Add(unix.SYS_MOUNT, sys.Null(), sys.Str(l.procFD(l.picked(&l.fdDest))), sys.Null(), sys.Words(ms, words), sys.Null())
	l.p.Add(unix.SYS_CLOSE, sys.Int(l.picked(&l.fdDest)))
}

// procFD returns the path of descriptor fd. mount(2) follows it to what is open there.
func (l *lowering) procFD(fd int) string { return l.prefix + "/proc/self/fd/" + strconv.Itoa(fd) }
