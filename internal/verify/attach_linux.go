package verify

import (
	"fmt"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
	"golang.org/x/sys/unix"
)

// attach gives a copy of what is open in src its flags, and only then mounts it. It closes src.
func (c *checker) attach(src sys.Slot, flags mounts.Flags, at string, dir, recursive bool) {
	if !c.Plan.Mechanisms.MountAPI {
		c.attachOld(src, flags, at, dir)
		return
	}
	clone := cloneTree
	if recursive {
		clone |= unix.AT_RECURSIVE
	}
	tree := c.call(Places, unix.SYS_OPEN_TREE).slot(src).str("").num(clone).opens()
	if src != c.null {
		c.close(OldRoot, src)
	}
	c.setFlags(tree, flags, dir)
	dst := c.place(at)
	c.call(Places, unix.SYS_MOVE_MOUNT).slot(tree).str("").slot(dst).str("").num(moveEmpty)
	c.close(OldRoot, tree)
	c.close(OldRoot, dst)
}

// setFlags adds flags to the mount whose root is open in s.
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
	return attr // the four have the same values as MS_RDONLY and so on
}

// attachOld does the same with mount(2), where a bind has its flags only once it is mounted, and each mount below it has its own. Which there
// are is the host's to know: one that is left out keeps the flags that it has there.
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

// placeNumber opens a place at a number, by which a path in /proc/self/fd can name it.
func (c *checker) placeNumber(at string) {
	dst := c.place(at)
	c.number(c.call(Places, unix.SYS_DUP3).slot(dst), &c.second).num(unix.O_CLOEXEC)
	c.close(OldRoot, dst)
}

// number requires that the next argument is a descriptor's number that is the program's own: the one that it has been since the first time.
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

// remountNumber sets flags on the mount whose root is at the second number. It may repeat others, which the kernel has locked.
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

// remountsAhead reports whether the next mount(2) gives flags to a mount that is there: what is below a bind has to have them, too.
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

// submount reads which place comes next.
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

func procFD(n int) string { return fmt.Sprintf("/proc/self/fd/%d", n) }
