package backend

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// wired is a process whose supervisor is the test: it has the other end.
func wired(t *testing.T) (process *Process, supervisor int) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	channel, err := NewEnd(pair[0])
	require.NoError(t, err)
	return &Process{channel: channel, pidfd: -1}, pair[1]
}

// lastMessage is what a supervisor says before it ends, of a command with the exit status 7.
func lastMessage() []byte {
	word := make([]byte, sys.ExitSize)
	word[1] = 7 // a wait status, which comes first
	return word
}

// TestTheEndIsReportedAfterTheLastMessage has an order to kill come too late: the kernel tells of that first.
func TestTheEndIsReportedAfterTheLastMessage(t *testing.T) {
	process, supervisor := wired(t)
	defer process.Close()
	process.Kill()
	require.NoError(t, unix.Send(supervisor, lastMessage(), 0))
	require.NoError(t, unix.Close(supervisor)) // with the order unread
	out, err := process.Wait()
	require.NoError(t, err)
	assert.Equal(t, 7, out.Status.ExitStatus())
	assert.True(t, process.WaitGroupKilled(replyTimeout), "and that is all")
}

// TestTheEndRacesTheLastMessage looks for a message at the moment that it comes, and the end behind it.
func TestTheEndRacesTheLastMessage(t *testing.T) {
	buf := make([]byte, sys.ExitSize)
	for i := range testenv.Times(20000) {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		go func() {
			_ = unix.Send(pair[1], lastMessage(), 0)
			unix.Close(pair[1])
		}()
		n, err := 0, error(unix.EAGAIN)
		for errors.Is(err, unix.EAGAIN) {
			n, _, err = takeMessage(pair[0], buf, nil)
		}
		unix.Close(pair[0])
		require.NoError(t, err)
		require.Equal(t, sys.ExitSize, n, "round %d", i)
	}
}

// TestTheKernelsPlacesAreNoGrants: by the backend landlock a sandbox sees the host's own /proc, with the processes that it must not look into.
func TestTheKernelsPlacesAreNoGrants(t *testing.T) {
	s, _ := serving(t, policy.BackendLandlock)
	for _, name := range []string{"/proc/self/environ", "/proc", "/dev/null"} {
		_, ok := s.Source(name)
		assert.False(t, ok, name)
	}
	_, ok := s.Source("/usr/bin")
	assert.True(t, ok, "positive control")
	status := func(argv ...string) int { _, s := output(t, s, argv...); return s.ExitStatus() }
	assert.Zero(t, status("cat", "/proc/self/environ"), "positive control: it is there inside")
}

// TestARequestWithoutItsDescriptors comes to a server that has no numbers left for them: a command that had a wrong file in the place of its
// output would seem to have run well.
func TestARequestWithoutItsDescriptors(t *testing.T) {
	for most := uint64(6); ; most++ {
		s, server := serving(t, policy.BackendNative)
		supervisor, limit := childrenOf(t, server)[0], unix.Rlimit{}
		require.NoError(t, unix.Prlimit(supervisor, unix.RLIMIT_NOFILE, nil, &limit))
		limit.Cur = most
		require.NoError(t, unix.Prlimit(supervisor, unix.RLIMIT_NOFILE, &limit, nil))
		out, w, err := os.Pipe()
		require.NoError(t, err)
		process, err := s.Start(stages.Command{Args: []string{"echo", "said"}, Env: s.Plan.Env, Dir: s.Plan.Dir, Files: [3]*os.File{w, w, w}}, nil)
		w.Close()
		if err != nil {
			t.Logf("%d descriptors: %v", most, err)
			if !errors.Is(err, unix.EMFILE) {
				assert.ErrorIs(t, err, ErrLost)
				select {
				case <-s.Done(): // since nobody could be told what has become of it
				case <-time.After(testenv.Limit(0)):
					t.Error("the sandbox lives")
				}
			}
			out.Close()
			s.Kill()
			continue
		}
		end, err := process.Wait()
		require.NoError(t, err)
		printed, err := io.ReadAll(out)
		require.NoError(t, err)
		assert.Equal(t, "said\n", string(printed), "%d descriptors, %v", most, end.Status)
		process.Close()
		out.Close()
		s.Kill()
		require.Greater(t, most, uint64(10), "positive control: some were not enough")
		return
	}
}
