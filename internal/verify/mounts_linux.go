package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
	"golang.org/x/sys/unix"
)

// Flags of calls, as they are always the same.
const (
	oPath      = unix.O_PATH | unix.O_CLOEXEC
	oName      = oPath | unix.O_NOFOLLOW
	beneath    = unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH
	cloneTree  = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH
	moveEmpty  = unix.MOVE_MOUNT_F_EMPTY_PATH | unix.MOVE_MOUNT_T_EMPTY_PATH
	remount    = unix.MS_REMOUNT | unix.MS_BIND
	stagedFile = ".nsrun-file"
)

// layer is what lies at a path of the new root: only in a file system of the sandbox's own can anything be made.
type layer struct {
	path string // relative to the root; "" is the root itself
	own  bool
	ro   bool
}

// root checks the private root: the new file system, the operations of the plan, and the change of roots.
func (c *checker) rootStage() {
	c.newRoot()
	ops, from := mounts.Expand(c.Plan.Mounts)
	for i, op := range ops {
		c.op = from[i]
		c.operation(op, op.Kind == c.Plan.Mounts[c.op].Kind && op.Dest == c.Plan.Mounts[c.op].Dest)
	}
	c.setFlags(c.root, []mounts.Flag{mounts.ReadOnly, mounts.NoSuid, mounts.NoDev}, false)
	if c.null != 0 {
		c.close(OldRoot, c.null)
	}
	c.call(OldRoot, unix.SYS_FCHDIR).slot(c.root)
	c.close(OldRoot, c.root)
	c.call(OldRoot, unix.SYS_PIVOT_ROOT).str(".").str(".")
	c.call(OldRoot, unix.SYS_UMOUNT2).str(".").num(unix.MNT_DETACH)
	c.call(OldRoot, unix.SYS_CHDIR).str("/")
	if len(c.live) > 0 {
		c.failFor(OldRoot, "$%d still has a descriptor of the host or of the new root", c.live[0])
	}
}

// newRoot is an empty tmpfs that is stacked on "/" and reached by descriptor. Before that no mount is shared with the host any more.
func (c *checker) newRoot() {
	c.call(OldRoot, unix.SYS_MOUNT).null().str("/").null().num(unix.MS_REC | unix.MS_PRIVATE).null()
	if !c.Plan.Mechanisms.MountAPI {
		c.call(Flags, unix.SYS_MOUNT).str("nsrun").str("/").str("tmpfs").num(unix.MS_NOSUID | unix.MS_NODEV).str("mode=0755")
		c.openStacked()
		return
	}
	fs := c.call(Places, unix.SYS_FSOPEN).str("tmpfs").num(unix.FSOPEN_CLOEXEC).opens()
	c.call(Places, unix.SYS_FSCONFIG).slot(fs).num(unix.FSCONFIG_SET_STRING).str("source").str("nsrun")
	c.call(Flags, unix.SYS_FSCONFIG).slot(fs).num(unix.FSCONFIG_SET_STRING).str("mode").str("0755")
	c.call(Places, unix.SYS_FSCONFIG).slot(fs).num(unix.FSCONFIG_CMD_CREATE)
	c.root = c.call(Flags, unix.SYS_FSMOUNT).slot(fs).num(unix.FSMOUNT_CLOEXEC).num(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV).opens()
	c.call(Places, unix.SYS_MOVE_MOUNT).slot(c.root).str("").cwd().str("/").num(unix.MOVE_MOUNT_F_EMPTY_PATH)
	c.close(OldRoot, fs)
}

// openStacked enters the new root through "/..". A call that must fail proves that this is not the host's root.
func (c *checker) openStacked() {
	if c.Plan.Mechanisms.Openat2 {
		c.call(Places, unix.SYS_OPENAT2).cwd().str("/..").words(oPath, 0, unix.RESOLVE_NO_XDEV).num(24).orSkip(otherMount, 1)
	} else {
		c.call(Places, unix.SYS_OPENAT).cwd().str("/../proc").num(oPath).orSkip(noHostProc, 1)
	}
	c.failure(Places, unix.EXDEV)
	c.root = c.call(Places, unix.SYS_OPENAT).cwd().str("/..").num(oPath | unix.O_DIRECTORY).opens()
}

// operation checks one simple operation. whole says that it is the plan's, whose place lowering has seen, not a part of a composite one.
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
		c.fileSystem(op, at)
	case mounts.Dir:
		c.makeParents(at)
		if c.aheadStr(unix.SYS_MKDIRAT, 1, at) {
			c.make(unix.SYS_MKDIRAT, at, orMode(op.Mode, 0o755))
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
	default:
		c.failFor(Places, "no plan of nsrun's own has an operation %q", op.Kind)
	}
}

// makeParents allows for the directories above a place that have to be made, outermost first. One that is left out makes the next call fail.
func (c *checker) makeParents(at string) {
	for last := ""; c.ahead(0, unix.SYS_MKDIRAT); {
		name, _ := c.p.View(c.next).Str(1)
		if len(name) <= len(last) || !strings.HasPrefix(at, name+"/") {
			return
		}
		c.make(unix.SYS_MKDIRAT, name, 0o755)
		last = name
	}
}

