package mounts

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// scratch is the mount point of a tmpfs with the upper and work directories of an overlay in memory. It is detached once the overlay is
// mounted, which keeps them in use.
const scratch = "/.nsrun-overlay"

// overlay mounts op.Layers as one directory. It uses the "user." extended attributes (userxattr), which are permitted in a user namespace
// (Linux 5.11).
func (l *lowering) overlay(op Op) error {
	lower := make([]string, len(op.Layers))
	for i, layer := range op.Layers {
		stat, err := resolve(l.resolver, layer)
		if err != nil {
			return err
		}
		if stat.Type() != unix.S_IFDIR {
			return fmt.Errorf("layer %s is %s, not a directory", layer, typeName(stat.Type()))
		}
		// The kernel expects the topmost layer first; op.Layers begins at the bottom.
		lower[len(lower)-1-i] = escapeOverlay(stat.Path)
	}
	options := "lowerdir=" + strings.Join(lower, ":")
	switch {
	case op.Upper != "":
		upper, err1 := resolve(l.resolver, op.Upper)
		work, err2 := resolve(l.resolver, op.Work)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		options += ",upperdir=" + escapeOverlay(upper.Path) + ",workdir=" + escapeOverlay(work.Path)
	case op.Scratch:
		options += ",upperdir=upper,workdir=work"
	case len(op.Layers) < 2:
		return hint("give a second layer, or bind the one", "a read-only overlay needs two layers")
	}
	dest, err := l.mountPoint(op, op.Dest, true)
	if err != nil {
		return err
	}
	p := l.p
	if op.Scratch {
		l.mkdir(scratch, 0o700)
		l.mountOn(scratch, "tmpfs", tmpfsOptions(Op{Size: op.Size, Inodes: op.Inodes}), Flags{NoSuid, NoDev})
		l.enter(scratch)
		p.Add(unix.SYS_MKDIRAT, sys.AtCWD(), sys.Str("upper"), octalMode(0o755))
		p.Add(unix.SYS_MKDIRAT, sys.AtCWD(), sys.Str("work"), octalMode(0o755))
	}
	l.byNumber(dest, func(place string) { // the working directory is where upper and work are
		p.Add(unix.SYS_MOUNT, sys.Str("overlay"), sys.Str(place), sys.Str("overlay"), msWords(op.Flags), sys.Str(options+",userxattr"))
	})
	if op.Scratch {
		l.enterRoot()
		p.Add(unix.SYS_UMOUNT2, sys.Str(relative(scratch)), sys.Words(unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW, "MNT_DETACH|UMOUNT_NOFOLLOW"))
		p.Add(unix.SYS_UNLINKAT, sys.Of(l.root), sys.Str(relative(scratch)), sys.Words(unix.AT_REMOVEDIR, "AT_REMOVEDIR"))
	}
	l.view.cover(dest, node{origin: kernel, dir: true})
	return nil
}

// escapeOverlay escapes the separators of mount options and layers (Documentation/filesystems/overlayfs.rst).
func escapeOverlay(path string) string {
	return strings.NewReplacer(`\`, `\\`, `,`, `\,`, `:`, `\:`).Replace(path)
}
