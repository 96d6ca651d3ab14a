package mounts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const closedEnv = "NSRUN_TEST_MOUNTS_CLOSED"

// TestMountOnClosedDirectory: a file system can be mounted on a directory of the host's that the process may not search, even if it belongs to another user.
func TestMountOnClosedDirectory(t *testing.T) {
	if closed := os.Getenv(closedEnv); closed != "" {
		mountOnClosed(closed, os.Getenv(closedEnv+"_WAY"), os.Getenv(closedEnv+"_LOOSE") != "")
	}
	closed := closedDirectory(t)
	for _, way := range []string{"new", "old"} {
		if _, _, errno := syscall.Syscall(unix.SYS_MOUNT_SETATTR, ^uintptr(0), 0, 0); way == "new" && errno == syscall.ENOSYS {
			continue // TestApply says so
		}
		for _, compat := range []string{"", "1"} {
			cmd := inNamespaces(exec.Command(os.Args[0], "-test.run=^TestMountOnClosedDirectory$"))
			cmd.Env = append(os.Environ(), closedEnv+"="+closed, closedEnv+"_WAY="+way, closedEnv+"_LOOSE="+compat)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s way, compat %q: %s", way, compat, out)
			assert.Equal(t, "closed, then open\n", string(out))
		}
	}
}

// closedDirectory returns a directory that a user namespace of the caller's cannot search. Only root can make one.
func closedDirectory(t *testing.T) string {
	if os.Geteuid() == 0 {
		closed := filepath.Join(fixture(t), "closed")
		require.NoError(t, os.Mkdir(closed, 0o700))
		require.NoError(t, os.Chown(closed, 54321, 54321))
		return closed
	}
	require.ErrorIs(t, unix.Access("/proc/tty/driver", unix.X_OK), unix.EACCES)
	return "/proc/tty/driver"
}

// mountOnClosed is the process that builds the tree, and looks.
func mountOnClosed(closed, way string, compat bool) {
	before := unix.Chdir(closed)
	tree := Tree{Compat: compat, Ops: []Op{
		{Kind: Bind, Source: filepath.Dir(closed), Dest: "/above", Flags: Flags{ReadOnly, NoSuid, NoDev}, Quiet: true},
		{Kind: Tmpfs, Dest: "/above/" + filepath.Base(closed), Mode: 0o755},
	}}
	if _, err := Apply(tree, map[string]Have{"new": newWay, "old": {}}[way]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if errors.Is(before, unix.EACCES) && unix.Chdir("/above/"+filepath.Base(closed)) == nil {
		fmt.Println("closed, then open")
	}
	os.Exit(0)
}
