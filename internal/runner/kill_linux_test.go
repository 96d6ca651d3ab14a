package runner

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// marked lists the host's processes that have a word in their environment, zombies excepted.
func marked(word string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil && bytes.Contains(data, []byte(word)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// eventually waits until f says yes.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	testenv.Eventually(t, f, what)
}

// villains do not want to end. Each leaves at least so many processes.
var villains = map[string]struct {
	script string
	least  int
}{
	"daemon":       {"(setsid sh -c '(sleep 1000 &) ; exec sleep 1000' &) ; exec sleep 1000", 3},
	"sigterm":      {"trap '' TERM INT HUP; while :; do sleep 1000; done", 2},
	"stopped":      {"sh -c 'kill -STOP $$' & exec sleep 1000", 2},
	"all ignored":  {"trap '' TERM INT HUP; (setsid sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' &); exec sleep 1000", 3},
	"orphan maker": {"i=0; while [ $i -lt 30 ]; do (sleep 1000 &); i=$((i+1)); done; exec sleep 1000", 31},
	"fork storm":   {"b() { while :; do (:) & (:) & wait; done; }; for i in 1 2 3 4 5 6 7 8; do b & done; b", 9},
}

// outcome is what Exec returns.
type outcome struct {
	result *ExecResult
	err    error
}

// grown reports whether so many marked processes are there before their command has ended, whose outcome is left for the caller.
func grown(t *testing.T, mark string, least int, ended chan outcome) (there bool) {
	t.Helper()
	eventually(t, "the villain is there, or has ended", func() bool {
		there = len(marked(mark)) >= least
		return there || len(ended) > 0
	})
	return there
}

// TestKillTree ends villains in every way there is, and counts from the host what is left. Another command of the session lives on where
// the session does.
func TestKillTree(t *testing.T) {
	for name, v := range villains {
		for _, way := range []string{"close", "timeout", "cancel", "kill", "fresh"} {
			t.Run(name+"/"+way, func(t *testing.T) {
				s := opened(t, NewPolicy().KillGrace(50*time.Millisecond))
				mark := fmt.Sprintf("NSRUN_MARK=%d-%d", os.Getpid(), time.Now().UnixNano())
				neighbour := echo(t, s)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				opts := &ExecOptions{Env: []string{mark}}
				if way == "timeout" {
					opts.Timeout = testenv.Scale(300 * time.Millisecond)
				}
				ended := make(chan outcome, 1)
				run := func() {
					r, err := s.Exec(ctx, Shell(v.script), opts)
					ended <- outcome{r, err}
				}
				var process *piped
				if way == "kill" {
					var err error
					process, err = start(ctx, s, Shell(v.script), ExecOptions{Env: opts.Env})
					require.NoError(t, err)
				} else {
					go run()
				}
				for way == "timeout" && !grown(t, mark, v.least, ended) { // its time was up before it was all there: on a busy host it needs more
					end := <-ended
					require.NoError(t, end.err)
					require.Equal(t, Timeout, end.result.Verdict, "it does not end by itself")
					require.Less(t, opts.Timeout, testenv.Limit(0), "it never is all there")
					opts.Timeout *= 3
					go run()
				}
				if way != "timeout" {
					eventually(t, "the villain is there", func() bool { return len(marked(mark)) >= v.least })
				}
				sandbox := s.sandbox
				switch way {
				case "close":
					require.NoError(t, s.Close())
				case "cancel":
					cancel()
				case "kill":
					require.NoError(t, process.End())
				case "fresh":
					_, err := s.Exec(context.Background(), []string{"true"}, &ExecOptions{Fresh: true})
					require.NoError(t, err)
				}
				var end outcome
				if way != "kill" {
					end = <-ended
				}
				assert.Empty(t, marked(mark), "when the call has returned")
				if way == "cancel" {
					assert.ErrorIs(t, end.err, context.Canceled)
				} else {
					assert.NoError(t, end.err)
				}
				if way == "timeout" {
					require.NotNil(t, end.result)
					assert.Equal(t, Timeout, end.result.Verdict)
				}
				if s.sandbox.Scoped() && way != "close" && way != "fresh" {
					assert.Same(t, sandbox, s.sandbox, "its supervisor has ended it: nothing had to be waited for until the sandbox is replaced")
					neighbour.says(t, "still here")
				}
				if way != "close" {
					assert.Equal(t, OK, sh(t, s, "true").Verdict, "the session lives on")
				}
			})
		}
	}
}

// echoing is a process that says what it is told.
type echoing struct {
	*piped
	out *bufio.Reader
}

func echo(t *testing.T, s *Session) *echoing {
	t.Helper()
	p, err := start(context.Background(), s, []string{"cat"}, ExecOptions{})
	require.NoError(t, err)
	e := &echoing{p, bufio.NewReader(p.Stdout)}
	e.says(t, "hello")
	return e
}

func (e *echoing) says(t *testing.T, word string) {
	t.Helper()
	_, err := fmt.Fprintln(e.Stdin(), word)
	require.NoError(t, err)
	line, err := e.out.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, word+"\n", line)
}

