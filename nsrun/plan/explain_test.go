package plan

import (
	"testing"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestExplainNeedsANewKernel: where a listener cannot let a call go on, or a session cannot see that nobody asks any more, there is a note
// instead.
func TestExplainNeedsANewKernel(t *testing.T) {
	for _, c := range []struct {
		lacks         []facts.Name
		run, sessions bool
	}{
		{nil, true, true},
		{[]facts.Name{facts.CloseR}, true, false},                 // 5.8
		{[]facts.Name{facts.CloseR, facts.Openat2}, false, false}, // 5.4
	} {
		for sole, explains := range map[bool]bool{true: c.run, false: c.sessions} {
			pol, err := policy.Normalize(policy.Policy{Explain: policy.ExplainOn}, policy.Operator{})
			require.NoError(t, err)
			p, err := Compile(Request{Policy: pol, Command: []string{"true"}, Sole: sole}, host("6.18.0", 7, 1000, c.lacks...))
			require.NoError(t, err)
			assert.Equal(t, explains, p.Explain != nil, "lacks %v, sole %v", c.lacks, sole)
			noted := false
			for _, n := range p.Notes {
				noted = noted || n.Feature == "explain"
			}
			assert.Equal(t, !explains, noted)
		}
	}
}
