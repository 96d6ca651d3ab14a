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
	mount := []string{bwrap[0] + " --proc /proc --tmpfs /tmp --dir /tmp/x", bwrap[1] + " --proc /proc --tmpfs /tmp --dir /tmp/x"}
	nsrun := realBinary(t)
	const refuse, kill = unix.SECCOMP_RET_ERRNO | int(unix.EIO), unix.SECCOMP_RET_KILL_PROCESS
	for _, c := range []struct {
		nr, action int
		lines      []string
	}{{unix.SYS_SETHOSTNAME, refuse, run}, {unix.SYS_SYMLINKAT, refuse, run}, {unix.SYS_MKNODAT, refuse, run}, {unix.SYS_MOUNT, refuse, run},
		{unix.SYS_UNLINKAT, refuse, run}, {unix.SYS_MOUNT, refuse, mount}, {unix.SYS_MOVE_MOUNT, refuse, mount}, {unix.SYS_PIVOT_ROOT, refuse, mount},
		{unix.SYS_UMASK, refuse, mount}, {unix.SYS_MKDIRAT, refuse, mount}, {unix.SYS_MOVE_MOUNT, kill, mount},
		{unix.SYS_IOCTL, refuse, bwrap}, {unix.SYS_SETHOSTNAME, kill, run},
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

// TestBubblewrapsCallsMadeEarlyMakeTheSameSandbox is the same for the name bwrap. A wrong guess of the namespaces, by an option's argument that looks
// like another option, leaves nothing to be made early. In /tmp and /srv other tests write meanwhile.
func TestBubblewrapsCallsMadeEarlyMakeTheSameSandbox(t *testing.T) {
	nsrun := realBinary(t)
	const see = `sed 's/^[0-9]* [0-9]* [0-9:]* //; s/bindfile[0-9A-Za-z]*//' /proc/self/mountinfo | LC_ALL=C sort; cat /proc/self/status | grep -E '^(Cap|Sec|NoNew|Uid|Umask)'
find / -xdev -maxdepth 3 -path /usr -prune -o -path /host -prune -o -path '/tmp/*' -prune -o -path '/srv/*' -prune -o -printf '%M %u %g %p %l\n' | grep -v /tmp | LC_ALL=C sort; ls /proc/self/fd; cat /proc/self/uid_map; pwd; umask; cat /proc/net/dev | grep -c lo:; ls -d /proc/[0-9]*
test -e /n && test $(stat -L -c %i /n) = $(stat -L -c %i /proc/self/ns/pid) && echo same`
	defer unix.Umask(unix.Umask(0o072))
	const system = "--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 "
	for _, line := range []string{
		"--proc /proc --dev /dev --tmpfs /tmp " + system, system + "--dev /dev --tmpfs /tmp --proc /proc",
		system + "--proc /proc --dir /a/b --proc /a/b --dir /a/c --tmpfs /a/b/self", system + "--dir /a/b --proc /a/b --tmpfs /a --proc /proc",
		system + "--proc /proc --tmpfs /proc/sys --dir /x", system + "--proc /proc --proc /proc --dir /x", system + "--proc /proc --bind DIR/sub /proc/irq --dir /x",
		system + "--proc /proc --dir /proc/x/../../y", system + "--proc proc --dir x/../y/ --tmpfs z/", system + "--proc / --dir /x",
		system + "--proc /proc --remount-ro /proc --dir /x", system + "--proc /proc --bind / /host --tmpfs /host/tmp --dir /x --remount-ro /",
		"--ro-bind / / --proc /proc --dev /dev --tmpfs /tmp --tmpfs /root", system + "--proc /proc --mqueue /q --ro-bind /etc/passwd /q/a --dir /x", "--bind / / --proc /proc --bind DIR/sub /mnt --chmod 0700 DIR/sub",
		"--tmpfs / " + system + "--proc /proc --tmpfs / " + system + "--proc /proc", system + "--proc /proc --bind DIR /d --dir /d/made/more --symlink x /d/link --dir /e --bind DIR/sub /d/made",
		system + "--proc /proc --symlink proc /p --dir /p/x --dir /y", system + "--symlink proc /p --proc /p --dir /y --tmpfs /proc/sys",
		system + "--proc /proc --perms 0700 --dir /a --chmod 0711 /a --dir /b --file 0 /c --ro-bind-data 0 /d --mqueue /q",
		system + "--proc /proc --ro-bind-try /nowhere /a --ro-bind-try /proc/self/ns/pid /n --dir /x", system + "--proc /proc --tmp-overlay /a --dir /x",
		system + "--proc /proc --overlay-src DIR --tmp-overlay /a --dir /x", system + "--proc /proc --uid 7 --gid 8 --hostname other --chdir /tmp --dir /tmp",
		system + "--proc /proc --dir /x --ro-bind /nowhere /y", system + "--proc /proc --file 0 /x --dir /x --ro-bind /nowhere /y", system + "--proc /proc --file 0 /x --dir /x",
		system + "--dir /x --ro-bind /etc/passwd /x --proc /proc",
	} {
		var said [2]string
		for i, guess := range []string{"", " --setenv A --share-net"} {
			dir := t.TempDir()
			require.NoError(t, os.Chmod(dir, 0o755))
			require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
			args := strings.Fields("bwrap --unshare-all --unsetenv A" + guess + " " + strings.ReplaceAll(line, "DIR", dir))
			stdout, stderr, code := called(nsrun, append(args, "/bin/sh", "-c", see)...)
			left, err := exec.Command("find", dir, "-printf", "%P %M %l\n").Output()
			require.NoError(t, err)
			said[i] = regexp.MustCompile(`devpts rw,\S*|size=\S*|pid:\S*|`+regexp.QuoteMeta(dir)).ReplaceAllString(fmt.Sprint(stdout, stderr, code, "\n", string(left)), "")
		}
		assert.Equal(t, said[1], said[0], line)
	}
}

// TestAnEarlyCallMakesNothingOnTheHost has an operation fail after many that could be early. A file in a message queue file system of the caller's IPC
// namespace, which stays, is a message queue there; a directory below a bind is one of the host's. The same operations make both if none fails.
func TestAnEarlyCallMakesNothingOnTheHost(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root mounts the message queues of the host")
	}
	nsrun := realBinary(t)
	dir, queue := t.TempDir(), fmt.Sprint("nsrun-test-", os.Getpid())
	run := func(words string) (string, int) {
		args := strings.Fields("bwrap --unshare-pid --unshare-net --ro-bind / / --tmpfs /tmp --dir /tmp/q --mqueue /tmp/q " + words)
		stdout, stderr, code := called(nsrun, args...)
		return stdout + stderr, code
	}
	queues := func() string {
		stdout, code := run("ls /tmp/q")
		require.Zero(t, code, stdout)
		return stdout
	}
	t.Cleanup(func() { _, _ = run("rm -f /tmp/q/" + queue) })
	makes := "--ro-bind /etc/passwd /tmp/q/" + queue + " --bind " + dir + " /tmp/d --dir /tmp/d/made" + strings.Repeat(" --tmpfs /tmp/t", 300)
	for range 5 {
		said, code := run(makes + " --ro-bind /nowhere /tmp/x true")
		require.Equal(t, 1, code, said)
		require.Contains(t, said, "/nowhere")
		require.NotContains(t, queues(), queue)
		require.NoDirExists(t, filepath.Join(dir, "made"))
	}
	said, code := run(makes + " true")
	require.Zero(t, code, said)
	assert.Contains(t, queues(), queue)
	assert.DirExists(t, filepath.Join(dir, "made"))
}
