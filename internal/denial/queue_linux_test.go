package denial

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/result"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestSlowLooksLoseNothing: events that come one at a time are kept, all of them and in their order, although nobody takes one meanwhile. On a slow
// machine each is passed on by itself, and four of them had filled the queue.
func TestSlowLooksLoseNothing(t *testing.T) {
	q, most := newQueue(), mostWaiting
	for i := range most {
		require.True(t, q.add(event{path: strconv.Itoa(i)}), i)
		q.pass() // as when nothing is asked for a while
	}
	assert.EqualValues(t, most, q.waiting.Load())
	q.end()
	n := 0
	q.each(func(e event) bool {
		assert.Equal(t, strconv.Itoa(n), e.path)
		n++
		return false
	})
	assert.Equal(t, most, n)
	assert.Zero(t, q.waiting.Load())
}

// TestQueueIsBounded: what there is no room for is lost, and counted; a look that does not end keeps the command waiting once; what is kept is bounded.
func TestQueueIsBounded(t *testing.T) {
	q, lost := newQueue(), 0
	const added = 3 * mostWaiting
	for range added {
		if !q.add(event{}) {
			lost++
		}
	}
	assert.Equal(t, 1, q.slow, "it is waited for once")
	assert.EqualValues(t, mostWaiting, q.waiting.Load())
	assert.Equal(t, added-mostWaiting, lost)
	q.end()
	taken := 0
	q.each(func(event) bool { taken++; return false })
	assert.Equal(t, mostWaiting, taken)
}

// fullQueue is a queue without room, whose events are taken as the channel says, and a function that waits until all are.
func fullQueue(t *testing.T, patience time.Duration) (q *queue, take chan struct{}, end func() (taken int)) {
	q, take = newQueue(), make(chan struct{})
	q.patience = patience
	done, taken := make(chan struct{}), 0
	go func() {
		defer close(done)
		q.each(func(event) bool {
			<-take
			taken++
			return false
		})
	}()
	for range mostWaiting {
		require.True(t, q.add(event{}))
	}
	return q, take, func() int {
		close(take)
		q.end()
		<-done
		return taken
	}
}

// TestRoomIsWaitedFor: who adds more than there is room for goes on when there is room for a batch.
func TestRoomIsWaitedFor(t *testing.T) {
	const patience = 4 * time.Minute
	q, take, end := fullQueue(t, patience)
	q.slow = mostSlow - 1
	began := time.Now()
	go func() {
		for range batchSize {
			take <- struct{}{}
		}
	}()
	assert.True(t, q.add(event{}))
	assert.Less(t, time.Since(began), patience/2)
	assert.Zero(t, q.slow, "looks are fast again")
	assert.Equal(t, mostWaiting+1, end())
}

// TestSlowLooksSlowDown: less room than for a batch is used, too, and a command is slowed down for some time only.
func TestSlowLooksSlowDown(t *testing.T) {
	q, take, end := fullQueue(t, 3*time.Second)
	sent := make(chan struct{})
	go func() {
		take <- struct{}{}
		close(sent)
	}()
	assert.True(t, q.add(event{}), "although there was no room for a batch")
	assert.Equal(t, 1, q.slow)
	<-sent
	q.slow, q.patience = mostSlow, time.Hour
	assert.False(t, q.add(event{}), "at once")
	assert.Equal(t, mostWaiting+1, end())
}

// TestAReportSaysWhatItDoesNotKnow: events that are not looked up in time are counted, those that wait for a command to look into among them.
func TestAReportSaysWhatItDoesNotKnow(t *testing.T) {
	w := &Watch{queue: newQueue(), found: newFound(), looked: make(chan struct{})}
	for range mostWaiting + 3 {
		w.add(event{path: "/", root: -1})
		w.queue.pass()
	}
	w.queue.end()
	l := &looker{Watch: w}
	w.queue.each(l.take)
	require.Len(t, l.before, mostBefore)
	_, explained := w.report()
	assert.Equal(t, mostWaiting+3, explained.NotLookedAt)
	l.giveUp(len(l.before))
	close(w.looked)
	_, explained = w.report()
	assert.Equal(t, mostWaiting+3, explained.NotLookedAt)
	assert.Zero(t, w.queue.waiting.Load())
}