func TestProcess(t *testing.T) {
	s := opened(t, NewPolicy())
	e := echo(t, s)
	require.NoError(t, e.Stdin().Close())
	r, err := e.Wait()
	require.NoError(t, err)
	assert.Equal(t, OK, r.Verdict)
	assert.ErrorIs(t, e.Signal(unix.SIGTERM), os.ErrProcessDone)
	assert.ErrorIs(t, e.Resize(Size{1, 1}), os.ErrInvalid)
	require.NoError(t, e.End(), "nothing is left, which is as good")

	p, err := start(context.Background(), s, Shell("trap 'echo got it; exit 5' USR1; echo ready; while :; do sleep 0.01; done"), ExecOptions{})
	require.NoError(t, err)
	out := bufio.NewReader(p.Stdout)
	line, err := out.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "ready\n", line)
	require.NoError(t, p.Signal(unix.SIGUSR1))
	rest, err := io.ReadAll(out)
	require.NoError(t, err)
	assert.Equal(t, "got it\n", string(rest))
	r, err = p.Wait()
	require.NoError(t, err)
	assert.Equal(t, 5, r.Code)

	// What outlives the process is killed with it by Kill.
	mark := fmt.Sprintf("NSRUN_MARK=%d-outlives", os.Getpid())
	p, err = start(context.Background(), s, Shell("(setsid sleep 1000 &); sleep 0.1"), ExecOptions{Env: []string{mark}})
	require.NoError(t, err)
	_, err = p.Wait()
	require.NoError(t, err)
	eventually(t, "it lives on", func() bool { return len(marked(mark)) > 0 })
	require.NoError(t, p.End())
	assert.Empty(t, marked(mark))

	ctx, cancel := context.WithCancel(context.Background())
	p, err = start(ctx, s, []string{"sleep", "1000"}, ExecOptions{})
	require.NoError(t, err)
	cancel()
	r, err = p.Wait()
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, Interrupted, r.Verdict)

	p, err = start(context.Background(), s, []string{"sleep", "1000"}, ExecOptions{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	r, err = p.Wait()
	require.NoError(t, err)
	assert.Equal(t, Interrupted, r.Verdict)
	_, err = p.Stdout.Read(make([]byte, 1))
	assert.Error(t, err, "its pipes are closed")
}

// TestKillAsAProcessEnds: what it has left is killed when its job is over already, and its end not yet told.
func TestKillAsAProcessEnds(t *testing.T) {
	s := opened(t, NewPolicy())
	neighbour := echo(t, s)
	sandbox, m := s.sandbox, mark("ends")
	p, err := start(context.Background(), s, Shell("setsid sleep 1000 & exec true"), ExecOptions{Env: []string{m}})
	require.NoError(t, err)
	_, err = p.Wait()
	require.NoError(t, err)
	eventually(t, "what it has left is there, and past its execve, in which it shows no environment", func() bool { return len(marked(m)) > 0 })
	ending := NewRunning()
	ending.begin(p.process)
	killed := make(chan error, 1)
	go func() { killed <- ending.End() }()
	eventually(t, "Kill waits for its end", func() bool {
		p.process.mu.Lock()
		defer p.process.mu.Unlock()
		return p.process.killed
	})
	ending.report(nil, nil)
	assert.NoError(t, testenv.Receive(t, killed, "Kill"))
	assert.Empty(t, marked(m))
	if s.sandbox.Scoped() {
		assert.Same(t, sandbox, s.sandbox)
		neighbour.says(t, "still here")
	}
}

func TestTerminal(t *testing.T) {
	s := opened(t, NewPolicy())
	r, err := s.Exec(context.Background(), Shell("test -t 0 && test -t 1 && test -t 2 && stty size; read line; echo got $line"),
		&ExecOptions{Terminal: &Size{33, 111}, Stdin: strings.NewReader("typed\n")})
	require.NoError(t, err)
	if strings.Contains(string(r.Stdout), "not found") {
		t.Skip("there is no stty here")
	}
	text := strings.ReplaceAll(string(r.Stdout), "\r\n", "\n")
	require.Contains(t, text, "typed\n", "what is typed is echoed, wherever the command's own output is by then")
	assert.Equal(t, "33 111\ngot typed\n", strings.Replace(text, "typed\n", "", 1))
	p, err := start(context.Background(), s, Shell("trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.01; done"), ExecOptions{Terminal: &Size{10, 20}})
	require.NoError(t, err)
	out := bufio.NewReader(p.Stdout)
	line, err := out.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "ready\r\n", line)
	require.NoError(t, p.Resize(Size{40, 132}))
	line, err = out.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "40 132\r\n", line)
	_, err = p.Wait()
	require.NoError(t, err)
	p.Stdin().Close()
}

