package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPool(t *testing.T) {
	_, err := NewPool(Policy{}, 0)
	assert.Error(t, err)
	pool, err := NewPool(built(t, NewPolicy()), 3)
	require.NoError(t, err)
	defer pool.Close()
	var group sync.WaitGroup
	for i := range 12 {
		group.Add(1)
		go func() {
			defer group.Done()
			s, err := pool.Get(context.Background())
			if !assert.NoError(t, err) {
				return
			}
			defer s.Close()
			r, err := s.Exec(context.Background(), Shell(fmt.Sprintf("echo /tmp/*; echo x >/tmp/%d", i)), nil)
			if assert.NoError(t, err) {
				assert.Equal(t, "/tmp/*\n", string(r.Stdout), "each is handed out once")
			}
		}()
	}
	group.Wait()
	s, err := pool.Get(context.Background())
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, pool.Close())
	require.NoError(t, pool.Close())
	assert.True(t, s.Alive(), "what was handed out is its taker's")
	_, err = pool.Get(context.Background())
	assert.ErrorIs(t, err, ErrClosed)
}

// TestASessionMayEndWhileItIsHandedOut: what it compares with is closed once, and nothing stays open. The race detector sees whether two use it.
func TestASessionMayEndWhileItIsHandedOut(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(dir+"/.git/hooks", 0o755))
	p := built(t, NewPolicy().Workspace(dir))
	opened(t, NewPolicy()) // starts the spawner
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(entries)
	}
	before := count()
	for i := range 20 {
		s, err := Open(context.Background(), p)
		require.NoError(t, err)
		if i%2 == 0 { // it has ended, and nobody has seen that yet
			s.sandbox.Kill()
			<-s.Done()
		} else {
			go s.sandbox.Kill()
		}
		s.lookAgain()
		require.NoError(t, s.Close())
	}
	testenv.Eventually(t, func() bool { return count() <= before }, "everything is closed")
}

// TestASessionAnswersWhileItEnds: to compare takes as long as the file system does, and nothing else waits for it but Done and Close.
func TestASessionAnswersWhileItEnds(t *testing.T) {
	s := opened(t, NewPolicy())
	release, ending, look := s.releaseHome, make(chan struct{}), make(chan struct{})
	s.releaseHome = func() { close(ending); <-look; release() }
	s.sandbox.Kill()
	<-ending
	testenv.Returns(t, "Alive", func() { assert.False(t, s.Alive()) })
	testenv.Returns(t, "Receipt", func() { s.Receipt() })
	testenv.Returns(t, "Exec", func() {
		_, err := s.Exec(context.Background(), []string{"true"}, nil)
		assert.ErrorIs(t, err, ErrClosed)
	})
	select {
	case <-s.Done():
		t.Error("it has not ended")
	default:
	}
	close(look)
	<-s.Done()
}

// host counts what sessions could leave behind.
type hostState struct{ fds, spawnerFDs, spawnerThreads, children, goroutines int }

func countHost(t *testing.T, spawner int) (s hostState) {
	t.Helper()
	count := func(dir string) int {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		return len(entries)
	}
	s.fds, s.spawnerFDs, s.spawnerThreads = count("/proc/self/fd"), count(fmt.Sprintf("/proc/%d/fd", spawner)), count(fmt.Sprintf("/proc/%d/task", spawner))
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", spawner))
	for _, list := range lists {
		data, _ := os.ReadFile(list)
		s.children += len(strings.Fields(string(data)))
	}
	s.goroutines = runtime.NumGoroutine()
	return s
}

// TestSessionsLeaveNothing opens and closes many.
func TestSessionsLeaveNothing(t *testing.T) {
	p := built(t, NewPolicy())
	use := func() {
		s, err := Open(context.Background(), p)
		require.NoError(t, err)
		r, err := s.Exec(context.Background(), []string{"true"}, nil)
		require.NoError(t, err)
		require.Equal(t, OK, r.Verdict)
		require.NoError(t, s.Close())
	}
	for range 20 {
		use()
	}
	spawner := spawnerOf(t)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	before := countHost(t, spawner)
	memory := residentKB(t, spawner)
	for range testenv.Times(1000) {
		use()
	}
	assert.Equal(t, spawner, spawnerOf(t))
	var after hostState
	for end := time.Now().Add(testenv.Limit(0)); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if after = countHost(t, spawner); after.fds == before.fds && after.spawnerFDs == before.spawnerFDs && after.children == 0 && after.goroutines <= before.goroutines {
			break
		}
	}
	assert.Equal(t, before.fds, after.fds)
	assert.Equal(t, before.spawnerFDs, after.spawnerFDs)
	assert.Zero(t, after.children)
	assert.LessOrEqual(t, after.goroutines, before.goroutines)
	assert.LessOrEqual(t, after.spawnerThreads, before.spawnerThreads+4)
	assert.LessOrEqual(t, residentKB(t, spawner), memory+8<<10)
	now, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	assert.Equal(t, string(mounts), string(now))
}

func residentKB(t *testing.T, pid int) (n int) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(data), "VmRSS:")
	require.True(t, ok)
	_, err = fmt.Sscan(rest, &n)
	require.NoError(t, err)
	return n
}

// TestAServerUnmapsTheHeap opens a session in a spawner whose heap has grown, and looks at what its first process has.
func TestAServerUnmapsTheHeap(t *testing.T) {
	opened(t, NewPolicy())
	spawner := spawnerOf(t)
	before := below(spawner)
	s := opened(t, NewPolicy())
	result, err := s.Exec(context.Background(), Shell("echo ok"), nil)
	require.NoError(t, err)
	require.Equal(t, "ok\n", string(result.Stdout), "it works without the rest")
	anonymous := func(pid int) (kib int) {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		require.NoError(t, err)
		_, rest, ok := strings.Cut(string(data), "RssAnon:")
		require.True(t, ok)
		_, err = fmt.Sscan(rest, &kib)
		require.NoError(t, err)
		return kib
	}
	servers := slices.DeleteFunc(below(spawner), func(pid int) bool { return slices.Contains(before, pid) })
	require.Len(t, servers, 1)
	if hidden(t, servers[0]) {
		t.Skip("the server's children cannot be seen here: /proc hides them (hidepid)")
	}
	assert.Greater(t, anonymous(spawner), 1000, "positive control")
	assert.Less(t, 3*anonymous(servers[0]), 2*anonymous(spawner)) // far less, but for what the race detector has in the image
}

// TestAFloodCostsConstantMemory has a command write a lot more than is kept.
func TestAFloodCostsConstantMemory(t *testing.T) {
	s := opened(t, NewPolicy())
	megabytes := testenv.Times(500)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := s.Exec(context.Background(), Shell(fmt.Sprintf("head -c %d000000 /dev/zero", megabytes)), nil)
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	assert.EqualValues(t, megabytes*1000000, *r.StdoutBytes)
	assert.Len(t, r.Stdout, DefaultMaxOutput)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
}
