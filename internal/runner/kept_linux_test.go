package runner

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/internal/homes"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// TestAHomeThatHasGrown: it is measured once a day, the whole of it, and without following what a command has left there.
func TestAHomeThatHasGrown(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	workspace, outside := t.TempDir(), t.TempDir()
	home, err := homes.For(workspace)
	require.NoError(t, err)
	release, err := home.Use(nil)
	require.NoError(t, err)
	defer release()
	file := func(dir string) {
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), make([]byte, 64<<10), 0o600))
	}
	tomorrow := func() {
		mark, yesterday := filepath.Join(filepath.Dir(home.Dir()), "measured"), time.Now().Add(-25*time.Hour)
		require.NoError(t, os.Chtimes(mark, yesterday, yesterday))
	}
	file(outside)
	require.NoError(t, os.Symlink(outside, filepath.Join(home.Dir(), "link")))
	assert.False(t, home.Above(32<<10), "what a link leads to does not count")
	file(filepath.Join(home.Dir(), "a/b"))
	assert.False(t, home.Above(32<<10), "it was looked at today")
	tomorrow()
	assert.False(t, home.Above(1<<20))
	tomorrow()
	assert.True(t, home.Above(32<<10))
	assert.False(t, home.Above(32<<10), "once a day")
	assert.Empty(t, largeHome(policy.Policy{KeepHome: workspace}))
	assert.Empty(t, largeHome(policy.Policy{}))
}
