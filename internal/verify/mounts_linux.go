package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
	"golang.org/x/sys/unix"
)

// Flags that several calls share.
const (
	oPath      = unix.O_PATH | unix.O_CLOEXEC
	oName      = oPath | unix.O_NOFOLLOW
	beneath    = unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH
	cloneTree  = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH
	copyNamed  = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_SYMLINK_NOFOLLOW | unix.AT_RECURSIVE
	moveEmpty  = unix.MOVE_MOUNT_F_EMPTY_PATH | unix.MOVE_MOUNT_T_EMPTY_PATH
	remount    = unix.MS_REMOUNT | unix.MS_BIND
	stagedFile = ".nsrun-file"
)

// layer records what lies at a path of the new root, so that later operations at or below that path can be checked.
type layer struct {
	path string // relative to the root; "" is the root itself
	own  bool   // a file system of the sandbox: only there may files be made
	ro   bool   // mounted read-only
}

// rootStage requires the private root: a new file system, the operations of the plan in order, and the change of roots.
//
// Claim OldRoot: after the detaching umount2 the host is reachable by no path, and at the end no descriptor of the host or of the new root
// may be open. CVE-2024-21626 was such a descriptor.
func (c *checker) rootStage() {
	c.newRoot()
	c.call(Places, unix.SYS_FCHDIR).slot(c.root) // paths for mount(2) begin there
	ops, from := mounts.Expand(c.Plan.Mounts)
	for i, op := range ops {
		c.op = from[i]
		c.operation(op, op.Kind == c.Plan.Mounts[c.op].Kind && op.Dest == c.Plan.Mounts[c.op].Dest)
	}
	// The root itself becomes read-only last: every mount point below it has been made by then.
	c.setFlags(c.root, []mounts.Flag{mounts.ReadOnly, mounts.NoSuid, mounts.NoDev}, false)
	if c.null != 0 {
		c.close(OldRoot, c.null)
	}
	c.call(OldRoot, unix.SYS_FCHDIR).slot(c.root)
	c.close(OldRoot, c.root)
	// pivot_root(".", ".") stacks the old root on the new one, so umount2(".") detaches the old root (pivot_root(2), NOTES). The chdir
	// leaves no doubt where the working directory is: CVE-2024-21626 was one outside of the new root.
	c.call(OldRoot, unix.SYS_PIVOT_ROOT).str(".").str(".")
	c.call(OldRoot, unix.SYS_UMOUNT2).str(".").num(unix.MNT_DETACH)
	c.call(OldRoot, unix.SYS_CHDIR).str("/")
	if len(c.live) > 0 {
		c.failFor(OldRoot, "$%d still has a descriptor of the host or of the new root", c.live[0])
	}
}

// newRoot requires an empty tmpfs that is stacked on "/" and used by descriptor only. Absolute paths still mean the host until pivot_root.
func (c *checker) newRoot() {
	// First every mount becomes private: later mounts must not propagate to the host, nor mounts of the host into the sandbox
	// (mount_namespaces(7)).
	c.call(OldRoot, unix.SYS_MOUNT).null().str("/").null().num(unix.MS_REC | unix.MS_PRIVATE).null()
	options := tmpfsOptions(mounts.Op{Size: c.Plan.Tmpfs.Size, Inodes: c.Plan.Tmpfs.Inodes})
	if !c.Plan.Mechanisms.MountAPI {
		c.call(Flags, unix.SYS_MOUNT).str("nsrun").str("/").str("tmpfs").num(unix.MS_NOSUID | unix.MS_NODEV).str(options)
		c.openStacked()
		return
	}
	fs := c.call(Places, unix.SYS_FSOPEN).str("tmpfs").num(unix.FSOPEN_CLOEXEC).opens()
	for option := range strings.SplitSeq("source=nsrun,"+options, ",") {
		name, value, _ := strings.Cut(option, "=")
		c.call(Flags, unix.SYS_FSCONFIG).slot(fs).num(unix.FSCONFIG_SET_STRING).str(name).str(value)
	}
	c.call(Places, unix.SYS_FSCONFIG).slot(fs).num(unix.FSCONFIG_CMD_CREATE)
	c.root = c.call(Flags, unix.SYS_FSMOUNT).slot(fs).num(unix.FSMOUNT_CLOEXEC).num(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV).opens()
	c.call(Places, unix.SYS_MOVE_MOUNT).slot(c.root).str("").cwd().str("/").num(unix.MOVE_MOUNT_F_EMPTY_PATH)
	c.close(OldRoot, fs)
}

