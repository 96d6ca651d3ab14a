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

	"github.com/nsrun/nsrun/seccomp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// neverEarly is the flag with which no call is made before the program is complete: it has been verified as a whole then.
const neverEarly = "--verify"

// TestCallsMadeEarlyMakeTheSameSandbox compares what a command sees, and what is open in it, with and without calls that are made while the
// rest is written.
func TestCallsMadeEarlyMakeTheSameSandbox(t *testing.T) {
	nsrun := realBinary(t)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	const see = `sed 's/^[0-9]* [0-9]* [0-9:]* //' /proc/self/mountinfo; cat /proc/self/status | grep -E '^(Cap|Sec|NoNew|Uid|Umask)';
stat -c '%A %u %g %t %T %N' /.* /* /dev/* /etc/hosts /etc/passwd /proc/sys/kernel/random/boot_id; ls /proc/self/fd; cat /proc/self/uid_map /etc/hosts; hostname; pwd
cat /proc/sys/user/max_inotify_instances /proc/sys/kernel/pid_max; cat /proc/net/dev | grep -c lo:; test -e /.nsrun-file && echo left; echo x >/dev/null`
	for _, policy := range []string{"", "--ro " + dir, "--rw " + dir + " --chdir " + dir, "--workspace " + dir + "/sub",
		"--hostname other --limit memory_mb=500 --fallback degrade", "--seccomp off --no-landlock --fallback degrade", "--tty"} {
		args := strings.Fields(policy + " -- /bin/sh -c")
		run := func(flags ...string) string {
			stdout, stderr, code := called(nsrun, append(append(append([]string{"nsrun", "run"}, flags...), args...), see)...)
			require.Equal(t, 0, code, "%s\n%s%s", policy, stdout, stderr)
			return regexp.MustCompile(`devpts rw,\S*|size=\S*`).ReplaceAllString(stdout, "")
		}
		want := run(neverEarly)
		require.Contains(t, want, " / ", "mountinfo")
		assert.Equal(t, want, run(), policy)
		assert.NotContains(t, want, "left")
	}
}

// TestAFailedEarlyCallIsReported as any other is: with the same message, and nothing is left. A seccomp filter refuses system calls that are made
// early; the same is done without early calls.
func TestAFailedEarlyCallIsReported(t *testing.T) {
	if nsrun := os.Getenv("NSRUN_TEST_REFUSED"); nsrun != "" {
		nr, err := strconv.Atoi(os.Getenv("NSRUN_TEST_NUMBER"))
		require.NoError(t, err)
		action, err := strconv.Atoi(os.Getenv("NSRUN_TEST_ACTION"))
		require.NoError(t, err)
		require.NoError(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
		require.NoError(t, seccomp.Apply(seccomp.Filter{{Code: loadWord}, {Code: jumpEqual, Jf: 1, K: uint32(nr)},
			{Code: returnK, K: uint32(action)}, {Code: returnK, K: unix.SECCOMP_RET_ALLOW}}))
		var said [2]string
		for i, line := range strings.Split(os.Getenv("NSRUN_TEST_LINES"), "\n") { // early, and not
			_, stderr, code := calledIn("/nowhere", nsrun, strings.Fields(line+" /bin/echo ran")...)
			assert.NotZero(t, code, stderr)
			said[i] = stderr
			_, err = unix.Wait4(-1, nil, unix.WNOHANG, nil)
			assert.Equal(t, unix.ECHILD, err)
		}
		if action != unix.SECCOMP_RET_KILL_PROCESS {
			assert.Contains(t, strings.ToLower(said[0]), "input/output error")
		}
		assert.Equal(t, said[0], said[1])
		return
	}
	run := []string{"nsrun run --", "nsrun run " + neverEarly + " --"}
	// The second guess is wrong, since an option's argument looks like another option.
	bwrap := []string{"bwrap --bind / / --unshare-all", "bwrap --bind / / --unshare-all --setenv A --share-net"}
	nsrun := realBinary(t)
	const refuse, kill = unix.SECCOMP_RET_ERRNO | int(unix.EIO), unix.SECCOMP_RET_KILL_PROCESS
	for _, c := range []struct {
		nr, action int
		lines      []string
	}{{unix.SYS_SETHOSTNAME, refuse, run}, {unix.SYS_SYMLINKAT, refuse, run}, {unix.SYS_MKNODAT, refuse, run}, {unix.SYS_MOUNT, refuse, run},
		{unix.SYS_UNLINKAT, refuse, run}, {unix.SYS_IOCTL, refuse, bwrap}, {unix.SYS_SETHOSTNAME, kill, run},
		{unix.SYS_UMOUNT2, refuse, run}, {unix.SYS_UMOUNT2, refuse, bwrap}} { // these two are never early
		cmd := exec.Command("/proc/self/exe", "-test.run", "^TestAFailedEarlyCallIsReported$", "-test.v")
		cmd.Env = append(os.Environ(), "NSRUN_TEST_REFUSED="+nsrun, fmt.Sprint("NSRUN_TEST_NUMBER=", c.nr), fmt.Sprint("NSRUN_TEST_ACTION=", c.action),
			"NSRUN_TEST_LINES="+strings.Join(c.lines, "\n"))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%+v: %s", c, out)
		require.Contains(t, string(out), "--- PASS", "%+v", c)
	}
}

// Codes of instructions (linux/bpf_common.h).
const (
	loadWord  = 0x20
	jumpEqual = 0x15
	returnK   = 0x06
)
