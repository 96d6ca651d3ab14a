package backend_test

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestASandboxLeavesTheUserSomething takes all that a sandbox can have of what the kernel counts for each user, and looks from the host whether
// the same user still gets some. The backends that make no file systems and no user namespace of nsrun's bound the timers alone. Root is left
// out: to use up what root has disturbs the host.
func TestASandboxLeavesTheUserSomething(t *testing.T) {
	most := map[string]int{"inotify": 64, "terminals": 256, "timers": 4096}
	users(t, func(t *testing.T, w *world) {
		if w.uid == 0 {
			return
		}
		for _, e := range backends[:4] {
			for what, least := range most {
				if e.name != "native" && what != "timers" {
					continue
				}
				t.Run(e.name+" "+what, func(t *testing.T) {
					b := newBox(t, w, e.name, e.flags)
					inside := w.taken(t, b.change(nil), b.words(b.shown(), built.act, "take", what)...)
					assert.LessOrEqual(t, inside, least)
					assert.Greater(t, inside, least/4, "enough for a program")
					outside := w.taken(t, nil, built.act, "take", what)
					assert.NotZero(t, outside, "while the sandbox holds its own")
					if e.name == "native" {
						assert.Greater(t, outside+inside, least, "control: the host has more")
					}
				})
			}
		}
	})
}

// taken starts a program that takes something until the test ends, and returns how many it has.
func (w *world) taken(t *testing.T, change func(*exec.Cmd), argv ...string) (n int) {
	t.Helper()
	_, line := w.holding(t, change, argv...)
	var why string
	_, err := fmt.Sscan(line, &n, &why)
	require.NoError(t, err, line)
	return n
}
