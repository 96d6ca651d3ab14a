package verify

import (
	"fmt"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
	"golang.org/x/sys/unix"
)

// attach requires, in this order, a detached copy of what is open in src, its flags, and the attachment at a place. src is closed.
//
// Claim Flags: the copy has its flags while no path leads to it, so there is no moment in which a read-only grant can be written. That
// takes open_tree and mount_setattr (Linux 5.12).
func (c *checker) attach(src sys.Slot, flags mounts.Flags, at string, dir bool) {
	if !c.Plan.Mechanisms.MountAPI {
		c.attachOld(src, flags, at, dir)
		return
	}
	tree := c.call(Places, unix.SYS_OPEN_TREE).slot(src).str("").num(cloneTree | unix.AT_RECURSIVE).opens()
	c.close(OldRoot, src)
	c.finish(tree, flags, at, dir)
}

// finish requires that a detached copy gets its flags and is then attached at a place.
func (c *checker) finish(tree sys.Slot, flags mounts.Flags, at string, dir bool) {
	c.setFlags(tree, flags, dir)
	c.move(tree, at)
	c.close(OldRoot, tree)
}

// move requires that a detached copy is attached at a place.
func (c *checker) move(tree sys.Slot, at string) {
	if c.ahead(0, unix.SYS_MOVE_MOUNT) {
		c.call(Places, unix.SYS_MOVE_MOUNT).slot(tree).str("").slot(c.root).str(named(at)).num(unix.MOVE_MOUNT_F_EMPTY_PATH)
		c.direct(at)
		return
	}
	dst := c.place(at)
	c.call(Places, unix.SYS_MOVE_MOUNT).slot(tree).str("").slot(dst).str("").num(moveEmpty)
	c.close(OldRoot, dst)
}

// setFlags requires that flags are added to the mount whose root is open in s. The structure has only the word of flags to set: nothing is
// cleared, and propagation and id mapping stay (struct mount_attr, mount_setattr(2)).
func (c *checker) setFlags(s sys.Slot, flags mounts.Flags, recursive bool) {
	if !c.Plan.Mechanisms.MountAPI {
		c.number(c.call(Places, unix.SYS_DUP3).slot(s), &c.second).num(unix.O_CLOEXEC)
		c.remountNumber(flags)
		return
	}
	how := unix.AT_EMPTY_PATH
	if recursive {
		how |= unix.AT_RECURSIVE
	}
	c.call(Flags, unix.SYS_MOUNT_SETATTR).slot(s).str("").num(how).words(attributes(flags), 0, 0, 0).num(32)
}

// attributes returns flags as MOUNT_ATTR_* bits. A flag without a bit is ignored: the plan has no others.
func attributes(flags mounts.Flags) (attr uint64) {
	for _, f := range flags {
		switch f {
		case mounts.ReadOnly:
			attr |= unix.MOUNT_ATTR_RDONLY
		case mounts.NoSuid:
			attr |= unix.MOUNT_ATTR_NOSUID
		case mounts.NoDev:
			attr |= unix.MOUNT_ATTR_NODEV
		case mounts.NoExec:
			attr |= unix.MOUNT_ATTR_NOEXEC
		}
	}
	return attr // MS_RDONLY, MS_NOSUID, MS_NODEV and MS_NOEXEC have the same values
}

