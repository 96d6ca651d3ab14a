package docker_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The daemon is for other tests too: an image from a directory, and a container as Docker makes it by default.
func TestImport(t *testing.T) {
	need(t)
	root := t.TempDir()
	data, err := os.ReadFile(built.probe)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(root, "probe"), data, 0o755))
	require.NoError(t, built.daemon.Import(root, "probe:1"))
	text, err := built.daemon.Docker("run", "--rm", "--network=none", "probe:1", "/probe", "interfaces").CombinedOutput()
	require.NoError(t, err, "%s", text)
	assert.Equal(t, "lo\n", string(text))
}
