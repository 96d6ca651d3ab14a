package runner

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// stopped stops a process until the test's end, or until the function that it returns is called.
func stopped(t *testing.T, pids ...int) (resume func()) {
	t.Helper()
	resume = func() {
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGCONT)
		}
	}
	t.Cleanup(resume)
	for _, pid := range pids {
		require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
		eventually(t, "it is stopped", func() bool { return allStopped(pid) })
	}
	return resume
}

// allStopped reports whether each thread of a process is, or has ended: what a stopped server does not reap stays there. A thread on its way to
// that can still receive a message.
func allStopped(pid int) bool {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, task := range tasks {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/stat", pid, task.Name()))
		_, rest, ok := strings.Cut(string(stat), ") ")
		if err == nil && ok && !strings.Contains("TtZX", rest[:1]) {
			return false
		}
	}
	return true
}

// stoppedTree stops a server first, which then makes and reaps nothing, and then its children that have not ended.
func stoppedTree(t *testing.T, server int) (resume func()) {
	t.Helper()
	first := stopped(t, server)
	children := slices.DeleteFunc(below(server), func(pid int) bool { return state(pid) == "Z" })
	rest := stopped(t, children...)
	return func() { first(); rest() }
}

// kept opens a session whose server is a subreaper: without namespaces.
func kept(t *testing.T) *Session {
	t.Helper()
	if testenv.Landlock() == 0 {
		t.Skip("this kernel has no Landlock, which is all that this backend has")
	}
	b := NewPolicy().Backend(policy.BackendLandlock)
	p, err := b.Build()
	require.NoError(t, err)
	s, err := Open(context.Background(), p)
	if err != nil {
		t.Skipf("no session without namespaces here: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	require.Equal(t, "landlock", s.plan.Backend)
	return s
}

// TestAServerThatIsStopped answers nothing: Exec comes back with its context, or when its time is up, whatever the size of the request,
// and Close comes back.
func TestAServerThatIsStopped(t *testing.T) {
	servers := map[string]struct {
		open     func(*testing.T) *Session
		children int // when nothing runs: the next supervisor, and the watchdog of a subreaper
	}{
		"pid 1":     {func(t *testing.T) *Session { return unscoped(t, NewPolicy().Timeout(time.Minute)) }, 1},
		"subreaper": {kept, 2},
	}
	for name, v := range servers {
		t.Run(name, func(t *testing.T) {
			s, server := withServer(t, func() *Session { return v.open(t) })
			large := append([]string{"true"}, strings.Split(strings.Repeat(strings.Repeat("y", 100_000)+" ", 10), " ")...)
			for _, args := range [][]string{{"true"}, large} {
				r, err := s.Exec(context.Background(), args, nil)
				require.NoError(t, err, "positive control")
				require.Equal(t, OK, r.Verdict)
			}
			rests := func() bool { // what has ended and is not reaped yet is a child too, and cannot be stopped
				all := below(server)
				return len(all) == v.children && !slices.ContainsFunc(all, func(pid int) bool { return state(pid) == "Z" })
			}
			eventually(t, "all have ended", rests)
			resume := stoppedTree(t, server)
			short := testenv.Scale(100 * time.Millisecond)
			returns(t, "Exec with a context that ends", func() {
				ctx, cancel := context.WithTimeout(context.Background(), short)
				defer cancel()
				_, err := s.Exec(ctx, []string{"true"}, nil)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			})
			returns(t, "StartProcess with a context that ends", func() {
				ctx, cancel := context.WithTimeout(context.Background(), short)
				defer cancel()
				_, err := start(ctx, s, []string{"true"}, ExecOptions{})
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			})
			returns(t, "Exec with a time", func() {
				r, err := s.Exec(context.Background(), []string{"true"}, &ExecOptions{Timeout: short})
				if assert.NoError(t, err) {
					assert.Equal(t, Timeout, r.Verdict)
				}
			})
			resume()
			eventually(t, "it goes on as if nothing had been", func() bool {
				r, err := s.Exec(context.Background(), []string{"true"}, nil)
				return err == nil && r.Verdict == OK
			})
			eventually(t, "what was given up is gone", rests)
			stoppedTree(t, server)
			returns(t, "Exec of a large request with a context that ends", func() {
				ctx, cancel := context.WithTimeout(context.Background(), short)
				defer cancel()
				_, err := s.Exec(ctx, large, nil)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			})
			returns(t, "Close", func() { assert.NoError(t, s.Close()) })
			assert.Contains(t, "ZX", state(server), "nothing of it is alive")
			eventually(t, "nothing of it is there", func() bool { return state(server) == "" }) // its parent reaps it
		})
	}
}

// TestASpawnerThatIsStopped keeps nothing from ending, and no new sandbox from being given up.
func TestASpawnerThatIsStopped(t *testing.T) {
	s := opened(t, NewPolicy())
	closed := opened(t, NewPolicy())
	m := mark("stopped")
	resume := stopped(t, spawnerOf(t))
	returns(t, "Exec", func() {
		_, err := s.Exec(context.Background(), []string{"sleep", "1000"}, &ExecOptions{Timeout: testenv.Scale(50 * time.Millisecond), Env: []string{m}})
		assert.NoError(t, err)
	})
	assert.Empty(t, marked(m))
	returns(t, "Close", func() { assert.NoError(t, closed.Close()) })
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Scale(100*time.Millisecond))
	defer cancel()
	returns(t, "Open", func() {
		_, err := Open(ctx, s.asked)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
	returns(t, "Fresh", func() {
		_, err := s.Exec(ctx, []string{"true"}, &ExecOptions{Fresh: true})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
	resume()
	assert.Equal(t, OK, sh(t, s, "true").Verdict, "positive control: it goes on")
	returns(t, "Close", func() { assert.NoError(t, s.Close()) })
}

// TestASupervisorThatIsStopped cannot kill what it is told to, so the sandbox ends for it.
func TestASupervisorThatIsStopped(t *testing.T) {
	s, server := withServer(t, func() *Session { return opened(t, NewPolicy()) })
	m := mark("stopped")
	p, err := start(context.Background(), s, Shell("(setsid sleep 1000 &); exec sleep 1000"), ExecOptions{Env: []string{m}})
	require.NoError(t, err)
	eventually(t, "it is there", func() bool { return len(marked(m)) == 2 })
	for _, pid := range below(server) {
		if len(below(pid)) > 0 {
			stopped(t, pid)
		}
	}
	returns(t, "Kill", func() { assert.NoError(t, p.End()) })
	assert.Empty(t, marked(m))
	eventually(t, "positive control: the sandbox was needed for it", func() bool { return state(server) == "" })
	assert.Equal(t, OK, sh(t, s, "true").Verdict, "and there is another one")
}
