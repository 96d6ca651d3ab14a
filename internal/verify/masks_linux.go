package verify

import (
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
	"golang.org/x/sys/unix"
)

// mask requires that the host's /dev/null covers a file, or an empty read-only tmpfs covers a directory. Which of the two is right, only the
// host knows; the kernel refuses to mount a file on a directory and a directory on a file (mount(2), ENOTDIR). The read-only flag keeps root in
// the sandbox from changing the mode of the host's /dev/null. maybe is set for the entries of /proc, which not every kernel has.
func (c *checker) mask(at string, maybe bool) {
	flags := mounts.Flags{mounts.ReadOnly, mounts.NoSuid, mounts.NoExec}
	if maybe && !c.masks(at) {
		return
	}
	api := c.Plan.Mechanisms.MountAPI
	first := c.null == 0 && c.opensNull()
	if first {
		c.null = c.source(c.device("/dev/null"))
	}
	switch {
	case api && c.ahead(0, unix.SYS_OPEN_TREE):
		c.maskFile(first, flags, at)
	case !api && c.ahead(0, unix.SYS_FCNTL):
		src := c.call(Places, unix.SYS_FCNTL).slot(c.null).num(unix.F_DUPFD_CLOEXEC).num(0).opens()
		c.attachOld(src, flags, at, false)
	default:
		c.mountType("tmpfs", "size=4k,nr_inodes=2", mounts.Flags{mounts.ReadOnly, mounts.NoSuid, mounts.NoDev, mounts.NoExec}, at)
	}
	c.layers = append(c.layers, layer{path: at, ro: true})
}

// maskFile requires that a copy of the host's /dev/null gets its flags and is then attached at a place, or that a copy of the first mask is:
// a copy has the flags of its original.
func (c *checker) maskFile(first bool, flags mounts.Flags, at string) {
	tree := c.call(Places, unix.SYS_OPEN_TREE).slot(c.null).str("").num(cloneTree).opens()
	if first {
		c.close(OldRoot, c.null)
		c.setFlags(tree, flags, false)
		c.null = tree
	}
	c.move(tree, at)
	if !first {
		c.close(OldRoot, tree)
	}
}

// opensNull reports whether the next call opens a path from AT_FDCWD: the first mask of a file opens the host's /dev/null there.
func (c *checker) opensNull() bool {
	v := c.p.View(c.next)
	cwd := unix.AT_FDCWD // negative, so no constant of an unsigned type
	return v.Arg(0) == uint64(cwd) && !v.IsSlot(0)
}

// masks reports whether the program covers at next: it looks for the first call that opens a place below the new root or mounts on one. An
// entry that the kernel does not have is not covered. Which those are is no part of the plan, so an entry that is left out altogether is not
// noticed here.
func (c *checker) masks(at string) bool {
	const longest = 64 // more than the calls that open a path name by name and copy /dev/null
	for i := c.next; i < min(c.end, c.next+longest); i++ {
		switch v := c.p.View(i); {
		case v.NR() == unix.SYS_MOVE_MOUNT:
			name, _ := v.Str(3)
			return name == at
		case v.NR() == unix.SYS_MOUNT && v.Kind() == sys.KindCall:
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

// walksTo reports whether the calls from i on walk to the path name by name, as walk requires.
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
