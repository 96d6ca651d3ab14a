package mounts

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// tmpfsOptions returns the mount options of a tmpfs, with mode 0755 if op has none.
func tmpfsOptions(op Op) string {
	options := "mode=" + modeText(orMode(op.Mode))
	if op.Size > 0 {
		options += ",size=" + strconv.FormatInt(op.Size, 10)
	}
	if op.Inodes > 0 {
		options += ",nr_inodes=" + strconv.FormatInt(op.Inodes, 10)
	}
	return options
}

// fileSystem mounts a new file system at op.Dest. A tmpfs without flags gets nosuid and nodev.
func (l *lowering) fileSystem(op Op, fstype, options string, n node) error {
	dest, err := l.mountPoint(op, op.Dest, true)
	if errors.Is(err, errSkip) {
		l.resolved.Missing = true
		return nil
	}
	if err != nil {
		return err
	}
	flags := op.Flags
	if op.Kind == Tmpfs {
		flags = tmpfsFlags(op)
	}
	l.mountOn(dest, fstype, options, flags)
	if op.Kind == Proc {
		// hidepid=ptraceable shows only the processes that the reader may trace. Pid 1 is not among them, so the command cannot look into
		// it. Kernels before Linux 5.8 refuse the option; there, permissions alone protect pid 1 (proc_pid(5), hidepid).
		l.byPath(dest, func(place string) {
			l.p.Add(unix.SYS_MOUNT, sys.Null(), sys.Str(place), sys.Null(), sys.Words(unix.MS_REMOUNT|flags.ms(), "MS_REMOUNT|nosuid|nodev|noexec"),
				sys.Str("hidepid=ptraceable")).Tolerate(unix.EINVAL, 0)
		})
	}
	l.view.cover(dest, n)
	return nil
}

// shares reports whether op becomes a directory of the sandbox's own file system that it lies in, one that is made for it or is there already.
func (l *lowering) shares(op Op) bool {
	n, _, rest := l.view.find(op.Dest)
	made := rest != "" || n.perm == orMode(op.Mode) && !l.view.above[op.Dest]
	return op.Shared && n.origin == private && n.dir && made
}

// bounded returns a tmpfs with the limits that it has as a file system of its own.
func (l *lowering) bounded(op Op) Op {
	if op.Shared && op.Size == 0 {
		op.Size, op.Inodes = l.whole.Size, l.whole.Inodes
	}
	return op
}

// share makes a directory and mounts it on itself: as a mount point it cannot be moved, and it has flags of its own, whatever those of the mount
// are that it lies in.
func (l *lowering) share(op Op) error {
	if _, _, rest := l.view.find(op.Dest); rest != "" {
		l.makeParents(op.Dest)
		l.mkdir(op.Dest, orMode(op.Mode))
	}
	l.view.cover(op.Dest, node{origin: private, dir: true})
	l.byPath(op.Dest, func(place string) {
		l.p.Add(unix.SYS_MOUNT, sys.Str(place), sys.Str(place), sys.Null(), sys.Words(unix.MS_BIND, "MS_BIND"), sys.Null())
	})
	flags := tmpfsFlags(op)
	l.byPath(op.Dest, func(place string) {
		l.p.Add(unix.SYS_MOUNT, sys.Null(), sys.Str(place), sys.Null(), sys.Words(unix.MS_REMOUNT|unix.MS_BIND|flags.ms(), "MS_REMOUNT|MS_BIND|"+flags.words()), sys.Null())
	})
	return nil
}

// tmpfsFlags returns the flags of a tmpfs: nosuid and nodev if op has none.
func tmpfsFlags(op Op) Flags {
	if len(op.Flags) == 0 {
		return Flags{NoSuid, NoDev}
	}
	return op.Flags
}

// orMode returns the permissions of a directory or tmpfs, 0755 if none are given.
func orMode(mode uint32) uint32 {
	if mode == 0 {
		return 0o755
	}
	return mode
}

// mountOn mounts a new file system on dest.
func (l *lowering) mountOn(dest, fstype, options string, flags Flags) {
	l.byPath(dest, func(place string) {
		l.p.Add(unix.SYS_MOUNT, sys.Str(fstype), sys.Str(place), sys.Str(fstype), msWords(flags), optional(options))
	})
}

