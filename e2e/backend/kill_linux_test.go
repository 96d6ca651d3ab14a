package backend_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/internal/testenv"
	"golang.org/x/sys/unix"
)

var killSeed = flag.Uint64("kill-seed", 0, "of the moments in TestNothingOutlivesAKill; 0 takes one by the clock")

// bearer is a process that bears a mark, and where.
type bearer struct {
	pid   int
	where []string
	what  string
}

func (b bearer) String() string {
	return fmt.Sprintf("%d (%s) by its %s", b.pid, b.what, strings.Join(b.where, ", "))
}

// bearers lists the processes that have a word in their command line or environment, or that have a place with that name as directory, root,
// open file or mount.
func bearers(word string) (all []bearer) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		b := bearer{}
		b.pid, _ = strconv.Atoi(filepath.Base(dir))
		for _, name := range []string{"cmdline", "environ", "mountinfo"} {
			if data, err := os.ReadFile(dir + "/" + name); err == nil && strings.Contains(string(data), word) {
				b.where = append(b.where, name)
			}
		}
		fds, _ := filepath.Glob(dir + "/fd/*")
		for _, name := range append(fds, dir+"/cwd", dir+"/root") {
			if at, err := os.Readlink(name); err == nil && strings.Contains(at, word) {
				b.where = append(b.where, strings.TrimPrefix(name, dir+"/"))
			}
		}
		if len(b.where) > 0 {
			comm, _ := os.ReadFile(dir + "/comm")
			wait, _ := os.ReadFile(dir + "/wchan")
			b.what = strings.TrimSpace(string(comm)) + " in " + string(wait)
			all = append(all, b)
		}
	}
	return all
}

// lifeline is a socket whose other end a program and all that it starts have as their standard descriptors. It ends with the last of them.
func lifeline(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.SetNonblock(ends[0], true)) // for deadlines
	ours, theirs = os.NewFile(uintptr(ends[0]), "lifeline"), os.NewFile(uintptr(ends[1]), "lifeline")
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

// stays reports whether something holds the other end still.
func stays(ours *os.File) bool {
	_ = ours.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := io.Copy(io.Discard, ours)
	return errors.Is(err, os.ErrDeadlineExceeded)
}

// TestNothingOutlivesAKill kills nsrun, bubblewrap or the watchdog between them while backend bwrap sets a sandbox up, at moments that are
// chosen at random over the time that this takes, every second one in the time in which bubblewrap starts its child. Whichever is killed,
// nothing of the run may be left, and nothing may hold the caller's standard descriptors.
func TestNothingOutlivesAKill(t *testing.T) {
	if emulated() {
		return
	}
	seed := *killSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	users(t, func(t *testing.T, w *world) {
		b := newBox(t, w, "bwrap", []string{"--backend", "bwrap"})
		t.Run("control", b.controlBearers)
		takes := b.calibrate(t)
		n, failed := testenv.Times(2000), 0
		t.Logf("a start takes %v; -kill-seed=%d repeats these %d moments", takes, seed, n)
		random := rand.New(rand.NewPCG(seed, 0))
		ends := map[string]int{}
		for i := range n {
			victim := []string{"nsrun", "watchdog", "bwrap"}[i%3]
			k := b.startKill(t, fmt.Sprintf("%s-%d-end", w.mark, i))
			moment, early := time.Duration(random.Int64N(int64(takes)*6/5)), i%2 == 1
			if early {
				moment /= 8
			}
			ends[victim+" "+k.kill(t, victim, moment, early)]++
			if left := k.left(t); len(left) > 0 {
				failed++
				t.Errorf("kill %d, of %s after %v (early: %v), leaves %v", i, victim, moment, early, left)
			}
			if failed == 20 {
				break
			}
		}
		t.Logf("%d of %d kills left something; what was killed, and what the lifeline had brought by then: %v", failed, n, ends)
		testenv.Count(t, "kills", n)
	})
}

// victimRun is a run to be killed.
type victimRun struct {
	word   string
	cmd    *exec.Cmd
	ours   *os.File
	born   time.Time
	reader *bufio.Reader
}

// startKill starts a run whose command, workspace and environment have a word.
func (b box) startKill(t *testing.T, word string) *victimRun {
	t.Helper()
	work := filepath.Join(b.home, word)
	b.mkdir(t, work)
	ours, theirs := lifeline(t)
	defer theirs.Close()
	k := &victimRun{word: word, ours: ours, cmd: b.command(context.Background(), b.words([]string{"--workspace", work}, "sh", "-c", "echo begun; exec sleep 1000", word)...)}
	b.change(nil)(k.cmd)
	k.cmd.Env, k.cmd.Dir = append(k.cmd.Env, "NSRUN_TEST_WORD="+word), work
	k.cmd.Stdin, k.cmd.Stdout, k.cmd.Stderr = theirs, theirs, theirs
	k.reader, k.born = bufio.NewReader(ours), time.Now()
	require.NoError(t, k.cmd.Start())
	return k
}

// begun waits until the command runs.
func (k *victimRun) begun(t *testing.T) {
	t.Helper()
	require.NoError(t, k.ours.SetReadDeadline(time.Now().Add(testenv.Limit(0))))
	for {
		line, err := k.reader.ReadString('\n')
		require.NoError(t, err)
		if line == "begun\n" {
			return
		}
	}
}

