package verify

import (
	"github.com/nsrun/nsrun/mounts"
	"golang.org/x/sys/unix"
)

// scratch is where the writable layer of an overlay is made, below the new root.
const scratch = ".nsrun-overlay"

// overlay requires an overlay of one directory of the host, opened without following symlinks, whose writable layer is a new tmpfs that no path leads to
// afterwards. The kernel only reads the lower layer (Documentation/filesystems/overlayfs.rst), so the host's directory stays as it is. "user." attributes
// are those that a user namespace may use.
func (c *checker) overlay(op mounts.Op, source, at string) {
	if len(op.Layers) != 1 || op.Upper != "" || op.Work != "" || !op.Scratch {
		c.failFor(Places, "no plan of nsrun's own has an overlay but of one layer, writable in memory")
	}
	c.point(at)
	src, low := c.source(source), 0
	c.number(c.call(Places, unix.SYS_DUP3).slot(src), &low).num(unix.O_CLOEXEC)
	c.close(OldRoot, src)
	c.make(unix.SYS_MKDIRAT, scratch, 0o700)
	c.mountType("tmpfs", tmpfsOptions(mounts.Op{Size: op.Size, Inodes: op.Inodes}), mounts.Flags{mounts.NoSuid, mounts.NoDev}, scratch)
	dir := c.place(scratch)
	c.call(Places, unix.SYS_FCHDIR).slot(dir)
	c.close(OldRoot, dir)
	for _, name := range []string{"upper", "work"} {
		c.call(Places, unix.SYS_MKDIRAT).cwd().str(name).num(0o755)
	}
	c.placeNumber(at)
	if c.second == low {
		c.fail("number %d is the lower layer's", low)
	}
	options := "lowerdir=" + procFD(low) + ",upperdir=upper,workdir=work,userxattr"
	c.call(Flags, unix.SYS_MOUNT).str("overlay").str(procFD(c.second)).str("overlay").word(attributes(op.Flags)).str(options)
	c.call(OldRoot, unix.SYS_CLOSE).num(c.second)
	c.call(Places, unix.SYS_FCHDIR).slot(c.root)
	c.call(OldRoot, unix.SYS_UMOUNT2).str(scratch).num(unix.MNT_DETACH | unix.UMOUNT_NOFOLLOW)
	c.call(Places, unix.SYS_UNLINKAT).slot(c.root).str(scratch).num(unix.AT_REMOVEDIR)
	c.call(OldRoot, unix.SYS_CLOSE).num(low)
	c.layers = append(c.layers, layer{path: at})
}
