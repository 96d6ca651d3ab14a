package mounts

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

// brokenHost is a host where looks at one path fail.
type brokenHost struct {
	fakeHost
	path string
	err  error
}

func (h brokenHost) Stat(name string) (Stat, error) {
	if name == h.path {
		return Stat{}, &os.PathError{Op: "look at", Path: name, Err: h.err}
	}
	return h.fakeHost.Stat(name)
}

// TestOnlyWhatIsNotThereIsLeftOut has every kind of optional operation on something that cannot be looked at.
func TestOnlyWhatIsNotThereIsLeftOut(t *testing.T) {
	for _, c := range []struct {
		path string
		op   Op
	}{
		{"/etc/passwd", Op{Kind: Mask, Dest: "/etc/passwd", Optional: true}},
		{"/etc/passwd", Op{Kind: Rebind, Dest: "/etc/passwd", Optional: true, Flags: Flags{ReadOnly}}},
		{"/etc/passwd", Op{Kind: File, Dest: "/etc/passwd", Optional: true}},
		{"/home/me/w/sub", Op{Kind: Bind, Source: "/home/me/w/sub", Dest: "/w", Optional: true}},
		{"/srv/deep/er", Op{Kind: Tmpfs, Dest: "/srv/deep/er", Optional: true}},
		{"/srv/deep/er", Op{Kind: Dir, Dest: "/srv/deep/er", Optional: true}},
	} {
		for errno, left := range map[unix.Errno]bool{unix.ENOENT: true, unix.ENOTDIR: true, unix.EIO: false, unix.ENOMEM: false, unix.EACCES: false,
			unix.EMFILE: false, unix.ELOOP: false, unix.EAGAIN: false} {
			t.Run(fmt.Sprintf("%s/%s", c.op.Kind, unix.ErrnoName(errno)), func(t *testing.T) {
				tree := []Op{{Kind: Bind, Source: "/etc", Dest: "/etc"}, {Kind: Bind, Source: "/srv", Dest: "/srv"}, c.op}
				_, resolved, err := lower(t, Have{NewAPI: true, Openat2: true}, brokenHost{plainHost, c.path, errno}, tree...)
				if !left {
					assert.ErrorIs(t, err, errno)
					assert.ErrorContains(t, err, c.path)
					return
				}
				if assert.NoError(t, err) {
					assert.Equal(t, c.op.Kind != Rebind, resolved[len(resolved)-1].Missing, "a rebind is part of another operation")
				}
			})
		}
	}
}

// TestAClosedSysfsIsLeftOut holds for optional binds and for the rules of a plan without mounts: some systems close /sys to all but root.
func TestAClosedSysfsIsLeftOut(t *testing.T) {
	op := Op{Kind: Bind, Source: "/sys/devices/system/cpu", Dest: "/sys/devices/system/cpu", Optional: true, Quiet: true}
	for errno, left := range map[unix.Errno]bool{unix.EACCES: true, unix.ENOENT: true, unix.EIO: false, unix.ELOOP: false} {
		host := brokenHost{plainHost, op.Source, errno}
		_, lowered, err := lower(t, Have{NewAPI: true, Openat2: true}, host, op)
		resolved, err2 := Resolve([]Op{op}, host)
		if !left {
			assert.ErrorIs(t, err, errno)
			assert.ErrorIs(t, err2, errno)
			continue
		}
		if assert.NoError(t, err) && assert.NoError(t, err2) {
			assert.True(t, lowered[0].Missing && resolved[0].Missing)
		}
	}
	op.Optional = false
	_, _, err := lower(t, Have{NewAPI: true, Openat2: true}, brokenHost{plainHost, op.Source, unix.EACCES}, op)
	assert.ErrorIs(t, err, unix.EACCES)
}