// byPath calls body with a path for mount(2) that leads to dest: from the working directory, which is the new root, if no symlink can be on
// the way, and otherwise by number. mount(2) would follow a symlink at the end, too, so no place in a procfs is named so.
func (l *lowering) byPath(dest string, body func(place string)) {
	if l.view.private(parent(dest)) {
		body(relative(dest))
		return
	}
	l.byNumber(dest, body)
}

// byNumber calls body with a path in /proc/self/fd that names dest, which it opens without following symlinks. It does not enter dest:
// fchdir needs search permission, which the caller, and even root in a user namespace, may lack on a directory of the host.
func (l *lowering) byNumber(dest string, body func(place string)) {
	l.openDest(dest, l.dst)
	l.numbered(l.dst, l.picked(&l.fdDest))
	body(l.procFD(l.picked(&l.fdDest)))
	l.p.Add(unix.SYS_CLOSE, sys.Int(l.picked(&l.fdDest)))
}

// enter makes dest the working directory. The caller must make the new root the working directory again: enterRoot.
func (l *lowering) enter(dest string) {
	l.openDest(dest, l.dst)
	l.p.Add(unix.SYS_FCHDIR, sys.Of(l.dst))
	l.p.Add(unix.SYS_CLOSE, sys.Of(l.dst))
}

// msWords returns flags as the argument of mount(2), with their names for listings.
func msWords(flags Flags) sys.Arg {
	if len(flags) == 0 {
		return sys.Int(0)
	}
	return sys.Words(flags.ms(), flags.words())
}

// words returns the names of flags for listings.
func (s Flags) words() string {
	words := make([]string, len(s))
	for i, f := range s {
		words[i] = string(f)
	}
	return strings.Join(words, "|")
}

// optional returns s as an argument, or NULL if s is empty.
func optional(s string) sys.Arg {
	if s == "" {
		return sys.Null()
	}
	return sys.Str(s)
}

// dir makes an empty directory, or accepts one that exists. On the host it must exist already.
func (l *lowering) dir(op Op) error {
	n, _, rest := l.view.find(op.Dest)
	switch {
	case rest == "" && n.dir:
		return nil
	case n.origin == private && rest != "" && n.dir:
		l.makeParents(op.Dest)
		l.mkdir(op.Dest, orMode(op.Mode))
		l.view.set(op.Dest, node{origin: private, dir: true, perm: orMode(op.Mode)})
		return nil
	}
	// The place is on the host: mountPoint makes nothing there, and it must be a directory already.
	_, err := l.mountPoint(op, op.Dest, true)
	if errors.Is(err, errSkip) {
		l.resolved.Missing = true
		return nil
	}
	return err
}

// symlink makes a symlink in a file system of the sandbox, and nowhere else: nothing is created on the host.
func (l *lowering) symlink(op Op, target string) error {
	n, at, rest := l.view.find(op.Dest)
	switch {
	case n.origin != private || !n.dir:
		return hint("link somewhere else", "%s lies in %s, which is not the sandbox's own; nothing is created there", op.Dest, at)
	case rest == "":
		return fmt.Errorf("something is at %s already", op.Dest)
	}
	l.makeParents(op.Dest)
	l.p.Add(unix.SYS_SYMLINKAT, sys.Str(target), sys.Of(l.root), sys.Str(relative(op.Dest)))
	l.view.set(op.Dest, node{origin: link})
	l.resolved.Link, l.resolved.Target = true, target
	return nil
}

// staged is the path at which a file is made that will be mounted over a file of the host. It is unlinked as soon as the file is mounted. The
// kernel mounts no file that has no name (d_set_mounted in fs/dcache.c), so O_TMPFILE is no way.
const staged = "/.nsrun-file"

