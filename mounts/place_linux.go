package mounts

import (
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// place returns a directory and a path from it that lead to dest and nowhere else, if a symlink at the end is not followed. On the way lie
// only the sandbox's own directories, so no symlink is there, and no other process can put one there. ok is false if there is no such path.
//
// The same holds for what covers parts of a new procfs while l.proc is set. Only the kernel makes names there, and those in procReadOnly,
// procMasked, compatCovered and BootID lead through no symlink.
func (l *lowering) place(dest string) (dir sys.Arg, name string, ok bool) {
	n, at, _ := l.view.find(parent(dest))
	inProc := n.origin == kernel && at == l.proc
	switch {
	case n.secure, inProc && l.view.private(parent(at)):
		return sys.Of(l.root), relative(dest), true
	case !l.compat():
		return sys.Arg{}, "", false
	case inProc: // which is the working directory then
		return sys.AtCWD(), below(dest, at), true
	case n.origin == private:
		top := l.view.top(at)
		l.anchorAt(top)
		return sys.Of(l.anchor), below(dest, top), true
	}
	return sys.Arg{}, "", false
}

// compat reports whether the tree is a compat tree.
func (l *lowering) compat() bool { return l.host != 0 }

// below returns the part of dest below the directory dir.
func below(dest, dir string) string { return strings.TrimPrefix(dest[len(dir):], "/") }

// anchorAt opens the directory dir and keeps it open: a file system of the sandbox is mounted there, and directories of the host lie on the
// way. One anchor is kept at a time.
func (l *lowering) anchorAt(dir string) {
	if l.anchored != dir {
		l.dropAnchor()
		l.openDest(dir, l.anchor)
		l.anchored = dir
	}
}

// dropAnchor closes the anchor.
func (l *lowering) dropAnchor() {
	if l.anchored != "" {
		l.p.Add(unix.SYS_CLOSE, sys.Of(l.anchor))
		l.anchored = ""
	}
}
