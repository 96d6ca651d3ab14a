package denial

import (
	"strconv"
	"testing"
	"time"

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
	q.each(func(e event) {
		assert.Equal(t, strconv.Itoa(n), e.path)
		n++
	})
	assert.Equal(t, most, n)
	assert.Zero(t, q.waiting.Load())
}

// TestQueueIsBounded: what there is no room for is lost, and counted; that keeps the command waiting once, and what is kept is bounded.
func TestQueueIsBounded(t *testing.T) {
	q, lost := newQueue(), 0
	const added = 20 * batchSize
	began := time.Now()
	for range added {
		if !q.add(event{}) {
			lost++
		}
	}
	assert.Less(t, time.Since(began), 10*roomTime)
	assert.EqualValues(t, mostWaiting, q.waiting.Load())
	assert.Equal(t, added-mostWaiting, lost)
	q.end()
	taken := 0
	q.each(func(event) { taken++ })
	assert.Equal(t, mostWaiting, taken)
}

// TestRoomIsWaitedFor: who adds more than there is room for goes on as soon as some is looked up, and loses nothing.
func TestRoomIsWaitedFor(t *testing.T) {
	q, taken, done := newQueue(), 0, make(chan struct{})
	go func() {
		defer close(done)
		q.each(func(event) {
			taken++
			time.Sleep(10 * time.Microsecond)
		})
	}()
	for range 4 * mostWaiting {
		for !q.add(event{}) {
			time.Sleep(time.Millisecond)
		}
	}
	q.end()
	<-done
	assert.Equal(t, 4*mostWaiting, taken)
}

// TestAReportSaysWhatItDoesNotKnow: events that are not looked up in time are counted.
func TestAReportSaysWhatItDoesNotKnow(t *testing.T) {
	w := &Watch{queue: newQueue(), found: newFound(), looked: make(chan struct{})}
	for range mostWaiting + 3 {
		w.add(event{})
		w.queue.pass()
	}
	_, explained := w.report()
	assert.Equal(t, mostWaiting+3, explained.NotLookedAt)
}

// TestALookThatFailsIsNoAnswer: without a descriptor nothing is known of a path; it does not count as one that the host has not.
func TestALookThatFailsIsNoAnswer(t *testing.T) {
	h, err := newHost()
	require.NoError(t, err)
	defer h.close()
	l, e, none := &looker{Watch: &Watch{}, host: h}, event{name: "stat", call: known(t, "stat")}, t.TempDir()+"/none"
	fd, err := l.wouldLet(e, none, none)
	require.NoError(t, err)
	require.Equal(t, -1, fd)
	root, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(root)
	l.Watch.root, l.root = root, root

	var had unix.Rlimit
	require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &had))
	require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: had.Max}, nil))
	_, hostErr := l.wouldLet(e, none, none)
	_, insideErr := l.path(e, none)
	require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, &had, nil))
	assert.ErrorIs(t, hostErr, unix.EMFILE)
	assert.ErrorIs(t, insideErr, unix.EMFILE)
}
