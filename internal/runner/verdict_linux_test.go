package runner

import (
	"bytes"
	"os"
	"testing"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// TestWhatIsBeingReadIsSeen: the verdict can come between a read and what the reader makes of it.
func TestWhatIsBeingReadIsSeen(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	m := &meter{limit: 10, exceeded: func() {}, collects: 100, from: backend.FileEnd(r)}
	defer m.from.Close()
	_, err = w.Write(make([]byte, 20))
	require.NoError(t, err)
	assert.True(t, m.seen().Over, "in the pipe")
	b := make([]byte, 15)
	require.NoError(t, m.from.Control(func(fd uintptr) { _, err = m.fetch(fd, b) }))
	require.NoError(t, err)
	assert.True(t, m.seen().Over, "in hand, and in the pipe")
	m.take(b)
	assert.True(t, m.seen().Over, "counted")
	assert.EqualValues(t, 15, m.total.Load())
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
