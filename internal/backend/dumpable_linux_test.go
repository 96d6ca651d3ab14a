package backend

import (
	"fmt"
	"testing"

	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMemoryIsNotDumpableAfterTheLastCapability has both kinds of sandboxes lowered: what comes after the last change of capabilities must make
// the memory that a command shares with pid 1 not dumpable. Another value of fs.suid_dumpable takes a host of its own.
func TestMemoryIsNotDumpableAfterTheLastCapability(t *testing.T) {
	for name, lower := range map[string]lowerFunc{"run": stages.Lower, "session": stages.LowerServer} {
		t.Run(name, func(t *testing.T) {
			p, _ := touch(t, func(pol *policy.Policy) { pol.NoLandlock = true })
			var host mounts.Host
			defer host.Close()
			lowered, err := lower(p, &host, stages.FDs{Report: 3, Status: 4}, false)
			require.NoError(t, err)
			last := map[string]int{}
			for i := range lowered.Program.Len() {
				step := lowered.Program.Describe(i)
				last[fmt.Sprint(step.Stage, " ", step.Op)] = i
			}
			require.Contains(t, last, "capabilities drop all")
			require.Contains(t, last, "seccomp default")
			assert.Greater(t, last["init not dumpable"], last["capabilities drop all"])
			assert.Less(t, last["init not dumpable"], last["seccomp default"])
		})
	}
}
