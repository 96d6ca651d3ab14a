package mounts

import "slices"

// This file decides which operations of a compat tree may be early: made while the rest is lowered, by a process that has the tree's namespaces
// and is not the one that runs the program (sys.Program.MarkEarly). They begin with the first operation and end before the first one that
//
//   - changes the host, as a directory made below a bind does, or a message queue: if lowering fails later, nothing may have been changed;
//   - uses a descriptor of the caller's, or a link of procfs that means the process which follows it;
//   - is of a kind that is rare, or comes last: files, remounts, overlays, the host's procfs.
//
// A procfs is that of the pid namespace of the process that mounts it, so it cannot be early, and callers name it before most of their binds. So it is
// mounted as late as possible: after the operations that neither make something in it nor mount over it.

// pendingProc is a procfs for which there is a mount point.
type pendingProc struct {
	op    Op
	dest  string
	index int // of op
}

// beginOp is called before an operation is lowered.
func (l *lowering) beginOp(op Op, source *Stat) {
	early := false
	switch op.Kind {
	case Bind:
		early = op.FD == nil && (source == nil || !slices.Contains(l.magicLinks, source.Path))
	case Proc:
		early = op.Source == ""
	case Tmpfs, Dev, Mqueue, Dir, Symlink:
		early = true
	}
	if !early {
		l.mountPending("/")
		l.p.EndEarly()
	}
	l.changes, l.begin = false, l.p.Len()
}

// endOp lets the calls of the operation be made early, if they may be.
func (l *lowering) endOp() {
	switch {
	case !l.p.Early():
	case l.changes:
		l.p.UnmarkEarly(l.begin)
	default:
		l.p.Publish()
	}
}

// mountPending is called before the current operation makes or mounts something at dest. It mounts the pending procfses if dest lies in one of
// them, or one of them in dest.
func (l *lowering) mountPending(dest string) {
	if !slices.ContainsFunc(l.pending, func(p pendingProc) bool { return within(dest, p.dest) || within(p.dest, dest) }) {
		return
	}
	l.endOp()
	l.p.EndEarly()
	index, step := l.index, l.p.Step()
	pending := l.pending
	l.pending = nil
	for _, p := range pending {
		l.index = p.index
		l.part(partProc, p.op.Dest)
		l.mountOn(p.dest, "proc", "", p.op.Flags)
		if p.dest == "/" {
			l.mounted(p.dest, procfs)
		}
		if err := l.coverProc(p.op, p.dest); err != nil && l.pendingErr == nil {
			l.pendingErr = l.compatError(p.op, err)
		}
	}
	l.index = index
	l.p.At(step)
}