// attachOld requires the same of mount(2), for kernels before Linux 5.12. There a bind gets its flags by a remount after it is mounted, and
// each submount needs a remount of its own. The command's process does not exist yet, so nothing can use the moment between the two calls.
//
// The submounts come from the host's mount table, which is not part of the plan, so this check cannot know whether one is left out. Such a
// submount keeps the flags that it has on the host.
func (c *checker) attachOld(src sys.Slot, flags mounts.Flags, at string, dir bool) {
	c.number(c.call(Places, unix.SYS_DUP3).slot(src), &c.first).num(unix.O_CLOEXEC)
	c.close(OldRoot, src)
	c.placeNumber(at)
	c.call(Places, unix.SYS_MOUNT).str(procFD(c.first)).str(procFD(c.second)).null().num(unix.MS_BIND | unix.MS_REC)
	c.call(OldRoot, unix.SYS_CLOSE).num(c.first)
	c.call(OldRoot, unix.SYS_CLOSE).num(c.second)
	c.placeNumber(at)
	c.remountNumber(flags)
	for dir && c.remountsAhead() {
		sub := c.submount(at)
		if !below(sub, at) || sub == at {
			c.failFor(Flags, "%s, which is mounted anew, does not lie below %s", sub, at)
		}
		c.placeNumber(sub)
		c.remountNumber(flags)
	}
}

// placeNumber requires that a place is opened, without following symlinks, at the number that a path in /proc/self/fd names.
func (c *checker) placeNumber(at string) {
	dst := c.place(at)
	c.number(c.call(Places, unix.SYS_DUP3).slot(dst), &c.second).num(unix.O_CLOEXEC)
	c.close(OldRoot, dst)
}

// number requires that the next argument is one fixed descriptor number, *n. The program chooses the number at its first use, but not 0, 1,
// 2, a channel to the caller or the other fixed number: dup3 would close what the sandbox needs there.
func (c *checker) number(m *matcher, n *int) *matcher {
	_, have := m.any()
	if *n == 0 && have > 2 && have != c.Report && have != c.Status && have != c.first && have != c.second {
		*n = have
	}
	if have != *n {
		c.fail("it takes number %d, not %d", have, *n)
	}
	return m
}

// remountNumber requires a bind remount with at least these flags on the mount that the second number names. The program may repeat other
// restricting flags, because the kernel refuses a remount that drops a locked flag (mount_namespaces(7)). More restrictions are harmless.
func (c *checker) remountNumber(flags mounts.Flags) {
	m, have := c.call(Flags, unix.SYS_MOUNT).null().str(procFD(c.second)).null().any()
	want := remount | attributes(flags)
	const locked = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOSYMFOLLOW
	if uint64(have)&want != want || uint64(have)&^(remount|locked) != 0 {
		c.fail("it sets the flags %#x, not %#x", have, want)
	}
	m.null()
	c.call(OldRoot, unix.SYS_CLOSE).num(c.second)
}

// remountsAhead reports whether the next mount(2) is a bind remount without data, that is, whether another submount gets its flags. Calls
// that only open or close are skipped.
func (c *checker) remountsAhead() bool {
	for i := c.next; i < c.end; i++ {
		switch v := c.p.View(i); v.NR() {
		case unix.SYS_MOUNT:
			return v.Arg(3)&remount == remount && v.Arg(4) == 0
		case unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_CLOSE, unix.SYS_FCNTL, unix.SYS_DUP3, unix.SYS_READLINKAT:
			if name, _ := v.Str(1); v.NR() == unix.SYS_OPENAT && name == "/" || v.NR() == unix.SYS_DUP3 && c.p.View(i+1).NR() == unix.SYS_MOUNT {
				return false
			}
		default:
			if v.Kind() != sys.KindFail {
				return false
			}
		}
	}
	return false
}

// submount returns the place that the next calls open. It only reads ahead: attachOld then requires that the place lies below the bind, and
// requires the calls themselves.
func (c *checker) submount(at string) string {
	if c.Plan.Mechanisms.Openat2 {
		name, _ := c.p.View(c.next).Str(1)
		return name
	}
	var names []string
	for i := c.next + 1; i < c.end && c.p.View(i).NR() != unix.SYS_READLINKAT; i++ {
		if name, ok := c.p.View(i).Str(1); ok && c.p.View(i).NR() == unix.SYS_OPENAT {
			names = append(names, name)
		}
	}
	return strings.Join(names, "/")
}

// procFD returns the path by which mount(2) reaches what descriptor n has open.
func procFD(n int) string { return fmt.Sprintf("/proc/self/fd/%d", n) }
