package probe

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/syndtr/gocapability/capability"
	"golang.org/x/sys/unix"
)

func TestQuickAnswersEveryFeatureItCanWithoutAChild(t *testing.T) {
	f := Quick()
	assert.NotEmpty(t, f.Kernel)
	assert.Equal(t, os.Geteuid(), f.UID)
	for _, name := range []facts.Name{facts.Landlock, facts.Seccomp, facts.Openat2, facts.MountAPI, facts.CloseR, facts.Pidfd,
		facts.MountSetattr, facts.Clone3, facts.LandlockNet, facts.LandlockScope, facts.LandlockUnix, facts.SeccompKill, facts.SeccompNotify} {
		assert.Contains(t, f.Answers, name)
	}
	assert.NotContains(t, f.Answers, facts.UserNS, "a run cannot afford to make namespaces only to ask")
}

func TestFullAnswersEveryRowOfTheTable(t *testing.T) {
	f := Full()
	for _, row := range facts.Table {
		require.Contains(t, f.Answers, row.Name)
		if a := f.Answers[row.Name]; a.State == facts.No {
			assert.NotEmpty(t, a.Detail, "%s: a no says why", row.Name)
		}
	}
}

func TestLastCapIsTheKernels(t *testing.T) {
	// gocapability reads /proc/sys/kernel/cap_last_cap when it is initialised: what ours does without opening a file.
	assert.Equal(t, int(capability.CAP_LAST_CAP), lastCap())
}

func TestARefusalIsANoWithItsStep(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := try(unix.CLONE_NEWUSER|unix.CLONE_NEWNS, func(p *sys.Program) {
		p.At(sys.Step{Stage: "mount", Op: "proc"})
		p.Fail(unix.EPERM)
	})
	require.ErrorAs(t, err, new(*fault.Error))
	require.ErrorIs(t, err, unix.EPERM)
	assert.Equal(t, "mount (proc): operation not permitted", err.Error())
	err = try(unix.CLONE_NEWNS|unix.CLONE_FS, nil)
	require.ErrorAs(t, err, new(*fault.Error))
	assert.Contains(t, err.Error(), "clone: ")
}

func TestAKilledChildIsANo(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := try(unix.CLONE_NEWUSER, func(p *sys.Program) {
		p.Add(unix.SYS_PRCTL, sys.Int(unix.PR_SET_DUMPABLE), sys.Int(0), sys.Int(0), sys.Int(0), sys.Int(0))
		p.Add(unix.SYS_PRCTL, sys.Int(unix.PR_SET_SECCOMP), sys.Int(unix.SECCOMP_MODE_STRICT))
		p.Add(unix.SYS_GETPID)
	})
	require.ErrorAs(t, err, new(*fault.Error))
	assert.Equal(t, "the child was ended by signal 9, as by a seccomp filter", err.Error())
}

func TestProbesLeaveNothing(t *testing.T) {
	tmp := t.TempDir()
	for _, name := range []string{"HOME", "TMPDIR", "XDG_RUNTIME_DIR"} {
		t.Setenv(name, tmp)
	}
	mine := "nsrun-probe-" + strconv.Itoa(os.Getpid()) // what other probes on this machine make goes by other names
	look := func() string {
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		require.NoError(t, err)
		var groups []string
		require.NoError(t, filepath.WalkDir("/sys/fs/cgroup", func(path string, _ fs.DirEntry, _ error) error {
			if filepath.Base(path) == mine {
				groups = append(groups, path)
			}
			return nil
		}))
		fds, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		files, err := os.Stat(tmp)
		require.NoError(t, err)
		shm, err := filepath.Glob("/dev/shm/" + mine + "-*")
		require.NoError(t, err)
		return fmt.Sprint(string(mounts), groups, len(fds), files.ModTime().UnixNano(), shm)
	}
	Host() // opens what the runtime polls by
	Backends(facts.Facts{})
	files, err := os.ReadDir(tmp)
	require.NoError(t, err)
	assert.Empty(t, files, "the backends that were started leave no files either")
	var before, after string
	for range 50 { // other tests on this machine mount meanwhile; what Full itself left would add to each look
		before = look()
		Full()
		if after = look(); after == before {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	assert.Equal(t, before, after)
	_, err = unix.Wait4(-1, nil, unix.WNOHANG, nil)
	assert.ErrorIs(t, err, unix.ECHILD)
}

func TestLandlockFeaturesFollowTheABI(t *testing.T) {
	scope := landlockRows[1]
	require.NoError(t, scope.within(6, []string{"truncate"}, nil))
	assert.EqualError(t, scope.within(5, nil, nil), "the kernel has Landlock ABI 5, and this needs 6")
	assert.EqualError(t, scope.within(7, []string{"scope_signal"}, nil), "the kernel has Landlock ABI 7, and refuses scope_signal of it")
	assert.ErrorIs(t, scope.within(0, nil, unix.EPERM), unix.EPERM)
}

// v2 is a made-up tree with the caller's cgroup in a directory.
func v2(dir, controllers string) files {
	return tree(map[string]string{
		"proc/self/mountinfo": "31 23 0:28 / " + dir + " rw - cgroup2 cgroup2 rw\n", "proc/self/cgroup": "0::/mine\n",
		strings.TrimPrefix(dir, "/") + "/mine/cgroup.controllers": controllers, strings.TrimPrefix(dir, "/") + "/cgroup.controllers": controllers,
	})
}

func TestACgroupIsMadeAndRemoved(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine")
	require.NoError(t, os.Mkdir(mine, 0o755))
	_, err := groupV2(v2(dir, "memory pids cpu"))
	require.ErrorAs(t, err, new(*fault.Error), "without a cgroup.procs no process can move")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), nil, 0o644))
	detail, err := groupV2(v2(dir, "cpuset memory pids cpu"))
	require.NoError(t, err)
	assert.Equal(t, dir+" (cpuset memory pids cpu)", detail, "the one above counts too")
	_, err = groupV2(v2(dir, "memory cpu"))
	assert.ErrorContains(t, err, mine+" has not got the controllers pids; "+dir+" has not got the controllers pids")
	_, err = groupV2(tree(nil))
	require.ErrorContains(t, err, "no cgroup tree of version 2 is mounted")
	left, err := filepath.Glob(dir + "/*/nsrun-probe-*")
	require.NoError(t, err)
	more, err := filepath.Glob(dir + "/nsrun-probe-*")
	require.NoError(t, err)
	assert.Empty(t, append(left, more...))
}

