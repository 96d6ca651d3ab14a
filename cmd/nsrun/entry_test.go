package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// under runs a shell line in which $0 is a real nsrun, and returns what it printed, its exit code, and the signal that ended it.
func under(t *testing.T, nsrun, line string, env ...string) (stdout, stderr string, code int, sig syscall.Signal) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", line, nsrun)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "XDG_STATE_HOME=" + os.Getenv("XDG_STATE_HOME")}, env...)
	cmd.Dir = "/usr"
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		sig = status.Signal()
	}
	return out.String(), errs.String(), status.ExitStatus(), sig
}

// realBinary builds nsrun as releases have it: its tests' binary has no entry point. It makes namespaces ahead however busy the machine is, as it does
// where it cannot read the load.
func realBinary(t *testing.T) string {
	t.Helper()
	return binaryWithLoad(t, "/proc/no-such")
}

// busyBinary makes none ahead: it reads of a machine that is always busy.
func busyBinary(t *testing.T) string {
	t.Helper()
	var load string
	for i := 0; load == ""; i++ {
		name := fmt.Sprintf("/tmp/nsb%05d", i)
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		require.NoError(t, err)
		t.Cleanup(func() { os.Remove(name) })
		_, err = f.WriteString("9.99 9.99 9.99 9999/9999 1\n")
		require.NoError(t, errors.Join(err, f.Close()))
		load = name
	}
	return binaryWithLoad(t, load)
}

