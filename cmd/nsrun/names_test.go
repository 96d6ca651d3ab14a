package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNamesInGo has Go's own resolver, which reads the files that nsrun makes itself, look names up in a run. Its positive control is localhost.
func TestNamesInGo(t *testing.T) {
	nsrun := realBinary(t)
	program := filepath.Join(filepath.Dir(nsrun), "names")
	require.NoError(t, testenv.Build(program, "../../e2e/testdata/names"))
	cmd := exec.Command(nsrun, "run", "--timeout", testenv.Limit(time.Second).String(), "--ro", program, "--", program)
	cmd.Dir, cmd.Stderr = t.TempDir(), os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	assert.Equal(t, "localhost [127.0.0.1] <nil>\nexample.com [] lookup example.com: no such host\n", string(out))
}
