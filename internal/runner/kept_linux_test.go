package runner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/internal/homes"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestAHomeIsKeptForItsUserAlone: a home directory is used together, removed alone, and nobody else's.
func TestAHomeIsKeptForItsUserAlone(t *testing.T) {
	state, workspace := t.TempDir(), t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	home, err := homes.For(workspace)
	require.NoError(t, err)
	assert.NoDirExists(t, home.Dir(), "For makes nothing")
	one, err := home.Use([]homes.Place{{Path: "a/b"}, {Path: "a/file", File: true}})
	require.NoError(t, err)
	two, err := home.Use(nil)
	require.NoError(t, err)
	assert.DirExists(t, home.Dir()+"/a/b")
	assert.FileExists(t, home.Dir()+"/a/file")
	one()
	require.ErrorContains(t, homes.Remove(workspace), "is in use by process ")
	two()

	_, err = home.Use([]homes.Place{{Path: "a/file/below"}})
	require.ErrorContains(t, err, "a/file is a file, where something is to be mounted")
	require.NoError(t, unix.Mkfifo(home.Dir()+"/fifo", 0o600))
	_, err = home.Use([]homes.Place{{Path: "fifo", File: true}})
	require.ErrorContains(t, err, "fifo is a special file")

	dir := filepath.Dir(home.Dir())
	require.NoError(t, os.Chmod(dir, 0o770))
	_, err = home.Use(nil)
	require.ErrorContains(t, err, "its mode is 0770, and others may change it; XDG_STATE_HOME says where it lies")
	require.NoError(t, os.Chmod(dir, 0o700))
	if os.Getuid() == 0 { // as under sudo, where HOME is another user's
		require.NoError(t, os.Chown(state+"/nsrun/home", 12345, 12345))
		_, err = home.Use(nil)
		require.ErrorContains(t, err, "it belongs to user 12345, not to 0, as which nsrun runs; XDG_STATE_HOME says where it lies")
		require.NoError(t, os.Chown(state+"/nsrun/home", 0, 0))
	}
	require.NoError(t, os.MkdirAll(home.Dir()+"/closed/in", 0o700))
	require.NoError(t, os.Chmod(home.Dir()+"/closed", 0))
	require.NoError(t, homes.Remove(workspace), "whatever modes a run has left")
	assert.NoDirExists(t, dir)
}
