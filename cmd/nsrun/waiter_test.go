package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/seccomp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestTheWaiterHasNothingOpenBeforeTheCommand holds pid 1 up at the last moment before there is a command, which could open what pid 1 has open: to open a lock
// file that is a FIFO takes a writer. Mounts are made early and late. The caller passes two descriptors on, and gives two to options. No other process can open a
// socket in /proc.
func TestTheWaiterHasNothingOpenBeforeTheCommand(t *testing.T) {
	nsrun := realBinary(t)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o644))
	passed, err := os.Open(dir)
	require.NoError(t, err)
	defer passed.Close()
	for _, guess := range []string{"", " --setenv A --share-net"} {
		for range 10 {
			args := strings.Fields("bwrap --unshare-all --unsetenv A" + guess + " --ro-bind / / --dev /dev --proc /proc --bind " + dir + " /tmp" +
				strings.Repeat(" --ro-bind /etc /opt", 60) + " --bind-fd 5 /mnt --sync-fd 6 --lock-file /tmp/fifo" +
				" ls /proc/self/fd/3/fifo /proc/self/fd/4/fifo")
			cmd := exec.Command(nsrun)
			cmd.Args, cmd.ExtraFiles = args, []*os.File{passed, passed, passed, passed}
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
			require.NoError(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			open := openOfBlocked(t, cmd.Process.Pid)
			writer, err := os.OpenFile(filepath.Join(dir, "fifo"), os.O_WRONLY, 0)
			require.NoError(t, err)
			assert.NoError(t, cmd.Wait(), out.String())
			require.NoError(t, writer.Close())
			for fd, what := range open {
				n, err := strconv.Atoi(fd)
				require.NoError(t, err)
				assert.True(t, n < 3 || n > 6 && sys.Inherited(n) || strings.HasPrefix(what, "socket:") || what == dir && n != 5, "%s: %s", fd, what)
			}
			assert.Contains(t, open, "3")
			assert.Contains(t, open, "4")
			assert.Contains(t, open, "6", "--sync-fd")
		}
	}
}

var pidOne = regexp.MustCompile(`(?m)^NSpid:.*\t1$`)

// openOfBlocked waits until the sandbox's pid 1 below a process waits in one openat(2) for some time, and returns what it has open.
func openOfBlocked(t *testing.T, pid int) (open map[string]string) {
	t.Helper()
	waits := func(child int) string {
		call, _ := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", child))
		if !strings.HasPrefix(string(call), fmt.Sprint(unix.SYS_OPENAT, " ")) {
			return ""
		}
		return string(call)
	}
	for end := time.Now().Add(testenv.Limit(0)); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, child := range children(t, pid) {
			call := waits(child)
			if status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", child)); call == "" || !pidOne.Match(status) {
				continue
			}
			if time.Sleep(20 * time.Millisecond); waits(child) != call { // it was another one
				continue
			}
			fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", child))
			require.NoError(t, err)
			open = map[string]string{}
			for _, fd := range fds {
				open[fd.Name()], err = os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", child, fd.Name()))
				require.NoError(t, err)
			}
			return open
		}
	}
	require.Fail(t, "pid 1 does not open the lock file")
	return nil
}

// TestAClosedDescriptorIsNoSource names descriptors that nsrun itself has open while it makes mounts, the host's root among them.
func TestAClosedDescriptorIsNoSource(t *testing.T) {
	nsrun := realBinary(t)
	line := "bwrap --unshare-all --ro-bind /usr /usr --symlink usr/lib /lib --symlink usr/lib64 /lib64" + strings.Repeat(" --ro-bind /etc /opt", 6)
	for fd := 3; fd < 16; fd++ {
		if sys.Inherited(fd) {
			continue
		}
		for _, dir := range []string{"/proc/self/fd/", "/dev/fd/", "/proc/thread-self/fd/"} {
			source := fmt.Sprint(dir, fd)
			_, stderr, code := called(nsrun, append(strings.Fields(line), "--ro-bind", source, "/x", "ls", "/x")...)
			assert.Equal(t, 1, code, source)
			assert.Equal(t, "bwrap: Can't find source path "+source+": No such file or directory\n", stderr)
			_, stderr, code = called(nsrun, append(strings.Fields(line), "--bind-try", source, "/x", "ls", "/x")...)
			assert.Equal(t, 2, code, source)
			assert.Contains(t, stderr, "cannot access '/x'", source)
		}
	}
}

