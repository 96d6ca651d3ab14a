package mounts

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// Error is an operation that cannot be carried out on this host: stage "mount", the operation, its place, the cause, and what helps.
type Error = fault.Error

// lowering is the state of one [Lower].
type lowering struct {
	p        *sys.Program
	have     Have
	resolver Resolver
	view     view
	whole    Op              // the tmpfs that the root is in
	mounts   []Mount         // the host's, read when first needed
	writable map[string]bool // sources of writable binds
	resolved Resolved        // of the current operation
	proc     string          // where the current operation has mounted a procfs, if the operation is a part of Proc

	root           sys.Slot // O_PATH descriptor of the new root
	src, dst, tree sys.Slot // of the current operation
	null           sys.Slot // the first mask of a file; without the new API, the host's /dev/null
	haveNull       bool

	// Descriptor numbers that paths in /proc/self/fd name, 0 before picked. prefix stands before /proc while a compat tree is built.
	fdSource, fdDest int
	taken            []int // numbers in use
	noNumber         error // why there are too few
	prefix           string

	// Of a compat tree.
	index      int      // of the current operation
	base, host sys.Slot // the tmpfs that everything is built in, and the host's root
	anchor     sys.Slot // descriptor of anchored, unless that is empty
	anchored   string
	made       map[string]node // what operations will have made on the host, by host path
	pending    []pendingProc   // procfses that are to be mounted
	pendingErr error           // of one of them
	changes    bool            // the current operation changes the host
	begin      int             // its first call
	boundFDs   []int           // descriptors that a bind has used
	magicLinks []string        // sources behind a procfs link that only the kernel can follow
	scratches  int             // number of overlays in memory so far
}

// Lower looks at the host and appends the calls that build tree, make it the root of the calling process and detach the old root.
// The process must be in a mount namespace of its own, with CAP_SYS_ADMIN over it and a procfs at /proc. Afterwards its working
// directory is the new root, and no descriptor is left open. The result has one entry for each operation of tree.
func Lower(p *sys.Program, tree Tree, have Have, resolver Resolver) ([]Resolved, error) {
	l := &lowering{p: p, have: have, resolver: resolver, view: newView(len(tree.Ops)), whole: Op{Kind: Tmpfs, Size: tree.Size, Inodes: tree.Inodes}}
	l.root, l.src, l.dst, l.tree, l.null = p.Slot(), p.Slot(), p.Slot(), p.Slot(), p.Slot()
	if tree.Compat {
		return l.lowerCompatTree(tree)
	}
	l.noteWritable(tree.Ops)
	l.newRoot()
	simple, from := Expand(tree.Ops)
	result := make([]Resolved, len(tree.Ops))
	for i := len(simple) - 1; i >= 0; i-- {
		result[from[i]].Op = from[i]
	}
	early := p.Early()
	for i, op := range simple {
		// A procfs is that of the process that mounts it.
		if early && (op.Kind == Proc || op.Kind == Overlay) {
			early = false
			l.endEarly()
		}
		p.At(sys.Step{Stage: "mount", Index: from[i] + 1, Op: string(op.Kind), Path: op.Dest})
		l.resolved, l.proc = Resolved{Op: from[i], Dest: op.Dest}, ""
		if whole := tree.Ops[from[i]]; whole.Kind == Proc {
			l.proc = whole.Dest
		}
		if err := l.op(op); err != nil {
			return nil, l.fail(from[i], tree.Ops[from[i]], op, err)
		}
		if op.Dest == tree.Ops[from[i]].Dest {
			result[from[i]] = l.resolved
		}
		p.Publish()
	}
	if early {
		l.endEarly()
	}
	if err := l.checkDir(tree.Dir); err != nil {
		return nil, err
	}
	p.At(sys.Step{Stage: "root", Op: "pivot"})
	// Last of all, because the mount points in the root had to be made first.
	if !tree.Writable {
		l.setFlags(l.root, Flags{ReadOnly, NoSuid, NoDev}, 0)
	}
	if l.haveNull {
		p.Add(unix.SYS_CLOSE, sys.Of(l.null))
	}
	l.pivot()
	return result, l.noNumber
}