// point is a mount point: it is made, unless something is there already. Without it the next call fails.
func (c *checker) point(at string) {
	c.makeParents(at)
	switch {
	case c.aheadStr(unix.SYS_MKDIRAT, 1, at):
		c.make(unix.SYS_MKDIRAT, at, 0o755)
	case c.aheadStr(unix.SYS_MKNODAT, 1, at):
		c.make(unix.SYS_MKNODAT, at, unix.S_IFREG|0o444)
	}
}

// make checks a directory or an empty file that is made.
func (c *checker) make(nr uintptr, at string, mode uint32) {
	c.call(Places, nr).slot(c.root).str(at).num(int(mode))
	c.mayMake(at)
}

// mayMake requires that a name is made in a file system of the sandbox's own, and through no symlink that the sandbox has.
func (c *checker) mayMake(at string) {
	if at == "" || at[0] == '/' || strings.Contains("/"+at+"/", "/../") {
		c.failFor(Places, "%q leaves the new root", at)
	}
	for _, l := range slices.Backward(c.layers) {
		if below(at, l.path) && at != l.path {
			if !l.own {
				c.failFor(Places, "%s is made in the host's %s", at, l.path)
			}
			return
		}
	}
}

// below reports whether a relative path is dir or lies below it.
func below(at, dir string) bool {
	return dir == "" || strings.HasPrefix(at, dir) && (len(at) == len(dir) || at[len(dir)] == '/')
}

// bind is a copy of the host's mounts, with flags, attached at a place.
func (c *checker) bind(op mounts.Op, seen mounts.Resolved, at string, whole bool) {
	if seen.Link {
		if !op.KeepLink {
			c.failFor(Places, "%s is to be no symlink", op.Dest)
		}
		c.symlink("", at)
		return
	}
	c.point(at)
	source := seen.Source
	if !whole { // a device node, whose number lowering has checked
		source = c.deviceSource(source)
	}
	src := c.source(source)
	c.attach(src, op.Flags, at, whole && !seen.File, true)
	c.layers = append(c.layers, layer{at, false, op.Flags.Has(mounts.ReadOnly)})
}

// deviceSource is where the host has the node of that name: there, or where a symlink in /dev leads.
func (c *checker) deviceSource(name string) string {
	if have, ok := c.p.View(c.next).Str(1); ok && strings.HasPrefix(have, "/dev/") && c.Plan.Mechanisms.Openat2 {
		return have
	}
	return name
}

// source opens a path of the host's, following no symlink.
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

// place opens a path below the new root, following no symlink.
func (c *checker) place(at string) sys.Slot {
	if at == "" {
		at = "."
	}
	if c.Plan.Mechanisms.Openat2 {
		return c.call(Places, unix.SYS_OPENAT2).slot(c.root).str(at).words(oPath, 0, beneath).num(24).opens()
	}
	s := c.call(Places, unix.SYS_OPENAT).slot(c.root).str(".").num(oPath).opens()
	if at != "." {
		c.walk(s, at)
	}
	return s
}

// walk opens a path name by name, for kernels without openat2, and makes sure that its end is no symlink.
func (c *checker) walk(s sys.Slot, path string) {
	for rest, name := path, ""; rest != ""; {
		name, rest, _ = strings.Cut(rest, "/")
		flags := oName
		if rest != "" {
			flags |= unix.O_DIRECTORY // a symlink on the way is no directory
		}
		next := c.call(Places, unix.SYS_OPENAT).slot(s).str(name).num(flags).opens()
		c.close(Places, s)
		if again := c.call(Places, unix.SYS_FCNTL).slot(next).num(unix.F_DUPFD_CLOEXEC).num(0).opens(); again != s {
			c.fail("it opens $%d again, not $%d", again, s)
		}
		c.close(Places, next)
	}
	c.call(Places, unix.SYS_READLINKAT).slot(s).str("").buffer(8).num(8).orSkip(notLinkEither, 1).orSkip(notLink, 1)
	c.failure(Places, unix.ELOOP)
}

// fileSystem is one of the sandbox's own. A directory that only the sandbox can change is entered; any other one is named by number.
func (c *checker) fileSystem(op mounts.Op, at string) {
	flags, options := op.Flags, ""
	switch op.Kind {
	case mounts.Tmpfs:
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
		c.enter(at)
		c.call(Lifetime, unix.SYS_MOUNT).null().str(".").null().word(unix.MS_REMOUNT | attributes(flags)).str("hidepid=ptraceable").or(noHidepid)
	}
	c.layers = append(c.layers, layer{at, op.Kind == mounts.Tmpfs, flags.Has(mounts.ReadOnly)})
}

