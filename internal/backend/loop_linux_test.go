package backend

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// TestLoopLooksAtTheClockInEachTurn although a source is always ready.
func TestLoopLooksAtTheClockInEachTurn(t *testing.T) {
	r, w := pipe(t)
	w.Close()
	served, turns := 0, 0
	err := loop(func(idle bool) (time.Duration, bool) {
		assert.False(t, idle)
		turns++
		return -1, turns <= 100
	}, &source{fd: int(r.Fd()), ready: func() bool { served++; return true }})
	require.NoError(t, err)
	assert.Equal(t, 100, served)
}

// TestLoopLeavesOutWhatAnotherSourceHasClosed in the same turn.
func TestLoopLeavesOutWhatAnotherSourceHasClosed(t *testing.T) {
	r, w := pipe(t)
	w.Close()
	second := &source{fd: int(r.Fd()), ready: func() bool { t.Error("it is served"); return false }}
	first := &source{fd: int(r.Fd())}
	first.ready = func() bool { first.fd, second.fd = -1, -1; return true }
	require.NoError(t, loop(func(idle bool) (time.Duration, bool) { return 0, !idle }, first, second))
	assert.Negative(t, first.fd)
}

func TestAwait(t *testing.T) {
	r, w := pipe(t)
	ready, err := await(int(r.Fd()), 0)
	require.NoError(t, err)
	assert.False(t, ready)
	ready, err = await(int(r.Fd()), time.Millisecond)
	require.NoError(t, err)
	assert.False(t, ready)
	w.Close()
	for _, most := range []time.Duration{-1, 0, time.Hour} {
		ready, err = await(int(r.Fd()), most)
		require.NoError(t, err)
		assert.True(t, ready)
	}
}