// endEarly ends the calls that another process makes early. What it has open is closed, but for the new root, which is the working directory
// that this process then has from it.
func (l *lowering) endEarly() {
	if l.haveNull {
		l.p.Add(unix.SYS_CLOSE, sys.Of(l.null))
		l.haveNull = false
	}
	l.p.Publish()
	l.p.EndEarly()
	l.p.At(sys.Step{Stage: "root", Op: "open"})
	l.p.Add(unix.SYS_OPENAT, sys.AtCWD(), sys.Str("."), sys.Words(unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, "O_PATH|O_DIRECTORY|O_CLOEXEC")).
		Keep(l.root).Late()
}

// fail turns err into an error that names the operation of the tree, whole. part is the simple operation that failed.
func (l *lowering) fail(index int, whole, part Op, err error) error {
	e := &fault.Error{Stage: "mount", Index: index + 1, Op: string(whole.Kind), Path: whole.Dest, Err: err}
	if whole.Why != "always" && whole.Why != "system" {
		e.Origin = whole.Why
	}
	if whole.Kind != part.Kind {
		e.Err = fmt.Errorf("%s %s: %w", part.Kind, part.Dest, err)
	}
	if within := (*fault.Error)(nil); errors.As(err, &within) {
		e.Hint = within.Hint
	} else if errors.Is(err, os.ErrNotExist) && whole.Source != "" {
		e.Hint = "create it, or leave it out"
		if whole.Only == "socket" {
			e.Hint = "start what listens there first, or grant its directory: a socket that appears later is seen there alone"
		}
	}
	return e
}

// hint returns an error with an action that solves the problem.
func hint(action, format string, args ...any) error {
	return &fault.Error{Err: fmt.Errorf(format, args...), Hint: action}
}

// op appends the calls of one simple operation.
func (l *lowering) op(op Op) error {
	switch op.Kind {
	case Bind:
		return l.bind(op)
	case Tmpfs:
		if l.shares(op) {
			return l.share(op)
		}
		return l.fileSystem(op, "tmpfs", tmpfsOptions(l.bounded(op)), node{origin: private, dir: true})
	case Proc:
		return l.fileSystem(op, "proc", "", node{origin: kernel, source: "/proc", dir: true})
	case Devpts:
		op.Flags = Flags{NoSuid, NoExec}
		return l.fileSystem(op, "devpts", "newinstance,ptmxmode=0666,mode=620,max=256", node{origin: kernel, dir: true})
	case Mqueue:
		op.Flags = Flags{NoSuid, NoDev, NoExec}
		return l.fileSystem(op, "mqueue", "", node{origin: kernel, dir: true})
	case Dir:
		return l.dir(op)
	case Symlink:
		return l.symlink(op, op.Source)
	case File:
		return l.file(op)
	case Remount:
		return l.remount(op)
	case Overlay:
		return l.overlay(op)
	case Mask:
		return l.mask(op)
	case Rebind:
		return l.rebind(op)
	}
	return fmt.Errorf("bug: unknown operation %q", op.Kind)
}

// newRoot makes an empty tmpfs and stacks it on "/". Absolute paths still mean the old root, because this process's root directory is the
// mount below; the new root is reached only by descriptor. So no directory of the host serves as a mount point, and the new root hides
// none.
func (l *lowering) newRoot() {
	p := l.p
	p.At(sys.Step{Stage: "root", Op: "new"})
	// From here on no mount propagates to the host, and none of the host's into the sandbox (mount_namespaces(7)).
	p.Add(unix.SYS_MOUNT, sys.Null(), sys.Str("/"), sys.Null(), sys.Words(unix.MS_REC|unix.MS_PRIVATE, "MS_REC|MS_PRIVATE"), sys.Null())
	if !l.have.NewAPI {
		l.newRootOld()
		return
	}
	fs := l.src
	p.Add(unix.SYS_FSOPEN, sys.Str("tmpfs"), sys.Words(unix.FSOPEN_CLOEXEC, "FSOPEN_CLOEXEC")).Keep(fs)
	for option := range strings.SplitSeq("source=nsrun,"+tmpfsOptions(l.whole), ",") {
		name, value, _ := strings.Cut(option, "=")
		p.Add(unix.SYS_FSCONFIG, sys.Of(fs), sys.Words(unix.FSCONFIG_SET_STRING, "FSCONFIG_SET_STRING"), sys.Str(name), sys.Str(value), sys.Int(0))
	}
	p.Add(unix.SYS_FSCONFIG, sys.Of(fs), sys.Words(unix.FSCONFIG_CMD_CREATE, "FSCONFIG_CMD_CREATE"), sys.Null(), sys.Null(), sys.Int(0))
	p.Add(unix.SYS_FSMOUNT, sys.Of(fs), sys.Words(unix.FSMOUNT_CLOEXEC, "FSMOUNT_CLOEXEC"),
		sys.Words(unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, "MOUNT_ATTR_NOSUID|MOUNT_ATTR_NODEV")).Keep(l.root)
	p.Add(unix.SYS_MOVE_MOUNT, sys.Of(l.root), sys.Str(""), sys.AtCWD(), sys.Str("/"),
		sys.Words(unix.MOVE_MOUNT_F_EMPTY_PATH, "MOVE_MOUNT_F_EMPTY_PATH"))
	p.Add(unix.SYS_CLOSE, sys.Of(fs))
	l.enterRoot()
}

