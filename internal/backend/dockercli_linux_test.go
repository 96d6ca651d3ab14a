package backend

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAClientIsLookedForAsExecvpDoes: a directory of that name is none, a file that cannot be executed is passed over and remembered, and a
// place that cannot be looked at ends the search.
func TestAClientIsLookedForAsExecvpDoes(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"empty", "directory/tool", "good", "closed", "loop"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	good := filepath.Join(dir, "good/tool")
	require.NoError(t, os.WriteFile(good, []byte("#!/bin/sh\n"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "closed/tool"), nil, 0o644))
	require.NoError(t, os.Symlink("tool", filepath.Join(dir, "loop/tool")))
	for name, c := range map[string]struct {
		path []string
		want string
		err  error
	}{
		"nowhere":               {[]string{"empty", "missing"}, "", exec.ErrNotFound},
		"there":                 {[]string{"empty", "good"}, good, nil},
		"a directory":           {[]string{"directory"}, "", exec.ErrNotFound},
		"past a directory":      {[]string{"directory", "good"}, good, nil},
		"not executable":        {[]string{"closed", "empty"}, "", fs.ErrPermission},
		"past one that is not":  {[]string{"closed", "good"}, good, nil},
		"cannot be looked at":   {[]string{"loop", "good"}, "", syscall.ELOOP},
		"not where it is found": {[]string{"good", "loop"}, good, nil},
	} {
		var places []string
		for _, p := range c.path {
			places = append(places, filepath.Join(dir, p))
		}
		t.Setenv("PATH", strings.Join(places, string(os.PathListSeparator)))
		at, err := lookPath("tool", func(string) bool { return true })
		assert.Equal(t, c.want, at, name)
		if c.err == nil {
			assert.NoError(t, err, name)
		} else {
			assert.ErrorIs(t, err, c.err, name)
		}
	}
	t.Setenv("PATH", filepath.Join(dir, "good"))
	_, err := lookPath("tool", func(string) bool { return false })
	assert.ErrorIs(t, err, exec.ErrNotFound, "one that is not taken")
}

// TestWholeInput: what a client reads is all there when whole returns, a pipe if one can hold it.
func TestWholeInput(t *testing.T) {
	for size, pipe := range map[int]bool{1024: true, 100_000: true, 3 << 20: false} {
		data := bytes.Repeat([]byte{7}, size)
		file, err := whole(data)
		require.NoError(t, err)
		info, err := file.Stat()
		require.NoError(t, err)
		if os.Getuid() != 0 { // whose pipes have no limit
			assert.Equal(t, pipe, info.Mode()&fs.ModeNamedPipe != 0, size)
		}
		got, err := io.ReadAll(file)
		require.NoError(t, err)
		assert.Equal(t, data, got)
		require.NoError(t, file.Close())
	}
}