// file makes a file with op.Data. Below a directory of the host it cannot be made, so a file of that name must exist there, and the new
// file is mounted over it.
func (l *lowering) file(op Op) error {
	mode := op.Mode
	if mode == 0 {
		mode = 0o644
	}
	n, _, rest := l.view.find(op.Dest)
	if n.origin == private && n.dir && rest != "" {
		l.makeParents(op.Dest)
		l.write(op.Dest, op.Data, mode, l.dst)
		l.p.Add(unix.SYS_CLOSE, sys.Of(l.dst))
		l.view.set(op.Dest, node{origin: private})
		l.resolved.File = true
		return nil
	}
	dest, err := l.mountPoint(op, op.Dest, false)
	if errors.Is(err, errSkip) {
		l.resolved.Missing = true
		return nil
	}
	if err != nil {
		return err
	}
	// The place is on the host, so the file is made in the root tmpfs and mounted from there. It is data: nosuid, nodev and noexec cost
	// nothing.
	l.write(staged, op.Data, mode, l.src)
	flags := append(Flags{NoSuid, NoDev, NoExec}, op.Flags...)
	if err := l.attach(flags, "", dest, false); err != nil {
		return err
	}
	// The mount keeps the file. Without this, the sandbox would have it under a second name.
	l.p.Add(unix.SYS_UNLINKAT, sys.Of(l.root), sys.Str(relative(staged)), sys.Int(0))
	l.view.cover(dest, node{origin: private})
	l.resolved.Dest, l.resolved.File = dest, true
	return nil
}

// write makes a new file with data and leaves it open in slot. O_EXCL and O_NOFOLLOW refuse a file or symlink that exists already; a short
// write fails the start.
func (l *lowering) write(dest string, data []byte, mode uint32, slot sys.Slot) {
	p := l.p
	p.Add(unix.SYS_OPENAT, sys.Of(l.root), sys.Str(relative(dest)),
		sys.Words(unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, "O_WRONLY|O_CREAT|O_EXCL|O_NOFOLLOW|O_CLOEXEC"),
		octalMode(mode)).Keep(slot)
	if len(data) > 0 {
		p.Add(unix.SYS_WRITE, sys.Of(slot), sys.Bytes(data), sys.Int(len(data))).Min(len(data))
	}
}

// remount adds op.Flags to the mount at op.Dest, without its submounts.
func (l *lowering) remount(op Op) error {
	l.openDest(op.Dest, l.dst)
	l.setFlags(l.dst, op.Flags, 0)
	l.p.Add(unix.SYS_CLOSE, sys.Of(l.dst))
	return nil
}

// rebind mounts what is at op.Dest over itself with op.Flags. op.Dest is in a procfs or a bind, so the resolver can look up its type in the
// matching place on the host.
func (l *lowering) rebind(op Op) error {
	dir, found, err := l.kindAt(op)
	if err != nil || !found {
		return err
	}
	p := l.p
	if at, name, ok := l.place(op.Dest); ok && l.have.NewAPI {
		p.Add(unix.SYS_OPEN_TREE, at, sys.Str(name),
			sys.Words(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW|unix.AT_RECURSIVE,
				"OPEN_TREE_CLONE|OPEN_TREE_CLOEXEC|AT_SYMLINK_NOFOLLOW|AT_RECURSIVE")).Keep(l.tree)
		l.finish(op.Flags, op.Dest, dir)
		return nil
	}
	l.openDest(op.Dest, l.src)
	if l.have.NewAPI {
		return l.attach(op.Flags, op.Dest, op.Dest, dir)
	}
	cloexec := sys.Words(unix.O_CLOEXEC, "O_CLOEXEC")
	p.Add(unix.SYS_DUP3, sys.Of(l.src), sys.Int(l.picked(&l.fdDest)), cloexec)
	p.Add(unix.SYS_CLOSE, sys.Of(l.src))
	p.Add(unix.SYS_MOUNT, sys.Str(l.procFD(l.picked(&l.fdDest))), sys.Str(l.procFD(l.picked(&l.fdDest))), sys.Null(), sys.Words(unix.MS_BIND|unix.MS_REC, "MS_BIND|MS_REC"), sys.Null())
	p.Add(unix.SYS_CLOSE, sys.Int(l.picked(&l.fdDest)))
	// The bind covers the place, which is opened again to reach the new mount.
	l.remountAt(op.Dest, op.Flags, nil)
	return nil
}