// enterRoot makes the new root the working directory: that is where paths for mount(2) begin (byPath).
func (l *lowering) enterRoot() { l.p.Add(unix.SYS_FCHDIR, sys.Of(l.root)) }

// newRootOld is newRoot by mount(2), which returns no descriptor of the new mount: openStacked opens it.
func (l *lowering) newRootOld() {
	p := l.p
	p.Add(unix.SYS_MOUNT, sys.Str("nsrun"), sys.Str("/"), sys.Str("tmpfs"),
		sys.Words(unix.MS_NOSUID|unix.MS_NODEV, "MS_NOSUID|MS_NODEV"), sys.Str(tmpfsOptions(l.whole)))
	l.openStacked(l.root)
	l.enterRoot()
}

// openStacked opens the empty file system that has just been stacked on "/". ".." of the root directory leads into it.
//
// If ".." did not lead into the new mount, the operations would make directories on the host. So a call first proves it: openat2 with
// RESOLVE_NO_XDEV must refuse to cross into the new mount. Before Linux 5.6, which has no openat2, the host's /proc must not exist there.
func (l *lowering) openStacked(slot sys.Slot) {
	p := l.p
	if l.have.Openat2 {
		how := &openHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_XDEV}
		p.Add(unix.SYS_OPENAT2, sys.AtCWD(), sys.Str("/.."), sys.Struct(how), sys.Size(how)).Tolerate(unix.EXDEV, 1)
		p.Fail(unix.EXDEV)
	} else {
		p.Add(unix.SYS_OPENAT, sys.AtCWD(), sys.Str("/../proc"), sys.Words(unix.O_PATH|unix.O_CLOEXEC, "O_PATH|O_CLOEXEC")).Tolerate(unix.ENOENT, 1)
		p.Fail(unix.EXDEV)
	}
	p.Add(unix.SYS_OPENAT, sys.AtCWD(), sys.Str("/.."), sys.Words(unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, "O_PATH|O_DIRECTORY|O_CLOEXEC")).
		Keep(slot)
}

// pivot makes the new root the root directory. pivot_root(".", ".") stacks the old root on top of the new one, and umount2 then detaches it
// (pivot_root(2), NOTES).
func (l *lowering) pivot() {
	p := l.p
	l.enterRoot()
	p.Add(unix.SYS_CLOSE, sys.Of(l.root))
	p.Add(unix.SYS_PIVOT_ROOT, sys.Str("."), sys.Str("."))
	p.Add(unix.SYS_UMOUNT2, sys.Str("."), sys.Words(unix.MNT_DETACH, "MNT_DETACH"))
	p.Add(unix.SYS_CHDIR, sys.Str("/"))
}

// Apply builds tree for the calling process, under the conditions of [Lower]. If it fails, the root may be half-built, so the process
// should end.
func Apply(tree Tree, have Have) ([]Resolved, error) {
	var p sys.Program
	var host Host
	defer host.Close()
	resolved, err := Lower(&p, tree, have, &host)
	if err != nil {
		return nil, err
	}
	if err := p.Run(); err != nil {
		return nil, err
	}
	return resolved, nil
}
