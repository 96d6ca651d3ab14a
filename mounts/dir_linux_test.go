package mounts

import (
	"errors"
	"os"
	"testing"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestBothWaysRefuseLinks holds for openat2 and for kernels that have none.
func TestBothWaysRefuseLinks(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, errors.Join(os.MkdirAll(dir+"/a/b", 0o755), os.Symlink("a", dir+"/link"), os.Symlink("b", dir+"/a/last")))
	want, err := os.Stat(dir + "/a/b")
	require.NoError(t, err)
	for way, open := range map[string]func(string) (int, error){"openat2": OpenExact, "name by name": openNames} {
		t.Run(way, func(t *testing.T) {
			fds, err := os.ReadDir("/proc/self/fd")
			require.NoError(t, err)
			fd, err := open(dir + "/a/b")
			require.NoError(t, err)
			f := os.NewFile(uintptr(fd), "b")
			got, err := f.Stat()
			require.NoError(t, err)
			assert.True(t, os.SameFile(want, got))
			require.NoError(t, f.Close())
			for _, name := range []string{"/link/b", "/a/last", "/link", "/none", "/a/none/b"} {
				_, err := open(dir + name)
				assert.Error(t, err, name)
			}
			left, err := os.ReadDir("/proc/self/fd")
			require.NoError(t, err)
			assert.Len(t, left, len(fds), "no descriptor is left")
		})
	}
}

// TestOpenDirFollowsNoPlantedLink makes one as a sandbox with a writable directory can, on the way and at the end.
func TestOpenDirFollowsNoPlantedLink(t *testing.T) {
	system := "/bin" // on most systems a symlink, of root's
	var root, link unix.Stat_t
	require.NoError(t, errors.Join(unix.Stat("/", &root), unix.Lstat(system, &link)))
	if uid := uint32(os.Geteuid()); uid != 0 && (root.Uid == uid || link.Uid == uid || unix.Access("/", unix.W_OK) == nil) {
		system = "/" // this user can replace the symlink
	}
	dir, real, err := OpenDir(system)
	require.NoError(t, err)
	defer dir.Close()
	at, err := os.Stat(system)
	require.NoError(t, err)
	opened, err := dir.Stat()
	require.NoError(t, err)
	assert.True(t, os.SameFile(at, opened), real)

	own := t.TempDir()
	require.NoError(t, errors.Join(os.MkdirAll(own+"/victim/sub", 0o755), os.Symlink("victim", own+"/planted")))
	for name, real := range map[string]string{own + "/planted": own + "/victim", own + "/planted/sub": own + "/victim/sub"} {
		_, _, err := OpenDir(name)
		var planted *fault.Error
		require.ErrorAs(t, err, &planted, name)
		assert.Contains(t, err.Error(), "through the symlink "+own+"/planted, which")
		assert.Equal(t, "name "+real+" instead, if that is what you mean", planted.Hint)
	}
	_, _, err = OpenDir(own + "/none")
	require.ErrorIs(t, err, unix.ENOENT)
}
