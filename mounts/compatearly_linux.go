package mounts

import "slices"

// This file decides which operations of a compat tree may be early: made while the rest is lowered, by a process that has the tree's namespaces
// and is not the one that runs the program (sys.Program.MarkEarly). They begin with the first operation and end before the first one that cannot be:
//
//   - that changes the host, as a directory made below a bind does: if lowering fails later, nothing may have been changed;
//   - that uses a descriptor of the caller's, or a link of procfs that means the process which follows it.
//
// A procfs is that of the pid namespace of the process that mounts it. It is mounted after the early operations, though callers name it before most
// of their binds. Nobody sees the difference, as long as no early operation makes something in it or mounts over it: the first one that does
// is not early.

// beginOp is called before an operation is lowered, and returns what endOp needs.
func (l *lowering) beginOp(op Op, source *Stat) (begin int) {
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
		l.p.EndEarly()
	}
	l.tied = false
	return l.p.Len()
}

// endOp lets the calls of an operation be made early, if they may be.
func (l *lowering) endOp(begin int) {
	switch {
	case !l.p.Early():
	case l.tied:
		l.p.UnmarkEarly(begin)
	default:
		l.p.Publish()
	}
}

// tie is called for each place where the current operation makes or mounts something.
func (l *lowering) tie(dest string) {
	l.tied = l.tied || slices.ContainsFunc(l.procs, func(proc string) bool { return within(dest, proc) || within(proc, dest) })
}

// notEarly calls body, which adds calls that are made after the early ones.
func (l *lowering) notEarly(body func()) {
	early := l.p.Early()
	l.p.MarkEarly(false)
	body()
	l.p.MarkEarly(early)
}