// TestALookThatFailsIsNoAnswer: with few descriptors either nothing is known of a path, and that is said, or what there is with many.
func TestALookThatFailsIsNoAnswer(t *testing.T) {
	h, dir := hostWithFile(t)
	file, view := filepath.Join(dir, "file"), filepath.Join(dir, "view")
	require.NoError(t, os.Mkdir(view, 0o755))
	root, err := unix.Open(view, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(root)
	hidden := &looker{Watch: &Watch{Config: Config{Plan: &plan.Plan{Backend: "native"}}}, host: h, root: root}
	all, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(all)
	unwritable := &looker{Watch: &Watch{Config: Config{Plan: &plan.Plan{Backend: "landlock", Landlock: &plan.Landlock{}}}}, host: h, root: all}

	for _, c := range []struct {
		look       *looker
		call, path string
		denied     bool
	}{
		{hidden, "stat", file, true}, {hidden, "stat", file + "/none", false}, {hidden, "unlink", file, true}, {hidden, "mkdir", file + "2", true},
		{hidden, "mkdir", file, false}, {unwritable, "unlink", file, true}, {unwritable, "mkdir", file + "2", true}, {unwritable, "rmdir", view, true},
		{unwritable, "rmdir", file, false},
	} {
		e := event{name: c.call, call: known(t, c.call)}
		e.asks([6]uint64{})
		answered := 0
		for free := range 20 {
			d, err := withDescriptors(t, free, func() (*result.Denial, error) { return c.look.path(e, c.path) })
			if err != nil {
				assert.ErrorIs(t, err, unix.EMFILE, "%s %s, %d descriptors", c.call, c.path, free)
				continue
			}
			answered++
			assert.Equal(t, c.denied, d != nil, "%s %s, %d descriptors", c.call, c.path, free)
		}
		assert.NotZero(t, answered, "%s %s", c.call, c.path)
		assert.Less(t, answered, 20, "%s %s", c.call, c.path)
	}
}

// TestWhoListensIsNotGuessed: without a descriptor it is not known whether anybody listens on the host, and that is said.
func TestWhoListensIsNotGuessed(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer server.Close()
	port := uint16(server.Addr().(*net.TCPAddr).Port)
	l := &looker{Watch: &Watch{Config: Config{Plan: &plan.Plan{Network: "none"}}}}
	e := event{name: "connect", call: known(t, "connect"), dir: inet, path: server.Addr().String(), port: port}
	_, err = withDescriptors(t, 0, func() (*result.Denial, error) { return l.network(e) })
	assert.ErrorIs(t, err, unix.EMFILE)
	d, err := withDescriptors(t, 1, func() (*result.Denial, error) { return l.network(e) })
	require.NoError(t, err)
	assert.NotNil(t, d)

	w := &Watch{Config: l.Config, found: newFound()}
	e.unclear = true
	(&looker{Watch: w}).look(e)
	denials, unknown := w.found.all()
	assert.Empty(t, denials)
	assert.Equal(t, 1, unknown)
}

// withDescriptors calls f when so many descriptors are free, and no more.
func withDescriptors(t *testing.T, free int, f func() (*result.Denial, error)) (*result.Denial, error) {
	var had unix.Rlimit
	require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &had))
	require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 100, Max: had.Max}, nil))
	var taken []int
	defer func() {
		for _, fd := range taken {
			unix.Close(fd)
		}
		require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, &had, nil))
	}()
	for {
		fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			require.ErrorIs(t, err, unix.EMFILE)
			break
		}
		taken = append(taken, fd)
	}
	for range free {
		unix.Close(taken[len(taken)-1])
		taken = taken[:len(taken)-1]
	}
	return f()
}
