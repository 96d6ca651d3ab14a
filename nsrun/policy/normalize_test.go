package policy

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzNormalize: it is idempotent, with and without the operator, does not depend on the order of wishes, is valid, and never gives more than was
// wished, nor under a ceiling more than without it.
func FuzzNormalize(f *testing.F) {
	f.Add([]byte{2, 0, 0, 0, 1, 0, 3, 0, 0, 1, 1, 0, 0, 0}, byte(0))
	f.Add([]byte{1, 0, 5, 0, 1, 0, 0, 1, 1, 1, 3, 1, 9, 9, 9, 9}, byte(1))
	f.Add([]byte{3, 0, 0, 0, 1, 0, 1, 1, 1, 0, 3, 0, 0, 1, 2, 0, 1, 1, 0}, byte(2))
	f.Fuzz(checkNormalize)
}

// TestNormalize is that with random wishes.
func TestNormalize(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		data := make([]byte, 60)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		checkNormalize(t, data, byte(r.Uint32()))
	}
}

func checkNormalize(t *testing.T, data []byte, autonomy byte) {
	entries, p, c := fuzzed(data)
	p.Autonomy = Autonomies[int(autonomy)%len(Autonomies)]
	for i := range entries {
		entries[i].Force = true // TestMistakes has the others
		entries[i].Optional = i < len(data) && data[i]%2 == 0
	}
	p.FS = slices.Concat(Default("/home/me").FS, entries)
	c.Force = true
	op := Operator{Ceilings: []Ceiling{c}, Audit: "/var/log/audit.jsonl"}
	free, err := Normalize(p, Operator{})
	require.NoError(t, err)
	cut, err := Normalize(p, op)
	require.NoError(t, err)
	require.NoError(t, cut.Validate())
	require.True(t, cut.Obeyed())
	for _, op := range []Operator{op, {}} {
		again, err := Normalize(cut, op)
		require.NoError(t, err)
		require.Equal(t, cut, again, "idempotent")
	}
	slices.Reverse(p.FS)
	other, err := Normalize(p, op)
	require.NoError(t, err)
	require.Equal(t, cut.FS, other.FS, "order does not matter")

	noMore(t, cut, free, "no more than without a ceiling")
	wished := inOrder(p)
	if p.Autonomy == FullAccess {
		wished.Network = NetworkHost
	}
	noMore(t, free, wished, "no more than was wished")
	wider := op
	wider.Ceilings = append(wider.Ceilings, Ceiling{FSWrite: []string{"/"}, Network: NetworkHost, PassEnv: []string{"*"}, Sockets: []string{"/"}, Force: true})
	more, err := Normalize(p, wider)
	require.NoError(t, err)
	noMore(t, more, cut, "a wider ceiling does not widen")
}

func inOrder(p Policy) Policy {
	p.FS, _ = arrange(p.FS)
	return p
}

// TestNormalizeRefuses what no ceiling can make right, with the place that the ceiling was read from.
func TestNormalizeRefuses(t *testing.T) {
	for want, c := range map[string]struct {
		p  Policy
		op Operator
	}{
		"fs[0].source: \"x\" is relative":                       {Policy{FS: []FS{{Kind: Bind, Source: "x", Dest: "/x"}}}, Operator{}},
		"c.json: the operator's ceiling asks for command rules": {Policy{}, Operator{Ceilings: []Ceiling{{}, {File: "c.json", Commands: []string{"passive"}}}}},
		"audit /log: the audit log is beyond":                   {Policy{Audit: []string{"/log"}}, Operator{Ceilings: []Ceiling{{}}}},
	} {
		_, err := Normalize(c.p, c.op)
		assert.ErrorContains(t, err, want)
	}
	p, err := Normalize(Policy{}, Operator{Ceilings: []Ceiling{{}}, Audit: "/log"})
	require.NoError(t, err)
	assert.Equal(t, []string{"/log"}, p.Audit, "the operator's log is not cut by the operator's ceiling")
}

// TestFullUnderACeilingIsNotFullAgain: the network that a ceiling has cut does not come back where nobody names the ceiling.
func TestFullUnderACeilingIsNotFullAgain(t *testing.T) {
	p, err := Normalize(Policy{Autonomy: FullAccess}, Operator{Ceilings: []Ceiling{{}}})
	require.NoError(t, err)
	p, err = Normalize(p, Operator{})
	require.NoError(t, err)
	assert.Equal(t, NetworkNone, p.Network.Mode())
	assert.Equal(t, Supervised, p.Autonomy)
}