// maskFlags are the flags of a mask. They keep the sandbox from changing the mode of the host's /dev/null.
var maskFlags = Flags{ReadOnly, NoSuid, NoExec}

// mask covers a file with the host's /dev/null, or a directory with an empty read-only tmpfs.
func (l *lowering) mask(op Op) error {
	dir, found, err := l.kindAt(op)
	if err != nil || !found {
		l.resolved.Missing = !found
		return err
	}
	if dir {
		// Read-only and as small as a tmpfs can be: it only hides what is below.
		l.mountOn(op.Dest, "tmpfs", "size=4k,nr_inodes=2", Flags{ReadOnly, NoSuid, NoDev, NoExec})
		return nil
	}
	if l.have.NewAPI {
		return l.maskFile(op.Dest)
	}
	if err := l.openNull(l.null); err != nil {
		return err
	}
	// attachOld closes its source. A duplicate keeps /dev/null open for the next mask.
	l.p.Add(unix.SYS_FCNTL, sys.Of(l.null), sys.Words(unix.F_DUPFD_CLOEXEC, "F_DUPFD_CLOEXEC"), sys.Int(0)).Keep(l.src)
	return l.attachOld(maskFlags, "/dev/null", op.Dest)
}

// maskFile covers a file with the host's /dev/null. The first mask gets its flags before it is attached, so the host's device is never in
// the sandbox on a writable mount. The others are copies of the first, and a copy has its flags (clone_mnt in fs/namespace.c).
func (l *lowering) maskFile(dest string) error {
	if l.haveNull {
		l.copyTree(l.null, l.tree, 0)
		l.move(l.tree, dest)
		l.p.Add(unix.SYS_CLOSE, sys.Of(l.tree))
		return nil
	}
	if err := l.openNull(l.src); err != nil {
		return err
	}
	l.copyTree(l.src, l.null, 0)
	l.p.Add(unix.SYS_CLOSE, sys.Of(l.src))
	l.setFlags(l.null, maskFlags, 0)
	l.move(l.null, dest)
	return nil
}

// openNull opens the host's /dev/null once into slot, after a check of its device number: CVE-2025-31133.
func (l *lowering) openNull(slot sys.Slot) error {
	if l.haveNull {
		return nil
	}
	stat, err := resolve(l.resolver, "/dev/null")
	if err == nil {
		// The device number decides, not the name.
		err = rightType(Op{Source: "/dev/null", Only: "device"}, stat)
	}
	if err != nil {
		return fmt.Errorf("the mask: %w", err)
	}
	l.openSource(stat.Path, slot)
	l.haveNull = true
	return nil
}

// kindAt reports whether something is at op.Dest and whether it is a directory. The view knows what an operation has made there; below a
// bind or a procfs it asks the resolver for the matching place on the host.
func (l *lowering) kindAt(op Op) (dir, found bool, err error) {
	n, at, rest := l.view.find(op.Dest)
	if rest == "" {
		return n.dir, true, nil
	}
	if n.origin == private && op.Optional { // the view knows everything in a private file system
		return false, false, nil
	}
	elsewhere := op.KeepLink && op.Optional
	if n.origin == link && elsewhere {
		return false, false, nil
	}
	// A private file system, an overlay or devpts: the host has no matching place.
	if n.source == "" {
		return false, false, fmt.Errorf("nothing is known of %s below %s", op.Dest, at)
	}
	stat, err := l.resolver.Stat(n.source + "/" + rest)
	if Absent(err) && op.Optional {
		return false, false, nil
	}
	switch {
	case err != nil:
	case elsewhere && (stat.Type() == unix.S_IFLNK || stat.Path != join(n.source, rest)):
		return false, false, nil
	// A mount on a symlink would land on its target instead.
	case stat.Type() == unix.S_IFLNK:
		err = fmt.Errorf("%s is a symlink; nothing is mounted on one", op.Dest)
	case stat.Path != join(n.source, rest):
		err = fmt.Errorf("%s is reached through a symlink; nothing is mounted through one", op.Dest)
	}
	return stat.Type() == unix.S_IFDIR, true, err
}
