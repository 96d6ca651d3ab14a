package stages

import (
	"strings"
	"testing"

	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

// TestATerminalHasItsSizeBeforeTheCommandBegins: the child sets it. The caller gets the master by a message, and on a busy machine the
// command had asked for the size before the caller had set it.
func TestATerminalHasItsSizeBeforeTheCommandBegins(t *testing.T) {
	program := func(size *unix.Winsize) string {
		l := New(&plan.Plan{Terminal: true}, nil, FDs{Report: 3, Status: 4, Size: size}, true)
		assert.NoError(t, l.terminal())
		return l.Program.String()
	}
	text := program(&unix.Winsize{Row: 33, Col: 77})
	size, message := strings.Index(text, "TIOCSWINSZ"), strings.Index(text, "sendmsg(")
	assert.Positive(t, size, "%s", text)
	assert.Less(t, size, message, "%s", text)
	assert.NotContains(t, program(nil), "TIOCSWINSZ", "a caller without a terminal has no size")
}
