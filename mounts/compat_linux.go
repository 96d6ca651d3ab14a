package mounts

import (
	"errors"
	"fmt"
	"path"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// A compat tree is built as bubblewrap builds it. A tmpfs becomes the root first, with the new root and the host's root below it, so that
// the host's root can be bound without including the tree itself.
//
// The constants name the parts of an operation in steps and errors. A front end translates them into bubblewrap's messages.
const (
	partSource    = "source"       // a source cannot be found
	partParents   = "parents"      // directories above a destination
	partMkdir     = "mkdir"        // a directory at a destination
	partFile      = "file"         // a file at a destination
	partOnLink    = "symlink-dest" // a destination is a symlink
	partNotDir    = "not-dir"      // a destination exists and is no directory
	partNotFile   = "not-file"     // a destination exists and is no file
	partBind      = "bind"
	partOpen      = "open"
	partStat      = "stat-fd"
	partRace      = "race" // the source is no longer the file that a descriptor has open
	partRemount   = "remount"
	partTmpfs     = "tmpfs"
	partProc      = "proc"
	partCover     = "cover"      // a place below a procfs
	partDevSource = "dev-source" // a device of the host
	partDevNode   = "dev-node"
	partDevpts    = "devpts"
	partConsole   = "console"
	partMqueue    = "mqueue"
	partWrite     = "write" // the content of a file
	partSymlink   = "symlink"
	partOtherLink = "symlink-differs" // another symlink is at the destination; the path is its target
	partNotLink   = "symlink-exists"  // something other than a symlink is at the destination
	partChmod     = "chmod"
	partOverlay   = "overlay"
)

// part sets the name and path of the step that the next calls belong to.
func (l *lowering) part(name, path string) {
	l.p.At(sys.Step{Stage: "mount", Index: l.index + 1, Op: name, Path: path})
}

// lowerCompatTree lowers tree by bubblewrap's rules.
func (l *lowering) lowerCompatTree(tree Tree) ([]Resolved, error) {
	l.made, l.prefix = map[string]node{}, "/"+oldRoot
	l.compatRoot()
	l.p.Publish()
	result := make([]Resolved, len(tree.Ops))
	for i, op := range tree.Ops {
		l.index, l.resolved = i, Resolved{Op: i, Dest: op.Dest}
		source, err := l.source(op)
		if err == nil {
			l.beginOp(op, source)
			if err = l.compatOp(op, source); err != nil {
				err = l.firstSource(tree.Ops[i+1:], err)
			}
			l.endOp()
		}
		if err != nil {
			return nil, l.compatError(tree.Ops[l.index], err)
		}
		result[i] = l.resolved
	}
	l.mountPending("/")
	if l.pendingErr != nil {
		return nil, l.pendingErr
	}
	l.p.EndEarly()
	for i := range result {
		result[i].Covered = l.view.nodes[result[i].Dest].op != i+1
	}
	l.p.At(sys.Step{Stage: "root", Op: "pivot"})
	l.dropAnchor()
	l.p.Add(unix.SYS_CLOSE, sys.Of(l.base))
	l.p.Add(unix.SYS_CLOSE, sys.Of(l.host))
	l.pivot()
	return result, l.noNumber
}

func (l *lowering) compatError(op Op, err error) error {
	var part *fault.Error
	if errors.As(err, &part) {
		part.Index = l.index + 1
		return part
	}
	return &fault.Error{Stage: "mount", Index: l.index + 1, Op: string(op.Kind), Path: op.Dest, Err: err}
}

// failed returns the error for one part of an operation, with the path that it concerns.
func failed(part, path string, err error) error {
	return &fault.Error{Stage: "mount", Op: part, Path: path, Err: err}
}

// Directories in the tmpfs in which everything is built.
const (
	newRoot = "newroot"
	oldRoot = "oldroot"
)

// compatRoot makes that tmpfs the root directory, so that the host's root does not contain it. The tmpfs is stacked on "/", so no directory
// of the host serves as a mount point.
func (l *lowering) compatRoot() {
	p := l.p
	l.base, l.host, l.anchor = p.Slot(), p.Slot(), p.Slot()
	path, directory := sys.Words(unix.O_PATH|unix.O_CLOEXEC, "O_PATH|O_CLOEXEC"), sys.Words(unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, "O_PATH|O_DIRECTORY|O_CLOEXEC")
	p.At(sys.Step{Stage: "root", Op: "slave"})
	p.Add(unix.SYS_MOUNT, sys.Null(), sys.Str("/"), sys.Null(), sys.Words(unix.MS_REC|unix.MS_SLAVE, "MS_REC|MS_SLAVE"), sys.Null())
	p.At(sys.Step{Stage: "root", Op: "tmpfs"})
	p.Add(unix.SYS_OPENAT, sys.AtCWD(), sys.Str("/"), path).Keep(l.host)
	p.Add(unix.SYS_MOUNT, sys.Str("tmpfs"), sys.Str("/"), sys.Str("tmpfs"), sys.Words(unix.MS_NOSUID|unix.MS_NODEV, "MS_NOSUID|MS_NODEV"), sys.Null())
	l.openStacked(l.base)
	p.Add(unix.SYS_FCHDIR, sys.Of(l.base))
	p.At(sys.Step{Stage: "root", Op: "newroot"})
	p.Add(unix.SYS_MKDIRAT, sys.AtCWD(), sys.Str(newRoot), octalMode(0o755))
	p.Add(unix.SYS_MOUNT, sys.Str(newRoot), sys.Str(newRoot), sys.Null(), sys.Words(unix.MS_BIND|unix.MS_REC, "MS_BIND|MS_REC"), sys.Null())
	p.Add(unix.SYS_MKDIRAT, sys.AtCWD(), sys.Str(oldRoot), octalMode(0o755))
	p.Add(unix.SYS_OPENAT, sys.AtCWD(), sys.Str(newRoot), directory).Keep(l.root)
	p.At(sys.Step{Stage: "root", Op: "pivot"})
	p.Add(unix.SYS_PIVOT_ROOT, sys.Str("."), sys.Str(oldRoot))
	l.enterRoot()
}

// reopenRoot opens the new root again after something has been mounted over all of it.
func (l *lowering) reopenRoot() {
	l.p.Add(unix.SYS_CLOSE, sys.Of(l.root))
	l.p.Add(unix.SYS_OPENAT, sys.Of(l.base), sys.Str(newRoot), sys.Words(unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, "O_PATH|O_DIRECTORY|O_CLOEXEC")).Keep(l.root)
	l.enterRoot()
}

// mounted records that n is mounted at dest.
func (l *lowering) mounted(dest string, n node) {
	n.op = l.index + 1
	l.view.cover(dest, n)
	if within(l.anchored, dest) { // which is covered now
		l.dropAnchor()
	}
	if dest == "/" {
		l.reopenRoot()
	}
}

// source resolves the source of a bind. It returns nil for other operations and for an optional bind without a source.
func (l *lowering) source(op Op) (*Stat, error) {
	if op.Kind != Bind {
		return nil, nil
	}
	stat, err := l.look(op.Source)
	switch {
	case op.Optional && errors.Is(err, ownError{}):
		return nil, nil
	case op.Optional && errors.Is(err, unix.ENOENT):
		return l.magic(op.Source)
	case err != nil:
		return nil, failed(partSource, op.Source, bare(err))
	}
	return &stat, nil
}

// firstSource returns the error of the first source of ops that cannot be found, or else err, which is that of the operation before them: bubblewrap
// looks for every source before it makes anything.
func (l *lowering) firstSource(ops []Op, err error) error {
	before := l.index
	for _, op := range ops {
		l.index++
		if _, sourceErr := l.source(op); sourceErr != nil {
			return sourceErr
		}
	}
	l.index = before
	return err
}

// magic handles a source that leads through a procfs link which only the kernel can follow, such as /proc/self/ns/user: launchers bind that
// one to enter the namespace later. The child follows the link, so the result is the child's namespace.
//
// magic returns nil if there is nothing. The walk has already found that the path does not exist, so EACCES, below a directory that this
// process may not search, means the same.
func (l *lowering) magic(source string) (*Stat, error) {
	// By now there may be one of this process's own at a number that the walk has found closed.
	if parent, err := l.look(path.Dir(source)); errors.Is(err, unix.ENOENT) || err == nil && isOwn(parent.Path, path.Base(source)) {
		return nil, nil
	}
	var fs unix.Statfs_t
	var st unix.Stat_t
	err := unix.Stat(source, &st)
	if err == nil {
		err = unix.Statfs(path.Dir(source), &fs)
	}
	switch {
	case Absent(err), errors.Is(err, unix.EACCES):
		return nil, nil
	case err != nil:
		return nil, failed(partSource, source, err)
	case fs.Type != unix.PROC_SUPER_MAGIC:
		return nil, nil
	}
	l.magicLinks = append(l.magicLinks, source)
	return &Stat{Path: source, Mode: st.Mode}, nil
}

// compatOp appends the calls of one operation of a compat tree.
func (l *lowering) compatOp(op Op, source *Stat) error {
	switch op.Kind {
	case Bind:
		return l.compatBind(op, source)
	case Tmpfs:
		return l.compatFS(op, partTmpfs, "tmpfs", compatTmpfs(op), node{origin: private, dir: true})
	case Proc:
		return l.compatProc(op)
	case Dev:
		return l.compatDev(op)
	case Mqueue:
		return l.compatFS(op, partMqueue, "mqueue", "", node{origin: kernel, dir: true})
	case Dir:
		return l.compatDir(op)
	case File:
		return l.compatFile(op)
	case Data:
		return l.compatData(op)
	case Symlink:
		return l.compatSymlink(op)
	case Remount:
		return l.compatRemount(op)
	case Chmod:
		return l.compatChmod(op)
	case Overlay:
		return l.compatOverlay(op)
	}
	return fmt.Errorf("bug: operation %q in a compat tree", op.Kind)
}

// parentMode returns the mode of the directories that are made above op's destination. Operations without a mode of their own, such as a
// bind, count as mode 0, as in bubblewrap.
func parentMode(op Op) uint32 {
	own := uint32(0)
	switch op.Kind {
	case Dir, Tmpfs, File, Data:
		own = op.Mode
	}
	mode := uint32(0o755)
	if own&0o070 == 0 {
		mode &^= 0o050
	}
	if own&0o007 == 0 {
		mode &^= 0o005
	}
	return mode
}

// reach resolves op's destination and makes the missing directories above it.
func (l *lowering) reach(op Op) (location, error) {
	s, err := l.follow(op.Dest, func(dir string) error {
		l.part(partParents, op.Dest)
		l.makeDir(dir, parentMode(op))
		return nil
	})
	switch {
	case err == nil:
		return s, nil
	case !s.final:
		return s, failed(partParents, op.Dest, err)
	case op.Kind == Symlink:
		return s, failed(partSymlink, op.Dest, err)
	}
	return s, failed(partFile, op.Dest, err)
}

// point makes sure that a mount point for a directory or a file exists at op's destination, and returns its path.
func (l *lowering) point(op Op, dir bool) (string, error) {
	s, err := l.reach(op)
	switch {
	case err != nil:
		return "", err
	case s.isLink():
		return "", failed(partOnLink, op.Dest, unix.ELOOP)
	case !s.exists() && dir:
		l.part(partMkdir, op.Dest)
		l.makeDir(s.path, 0o755)
	case !s.exists():
		l.part(partFile, op.Dest)
		l.makeFile(s.path, 0o444)
	case dir && !s.isDir():
		return "", failed(partNotDir, op.Dest, unix.ENOTDIR)
	case !dir && s.isDir():
		return "", failed(partNotFile, op.Dest, unix.EISDIR)
	}
	return s.path, nil
}

// within calls body to make something in the directory above dest. If only the sandbox can change that directory, body gets a descriptor and
// a path (place). Otherwise it gets a descriptor of the directory, opened without following symlinks, and a name, so that no symlink can
// come in between.
func (l *lowering) within(dest string, body func(dir sys.Arg, name string)) {
	if dir, name, ok := l.place(dest); ok {
		body(dir, name)
		return
	}
	l.openDest(path.Dir(dest), l.dst)
	body(sys.Of(l.dst), path.Base(dest))
	l.p.Add(unix.SYS_CLOSE, sys.Of(l.dst))
}

// record records that an operation has made n at dest: in the view, or below a bind in l.made, because it is then on the host.
func (l *lowering) record(dest string, n node) {
	near, _, rest := l.view.find(dest)
	n.op = l.index + 1
	switch {
	case near.source != "":
		l.made[join(near.source, rest)], l.changes = n, true
		return
	case near.origin == kernel: // a message queue, which is of the caller's IPC namespace unless the sandbox has its own
		l.changes = true
	case near.origin == layered && n.origin == private:
		n.origin = layered
	}
	l.view.set(dest, n)
}

// makeDir makes a directory. An existing one is no error: on the host, another process may have made it since lowering looked.
func (l *lowering) makeDir(dest string, mode uint32) {
	l.mountPending(dest)
	l.within(dest, func(dir sys.Arg, name string) {
		l.p.Add(unix.SYS_MKDIRAT, dir, sys.Str(name), octalMode(mode)).Tolerate(unix.EEXIST, 0)
	})
	l.record(dest, node{origin: private, dir: true})
}

// makeFile makes an empty file, to be mounted on. An existing one is no error, as for makeDir.
func (l *lowering) makeFile(dest string, mode uint32) {
	l.mountPending(dest)
	l.within(dest, func(dir sys.Arg, name string) {
		l.p.Add(unix.SYS_MKNODAT, dir, sys.Str(name), sys.Words(unix.S_IFREG|mode, "S_IFREG|"+modeText(mode)), sys.Int(0)).Tolerate(unix.EEXIST, 0)
	})
	l.record(dest, node{origin: private})
}
