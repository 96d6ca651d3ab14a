package tools

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNotLater: a time that a command sets does not count.
func TestNotLater(t *testing.T) {
	dir := t.TempDir()
	back, file := filepath.Join(dir, "gitdir"), filepath.Join(dir, ".git")
	require.NoError(t, os.WriteFile(back, nil, 0o600))
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	old := time.Unix(1, 0)
	require.NoError(t, os.Chtimes(file, old, old))
	assert.ErrorContains(t, notLater(file, back, time.Millisecond), "was changed long after that was; if it is right, run touch "+back)
	assert.NoError(t, notLater(file, back, mostLater))
	now := time.Now()
	require.NoError(t, os.Chtimes(back, now, now))
	assert.NoError(t, notLater(file, back, time.Millisecond), "the user has touched it")
	assert.Error(t, notLater(file, back+"x", mostLater))
}