func (c *checker) mountType(fstype, options string, flags mounts.Flags, at string) {
	dst := c.place(at)
	if c.ahead(0, unix.SYS_FCHDIR) {
		c.call(Places, unix.SYS_FCHDIR).slot(dst)
		c.close(OldRoot, dst)
		c.call(Flags, unix.SYS_MOUNT).str(fstype).str(".").str(fstype).word(attributes(flags)).optional(options)
		return
	}
	c.number(c.call(Places, unix.SYS_DUP3).slot(dst), &c.second).num(unix.O_CLOEXEC)
	c.close(OldRoot, dst)
	c.call(Flags, unix.SYS_MOUNT).str(fstype).str(procFD(c.second)).str(fstype).word(attributes(flags)).optional(options)
	c.call(OldRoot, unix.SYS_CLOSE).num(c.second)
}

func (c *checker) enter(at string) {
	dst := c.place(at)
	c.call(Places, unix.SYS_FCHDIR).slot(dst)
	c.close(OldRoot, dst)
}

func (c *checker) symlink(target, at string) {
	c.makeParents(at)
	m := c.call(Places, unix.SYS_SYMLINKAT)
	if target == "" { // the host's own symlink, which leads wherever it leads inside
		m, _ = m.text()
	} else {
		m.str(target)
	}
	m.slot(c.root).str(at)
	c.mayMake(at)
	c.layers = append(c.layers, layer{path: at})
}

// file is one with content. It is made where it belongs, or, over a file of the host's, beside and then mounted there.
func (c *checker) file(op mounts.Op, at string) {
	c.point(at)
	if c.aheadStr(unix.SYS_OPENAT, 1, at) {
		c.writeFile(op, at)
		return
	}
	c.writeFile(op, stagedFile)
	src := c.place(stagedFile)
	c.attach(src, append(mounts.Flags{mounts.NoSuid, mounts.NoDev, mounts.NoExec}, op.Flags...), at, false, true)
	c.call(Places, unix.SYS_UNLINKAT).slot(c.root).str(stagedFile).num(0)
	c.layers = append(c.layers, layer{path: at})
}

func (c *checker) writeFile(op mounts.Op, at string) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	s := c.call(Places, unix.SYS_OPENAT).slot(c.root).str(at).num(flags).num(int(orMode(op.Mode, 0o644))).opens()
	c.mayMake(at)
	if n := len(op.Data); n > 0 {
		c.call(Places, unix.SYS_WRITE).slot(s).mem(op.Data).num(n).atLeast(n)
	}
	c.close(OldRoot, s)
}

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

// mask covers a file by the host's /dev/null, which cannot be written to there, or a directory by an empty tmpfs.
func (c *checker) mask(at string, maybe bool) {
	flags := mounts.Flags{mounts.ReadOnly, mounts.NoSuid, mounts.NoExec}
	if maybe && !c.masks(at) {
		return
	}
	api := c.Plan.Mechanisms.MountAPI
	if c.null == 0 && c.opensNull() {
		c.null = c.source(c.deviceSource("/dev/null"))
	}
	switch {
	case api && c.ahead(0, unix.SYS_OPEN_TREE):
		c.attach(c.null, flags, at, false, false)
	case !api && c.ahead(0, unix.SYS_FCNTL):
		src := c.call(Places, unix.SYS_FCNTL).slot(c.null).num(unix.F_DUPFD_CLOEXEC).num(0).opens()
		c.attachOld(src, flags, at, false)
	default:
		c.mountType("tmpfs", "size=4k,nr_inodes=2", mounts.Flags{mounts.ReadOnly, mounts.NoSuid, mounts.NoDev, mounts.NoExec}, at)
	}
	c.layers = append(c.layers, layer{path: at, ro: true})
}

// opensNull reports whether the next calls open the host's /dev/null, which the first mask of a file does.
func (c *checker) opensNull() bool {
	v := c.p.View(c.next)
	return v.Arg(0) == uint64(0xffffffffffffff9c) && !v.IsSlot(0)
}

// masks reports whether the next operation covers at: an entry of /proc that the kernel does not have is not covered.
func (c *checker) masks(at string) bool {
	for i := c.next; i < min(c.end, c.next+64); i++ {
		switch v := c.p.View(i); {
		case v.NR() == unix.SYS_MOVE_MOUNT, v.NR() == unix.SYS_MOUNT && v.Kind() == sys.KindCall:
			return false
		case v.IsSlot(0) && sys.Slot(v.Arg(0)) == c.root:
			if name, _ := v.Str(1); c.Plan.Mechanisms.Openat2 {
				return name == at
			}
			return c.walksTo(i, at)
		}
	}
	return false
}

// walksTo reports whether the calls from i on open a path name by name.
func (c *checker) walksTo(i int, at string) bool {
	for name := range strings.SplitSeq(at, "/") {
		i++
		if have, _ := c.p.View(i).Str(1); have != name {
			return false
		}
		i += 3
	}
	return c.p.View(i+1).NR() == unix.SYS_READLINKAT
}

// rebind mounts what is at a place over itself, with flags.
func (c *checker) rebind(op mounts.Op, at string, file bool) {
	src := c.place(at)
	if c.Plan.Mechanisms.MountAPI {
		c.attach(src, op.Flags, at, !file, true)
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

func relative(path string) string { return strings.TrimPrefix(path, "/") }
