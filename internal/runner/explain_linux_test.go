package runner

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/seccomp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// explaining are sessions of each backend that explains, and a file that the host has and they have not.
func explaining(t *testing.T, level policy.Explain, f func(t *testing.T, s *Session, hidden string)) {
	known := probe.Quick()
	if !known.Can(facts.SeccompNotify) {
		t.Skip("this host has no seccomp listeners")
	}
	for _, backend := range []policy.Backend{policy.BackendNative, policy.BackendLandlock} {
		if backend == policy.BackendLandlock && testenv.Landlock() < 6 { // which has no sessions then
			continue
		}
		t.Run(string(backend), func(t *testing.T) {
			dir := t.TempDir()
			hidden := filepath.Join(dir, "hidden")
			require.NoError(t, os.WriteFile(hidden, []byte("here\n"), 0o600))
			shown := filepath.Join(dir, "work")
			require.NoError(t, os.Mkdir(shown, 0o755))
			f(t, opened(t, NewPolicy().Workspace(shown).Backend(backend).Explain(level)), hidden)
		})
	}
}

// TestExplainInASession: each command has its own denials, what is asked for less is not looked for, and more cannot be asked for.
func TestExplainInASession(t *testing.T) {
	explaining(t, policy.ExplainOn, func(t *testing.T, s *Session, hidden string) {
		r := sh(t, s, "cat "+hidden)
		require.Len(t, r.Denials, 1)
		assert.Equal(t, hidden, r.Denials[0].Host)
		assert.Equal(t, "cat", r.Denials[0].FirstComm)
		require.NotNil(t, r.Receipt.Explain)
		assert.Equal(t, "on", r.Receipt.Explain.Level)
		assert.Zero(t, r.Receipt.Explain.NotLookedAt)

		r, err := s.Exec(context.Background(), []string{"cat", hidden}, &ExecOptions{Explain: policy.ExplainOff})
		require.NoError(t, err)
		assert.Empty(t, r.Denials)
		assert.Nil(t, r.Receipt.Explain)
		assert.Equal(t, 1, r.Code)

		r = sh(t, s, "test -e "+hidden)
		assert.Empty(t, r.Denials, "looking is no denial at this level")

		for _, level := range []policy.Explain{policy.ExplainAll, "loud"} {
			_, err = s.Exec(context.Background(), []string{"true"}, &ExecOptions{Explain: level})
			var fault *policy.Fault
			require.ErrorAs(t, err, &fault)
			assert.Equal(t, "explain", fault.Field)
		}
	})
}

// TestExplainAll: looks are no denials of a command that asks for less than the session reports.
func TestExplainAll(t *testing.T) {
	explaining(t, policy.ExplainAll, func(t *testing.T, s *Session, hidden string) {
		for level, n := range map[policy.Explain]int{"": 1, policy.ExplainAll: 1, policy.ExplainOn: 0, policy.ExplainOff: 0} {
			r, err := s.Exec(context.Background(), []string{"test", "-e", hidden}, &ExecOptions{Explain: level})
			require.NoError(t, err)
			if s.plan.Bare() { // looking is not confined there
				n = 0
			}
			assert.Len(t, r.Denials, n, level)
		}
	})
}

// TestExplainAtOnce: commands that run at the same time do not have each other's denials, and a terminal changes nothing.
func TestExplainAtOnce(t *testing.T) {
	explaining(t, policy.ExplainOn, func(t *testing.T, s *Session, hidden string) {
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				opts := &ExecOptions{}
				if i%4 == 0 && !s.plan.Bare() { // which gives no terminals to an ordinary user
					opts.Terminal = &Size{24, 80}
				}
				name := hidden
				if i%2 == 1 {
					name = "/nothing/anywhere"
				}
				r, err := s.Exec(context.Background(), []string{"cat", name}, opts)
				if assert.NoError(t, err) {
					assert.Equal(t, 1, r.Code)
					if r.Receipt.Explain.NotLookedAt == 0 { // there is a bound on how long a report waits
						assert.Len(t, r.Denials, 1-i%2)
					}
				}
			})
		}
		all.Wait()
	})
}

