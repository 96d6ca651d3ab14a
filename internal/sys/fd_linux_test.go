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

	var files []*os.File
	for range 300 {
		f, err := os.Open(os.DevNull)
		require.NoError(t, err)
		defer f.Close()
		files = append(files, f)
	}
	above, err := SpareFD(nil)
	require.NoError(t, err)
	assert.Greater(t, above, 300)
	assert.Less(t, above, 1000)

	for _, f := range files { // some are free, but fewer than nsrun and the process that makes early calls open in one table
		if fd := f.Fd(); fd < 250 && fd%16 == 0 {
			require.NoError(t, f.Close())
		}
	}
	above, err = SpareFD(nil)
	require.NoError(t, err)
	assert.Greater(t, above, 250)
}

// TestOpenFDs lists what /proc says, with numbers of one digit and of three.
func TestOpenFDs(t *testing.T) {
	null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(null)
	high, err := unix.FcntlInt(uintptr(null), unix.F_DUPFD_CLOEXEC, 123)
	require.NoError(t, err)
	defer unix.Close(high)
	open, err := OpenFDs([]int{-5})
	require.NoError(t, err)
	require.Equal(t, -5, open[0], "it appends")
	open = open[1:]
	assert.Subset(t, open, []int{0, 1, 2, null, high})
	for _, fd := range open {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		assert.NoErrorf(t, err, "%d", fd)
	}
	unix.Close(high)
	open, err = OpenFDs(nil)
	require.NoError(t, err)
	assert.NotContains(t, open, high)
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "7": 7, "123": 123, ".": -1, "..": -1, "1a": -1, "-1": -1} {
		assert.Equal(t, want, number([]byte(text)), text)
	}
}
