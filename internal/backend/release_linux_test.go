package backend

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestABrokenRunDoesNotBegin: pid 1 may have reported before nsrun has found out what is wrong, and be killed later than the command begins.
func TestABrokenRunDoesNotBegin(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	buf := make([]byte, 8)
	for _, broken := range []error{errors.New("a rule could not be added"), nil} {
		r := &run{ch: &channels{status: pair[0]}, broken: broken}
		r.release()
		n, _, err := unix.Recvfrom(pair[1], buf, unix.MSG_DONTWAIT)
		if broken != nil {
			assert.ErrorIs(t, err, unix.EAGAIN)
			assert.False(t, r.released)
			continue
		}
		require.NoError(t, err, "positive control")
		assert.Equal(t, "g", string(buf[:n]))
		assert.True(t, r.released)
	}
}
