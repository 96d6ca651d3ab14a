package runner

import (
	"bytes"
	"testing"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

// TestOutputThatIsLostIsNoSuccess although the command had ended with status 0 before anybody could tell it.
func TestOutputThatIsLostIsNoSuccess(t *testing.T) {
	for name, c := range map[string]struct {
		passed backend.Passed
		status unix.WaitStatus
		code   int
	}{
		"more than it may":                     {backend.Passed{Counted: true, Over: true}, 0, 137},
		"more than it may, and it failed":      {backend.Passed{Counted: true, Over: true}, 3 << 8, 3},
		"more than its file took":              {backend.Passed{Counted: true, Lost: "no space left on device"}, 0, 1},
		"more than its file took, and SIGPIPE": {backend.Passed{Counted: true, Lost: "no space left on device"}, 13, 141},
	} {
		t.Run(name, func(t *testing.T) {
			r := endedWith(&plan.Plan{}, Receipt{}, backend.Outcome{Status: c.status, Output: [2]backend.Passed{1: c.passed}})
			assert.Equal(t, Output, r.Verdict)
			assert.Equal(t, c.code, r.Code)
			assert.True(t, r.Cut)
		})
	}
}

// TestAMeterPassesOnNoMoreThanItMay although the command writes on until it is killed.
func TestAMeterPassesOnNoMoreThanItMay(t *testing.T) {
	var got bytes.Buffer
	for name, m := range map[string]*meter{"kept": {collects: 100}, "passed on": {to: &got}} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			m.limit, m.exceeded = 10, func() { calls++ }
			for range 5 {
				assert.True(t, m.take([]byte("0123456")))
			}
			assert.Equal(t, "0123456012", string(m.kept)+got.String())
			assert.Equal(t, 1, calls)
			assert.EqualValues(t, 35, m.total.Load())
			s := &streams{meters: []*meter{m}}
			assert.Equal(t, backend.Passed{Counted: true, Bytes: 10, Over: true}, s.passed()[0])
			got.Reset()
		})
	}
}
