package backend

import (
	"os"
	"testing"

	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTimeThatIsUpDuringTheSetUp ends runs before their commands begin. That is the end of their time, and no failure of a step.
func TestTimeThatIsUpDuringTheSetUp(t *testing.T) {
	for _, backend := range []policy.Backend{policy.BackendNative, policy.BackendLandlock, policy.BackendBwrap} {
		t.Run(string(backend), func(t *testing.T) {
			if backend == policy.BackendLandlock && !probe.Quick().Can(facts.Landlock) {
				t.Skip("this kernel has no Landlock")
			}
			if _, err := FindBwrap(); backend == policy.BackendBwrap && err != nil {
				require.Empty(t, os.Getenv("CI"), "CI must have bubblewrap")
				t.Skip(err)
			}
			p, _ := touch(t, func(pol *policy.Policy) { pol.Backend = backend })
			for range 40 {
				p.Timeout, p.KillGrace = 1, 1 // nanoseconds
				out, err := Run(p, Options{})
				require.NoError(t, err)
				assert.True(t, out.TimedOut)
			}
		})
	}
}
