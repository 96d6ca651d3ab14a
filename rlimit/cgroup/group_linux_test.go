package cgroup

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// elder is what version 1 calls a controller.
var elder = map[string]string{"pids": "pids", "io": "blkio"}

// place finds a tree that this process may make groups with a controller in.
func place(t *testing.T, controller string) Place {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	for line := range strings.SplitSeq(strings.TrimSpace(string(own)), "\n") {
		if word := strings.SplitN(line, ":", 3); len(word) == 3 && word[1] == elder[controller] {
			if dir := filepath.Join("/sys/fs/cgroup", word[1], word[2]); unix.Access(dir, unix.W_OK) == nil {
				return Place{Version: 1, Dir: dir, Controllers: []string{controller}}
			}
		}
	}
	const top = "/sys/fs/cgroup"
	has, _ := os.ReadFile(filepath.Join(top, "cgroup.controllers"))
	if !slices.Contains(strings.Fields(string(has)), controller) || unix.Access(top, unix.W_OK) != nil || unix.Access(filepath.Join(top, "cgroup.subtree_control"), unix.W_OK) != nil {
		t.Skip("this user can make no cgroup with the controller " + controller + " here")
	}
	return Place{Version: 2, Dir: top, Controllers: []string{controller}, Enable: []string{controller}}
}

func trees(t *testing.T, limit Limit) []Tree {
	t.Helper()
	trees := Fit([]Place{place(t, "pids")}, []Limit{limit})
	require.NotEmpty(t, trees)
	return trees
}

// groupsIn lists the groups that there are, of tests of other packages too.
func groupsIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	return names
}

// noneLeft waits until each of those that have come since is gone: others make groups of their own there at the same time, and remove them.
func noneLeft(t *testing.T, dir string, before []string, what string) {
	t.Helper()
	end := time.Now().Add(testenv.Limit(0))
	for _, name := range groupsIn(t, dir) {
		if slices.Contains(before, name) {
			continue
		}
		for there := true; there; time.Sleep(time.Millisecond) {
			_, err := os.Stat(filepath.Join(dir, name))
			if there = err == nil; there && time.Now().After(end) {
				assert.Fail(t, "a group is left", "%s: %s", what, name)
				break
			}
		}
	}
}

func TestWhoJoinsIsBounded(t *testing.T) {
	for _, born := range []bool{false, true} {
		t.Run(map[bool]string{false: "moved", true: "born there"}[born], func(t *testing.T) {
			want := trees(t, pids(1))
			g, err := Make(want)
			require.NoError(t, err)
			at := -1
			if born {
				if at = g.Born(); at < 0 {
					require.NoError(t, g.Remove())
					t.Skip("in a tree of version 1 nothing is born")
				}
			}
			assert.Equal(t, want[0].Dir, filepath.Dir(g.Made()[0].Dir))
			var p sys.Program
			Lower(&p, want, g, born)
			p.Add(unix.SYS_CLONE, sys.Int(int(unix.SIGCHLD)), sys.Int(0)).Tolerate(unix.EAGAIN, 1)
			p.Fail(unix.ENOTRECOVERABLE) // it came to a second process
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			pid, pidfd, err := p.ForkInto(at, 0, -1)
			require.NoError(t, err)
			unix.Close(pidfd)
			var status unix.WaitStatus
			_, err = unix.Wait4(pid, &status, 0, nil)
			require.NoError(t, err)
			assert.Zero(t, status.ExitStatus(), "it was refused a second process, and by nothing else")
			assert.EqualValues(t, 1, g.Read().PidsMax)
			made := g.Made()[0].Dir
			require.NoError(t, g.Remove())
			assert.NoDirExists(t, made)
		})
	}
}

func TestNothingIsLeftOfAGroupThatFails(t *testing.T) {
	want := trees(t, pids(5))
	before := groupsIn(t, want[0].Dir)
	for name, change := range map[string]func(*Tree){
		"a file that is not there": func(t *Tree) { t.Files = append(t.Files, File{Name: "none.such", Value: "1"}) },
		"a value that is wrong":    func(t *Tree) { t.Files = append(t.Files, File{Name: "pids.max", Value: "many"}) },
	} {
		tree := want[0]
		tree.Files = slices.Clone(tree.Files)
		change(&tree)
		_, err := Make([]Tree{want[0], tree})
		assert.ErrorContains(t, err, want[0].Dir, name)
		noneLeft(t, want[0].Dir, before, name)
	}
	_, err := Make([]Tree{want[0], {Version: 2, Dir: filepath.Join(t.TempDir(), "none")}})
	assert.ErrorIs(t, err, os.ErrNotExist)
	noneLeft(t, want[0].Dir, before, "a directory that is not there")
	tree := want[0]
	tree.Files = append(slices.Clone(tree.Files), File{Name: "none.such", Value: "1", Optional: true})
	g, err := Make([]Tree{tree})
	require.NoError(t, err, "an optional file may be missing")
	require.NoError(t, g.Remove())
}