// openStacked requires that the new root is opened as "/..", the one path that leads into a mount stacked on "/". If ".." still meant the
// host's root, directories would be made on the host. So a call that must fail comes first: openat2 with RESOLVE_NO_XDEV, or before Linux
// 5.6 opening the host's /proc there. If it succeeds, the next call stops the start.
func (c *checker) openStacked() {
	if c.Plan.Mechanisms.Openat2 {
		c.call(Places, unix.SYS_OPENAT2).cwd().str("/..").words(oPath, 0, unix.RESOLVE_NO_XDEV).num(24).orSkip(otherMount, 1)
	} else {
		c.call(Places, unix.SYS_OPENAT).cwd().str("/../proc").num(oPath).orSkip(noHostProc, 1)
	}
	c.failure(Places, unix.EXDEV)
	c.root = c.call(Places, unix.SYS_OPENAT).cwd().str("/..").num(oPath | unix.O_DIRECTORY).opens()
}

// operation requires the calls of one simple operation. whole is set if the operation stands in the plan itself: its source and destination
// were resolved then. Parts of a composite operation (/dev, /proc) were not, so their paths are taken as they are.
//
// An operation that was resolved as missing has no calls: the plan marked it optional.
func (c *checker) operation(op mounts.Op, whole bool) {
	seen := mounts.Resolved{Dest: op.Dest, Source: op.Source}
	if whole {
		seen = c.Resolved[c.op]
	}
	if seen.Missing {
		return
	}
	at := relative(seen.Dest)
	switch op.Kind {
	case mounts.Bind:
		c.bind(op, seen, at, whole)
	case mounts.Tmpfs, mounts.Proc, mounts.Devpts, mounts.Mqueue:
		if c.shares(op, at) {
			c.share(op, at)
		} else {
			c.fileSystem(op, at)
		}
	case mounts.Dir:
		c.makeParents(at)
		if c.aheadStr(unix.SYS_MKDIRAT, 1, at) {
			c.make(unix.SYS_MKDIRAT, at, orMode(op.Mode, 0o755))
			c.made[at] = orMode(op.Mode, 0o755)
		}
	case mounts.Symlink:
		c.symlink(op.Source, at)
	case mounts.File:
		c.file(op, at)
	case mounts.Remount:
		c.remount(op, at)
	case mounts.Mask:
		c.mask(at, !whole)
	case mounts.Rebind:
		c.rebind(op, at, seen.File)
	case mounts.Overlay:
		c.overlay(op, seen.Source, at)
	default:
		c.failFor(Places, "no plan of nsrun's own has an operation %q", op.Kind)
	}
}

// makeParents accepts mkdirat calls for directories above a place, outermost first. How many are needed depends on what exists already. The
// choice is harmless: each one must be an ancestor of the place and lie in a file system of the sandbox, and a missing one makes the next
// call fail.
func (c *checker) makeParents(at string) {
	for last := ""; c.ahead(0, unix.SYS_MKDIRAT); {
		name, _ := c.p.View(c.next).Str(1)
		if len(name) <= len(last) || !strings.HasPrefix(at, name+"/") {
			return
		}
		c.make(unix.SYS_MKDIRAT, name, 0o755)
		c.made[name] = 0 // for something below it, so it is used
		last = name
	}
}

// point accepts the call that makes a mount point, a directory or an empty file. It may be left out where something exists already: if
// nothing does, opening the place fails.
func (c *checker) point(at string) {
	c.makeParents(at)
	switch {
	case c.aheadStr(unix.SYS_MKDIRAT, 1, at):
		c.make(unix.SYS_MKDIRAT, at, 0o755)
	case c.aheadStr(unix.SYS_MKNODAT, 1, at):
		c.make(unix.SYS_MKNODAT, at, unix.S_IFREG|0o444)
	}
}

// make requires that a directory or an empty file is made at a path below the new root's descriptor.
func (c *checker) make(nr uintptr, at string, mode uint32) {
	c.call(Places, nr).slot(c.root).str(at).num(int(mode))
	c.mayMake(at)
}

// mayMake requires that the path stays below the new root, and that the topmost thing mounted or linked above it is a file system of the
// sandbox.
//
// Claim Places: otherwise a file would be made in a directory of the host, or through a symlink (CVE-2019-16884, CVE-2021-30465). A symlink
// counts as a layer that is not the sandbox's, so nothing is made through it.
func (c *checker) mayMake(at string) {
	if at == "" || at[0] == '/' || strings.Contains("/"+at+"/", "/../") {
		c.failFor(Places, "%q leaves the new root", at)
	}
	for _, l := range slices.Backward(c.layers) {
		switch {
		case at == l.path:
			c.failFor(Places, "%s is made where something is already", at)
		case below(at, l.path) && !l.own:
			c.failFor(Places, "%s is made in the host's %s", at, l.path)
		case below(at, l.path):
			return
		}
	}
}

