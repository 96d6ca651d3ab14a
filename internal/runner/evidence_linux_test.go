package runner

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestOneCommandsEvidenceIsNotAnothersVerdict runs a command that ends well although it had come up against a limit, and then one that fails for
// reasons of its own.
func TestOneCommandsEvidenceIsNotAnothersVerdict(t *testing.T) {
	if !grouped("pids") {
		t.Skip("no cgroup with the controller pids can be made here")
	}
	s := opened(t, NewPolicy().Limit("pids", 8))
	m := mark("sleepers")
	result, err := s.Exec(context.Background(), Shell("(for i in 1 2 3 4 5 6 7 8 9; do sleep 5 & done; wait); exit 0"), &ExecOptions{Env: []string{m}})
	require.NoError(t, err)
	require.Equal(t, OK, result.Verdict, "%+v", result.Result)
	for _, pid := range marked(m) { // or there would be no room for the next one
		_ = unix.Kill(pid, unix.SIGKILL)
		eventually(t, "what it has left is gone", func() bool { return state(pid) == "" })
	}
	result = sh(t, s, "exit 3")
	assert.Equal(t, Exit, result.Verdict, "%+v", result.Result)
	assert.Empty(t, result.Hit)
	result = sh(t, s, "for i in 1 2 3 4 5 6 7 8 9; do sleep 5 & done; wait")
	assert.Equal(t, Pids, result.Verdict, "positive control: %+v", result.Result)
}

// TestASandboxesEvidenceOutlivesIt although its group is removed, even while somebody asks.
func TestASandboxesEvidenceOutlivesIt(t *testing.T) {
	if !grouped("pids") {
		t.Skip("no cgroup with the controller pids can be made here")
	}
	s := opened(t, NewPolicy().Limit("pids", 8))
	sh(t, s, "for i in 1 2 3 4 5 6 7 8 9; do sleep 5 & done; wait")
	sandbox := s.sandbox
	require.NotZero(t, sandbox.Evidence().PidsMax, "positive control")
	go s.Close()
	for ended := false; !ended; {
		require.NotZero(t, sandbox.Evidence().PidsMax)
		select {
		case <-sandbox.Done():
			ended = true
		default:
		}
	}
	require.NotZero(t, sandbox.Evidence().PidsMax)
}