// TestADeadRunsGroupIsRemoved leaves groups behind as a run does that is killed, one of them with a process in it.
func TestADeadRunsGroupIsRemoved(t *testing.T) {
	want := trees(t, pids(5))
	dead, err := Make(want)
	require.NoError(t, err)
	full, err := Make(want)
	require.NoError(t, err)
	live, err := Make(want)
	require.NoError(t, err)
	sleeper := exec.Command("sleep", "1000")
	require.NoError(t, sleeper.Start())
	end := sync.OnceFunc(func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() })
	defer end()
	require.NoError(t, os.WriteFile(filepath.Join(full.Made()[0].Dir, "cgroup.procs"), []byte(strconv.Itoa(sleeper.Process.Pid)), 0))
	deadDir, fullDir, liveDir := dead.Made()[0].Dir, full.Made()[0].Dir, live.Made()[0].Dir
	dead.Close()
	full.Close()
	next, err := Make(want)
	require.NoError(t, err)
	assert.NoDirExists(t, deadDir)
	assert.DirExists(t, fullDir, "somebody lives there")
	assert.DirExists(t, liveDir, "its run lives")
	again, err := Attach([]Tree{{Version: want[0].Version, Dir: fullDir}})
	require.NoError(t, err)
	end()
	require.NoError(t, again.Remove())
	require.NoError(t, live.Remove())
	require.NoError(t, next.Remove())
	for _, dir := range []string{deadDir, fullDir, liveDir} {
		assert.NoDirExists(t, dir)
	}
}

// TestManyAtOnce makes and removes groups at the same time: none may be taken for a dead run's.
func TestManyAtOnce(t *testing.T) {
	want := trees(t, pids(5))
	before := groupsIn(t, want[0].Dir)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				g, err := Make(want)
				if assert.NoError(t, err) {
					assert.DirExists(t, g.Made()[0].Dir)
					assert.NoError(t, g.Remove())
				}
			}
		})
	}
	wg.Wait()
	noneLeft(t, want[0].Dir, before, "many")
}

// TestWhatIsLeftEndsWithTheGroup leaves a process in one that does not want to go.
func TestWhatIsLeftEndsWithTheGroup(t *testing.T) {
	want := trees(t, pids(5))
	g, err := Make(want)
	require.NoError(t, err)
	// It enters the group before it starts others, which are then in it, too.
	cmd := exec.Command("sh", "-c", `trap '' TERM INT HUP; echo $$ >"$1" && echo inside; while :; do sleep 1000; done`, "sh", filepath.Join(g.Made()[0].Dir, "cgroup.procs"))
	out, theirs, err := os.Pipe()
	require.NoError(t, err)
	defer out.Close()
	cmd.Stdout = theirs
	require.NoError(t, cmd.Start())
	require.NoError(t, theirs.Close())
	word := make([]byte, 7)
	_, err = io.ReadFull(out, word)
	require.NoError(t, err)
	require.Equal(t, "inside\n", string(word))
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	dir := g.Made()[0].Dir
	require.NoError(t, g.Remove())
	assert.ErrorContains(t, testenv.Receive(t, ended, "the end of the process"), "killed")
	testenv.Returns(t, "reading its output, which all that it has started holds,", func() { _, err = out.Read(word) })
	assert.ErrorIs(t, err, io.EOF)
	assert.NoDirExists(t, dir)
}

// TestAGroupIsNobodyElses since another user who could open it could keep the lock that says whose it is.
func TestAGroupIsNobodyElses(t *testing.T) {
	all := trees(t, pids(10))
	g, err := Make(all)
	require.NoError(t, err)
	defer g.Remove()
	info, err := os.Stat(g.Made()[0].Dir)
	require.NoError(t, err)
	assert.Zero(t, info.Mode().Perm()&0o077, "%v", info.Mode())
}

// TestADiskIsSlow writes to one by a process of a group's, past the page cache.
func TestADiskIsSlow(t *testing.T) {
	want := Fit([]Place{place(t, "io")}, []Limit{writes(4 << 20)})
	require.NotEmpty(t, want)
	dir := t.TempDir()
	var st unix.Stat_t
	require.NoError(t, unix.Stat(dir, &st))
	known, err := disks(os.DirFS("/sys/block"))
	require.NoError(t, err)
	if on := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)); !slices.Contains(known, on) {
		t.Skipf("the temporary directory is on %s, which is none of the disks %v", on, known)
	}
	write := func(group string) time.Duration {
		began := time.Now()
		out, err := exec.Command("sh", "-c", `echo $$ >"$1/cgroup.procs" && exec dd if=/dev/zero of="$2" bs=1M count=8 oflag=direct`, "sh", group, filepath.Join(dir, "x")).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return time.Since(began)
	}
	free := write(want[0].Dir)
	g, err := Make(want)
	require.NoError(t, err)
	bounded := write(g.Made()[0].Dir)
	require.NoError(t, g.Remove())
	assert.Greater(t, bounded, 1500*time.Millisecond, "8 MiB at 4 MiB a second; without the group %v", free)
}