// direct requires that a path below the new root leads to a place and nowhere else, if a symlink at the end is not followed. In a new procfs
// only the kernel makes names, and the parts of it that the plan's operation covers lie below no symlink.
func (c *checker) direct(at string) {
	if proc := relative(c.Plan.Mounts[c.op].Dest); c.Plan.Mounts[c.op].Kind == mounts.Proc && !c.Resolved[c.op].Missing && below(at, proc) {
		at = proc
	}
	c.private(at)
}

// private requires that each directory above a place lies in a file system of the sandbox, which has no symlinks but those of the plan.
//
// Claim Places: a symlink that is planted in a directory of the host would lead elsewhere (CVE-2019-16884).
func (c *checker) private(at string) {
	inner := at
	for _, l := range slices.Backward(c.layers) {
		if inner == l.path || !below(inner, l.path) {
			continue
		}
		if !l.own {
			c.failFor(Places, "%s is named by a path, but %s is not the sandbox's own", at, l.path)
		}
		inner = l.path
	}
}

// named returns a path as a call names it from the new root.
func named(at string) string {
	if at == "" {
		return "."
	}
	return at
}

// below reports whether a relative path is dir or lies below it.
func below(at, dir string) bool {
	return dir == "" || strings.HasPrefix(at, dir) && (len(at) == len(dir) || at[len(dir)] == '/')
}

// bind requires that a copy of the host's mounts at the resolved source gets its flags and is then attached at the place. A source that is
// itself a symlink becomes a symlink, if the plan permits that (KeepLink).
func (c *checker) bind(op mounts.Op, seen mounts.Resolved, at string, whole bool) {
	if seen.Link {
		if !op.KeepLink {
			c.failFor(Places, "%s is to be no symlink", op.Dest)
		}
		c.symlink(seen.Target, at)
		return
	}
	c.point(at)
	source := seen.Source
	if !whole { // a device node, whose device number lowering has checked
		source = c.device(source)
	}
	src := c.source(source)
	c.attach(src, op.Flags, at, whole && !seen.File)
	c.layers = append(c.layers, layer{at, false, op.Flags.Has(mounts.ReadOnly)})
}

// device returns the path that the program must open for a device of that name: the name itself or, if a symlink stands there on the host,
// where it leads.
func (c *checker) device(name string) string {
	if have, _ := c.p.View(c.next).Str(1); have == name && c.Plan.Mechanisms.Openat2 {
		return name
	}
	return c.Device(name)
}

// source requires that a path of the host is opened without following any symlink. Lowering has resolved the path, so a symlink in it now
// was planted since, and the start fails.
func (c *checker) source(path string) sys.Slot {
	if c.Plan.Mechanisms.Openat2 {
		return c.call(Places, unix.SYS_OPENAT2).cwd().str(path).words(oPath, 0, unix.RESOLVE_NO_SYMLINKS).num(24).opens()
	}
	s := c.call(Places, unix.SYS_OPENAT).cwd().str("/").num(oPath).opens()
	if path != "/" {
		c.walk(s, relative(path))
	}
	return s
}

// place requires that a path is opened from the new root's descriptor, beneath it and without following any symlink. CVE-2026-87766 was a
// mount point made through a planted symlink.
func (c *checker) place(at string) sys.Slot {
	at = named(at)
	if c.Plan.Mechanisms.Openat2 {
		return c.call(Places, unix.SYS_OPENAT2).slot(c.root).str(at).words(oPath, 0, beneath).num(24).opens()
	}
	s := c.call(Places, unix.SYS_OPENAT).slot(c.root).str(".").num(oPath).opens()
	if at != "." {
		c.walk(s, at)
	}
	return s
}

