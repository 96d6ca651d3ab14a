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

// TestNamesInMusl has the resolver of musl, which reads no nsswitch.conf: the options in resolv.conf keep it from waiting for a server.
func TestNamesInMusl(t *testing.T) {
	if _, err := exec.LookPath("musl-gcc"); err != nil {
		require.Empty(t, os.Getenv("CI"), "musl-gcc has to be installed")
		t.Skip("musl-gcc is not installed")
	}
	nsrun := realBinary(t)
	program := filepath.Join(filepath.Dir(nsrun), "musl")
	out, err := exec.Command("musl-gcc", "-static", "-o", program, "../../e2e/testdata/musl/names.c").CombinedOutput()
	require.NoError(t, err, "%s", out)
	cmd := exec.Command(nsrun, "run", "--timeout", testenv.Limit(time.Second).String(), "--ro", program, "--", program, "localhost", "example.com")
	cmd.Dir, cmd.Stderr = t.TempDir(), os.Stderr
	out, err = cmd.Output()
	require.NoError(t, err)
	assert.Equal(t, "localhost: found\nexample.com: Try again\n", string(out))
}
