package backend

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
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

// TestTheWaiterIsNotDumpableBeforeItIsConfined has command lines of bubblewrap lowered whose pid 1 is not confined yet, or never, when the command begins.
func TestTheWaiterIsNotDumpableBeforeItIsConfined(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*plan.Bwrap)
		layers plan.Layers
		want   []int // what PR_SET_DUMPABLE is set to from the first program on that the process or the command begins to execute
	}{
		"neither":           {func(*plan.Bwrap) {}, plan.Layers{}, nil},
		"filter":            {func(b *plan.Bwrap) { b.Filters = [][]byte{make([]byte, 8)} }, plan.Layers{}, []int{0, 1}},
		"label":             {func(b *plan.Bwrap) { b.ExecLabel = "x" }, plan.Layers{}, []int{0, 1}},
		"layer":             {func(*plan.Bwrap) {}, plan.Layers{Limits: []policy.Limit{{Name: "open_files", Value: 99}}}, []int{0}},
		"layer and filter":  {func(b *plan.Bwrap) { b.Filters = [][]byte{make([]byte, 8)} }, plan.Layers{Limits: []policy.Limit{{Name: "open_files", Value: 99}}}, []int{0}},
		"filter, no waiter": {func(b *plan.Bwrap) { b.Filters, b.Waiter = [][]byte{make([]byte, 8)}, false }, plan.Layers{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := compatTouch(t, "--unshare-all", "--proc", "/proc")
			c.change(p.Bwrap)
			p, err := p.Add(c.layers, probe.Quick())
			require.NoError(t, err)
			var host mounts.Host
			defer host.Close()
			lowered, err := stages.Lower(p, &host, stages.FDs{Report: 3, Status: 4}, true)
			require.NoError(t, err)
			text := lowered.Text()
			var got []int
			for line := range strings.Lines(text) {
				if _, value, ok := strings.Cut(line, "PR_SET_DUMPABLE, "); ok {
					got = append(got, int(value[0]-'0'))
				}
			}
			require.NotEmpty(t, got, text)
			assert.Equal(t, append([]int{1}, c.want...), got, "the first is that of the capabilities")
			if len(c.want) == 2 && len(p.Bwrap.Filters) > 0 {
				last := strings.LastIndex(text, "PR_SET_DUMPABLE, 1")
				assert.Equal(t, 1, strings.Count(text[last:], "PR_SET_SECCOMP"), "it has its filter right after")
			}
		})
	}
}