// calibrate returns how long a start takes, and checks that each process of a run is found.
func (b box) calibrate(t *testing.T) time.Duration {
	t.Helper()
	var all []time.Duration
	for i := range 5 {
		k := b.startKill(t, fmt.Sprintf("%s-calibration-%d-end", b.mark, i))
		k.begun(t)
		all = append(all, time.Since(k.born))
		there := bearers(k.word)
		assert.GreaterOrEqual(t, len(there), 5, "control: nsrun, the watchdog, bubblewrap, the sandbox's pid 1, the command: %v", there)
		assert.True(t, stays(k.ours), "control")
		for _, victim := range []string{"watchdog", "bwrap"} {
			assert.NotZero(t, k.pid(victim), victim)
		}
		require.NoError(t, k.cmd.Process.Kill())
		assert.Empty(t, k.left(t))
	}
	return slices.Min(all)
}

// pid is that of the process to be killed, or 0 if there is none yet.
func (k *victimRun) pid(victim string) int {
	if victim == "nsrun" {
		return k.cmd.Process.Pid
	}
	for below := []int{k.cmd.Process.Pid}; len(below) > 0; {
		var next []int
		for _, pid := range below {
			lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
			for _, list := range lists {
				data, _ := os.ReadFile(list)
				for _, word := range strings.Fields(string(data)) {
					child, _ := strconv.Atoi(word)
					next = append(next, child)
					line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
					if len(line) > 0 && strings.HasPrefix(string(line), "bwrap\x00") == (victim == "bwrap") {
						return child
					}
				}
			}
		}
		below = next
	}
	return 0
}

const pollPause = 100 * time.Microsecond

// kill kills one process of a run that much after the run, or bubblewrap, has begun, and returns whether the command had begun by then. It waits
// until the process is there, or nsrun has ended without.
func (k *victimRun) kill(t *testing.T, victim string, moment time.Duration, early bool) (when string) {
	t.Helper()
	ended := func() bool {
		var info unix.Siginfo
		return unix.Waitid(unix.P_PID, k.cmd.Process.Pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) != nil || info.Signo != 0
	}
	since := k.born
	if early {
		for k.pid("bwrap") == 0 && !ended() {
			time.Sleep(pollPause)
		}
		since = time.Now()
	}
	for k.pid(victim) == 0 && !ended() {
		time.Sleep(pollPause)
	}
	time.Sleep(time.Until(since.Add(moment)))
	if pid := k.pid(victim); pid != 0 {
		if err := unix.Kill(pid, unix.SIGKILL); !errors.Is(err, unix.ESRCH) { // it may have ended meanwhile, as in a run that was refused
			require.NoError(t, err)
		}
	}
	_ = k.ours.SetReadDeadline(time.Now().Add(time.Millisecond))
	if line, _ := k.reader.Peek(1); len(line) > 0 {
		return "when the command ran"
	}
	return "before"
}

// left waits until nothing of a run is left, and returns what does not end, which it kills.
func (k *victimRun) left(t *testing.T) (left []bearer) {
	t.Helper()
	limit := time.Now().Add(testenv.Limit(0))
	ended := make(chan struct{})
	go func() { _ = k.cmd.Wait(); close(ended) }()
	_ = k.ours.SetReadDeadline(limit)
	_, err := io.Copy(io.Discard, k.reader)
	k.ours.Close()
	for left = bearers(k.word); len(left) > 0 && time.Now().Before(limit); left = bearers(k.word) {
		time.Sleep(time.Millisecond) // until the kernel has removed the watchdog, which does not hold the lifeline
	}
	if len(left) == 0 {
		assert.NoError(t, err, "%s: nothing is found, and something holds the standard descriptors", k.word)
	}
	for _, b := range left {
		_ = unix.Kill(b.pid, unix.SIGKILL)
	}
	<-ended
	return left
}

// controlBearers leaves processes behind on purpose, each with the word at one place.
func (b box) controlBearers(t *testing.T) {
	word := b.mark + "-control-end"
	place := filepath.Join(b.home, word)
	b.mkdir(t, place)
	b.write(t, place+"/file", "")
	script := func(more string) []string { return []string{"sh", "-c", "echo begun; exec " + more + " sleep 1000"} }
	for where, change := range map[string]func(*exec.Cmd){
		"cmdline": func(c *exec.Cmd) { c.Args = []string{"sh", "-c", "echo begun; sleep 1000; :", word} },
		"environ": func(c *exec.Cmd) { c.Env = append(c.Env, "NSRUN_TEST_WORD="+word) },
		"cwd":     func(c *exec.Cmd) { c.Dir = place },
		"fd/3": func(c *exec.Cmd) {
			f, err := os.Open(place + "/file")
			require.NoError(t, err)
			t.Cleanup(func() { f.Close() })
			c.ExtraFiles = []*os.File{f}
		},
	} {
		ours, theirs := lifeline(t)
		cmd := b.command(context.Background(), script("")...)
		change(cmd)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
		require.NoError(t, cmd.Start())
		theirs.Close()
		for _, f := range cmd.ExtraFiles {
			f.Close()
		}
		k := &victimRun{word: word, ours: ours, cmd: cmd, reader: bufio.NewReader(ours)}
		k.begun(t)
		testenv.Eventually(t, func() bool { // in the midst of execve(2) a process has neither arguments nor an environment
			return slices.ContainsFunc(bearers(word), func(b bearer) bool { return slices.Contains(b.where, where) })
		}, "a process with the word at its "+where)
		assert.True(t, stays(ours), "what is left holds the lifeline")
		require.NoError(t, unix.Kill(-cmd.Process.Pid, unix.SIGKILL))
		assert.Empty(t, k.left(t), "and when it has ended, it is not found")
	}
}
