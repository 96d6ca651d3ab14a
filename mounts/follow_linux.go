package mounts

import (
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// This file resolves the destinations of a compat tree. The view knows what the sandbox's own operations have put where. Below a bind, the
// resolver looks at the host, name by name, and symlinks are followed inside the new root, as RESOLVE_IN_ROOT does. The child then opens
// the resolved path and follows no symlink, so a symlink that is planted in between makes the start fail: CVE-2026-87766.

// location is a place in the new root: its path, free of symlinks, and what is there.
type location struct {
	path   string
	mode   uint32 // file type and permissions; 0 if nothing is there
	target string // of a symlink
	magic  bool   // a procfs symlink that only the kernel can follow
	final  bool   // with an error: the error concerns the last name, and everything above it is a directory
}

// nameMax is the longest name of a file, NAME_MAX of limits.h(0p).
const nameMax = 255

func (s location) exists() bool { return s.mode != 0 }
func (s location) isDir() bool  { return s.mode&unix.S_IFMT == unix.S_IFDIR }
func (s location) isLink() bool { return s.mode&unix.S_IFMT == unix.S_IFLNK }

// follow resolves dest, following every symlink but one at the end. It calls make for each directory that is missing on the way. If make is
// nil, or the missing name comes from a symlink's target, the error is ENOENT.
func (l *lowering) follow(dest string, make func(dir string) error) (location, error) {
	if len(dest) >= unix.PathMax {
		return location{}, unix.ENAMETOOLONG
	}
	if s, ok := l.straight(dest); ok {
		return s, nil
	}
	at := location{path: "/", mode: unix.S_IFDIR}
	rest := strings.Split(dest, "/")
	linked := 0 // how many names at the start of rest come from a symlink; missing ones among them are not made
	for left := maxLinks; len(rest) > 0; linked-- {
		name := rest[0]
		rest = rest[1:]
		last := !slices.ContainsFunc(rest, func(s string) bool { return s != "" })
		switch name {
		case "", ".":
			continue
		// at.path has no symlinks, so the parent in the path is the parent directory.
		case "..":
			at = location{path: path.Dir(at.path), mode: unix.S_IFDIR}
			continue
		}
		next, err := l.at(path.Join(at.path, name))
		if len(name) > nameMax {
			err = unix.ENAMETOOLONG // also in the sandbox's own file systems, where the host was not asked
		}
		if err != nil {
			next.final = last
			return next, err
		}
		switch {
		// The target is resolved inside the new root, where an absolute one begins at the new "/".
		case next.isLink() && !last:
			if left--; left < 0 || next.magic { // RESOLVE_NO_MAGICLINKS
				return next, unix.ELOOP
			}
			names := strings.Split(next.target, "/")
			rest, linked = append(names, rest...), max(linked-1, 0)+len(names)+1
			if path.IsAbs(next.target) {
				at = location{path: "/", mode: unix.S_IFDIR}
			}
			continue
		case last:
		case !next.exists() && (make == nil || linked > 0):
			return next, unix.ENOENT
		case !next.exists():
			if err := make(next.path); err != nil {
				return next, err
			}
			next.mode = unix.S_IFDIR
		case !next.isDir():
			return next, unix.ENOTDIR
		}
		at = next
	}
	return at, nil
}

// straight resolves a destination whose parents are directories, without a symlink, "." or "..", in one step. Most destinations are like
// that. It returns false for any other, which follow then walks.
func (l *lowering) straight(dest string) (location, bool) {
	if !path.IsAbs(dest) || path.Clean(dest) != dest {
		return location{}, false
	}
	n, at, rest := l.view.find(dest)
	switch {
	case rest == "" && at == dest:
		s, err := l.at(dest)
		return s, err == nil
	case n.origin == private && n.dir:
		return location{path: dest}, !strings.Contains(rest, "/") && len(rest) <= nameMax
	case n.origin != host || !n.dir:
		return location{}, false
	}
	stat, err := l.resolver.Stat(join(n.source, rest))
	return location{path: dest, mode: stat.Mode, target: stat.Target}, err == nil && stat.Path == join(n.source, rest)
}

// at returns what is at a path of the new root. Every parent of the path must be a directory.
func (l *lowering) at(dest string) (location, error) {
	n, _, rest := l.view.find(dest)
	s := location{path: dest}
	switch {
	case rest == "":
		s.mode, s.target = n.mode(), n.target
	case !n.dir:
		return s, unix.ENOTDIR
	case n.origin == layered:
		return l.layers(s, n.layers, rest)
	case n.source != "":
		return l.hostAt(s, join(n.source, rest))
	}
	return s, nil
}

// hostAt returns what is at a path of the host, or what an earlier operation will have made there.
func (l *lowering) hostAt(s location, source string) (location, error) {
	// The calls of earlier operations have not run yet, so the host does not show what they make.
	if made, ok := l.made[source]; ok {
		s.mode, s.target = made.mode(), made.target
		return s, nil
	}
	stat, err := l.resolver.Stat(source)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	s.mode, s.target, s.magic = stat.Mode, stat.Target, stat.Magic
	return s, bare(err)
}

// layers looks up rest in the layers of an overlay, topmost first. A character device in an upper layer is a whiteout: it hides the name in
// the layers below (Documentation/filesystems/overlayfs.rst).
func (l *lowering) layers(s location, layers []string, rest string) (location, error) {
	for _, layer := range layers {
		found, err := l.hostAt(s, join(layer, rest))
		whiteout := found.mode&unix.S_IFMT == unix.S_IFCHR
		if err != nil || found.exists() && !whiteout {
			return found, err
		}
		if whiteout {
			break
		}
	}
	return s, nil
}

// realpath resolves a source as realpath(3) does: it follows every symlink as the host has it.
func (l *lowering) realpath(source string) (Stat, error) {
	stat, err := l.look(source)
	return stat, bare(err)
}

// look is realpath with a whole error.
func (l *lowering) look(source string) (Stat, error) {
	if !path.IsAbs(source) {
		cwd, err := unix.Getwd()
		if err != nil {
			return Stat{}, err
		}
		source = cwd + "/" + source
	}
	stat, err := resolve(l.resolver, source)
	if err == nil && strings.HasSuffix(source, "/") && stat.Type() != unix.S_IFDIR {
		err = unix.ENOTDIR
	}
	return stat, err
}

// bare returns the errno in err, without the path that err names, or err itself if it has no errno.
func bare(err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// join returns the path of rest below dir.
func join(dir, rest string) string {
	if dir == "/" {
		return "/" + rest
	}
	return dir + "/" + rest
}
