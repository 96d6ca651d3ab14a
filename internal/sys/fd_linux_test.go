package sys

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestSpareFD has the number below 250 where that is possible, above where a caller has filled those, and none under a limit that leaves no room.
func TestSpareFD(t *testing.T) {
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	require.Greater(t, limit.Cur, uint64(1000), "this test needs ulimit -n 1024")
	first, err := SpareFD(nil)
	require.NoError(t, err)
	second, err := SpareFD([]int{first})
	require.NoError(t, err)
	assert.Less(t, first, 250)
	assert.Less(t, second, first)

	lower := func(n uint64) {
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: limit.Max}))
	}
	defer func() { assert.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }()
	lower(40)
	low, err := SpareFD(nil)
	require.NoError(t, err)
	assert.Less(t, low, 40)
	lower(10) // this process has more than three open
	_, err = SpareFD(nil)
	assert.ErrorIs(t, err, unix.EMFILE)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))

	for range 300 {
		f, err := os.Open(os.DevNull)
		require.NoError(t, err)
		defer f.Close()
	}
	above, err := SpareFD(nil)
	require.NoError(t, err)
	assert.Greater(t, above, 300)
	assert.Less(t, above, 1000)
}