// binaryWithLoad builds nsrun, and puts another path of the same length in the place of the file that the entry point reads the load from.
func binaryWithLoad(t *testing.T, path string) string {
	t.Helper()
	dir, err := testenv.MakeDir("nsrun-entry-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	nsrun := filepath.Join(dir, "nsrun")
	require.NoError(t, testenv.Build(nsrun, "."))
	program, err := os.ReadFile(nsrun)
	require.NoError(t, err)
	load := []byte("/proc/loadavg\x00")
	require.Len(t, path, len(load)-1)
	require.Equal(t, 1, bytes.Count(program, load))
	copy(program[bytes.Index(program, load):], path)
	require.NoError(t, os.WriteFile(nsrun, program, 0o755))
	return nsrun
}

// TestEntryPoint proves that the linker has kept the entry point: only that prints the line about a limit.
func TestEntryPoint(t *testing.T) {
	nsrun := realBinary(t)
	binaries := map[string]string{"static": nsrun}
	if os.Getenv(testenv.Built) == "" {
		pie := filepath.Join(filepath.Dir(nsrun), "pie")
		text, err := exec.Command("go", "build", "-buildmode=pie", "-o", pie, ".").CombinedOutput()
		require.NoError(t, err, "%s", text)
		binaries["position-independent"] = pie
	}
	for name, nsrun := range binaries {
		t.Run(name, func(t *testing.T) {
			_, stderr, code, _ := under(t, nsrun, `ulimit -n 5; exec "$0" version`)
			assert.Equal(t, "nsrun: RLIMIT_NOFILE is too low: ulimit -n is 5, 3 files are open, a start needs 7 more, a run some 25; raise it\n", stderr)
			assert.Equal(t, 125, code)
			_, stderr, code, _ = under(t, nsrun, `ulimit -n 5; exec "$0" bwrap --version`)
			assert.Equal(t, "bwrap: RLIMIT_NOFILE is too low: ulimit -n is 5, 3 files are open, a start needs 7 more, a run some 25; raise it\n", stderr)
			assert.Equal(t, 1, code)
			stdout, stderr, code, _ := under(t, nsrun, `exec "$0" version`)
			assert.Equal(t, 0, code, stderr)
			assert.Contains(t, stdout, "nsrun ")
		})
	}
}

// TestEntryPointLeavesNoTrace runs commands that see all of the caller's environment and limits.
func TestEntryPointLeavesNoTrace(t *testing.T) {
	nsrun := realBinary(t)
	const env = `exec "$0" bwrap --bind / / /usr/bin/env`
	for _, own := range [][]string{nil, {"GOMAXPROCS=3"}, {"GOTRACEBACK=single"}, {"GOMAXPROCS=2", "GOTRACEBACK=all"}, {"GOMAXPROCS_=1"}} {
		stdout, stderr, code, _ := under(t, nsrun, env, own...)
		require.Equal(t, 0, code, stderr)
		var kept []string
		for line := range strings.Lines(stdout) {
			if strings.HasPrefix(line, "GO") {
				kept = append(kept, strings.TrimSpace(line))
			}
		}
		assert.ElementsMatch(t, own, kept)
	}
	stdout, stderr, code, _ := under(t, nsrun, `ulimit -S -n 77; exec "$0" bwrap --bind / / /bin/sh -c "ulimit -S -n; ulimit -H -n"`)
	require.Equal(t, 0, code, stderr)
	hard, _, _, _ := under(t, nsrun, `ulimit -H -n`)
	assert.Equal(t, "77\n"+hard, stdout)
}

// TestIgnoredSignalsReachTheCommand as bubblewrap lets them. (SIGCHLD is a scene of e2e/bwrap: some shells cannot ignore it.)
func TestIgnoredSignalsReachTheCommand(t *testing.T) {
	nsrun := realBinary(t)
	const show = ` /bin/grep SigIgn /proc/self/status`
	ignored := func(line string) (signals uint64) {
		stdout, stderr, code, _ := under(t, nsrun, line)
		require.Equal(t, 0, code, stderr)
		_, err := fmt.Sscanf(stdout, "SigIgn:\t%x", &signals)
		require.NoError(t, err, stdout)
		return signals
	}
	for trap, want := range map[string]uint64{"": 0, `trap "" HUP TERM PIPE; `: 0x5001, `trap "" USR1 TSTP; `: 0x80200} {
		without := ignored(trap + "exec" + show)
		require.Equal(t, want, without&want, "the shell ignores them")
		const chld = 1 << (syscall.SIGCHLD - 1)
		assert.Equal(t, without&^uint64(chld), ignored(trap+`exec "$0" bwrap --bind / / --unshare-user --unshare-pid --proc /proc`+show), trap)
	}
	assert.Zero(t, ignored(`trap "" TERM; exec "$0" run --`+show), "a sandbox of nsrun's own begins with the defaults")
}

// lowered is a limit, and the values that it is lowered to, in units of ulimit. Below the last one the kernel cannot execute any program of
// this size, or kills it as it should (ulimit -t).
type lowered struct {
	option, names string // in messages
	values        []int
}

var loweredLimits = []lowered{
	{"v", "RLIMIT_AS", []int{4_000_000, 2_000_000, 1_500_000, 1_400_000, 1_399_999, 1_250_000, 1_200_000, 800_000, 400_000, 100_000, 65_536}},
	{"d", "RLIMIT_DATA", []int{1_000_000, 200_000, 100_000, 99_999, 70_000}},
	{"n", "RLIMIT_NOFILE", []int{256, 64, 32, 20, 16, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 0}},
	{"u", "RLIMIT_NPROC", []int{500, 100, 30, 20, 16, 14, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}},
	{"f", "RLIMIT_FSIZE", []int{100, 8, 1, 0}},
	{"s", "RLIMIT_STACK", []int{8192, 1024, 256, 128}},
	{"c", "RLIMIT_CORE", []int{1, 0}},
	{"l", "RLIMIT_MEMLOCK", []int{64, 0}},
}

// TestLowLimitsAreNamed lowers each limit step by step: a run succeeds, or its message names the limit. It never ends with a traceback.
func TestLowLimitsAreNamed(t *testing.T) {
	nsrun := realBinary(t)
	commands := map[string]string{"nsrun: ": `"$0" run -- /bin/true`, "bwrap: ": `"$0" bwrap --ro-bind / / --unshare-all --proc /proc --dev /dev /bin/true`}
	for _, l := range loweredLimits {
		for name, command := range commands {
			for _, value := range l.values {
				limitIsNamed(t, nsrun, fmt.Sprintf("ulimit -%s %d; exec %s", l.option, value, command), name, l.names)
			}
		}
	}
	open := "exec"
	for fd := 3; fd <= 9; fd++ { // dash knows no higher ones
		open += fmt.Sprintf(" %d</dev/null", fd)
		for name, command := range commands {
			for limit := fd + 1; limit < fd+18; limit++ {
				limitIsNamed(t, nsrun, fmt.Sprintf("%s; ulimit -n %d; exec %s", open, limit, command), name, "RLIMIT_NOFILE")
			}
		}
	}
}

// limitIsNamed runs a command line: it succeeds, or its message begins with prefix, and names the limit.
func limitIsNamed(t *testing.T, nsrun, line, prefix, limit string) {
	t.Helper()
	_, stderr, code, sig := under(t, nsrun, line)
	assert.Zero(t, sig, line)
	assert.NotContains(t, stderr, "goroutine ", line)
	if code == 0 {
		return
	}
	named := strings.Contains(stderr, limit) || prefix == "bwrap: " && strings.Contains(stderr, "Too many open files")
	assert.True(t, strings.HasPrefix(stderr, prefix) && named, "%s\n%s", line, stderr)
	assert.Equal(t, map[string]int{"nsrun: ": 125, "bwrap: ": 1}[prefix], code, line)
}

// TestSoftLimitOnFilesIsRaised for nsrun itself, which works with a hard limit that is high enough; the command gets the soft one.
func TestSoftLimitOnFilesIsRaised(t *testing.T) {
	nsrun := realBinary(t)
	for _, command := range []string{`"$0" run --`, `"$0" bwrap --ro-bind / / --unshare-all`} {
		stdout, stderr, code, _ := under(t, nsrun, "exec 3</dev/null 4</dev/null; ulimit -S -n 6; exec "+command+` /bin/sh -c "ulimit -S -n"`)
		assert.Equal(t, 0, code, "%s\n%s", command, stderr)
		assert.Equal(t, "6\n", stdout, command)
	}
}

// called runs a real nsrun under a name, and returns what it printed and its exit code.
func called(nsrun string, argv ...string) (stdout, stderr string, code int) {
	return calledIn("/usr/bin:/bin", nsrun, argv...)
}

// calledIn is called with a PATH. Where that leads to no bubblewrap, none is tried to find out why a start has failed: it leaves its own child to
// who adopts it.
func calledIn(path, nsrun string, argv ...string) (stdout, stderr string, code int) {
	cmd := &exec.Cmd{Path: nsrun, Args: argv, Env: []string{"PATH=" + path}, Dir: "/usr"}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the exit code says whether it ran
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

var namespaceFiles = []string{"user", "mnt", "pid", "ipc", "uts", "net", "cgroup"}

// TestNamespacesMadeAheadAreRight runs command lines whose namespaces are guessed rightly or wrongly before Go's runtime starts, or not.
func TestNamespacesMadeAheadAreRight(t *testing.T) {
	for _, nsrun := range []string{realBinary(t), busyBinary(t)} {
		namespacesAreRight(t, nsrun)
	}
}

func namespacesAreRight(t *testing.T, nsrun string) {
	manifest := filepath.Join(filepath.Dir(nsrun), "shared.json")
	require.NoError(t, os.WriteFile(manifest, []byte(`{"network": "host"}`), 0o644))
	const see = `for n in user mnt pid ipc uts net cgroup; do readlink /proc/self/ns/$n; done`
	for line, shared := range map[string]string{
		"nsrun run --": "",
		"nsrun run --manifest " + manifest + " --":                   "net",
		"nsrun run --net host --":                                    "net",
		"nsrun run --net=host --":                                    "net",
		"nsrun run --net=none --":                                    "",
		"nsrun run --net none --manifest " + manifest + " --":        "",
		"nsrun run --setenv --net=host --":                           "", // guessed wrongly
		"nsrun bwrap --bind / /":                                     "pid ipc uts net cgroup",
		"bwrap --unshare-all --bind / / --proc /proc":                "",
		"bwrap --unshare-all --share-net --bind / /":                 "net",
		"bwrap --bind / / --unshare-ipc --unshare-uts":               "pid net cgroup",
		"bwrap --setenv A --unshare-net --bind / /":                  "pid ipc uts net cgroup",
		"bwrap --bind / / -- /usr/bin/env X=--unshare-net":           "pid ipc uts net cgroup",
		"bwrap --unshare-user --unshare-pid --bind / / --proc /proc": "ipc uts net cgroup",
	} {
		stdout, stderr, code := called(nsrun, append(strings.Fields(line), "/bin/sh", "-c", see)...)
		require.Equal(t, 0, code, "%s\n%s", line, stderr)
		inside := strings.Fields(stdout)
		require.Len(t, inside, len(namespaceFiles), line)
		for i, ns := range namespaceFiles {
			host, err := os.Readlink("/proc/self/ns/" + ns)
			require.NoError(t, err)
			want := slices.Contains(strings.Fields(shared), ns)
			if ns == "user" { // root as bwrap gets none unasked
				want = os.Getuid() == 0 && strings.Contains(line, "bwrap") && !strings.Contains(line, "--unshare-user") && !strings.Contains(line, "--unshare-all")
			}
			assert.Equal(t, want, inside[i] == host, "%s: %s", line, ns)
		}
	}
}

// TestADiscardedGuessTakesNoNamespaces runs command lines whose guess is wrong where the user may have one sandbox's namespaces: the run waits until
// the kernel has freed those that were made ahead, and takes no weaker backend.
func TestADiscardedGuessTakesNoNamespaces(t *testing.T) {
	nsrun := realBinary(t)
	manifest := filepath.Join(filepath.Dir(nsrun), "shared.json")
	require.NoError(t, os.WriteFile(manifest, []byte(`{"network": "host"}`), 0o644))
	bwrap := filepath.Join(filepath.Dir(nsrun), "bwrap")
	require.NoError(t, os.Symlink(nsrun, bwrap))
	for line, most := range map[string]int{nsrun + " run -v --fallback degrade --manifest " + manifest + " -- /bin/true": 2,
		bwrap + " --ro-bind / / --unshare-user --setenv A --unshare-net /bin/true": 1} {
		for range 5 {
			_, stderr, code, _ := under(t, nsrun, fmt.Sprintf(`exec unshare -Ur /bin/sh -c "echo %d >/proc/sys/user/max_user_namespaces && exec %s"`, most, line))
			require.Equal(t, 0, code, "%s\n%s", line, stderr)
			assert.NotContains(t, stderr, "lost", line)
		}
	}
}

// TestTheCommandGetsTheCallersSignalMask as bubblewrap lets it, however its namespaces were made.
func TestTheCommandGetsTheCallersSignalMask(t *testing.T) {
	nsrun := realBinary(t)
	runtime.LockOSThread() // which the child is forked from
	defer runtime.UnlockOSThread()
	var all, was unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^uint64(0)
	}
	require.NoError(t, unix.PthreadSigmask(unix.SIG_SETMASK, &all, &was))
	blocked := map[string]bool{}
	for _, options := range []string{"--unshare-net", "--setenv A --unshare-net"} { // guessed rightly, and not
		stdout, stderr, code := called(nsrun, strings.Fields("bwrap --bind / / --unshare-user --unshare-pid --proc /proc "+options+" /bin/grep SigBlk /proc/self/status")...)
		assert.Equal(t, 0, code, stderr)
		blocked[stdout] = true
	}
	require.NoError(t, unix.PthreadSigmask(unix.SIG_SETMASK, &was, nil))
	assert.Len(t, blocked, 1)
	for line := range blocked {
		assert.Equal(t, "SigBlk:\tfffffffffffafeff\n", line, "all but SIGKILL, SIGSTOP and SIGCHLD")
	}
}

// TestTheCommandGetsTheCallersProcessorsAndSlack, whichever of them the processes and threads of a start have for a time.
func TestTheCommandGetsTheCallersProcessorsAndSlack(t *testing.T) {
	nsrun := realBinary(t)
	runtime.LockOSThread() // which the child is forked from
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &all))
	defer func() { require.NoError(t, unix.SchedSetaffinity(0, &all)) }()
	sets := []unix.CPUSet{all}
	for cpu := range 1024 {
		if all.IsSet(cpu) && len(sets) < 9 {
			var one unix.CPUSet
			one.Set(cpu)
			sets = append(sets, one)
			if rest := all; all.Count() > 2 { // only there is a set that a process has asked for and that has several processors
				rest.Clear(cpu)
				sets = append(sets, rest)
			}
		}
	}
	const show = `/bin/grep Cpus_allowed: /proc/self/status; /bin/cat /proc/self/timerslack_ns`
	for _, slack := range []string{"0", "1", "123456", "3000000"} {
		for i := range sets {
			require.NoError(t, unix.SchedSetaffinity(0, &sets[i]))
			begin := "echo " + slack + " >/proc/self/timerslack_ns; exec "
			want, _, code, _ := under(t, nsrun, begin+`/bin/sh -c "`+show+`"`)
			require.Equal(t, 0, code)
			if slack != "0" { // which is the default
				require.Contains(t, want, "\n"+slack+"\n", "the control")
			}
			for _, line := range []string{`"$0" run --`, `"$0" run --backend landlock --`, `"$0" run --backend=landlock --`, `"$0" run --limit open_files=512 --`,
				`"$0" bwrap --bind / /`, `"$0" bwrap --bind / / --unshare-all --proc /proc`,
				`"$0" bwrap --bind / / --setenv A --unshare-pid --proc /proc`} {
				stdout, stderr, code, _ := under(t, nsrun, begin+line+` /bin/sh -c "`+show+`"`)
				assert.Equal(t, 0, code, stderr)
				assert.Equal(t, want, stdout, line)
			}
		}
	}
}