// walk requires that a path is opened name by name from slot s, for kernels without openat2 (before Linux 5.6). Each name but the last is
// opened with O_NOFOLLOW and O_DIRECTORY, so a symlink on the way is an error.
func (c *checker) walk(s sys.Slot, path string) {
	for rest, name := path, ""; rest != ""; {
		name, rest, _ = strings.Cut(rest, "/")
		flags := oName
		if rest != "" {
			flags |= unix.O_DIRECTORY // a symlink on the way is no directory
		}
		next := c.call(Places, unix.SYS_OPENAT).slot(s).str(name).num(flags).opens()
		c.close(Places, s)
		// The descriptor moves back to slot s by a duplicate. A walk that goes on in another slot is refused.
		if again := c.call(Places, unix.SYS_FCNTL).slot(next).num(unix.F_DUPFD_CLOEXEC).num(0).opens(); again != s {
			c.fail("it opens $%d again, not $%d", again, s)
		}
		c.close(Places, next)
	}
	// O_PATH|O_NOFOLLOW opens a last symlink itself. readlinkat succeeds only for a symlink, and then the next call stops the start.
	c.call(Places, unix.SYS_READLINKAT).slot(s).str("").buffer(8).num(8).orSkip(notLinkEither, 1).orSkip(notLink, 1)
	c.failure(Places, unix.ELOOP)
}

// fileSystem requires a new file system of the plan's type, with the flags and options that belong to that type. Only in a tmpfs may later
// operations make files.
func (c *checker) fileSystem(op mounts.Op, at string) {
	flags, options := op.Flags, ""
	switch op.Kind {
	case mounts.Tmpfs:
		if op.Shared && op.Size == 0 {
			op.Size, op.Inodes = c.Plan.Tmpfs.Size, c.Plan.Tmpfs.Inodes
		}
		options = tmpfsOptions(op)
		if len(flags) == 0 {
			flags = mounts.Flags{mounts.NoSuid, mounts.NoDev}
		}
	case mounts.Devpts:
		flags, options = mounts.Flags{mounts.NoSuid, mounts.NoExec}, "newinstance,ptmxmode=0666,mode=620,max=256"
	case mounts.Mqueue:
		flags = mounts.Flags{mounts.NoSuid, mounts.NoDev, mounts.NoExec}
	}
	c.point(at)
	c.mountType(string(op.Kind), options, flags, at)
	if op.Kind == mounts.Proc {
		// hidepid hides the processes that the command may not trace, and pid 1 is one of them (claim Lifetime, CVE-2019-5736).
		c.byPath(at, func(place string) {
			c.call(Lifetime, unix.SYS_MOUNT).null().str(place).null().word(unix.MS_REMOUNT | attributes(flags)).str("hidepid=ptraceable").or(noHidepid)
		})
	}
	c.layers = append(c.layers, layer{at, op.Kind == mounts.Tmpfs, flags.Has(mounts.ReadOnly)})
}

// shares reports whether a shared tmpfs lies in a file system of the sandbox and covers nothing: no directory that was made with other permissions,
// or that has something in it.
func (c *checker) shares(op mounts.Op, at string) bool {
	own := true
	for _, l := range slices.Backward(c.layers) {
		if below(at, l.path) {
			own = l.own && at != l.path
			break
		}
	}
	mode, made := c.made[at]
	used := slices.ContainsFunc(c.layers, func(l layer) bool { return below(l.path, at) })
	return op.Shared && own && at != "" && (!made || mode == orMode(op.Mode, 0o755) && !used)
}

// share requires a directory that is mounted on itself, so that it counts to the limits of the file system that it lies in. It is new, or an
// operation of the plan has made it.
func (c *checker) share(op mounts.Op, at string) {
	if _, made := c.made[at]; !made {
		c.makeParents(at)
		c.make(unix.SYS_MKDIRAT, at, orMode(op.Mode, 0o755))
	}
	c.byPath(at, func(place string) {
		c.call(Places, unix.SYS_MOUNT).str(place).str(place).null().num(unix.MS_BIND).null()
	})
	flags := op.Flags
	if len(flags) == 0 {
		flags = mounts.Flags{mounts.NoSuid, mounts.NoDev}
	}
	c.byPath(at, func(place string) {
		c.call(Flags, unix.SYS_MOUNT).null().str(place).null().word(remount | attributes(flags)).null()
	})
	c.layers = append(c.layers, layer{at, true, flags.Has(mounts.ReadOnly)})
}

// mountType requires a new file system on a place.
func (c *checker) mountType(fstype, options string, flags mounts.Flags, at string) {
	c.byPath(at, func(place string) {
		c.call(Flags, unix.SYS_MOUNT).str(fstype).str(place).str(fstype).word(attributes(flags)).optional(options)
	})
}