// TestAForkerThatIsKilledIsReplaced has the process killed that would fork the child beside early calls, before it does: an ordinary fork follows.
func TestAForkerThatIsKilledIsReplaced(t *testing.T) {
	if nsrun := os.Getenv("NSRUN_TEST_KILLED"); nsrun != "" {
		require.NoError(t, seccomp.Apply(seccomp.Filter{{Code: loadWord}, {Code: jumpEqual, Jf: 1, K: unix.SYS_PIDFD_OPEN},
			{Code: returnK, K: unix.SECCOMP_RET_KILL_PROCESS}, {Code: returnK, K: unix.SECCOMP_RET_ALLOW}}))
		const script = `for i in 1 2 3 4 5 6 7 8 9 10; do "$0" --unshare-all --ro-bind / / --dev /dev "$@" echo ran || exit; done`
		mounts := strings.Fields(strings.Repeat("--ro-bind /etc /opt ", 200))                                          // which take longer than the rest
		require.NoError(t, unix.Exec("/bin/sh", append([]string{"sh", "-c", script, nsrun}, mounts...), os.Environ())) // os/exec calls pidfd_open itself
	}
	nsrun := realBinary(t)
	bwrap := filepath.Join(filepath.Dir(nsrun), "bwrap")
	require.NoError(t, os.Symlink(nsrun, bwrap))
	cmd := exec.Command("/proc/self/exe", "-test.run", "^TestAForkerThatIsKilledIsReplaced$")
	cmd.Env = append(os.Environ(), "NSRUN_TEST_KILLED="+bwrap, "TMPDIR="+t.TempDir()) // what it makes there it cannot remove
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Equal(t, strings.Repeat("ran\n", 10), string(out))
}

// TestALayerCannotBeAvoidedByPid1 has a command open the memory and a descriptor of pid 1, for which the operator's layers are not: it could have that process do
// what they refuse. Without a layer it can, as under bubblewrap; where the host lets no process trace another one (Yama), only the descriptor.
func TestALayerCannotBeAvoidedByPid1(t *testing.T) {
	nsrun := realBinary(t)
	looks := func(layers string) string {
		const look = `exec "$0" bwrap --unshare-all --ro-bind / / --dev /dev --proc /proc sh -c "sleep 0.1; exec 2>&1; (exec 3<>/proc/1/mem) && echo memory; (exec 3</proc/1/fd/0) && echo files; :"`
		stdout, stderr, code, _ := under(t, nsrun, look, "NSRUN_BWRAP_LAYERS="+layers)
		require.Zero(t, code, stderr)
		return stdout
	}
	control := looks("")
	require.Contains(t, control, "files\n")
	if scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); err != nil || string(scope) == "0\n" {
		require.Contains(t, control, "memory\n")
	}
	for _, layers := range []string{"seccomp", "limits=open_files=100", "seccomp,limits=open_files=100"} {
		out := looks(layers)
		assert.Equal(t, 2, strings.Count(out, "ermission denied"), "%s: %s", layers, out)
		assert.NotContains(t, out, "memory\n", layers)
		assert.NotContains(t, out, "files\n", layers)
	}
}

// TestTheWaiterKeepsItsStandardDescriptors where --sync-fd names one of them.
func TestTheWaiterKeepsItsStandardDescriptors(t *testing.T) {
	const line = `exec "$0" bwrap --unshare-all --ro-bind / / --dev /dev --proc /proc --sync-fd 0 sh -c "sleep 0.1; ls /proc/1/fd"`
	stdout, stderr, code, _ := under(t, realBinary(t), line)
	require.Zero(t, code, stderr)
	assert.Regexp(t, "^0\n1\n2\n", stdout)
}