// ownSession is this test's binary as a program that owns a session, until it is killed.
func ownSession(mark string) {
	p, err := NewPolicy().Degrade().Build()
	if err == nil {
		var s *Session
		if s, err = Open(context.Background(), p); err == nil {
			_, err = start(context.Background(), s, Shell("trap '' TERM; (setsid sleep 1000 &); while :; do sleep 1000; done"), ExecOptions{Env: []string{mark}})
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	time.Sleep(time.Hour)
}

func TestNothingOutlivesItsOwner(t *testing.T) {
	mark := fmt.Sprintf("NSRUN_MARK=%d-owner", os.Getpid())
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "NSRUN_TEST_OWNER="+mark+"-x")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	inside := func() int { return len(marked(mark+"-x\x00")) - len(marked("NSRUN_TEST_OWNER="+mark)) }
	eventually(t, "its processes are there", func() bool { return inside() >= 3 })
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	eventually(t, "everything is gone", func() bool { return inside() == 0 })
}

// TestASpawnerThatDies takes its sandboxes with it, and the next session has a new one.
func TestASpawnerThatDies(t *testing.T) {
	s := opened(t, NewPolicy())
	pid := spawnerOf(t)
	require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	testenv.Receive(t, s.Done(), "the session to notice")
	assert.False(t, s.Alive())
	_, err := s.Exec(context.Background(), []string{"true"}, nil)
	assert.ErrorIs(t, err, ErrClosed)
	require.NoError(t, s.Close())
	assert.Equal(t, OK, sh(t, opened(t, NewPolicy()), "true").Verdict)
}

// TestASpawnerThatDiesWithAnOrder: it has been given one that it has not carried out, and another spawner does.
func TestASpawnerThatDiesWithAnOrder(t *testing.T) {
	opened(t, NewPolicy())
	pid := spawnerOf(t)
	require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
	ended := make(chan error, 1)
	go func() {
		s, err := Open(context.Background(), built(t, NewPolicy()))
		if err == nil {
			err = s.Close()
		}
		ended <- err
	}()
	time.Sleep(100 * time.Millisecond) // by then it has the order; the test passes without that, too
	require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	assert.NoError(t, testenv.Receive(t, ended, "a session of another spawner"))
}

// TestShutdown leaves no spawner, not even as a zombie, and the next session has a new one.
func TestShutdown(t *testing.T) {
	require.NoError(t, opened(t, NewPolicy()).Close())
	pid := spawnerOf(t)
	Shutdown()
	assert.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH)
	Shutdown()
	assert.Equal(t, OK, sh(t, opened(t, NewPolicy()), "true").Verdict)
}

// spawnerOf finds this process's spawner.
func spawnerOf(t *testing.T) int {
	t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		data, _ := os.ReadFile(f)
		status, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "status"))
		if strings.HasPrefix(string(data), "nsrun-spawner") && strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid())) && !strings.Contains(string(status), "State:\tZ") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			return pid
		}
	}
	t.Fatal("no spawner")
	return 0
}

// TestASupervisorThatDoesNotAnswer: it is stopped, so that its sandbox is killed after some time, and the supervisor's word ends with it. The call returns
// when all of the sandbox is gone, which takes longer.
func TestASupervisorThatDoesNotAnswer(t *testing.T) {
	s, server := withServer(t, func() *Session { return opened(t, NewPolicy()) })
	m := mark("many")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Exec(ctx, Shell("mkfifo /tmp/f; i=0; while [ $i -lt 400 ]; do (read x < /tmp/f) & i=$((i+1)); done; exec sleep 1000"), &ExecOptions{Env: []string{m}})
		ended <- err
	}()
	eventually(t, "the processes are there", func() bool { return len(marked(m)) == 401 })
	for _, pid := range below(server) {
		if !slices.Contains(marked(m), pid) {
			require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
		}
	}
	cancel()
	assert.ErrorIs(t, testenv.Receive(t, ended, "Exec, whose context has ended"), context.Canceled)
	assert.Empty(t, marked(m), "when the call has returned")
	assert.Equal(t, OK, sh(t, s, "true").Verdict, "the session goes on")
}
