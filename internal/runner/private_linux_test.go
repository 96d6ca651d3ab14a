package runner

import (
	"context"
	"os"
	"testing"

	"github.com/nsrun/nsrun/internal/homes"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// privates lists the private directories in a directory of state.
func privates(t *testing.T, state string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(state + "/nsrun/run")
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestPrivateHomeOfASession: its commands share one, another session has another, a new sandbox has a new one, and with the session it is gone.
func TestPrivateHomeOfASession(t *testing.T) {
	if testenv.Landlock() < 6 {
		t.Skip("the backend landlock has sessions from Landlock ABI 6 on")
	}
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	build := func() *Session {
		p := policy.Default(t.TempDir())
		p.Backend = policy.BackendLandlock
		s, err := Open(context.Background(), p)
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		return s
	}
	s, other := build(), build()
	assert.Equal(t, OK, sh(t, s, "echo one >~/file; echo two >$TMPDIR/temporary").Verdict)
	assert.Equal(t, "one\ntwo\n", string(sh(t, s, "cat ~/file $TMPDIR/temporary").Stdout), "control")
	assert.Empty(t, string(sh(t, other, "ls -A ~").Stdout))
	assert.Len(t, privates(t, state), 2)
	r, err := s.Exec(context.Background(), Shell("ls -A ~; touch ~/new"), &ExecOptions{Fresh: true})
	require.NoError(t, err)
	assert.Equal(t, OK, r.Verdict, "%s", r.Stderr)
	assert.Empty(t, string(r.Stdout), "a new sandbox has a new one")
	assert.Len(t, privates(t, state), 2)
	require.NoError(t, s.Close())
	require.NoError(t, other.Close())
	assert.Empty(t, privates(t, state))
	p := policy.Default(t.TempDir())
	p.Backend = policy.BackendLandlock
	result, err := Run(context.Background(), p, Shell("touch ~/file && echo $HOME"), nil)
	require.NoError(t, err)
	assert.Contains(t, string(result.Stdout), state, "%s", result.Stderr)
	assert.Empty(t, privates(t, state), "so it is for a single run")
}

// TestADeepHomeIsRemoved: a command can make a tree that is deeper than paths are long and than a process may open files.
func TestADeepHomeIsRemoved(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	workspace := t.TempDir()
	home, err := homes.For(workspace)
	require.NoError(t, err)
	release, err := home.Use(nil)
	require.NoError(t, err)
	release()
	const depth, name = 3000, "a directory"
	fd, err := unix.Open(home.Dir(), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	for range depth {
		require.NoError(t, unix.Mkdirat(fd, name, 0o700))
		below, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		unix.Close(fd)
		fd = below
	}
	require.NoError(t, unix.Fchmod(fd, 0))
	unix.Close(fd)
	var was unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &was))
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &was) })
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: min(was.Cur, 512), Max: was.Max}))
	require.NoError(t, homes.Remove(workspace))
	assert.NoDirExists(t, home.Dir())
}