// TestExplainGoesOn: the calls of what a command has left running are answered after its end, and nothing of it is left after the session's.
func TestExplainGoesOn(t *testing.T) {
	descriptors := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(all)
	}
	explaining(t, policy.ExplainOn, func(t *testing.T, s *Session, hidden string) {
		work := s.WorkingDir()
		sh(t, s, "true") // what is opened once is open
		before := descriptors()
		r := sh(t, s, "(until test -e go; do sleep 0.01; done; cat "+hidden+"; echo done > after) >/dev/null 2>&1 & exit 3")
		assert.Equal(t, 3, r.Code)
		assert.Empty(t, r.Denials)
		assert.Eventually(t, func() bool { return descriptors() <= before+1 }, 10*time.Second, 10*time.Millisecond, "only the listener is needed")
		require.NoError(t, os.WriteFile(filepath.Join(work, "go"), nil, 0o600))
		require.Eventually(t, func() bool {
			data, _ := os.ReadFile(filepath.Join(work, "after"))
			return strings.TrimSpace(string(data)) == "done"
		}, time.Minute, 10*time.Millisecond)
		assert.Eventually(t, func() bool { return descriptors() <= before }, time.Minute, 10*time.Millisecond)
	})
}

// TestExplainLetsNothingMore: what a filter that was given asks a tracer for, and there is none, or answers by an action that does not exist, is
// refused to a command that is explained, too. The kernel prefers a listener to both.
func TestExplainLetsNothingMore(t *testing.T) {
	if !probe.Quick().Can(facts.SeccompNotify) {
		t.Skip("this host has no seccomp listeners")
	}
	const trace, unheardOf, logs = 0x7ff00000, 0x7fe00000, 0x7ffc0000
	old := uint32(unix.SYS_SYMLINKAT)
	if runtime.GOARCH == "amd64" {
		old = 88 // symlink(2), which ln of busybox uses
	}
	for action, code := range map[uint32]int{trace: 1, unheardOf: 1, logs: 0} {
		const load, jumpIfEqual, ret = 0x20, 0x15, 0x06
		raw := seccomp.Filter{{Code: load}, {Code: jumpIfEqual, Jt: 2, K: unix.SYS_SYMLINKAT}, {Code: jumpIfEqual, Jt: 1, K: old},
			{Code: ret, K: uint32(seccomp.Allow)}, {Code: ret, K: action}}
		b := NewPolicy().Workspace(t.TempDir()).Explain(policy.ExplainOn)
		b.spec.Seccomp.Raw = raw.Bytes()
		made, err := opened(t, b).Exec(context.Background(), []string{"ln", "-s", "anywhere", "made"}, nil)
		require.NoError(t, err)
		assert.Equal(t, code, made.Code, "%#x: %s", action, made.Stderr)
	}
}

// TestExplainDevicesOfTheHost: the backend landlock shows the host's /dev, of which its rules allow little. What they refuse is reported; that a mount there
// would open devices means nothing.
func TestExplainDevicesOfTheHost(t *testing.T) {
	if !probe.Quick().Can(facts.SeccompNotify) || !probe.Quick().Can(facts.Landlock) {
		t.Skip("this host has no seccomp listeners, or no Landlock")
	}
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err, "the control: outside of a sandbox")
	f.Close()
	p := built(t, NewPolicy().Workspace(t.TempDir()).Backend(policy.BackendLandlock).Explain(policy.ExplainAll))
	got, err := Run(context.Background(), p, []string{"sh", "-c", "exec 3</dev/null 4</dev/ptmx"}, nil)
	require.NoError(t, err)
	assert.NotZero(t, got.Code)
	require.Len(t, got.Denials, 1, "%s", got.Stderr)
	assert.Equal(t, "/dev/ptmx", got.Denials[0].Path)
	assert.Equal(t, "landlock", got.Denials[0].Rule)
}
