package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAllowIsChecked(t *testing.T) {
	for want, p := range map[string]Policy{
		"":                                   {Network: NetworkAllow},
		"there are rules for a network that": {Network: NetworkHost, Allow: []string{"a.b"}},
		"allow[1]: rule \"*\"":               {Network: NetworkAllow, Allow: []string{"a.b", "*"}},
		"UDP to port 53":                     {Network: NetworkAllow, Allow: []string{"udp://a.b:50-60"}},
		"metadata":                           {Network: NetworkAllow, Allow: []string{"169.254.169.254:80"}},
	} {
		err := p.Validate()
		if want == "" {
			assert.NoError(t, err)
			continue
		}
		assert.ErrorContains(t, err, want)
	}
}

// TestCeilingCutsTheNetwork to what both permit.
func TestCeilingCutsTheNetwork(t *testing.T) {
	allow := func(rules ...string) Policy { return Policy{Network: NetworkAllow, Allow: rules} }
	for name, c := range map[string]struct {
		p       Policy
		ceiling Ceiling
		want    Network
		rules   []string
		note    string
	}{
		"none stays":                {Policy{}, Ceiling{Network: NetworkHost}, NetworkNone, nil, ""},
		"a list below the host":     {allow("a.b:443"), Ceiling{Network: NetworkHost}, NetworkAllow, []string{"a.b:443"}, ""},
		"a list below none":         {allow("a.b:443"), Ceiling{}, NetworkNone, nil, "a.b:443 are beyond the ceiling"},
		"the host below none":       {Policy{Network: NetworkHost}, Ceiling{}, NetworkNone, nil, "there is none"},
		"the host below a list":     {Policy{Network: NetworkHost, Autonomy: FullAccess}, Ceiling{Network: NetworkAllow, Allow: []string{"a.b"}}, NetworkAllow, []string{"a.b"}, "there is a.b"},
		"a list below a list":       {allow("x.pypi.org:443", "a.b:22", "EXAMPLE.com."), Ceiling{Network: NetworkAllow, Allow: []string{"*.pypi.org", "example.com"}}, NetworkAllow, []string{"x.pypi.org:443", "example.com"}, "a.b:22 is beyond"},
		"a port of a list":          {allow("a.b"), Ceiling{Network: NetworkAllow, Allow: []string{"a.b:443"}}, NetworkAllow, []string{"a.b:443"}, "a.b:80 is beyond"},
		"nothing is left of a list": {allow("c.d"), Ceiling{Network: NetworkAllow, Allow: []string{"a.b"}}, NetworkAllow, nil, "c.d is beyond"},
		"a ceiling that is wrong":   {allow("c.d"), Ceiling{Network: NetworkAllow, Allow: []string{"c.d", "*"}}, NetworkNone, nil, ""},
	} {
		got, err := Normalize(c.p, Operator{Ceilings: []Ceiling{c.ceiling}})
		require.NoError(t, err, name)
		assert.Equal(t, c.want, got.Network.Mode(), name)
		assert.Equal(t, c.rules, got.Allow, name)
		var notes string
		for _, n := range got.Notes {
			notes += n.String()
		}
		assert.Contains(t, notes, c.note, name)
		again, err := Normalize(got, Operator{Ceilings: []Ceiling{c.ceiling}})
		require.NoError(t, err, name)
		assert.Equal(t, got, again, name)
	}
}

// TestEachCeilingBoundsWhatIsAddedLater: the last one does not replace those before.
func TestEachCeilingBoundsWhatIsAddedLater(t *testing.T) {
	list := func(rules ...string) Ceiling { return Ceiling{Network: NetworkAllow, Allow: rules} }
	for name, c := range map[string]struct {
		network  Network
		ceilings []Ceiling
		want     []string
	}{
		"one":                      {NetworkAllow, []Ceiling{list("a.b:1-9", "*.c.d")}, []string{"a.b:1-9", "*.c.d"}},
		"none":                     {NetworkAllow, nil, nil},
		"an empty one":             {NetworkAllow, []Ceiling{list()}, []string{}},
		"a wider one after it":     {NetworkAllow, []Ceiling{list("a.b"), list("a.b", "evil.example")}, []string{"a.b"}},
		"a wider one before it":    {NetworkHost, []Ceiling{list("*.b.c:1-99"), list("x.b.c:9-200")}, []string{"x.b.c:9-99"}},
		"nothing is in both":       {NetworkAllow, []Ceiling{list("a.b"), list("c.d")}, []string{}},
		"the host's network after": {NetworkAllow, []Ceiling{list("a.b"), {Network: NetworkHost}}, []string{"a.b"}},
	} {
		got, err := Normalize(Policy{Network: c.network}, Operator{Ceilings: c.ceilings})
		require.NoError(t, err, name)
		assert.Equal(t, c.want, got.AllowMost, name)
		again, err := Normalize(got, Operator{Ceilings: c.ceilings})
		require.NoError(t, err, name)
		assert.Equal(t, got, again, name)
	}
}

// TestAutonomyAndTheList: full keeps a list that is written, and readonly has no network.
func TestAutonomyAndTheList(t *testing.T) {
	for autonomy, want := range map[Autonomy]Network{FullAccess: NetworkAllow, Supervised: NetworkAllow, ReadOnly: NetworkNone} {
		p, err := Normalize(Policy{Network: NetworkAllow, Allow: []string{"a.b"}, Autonomy: autonomy}, Operator{})
		require.NoError(t, err)
		assert.Equal(t, want, p.Network.Mode(), autonomy)
		assert.Equal(t, want == NetworkAllow, len(p.Allow) == 1, autonomy)
	}
}