func TestAServiceManagerIsConnectedTo(t *testing.T) {
	dir := t.TempDir()
	_, err := answering(tree(nil), 1000)
	require.EqualError(t, err, "systemd does not run this host")
	booted := tree(map[string]string{"run/systemd/system/x": "", "$XDG_RUNTIME_DIR": dir})
	_, err = answering(booted, 1000)
	require.ErrorContains(t, err, filepath.Join(dir, "bus")+": no such file or directory")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(dir, "bus")}))
	_, err = answering(booted, 1000)
	require.ErrorContains(t, err, "connection refused", "a socket that nobody listens at")
	require.NoError(t, unix.Listen(fd, 1))
	socket, err := answering(booted, 1000)
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(dir, "bus"), socket)
}

// TestNobodyIsSentToSystemdWhereThatDoesNotRun, nor to its option of the kernel's command line.
func TestNobodyIsSentToSystemdWhereThatDoesNotRun(t *testing.T) {
	ask := func(host map[string]string, distro string) string {
		f := facts.Facts{UID: 1000, Distro: facts.Distro{ID: distro}, Answers: map[facts.Name]facts.Answer{}}
		groups(f, tree(host))
		return f.Fix(facts.CgroupV2)
	}
	none := map[string]string{}
	assert.Equal(t, delegate, ask(none, ""))
	assert.Contains(t, ask(none, "alpine"), "rc-update add cgroups", "a distribution's own way is better")
	assert.Contains(t, ask(map[string]string{"run/systemd/system/x": ""}, ""), "systemd-run", "positive control")
}

// TestWhoAnswersIsAskedForAScope has two sockets, of which one is dead, on a host without a place for cgroups.
func TestWhoAnswersIsAskedForAScope(t *testing.T) {
	dir := t.TempDir()
	host := map[string]string{"run/systemd/system/x": "", "$XDG_RUNTIME_DIR": dir, "proc/self/mountinfo": v2Mount, "proc/self/cgroup": "0::/a/b\n"}
	ask := func() facts.Facts {
		f := facts.Facts{UID: 1000, Answers: map[facts.Name]facts.Answer{}, Manager: &facts.Manager{Socket: dir + "/systemd/private"}}
		groups(f, tree(host))
		return f
	}
	f := ask()
	assert.Equal(t, facts.No, f.State(facts.SystemdScope))
	assert.Equal(t, dir+"/systemd/private", f.Manager.Socket)
	assert.Contains(t, f.Fix(facts.CgroupV2), "start nsrun in a delegated scope")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(dir, "bus")}))
	require.NoError(t, unix.Listen(fd, 1))
	f = ask()
	assert.Equal(t, facts.Yes, f.State(facts.SystemdScope))
	assert.Equal(t, &facts.Manager{Socket: dir + "/bus", Bus: true}, f.Manager)
	assert.Contains(t, f.Fix(facts.CgroupV2), "nsrun run needs nothing, as it asks the service manager")
}

func BenchmarkQuick(b *testing.B) {
	for b.Loop() {
		Quick()
	}
}

func BenchmarkHost(b *testing.B) {
	for b.Loop() {
		Host()
	}
}

func TestReleasesAreCompared(t *testing.T) {
	for release, want := range map[string]bool{"6.14.0": true, "6.14-rc1": true, "6.18.5-foo": true, "7.0": true, "10.2": true, "6.9.12": false, "6.13.99": false,
		"5.15.167.4-microsoft": false, "4.4.0": false, "6": false, "": false, "x.y": false, "6.x": false} {
		assert.Equal(t, want, atLeast(release, 6, 14), release)
	}
}

func TestWhosePidMaxItIs(t *testing.T) {
	assert.Contains(t, whosePidMax(refusal(sys.Step{Stage: "open", Path: pidMaxFile}, unix.EACCES)).Error(), "one for all pid namespaces")
	assert.Contains(t, whosePidMax(refusal(sys.Step{Stage: notRoot}, unix.EINVAL)).Error(), "not mapped here")
	assert.Equal(t, "open: read-only file system", whosePidMax(refusal(sys.Step{Stage: "open"}, unix.EROFS)).Error())
	assert.NoError(t, whosePidMax(nil))
	assert.True(t, leastPidMax() >= 301, "this host's: %d", leastPidMax())
}

// TestQuickForksNothing counts what this process has waited for: a large program asks, too.
func TestQuickForksNothing(t *testing.T) {
	used := func() (usage unix.Rusage) {
		require.NoError(t, unix.Getrusage(unix.RUSAGE_CHILDREN, &usage))
		return usage
	}
	before := used()
	f := Quick()
	assert.Equal(t, before.Minflt, used().Minflt, "a child has page faults")
	assert.NotContains(t, f.Answers, facts.PidMax)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = try(0, nil) // whatever becomes of it
	assert.Greater(t, used().Minflt, before.Minflt, "positive control")
}