// TestNothingMadeAheadIsLeft has a process adopt what nsrun leaves, which is nothing, however and whenever it ends.
func TestNothingMadeAheadIsLeft(t *testing.T) {
	if nsrun := os.Getenv("NSRUN_TEST_ADOPT"); nsrun != "" {
		require.NoError(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
		for _, line := range []string{"nsrun run -- /bin/true", "nsrun run --no-such-flag -- /bin/true", "nsrun run -- /no/such/command",
			"nsrun run --backend landlock -- /bin/true", "nsrun run --ro /no/such/place -- /bin/true", "nsrun run --chdir /no/such/dir -- /bin/true", "nsrun run --help --", "bwrap --no-such-option x",
			"bwrap --bind / / --dir", "bwrap --ro-bind /no/such/dir / true"} {
			_, _, _ = calledIn("/nowhere", nsrun, strings.Fields(line)...)
			_, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			assert.Equal(t, unix.ECHILD, err, line)
		}
		for i := range 100 {
			cmd := &exec.Cmd{Path: nsrun, Args: []string{"nsrun", "run", "--", "/bin/sleep", "1000"}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/usr"}
			require.NoError(t, cmd.Start())
			time.Sleep(time.Duration(i) * 30 * time.Microsecond)
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait()
			testenv.Returns(t, "the end of all processes", func() {
				for err := error(nil); err != unix.ECHILD; {
					_, err = unix.Wait4(-1, nil, 0, nil)
				}
			})
		}
		return
	}
	nsrun := realBinary(t)
	cmd := exec.Command("/proc/self/exe", "-test.run", "^TestNothingMadeAheadIsLeft$", "-test.v")
	cmd.Env = append(os.Environ(), "NSRUN_TEST_ADOPT="+nsrun)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS")
}

// TestKilledHelperHangsNothing kills a child of nsrun's at any moment of its start, most of them processes that make namespaces ahead: the run
// goes on without it, or fails, but ends.
func TestKilledHelperHangsNothing(t *testing.T) {
	nsrun := realBinary(t)
	killed := 0
	// With many mounts the child is forked while they are made.
	bwrap := "bwrap --unshare-all --ro-bind / / --proc /proc" + strings.Repeat(" --tmpfs /tmp", 60) + " /bin/true"
	for i := range 360 {
		line := []string{"nsrun run -- /bin/true", bwrap}[i%2]
		cmd := &exec.Cmd{Path: nsrun, Args: strings.Fields(line), Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/usr"}
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		require.NoError(t, cmd.Start())
		time.Sleep(time.Duration(i/4) * 60 * time.Microsecond)
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid))
		words := strings.Fields(string(children))
		if n := len(words); n > 0 && i%4 > 1 { // one of them alone
			words = words[i/4%n:][:1]
		}
		for _, word := range words {
			if pid, err := strconv.Atoi(word); err == nil && unix.Kill(pid, unix.SIGKILL) == nil {
				killed++
			}
		}
		late := time.AfterFunc(testenv.Limit(0), func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		assert.True(t, late.Stop(), "it hangs")
		assert.Contains(t, []int{0, 1, 125, 137}, cmd.ProcessState.ExitCode(), stderr.String()) // 137: that was pid 1
		assert.NotContains(t, stderr.String(), "goroutine ")
	}
	require.NotZero(t, killed)
}
