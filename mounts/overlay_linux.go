package mounts

import (
	"errors"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// scratch is the mount point of a tmpfs with the upper and work directories of an overlay in memory. It is detached once the overlay is
// mounted, which keeps them in use.
const scratch = "/.nsrun-overlay"

// overlay mounts op.Layers as one directory. It uses the "user." extended attributes (userxattr), which are permitted in a user namespace
// (Linux 5.11). The directories are named by descriptor numbers: no path needs escaping, and none is resolved twice.
func (l *lowering) overlay(op Op) error {
	dirs, err := l.layerDirs(op)
	if op.Optional && Absent(err) {
		l.resolved.Missing = true
		return nil
	}
	if err != nil {
		return err
	}
	if op.Upper == "" && !op.Scratch && len(op.Layers) < 2 {
		return hint("give a second layer, or bind the one", "a read-only overlay needs two layers")
	}
	dest, err := l.mountPoint(op, op.Dest, true)
	if errors.Is(err, errSkip) {
		l.resolved.Missing = true
		return nil
	}
	if err != nil {
		return err
	}
	p := l.p
	names, numbers := make([]string, len(dirs)), make([]int, len(dirs))
	for i, dir := range dirs {
		numbers[i] = l.number()
		l.openSource(dir, l.src)
		l.numbered(l.src, numbers[i])
		names[i] = l.procFD(numbers[i])
	}
	options := "lowerdir=" + strings.Join(names[:len(op.Layers)], ":")
	switch {
	case op.Upper != "":
		options += ",upperdir=" + names[len(op.Layers)] + ",workdir=" + names[len(op.Layers)+1]
	case op.Scratch:
		options += ",upperdir=upper,workdir=work"
	}
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
	for _, n := range numbers {
		p.Add(unix.SYS_CLOSE, sys.Int(n))
	}
	l.view.cover(dest, node{origin: kernel, dir: true})
	l.resolved.Dest, l.resolved.Source = dest, dirs[len(op.Layers)-1]
	return nil
}

// layerDirs resolves the directories of an overlay: the layers, topmost first as the kernel expects them, then upper and work.
func (l *lowering) layerDirs(op Op) (dirs []string, err error) {
	paths := slices.Clone(op.Layers)
	slices.Reverse(paths)
	if op.Upper != "" {
		paths = append(paths, op.Upper, op.Work)
	}
	for _, p := range paths {
		stat, err := resolve(l.resolver, p)
		if err != nil {
			return nil, err
		}
		layer := op
		layer.Source, layer.Only = p, "directory"
		if err := l.accept(layer, stat); err != nil {
			return nil, err
		}
		dirs = append(dirs, stat.Path)
	}
	return dirs, nil
}