// byPath requires the mount(2) that body requires, on a path that leads to a place: one from the working directory, which is the new root,
// or one in /proc/self/fd that names the place, which was opened without following symlinks.
func (c *checker) byPath(at string, body func(place string)) {
	if c.ahead(0, unix.SYS_MOUNT) {
		body(named(at))
		c.private(at)
		return
	}
	c.placeNumber(at)
	body(procFD(c.second))
	c.call(OldRoot, unix.SYS_CLOSE).num(c.second)
}

// symlink requires a symlink with the plan's target in a file system of the sandbox. Nothing can be made below it later.
func (c *checker) symlink(target, at string) {
	c.makeParents(at)
	c.call(Places, unix.SYS_SYMLINKAT).str(target).slot(c.root).str(at)
	c.mayMake(at)
	c.layers = append(c.layers, layer{path: at})
}

// file requires a file with the plan's content. Where the place is in a file system of the sandbox, it is made there. Over a file of the
// host it is made elsewhere, mounted on that file with flags, and unlinked, so that no second name is left.
func (c *checker) file(op mounts.Op, at string) {
	c.point(at)
	if c.aheadStr(unix.SYS_OPENAT, 1, at) {
		c.close(OldRoot, c.writeFile(op, at))
		return
	}
	src := c.writeFile(op, stagedFile)
	c.attach(src, append(mounts.Flags{mounts.NoSuid, mounts.NoDev, mounts.NoExec}, op.Flags...), at, false)
	c.call(Places, unix.SYS_UNLINKAT).slot(c.root).str(stagedFile).num(0)
	c.layers = append(c.layers, layer{path: at})
}

// writeFile requires that a new file is made (O_EXCL, O_NOFOLLOW) and that all of its content is written: a short write is a failure. It
// returns the slot in which the file is open.
func (c *checker) writeFile(op mounts.Op, at string) sys.Slot {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	s := c.call(Places, unix.SYS_OPENAT).slot(c.root).str(at).num(flags).num(int(orMode(op.Mode, 0o644))).opens()
	c.mayMake(at)
	if n := len(op.Data); n > 0 {
		c.call(Places, unix.SYS_WRITE).slot(s).mem(op.Data).num(n).atLeast(n)
	}
	return s
}

// remount requires that flags are added to the mount at a place. A layer never loses its read-only mark (claim Flags).
func (c *checker) remount(op mounts.Op, at string) {
	dst := c.place(at)
	c.setFlags(dst, op.Flags, false)
	c.close(OldRoot, dst)
	for i := range c.layers {
		if l := &c.layers[i]; l.path == at {
			l.ro = l.ro || op.Flags.Has(mounts.ReadOnly)
		}
	}
}

// rebind requires that a copy of what is at a place gets flags and is mounted on the same place. It makes parts of /proc read-only through
// which the host could be controlled, such as /proc/sys.
func (c *checker) rebind(op mounts.Op, at string, file bool) {
	if c.ahead(0, unix.SYS_OPEN_TREE) {
		tree := c.call(Places, unix.SYS_OPEN_TREE).slot(c.root).str(at).num(copyNamed).opens()
		c.direct(at)
		c.finish(tree, op.Flags, at, !file)
	} else if src := c.place(at); c.Plan.Mechanisms.MountAPI {
		c.attach(src, op.Flags, at, !file)
	} else {
		c.number(c.call(Places, unix.SYS_DUP3).slot(src), &c.second).num(unix.O_CLOEXEC)
		c.close(OldRoot, src)
		c.call(Places, unix.SYS_MOUNT).str(procFD(c.second)).str(procFD(c.second)).null().num(unix.MS_BIND | unix.MS_REC)
		c.call(OldRoot, unix.SYS_CLOSE).num(c.second)
		c.placeNumber(at)
		c.remountNumber(op.Flags)
	}
	c.layers = append(c.layers, layer{path: at, ro: op.Flags.Has(mounts.ReadOnly)})
}

// tmpfsOptions returns the mount options of a tmpfs. It repeats what lowering writes on purpose: the two must agree byte for byte.
func tmpfsOptions(op mounts.Op) string {
	options := fmt.Sprintf("mode=%04o", orMode(op.Mode, 0o755))
	if op.Size > 0 {
		options += fmt.Sprintf(",size=%d", op.Size)
	}
	if op.Inodes > 0 {
		options += fmt.Sprintf(",nr_inodes=%d", op.Inodes)
	}
	return options
}

func orMode(mode, usual uint32) uint32 {
	if mode == 0 {
		return usual
	}
	return mode
}

// relative returns an absolute path as seen from the root's descriptor.
func relative(path string) string { return strings.TrimPrefix(path, "/") }
