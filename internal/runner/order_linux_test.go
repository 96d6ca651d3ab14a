package runner

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestTooFewDescriptorsForASandbox keep one from being made, on whichever side they are too few, and do nothing to those that there are.
func TestTooFewDescriptorsForASandbox(t *testing.T) {
	s := opened(t, NewPolicy())
	neighbour := echo(t, s)
	pid := spawnerOf(t)
	lowest, err := os.Open(os.DevNull)
	require.NoError(t, err)
	free := uint64(lowest.Fd())
	lowest.Close()
	for side, c := range map[string]struct {
		of    int    // whose limit; 0 is this process
		least uint64 // that is tried
	}{"owner": {0, free}, "spawner": {pid, 4}} {
		t.Run(side, func(t *testing.T) {
			var was unix.Rlimit
			require.NoError(t, unix.Prlimit(c.of, unix.RLIMIT_NOFILE, nil, &was))
			fine, few := 0, 0
			for n := c.least; n < c.least+16 || fine == 0 && n < c.least+256; n++ { // numbers above may be taken
				limit := unix.Rlimit{Cur: n, Max: was.Max}
				require.NoError(t, unix.Prlimit(c.of, unix.RLIMIT_NOFILE, &limit, nil))
				returns(t, "order", func() {
					var failed *Error
					sandbox, err := s.requestSandbox(s.plan)
					if err == nil {
						fine++
						sandbox.Kill()
						<-sandbox.Done()
						return
					}
					few++
					if assert.ErrorAs(t, err, &failed) && failed.Stage == "spawner" {
						assert.Contains(t, failed.Hint, "open files")
						assert.NotContains(t, err.Error(), "%!")
					}
				})
				require.NoError(t, unix.Prlimit(c.of, unix.RLIMIT_NOFILE, &was, nil))
				require.Equal(t, pid, spawnerOf(t), "%d", n)
			}
			assert.NotZero(t, few, "positive control: too few are tried")
			assert.NotZero(t, fine, "and enough")
			neighbour.says(t, "still here")
		})
	}
	assert.Equal(t, OK, sh(t, opened(t, NewPolicy()), "true").Verdict)
}
