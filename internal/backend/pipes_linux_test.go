package backend

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestTheSearchForFIFOsStaysInTheTree: a directory may become a symlink while the search goes on.
func TestTheSearchForFIFOsStaysInTheTree(t *testing.T) {
	work := t.TempDir()
	require.NoError(t, os.MkdirAll(work+"/tree/dir/sub", 0o755))
	require.NoError(t, os.MkdirAll(work+"/out/sub", 0o755))
	require.NoError(t, os.Symlink("../out", work+"/tree/link"))
	top, err := openDir(unix.AT_FDCWD, work+"/tree", 0)
	require.NoError(t, err)
	defer unix.Close(top)
	for name, want := range map[string]error{"dir": nil, "dir/sub": nil, "link": unix.ENOTDIR, "link/sub": unix.ENOTDIR, "none": unix.ENOENT} {
		fd, err := openBelow(top, name)
		require.ErrorIs(t, err, want, name)
		if err == nil {
			unix.Close(fd)
		}
	}
	require.NoError(t, unix.Mkfifo(work+"/out/p", 0o666))
	found, err := FindPipes([]Tree{{Source: work + "/tree", Dest: "/in"}})
	require.NoError(t, err)
	assert.Empty(t, found)
}

func TestTheSearchForFIFOsIsBounded(t *testing.T) {
	work := t.TempDir()
	many, pipes := filepath.Join(work, "many"), filepath.Join(work, "pipes")
	require.NoError(t, os.Mkdir(pipes, 0o755))
	for i := range mostPipes + 1 {
		require.NoError(t, unix.Mkfifo(fmt.Sprintf("%s/%d", pipes, i), 0o666))
	}
	require.NoError(t, os.MkdirAll(many, 0o755))
	for i := range mostLooks {
		require.NoError(t, os.WriteFile(fmt.Sprintf("%s/%d", many, i), nil, 0o644))
	}
	search := func(dirs ...string) plan.Pipes {
		var trees []Tree
		for _, d := range dirs {
			trees = append(trees, Tree{Source: d, Dest: "/in" + d, Without: map[string]bool{"mounted": true}})
		}
		found, err := FindPipes(trees)
		require.NoError(t, err)
		return found
	}
	require.NoError(t, os.MkdirAll(work+"/over/mounted", 0o755))
	require.NoError(t, unix.Mkfifo(work+"/over/mounted/p", 0o666))
	require.NoError(t, unix.Mkfifo(work+"/over/p", 0o666))
	assert.Equal(t, []plan.Pipe{{Source: work + "/over/p", Dest: "/in" + work + "/over/p"}}, search(work+"/over").Found, "what else is mounted there is not searched")
	got := search(pipes)
	assert.Len(t, got.Found, mostPipes)
	assert.Equal(t, []string{"/in" + pipes}, got.Unseen)
	assert.Equal(t, []string{"/in" + many}, search(many).Unseen)
	require.NoError(t, os.Remove(many+"/0"))
	assert.Empty(t, search(many).Unseen)
	if os.Geteuid() != 0 {
		require.NoError(t, os.Mkdir(work+"/shut", 0o300))
		assert.Equal(t, []string{"/in" + work + "/shut"}, search(work+"/shut").Unseen, "what cannot be listed is told")
	}
	assert.Empty(t, search(work+"/no", many+"/1"), "what is not there, and a file")
}
