package plan

import (
	"testing"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/require"
)

// TestKeptPlaces: what is kept is read-only after what it lies in, comes from where it really lies, and gives way to what the policy itself shows there.
func TestKeptPlaces(t *testing.T) {
	kept := []Kept{{"/w", "/real", ".git/hooks"}, {"/w", "/real", ".bashrc"}, {"/other", "/x", "gone"}}
	for name, c := range map[string]struct {
		pol  policy.Policy
		want []string
	}{
		"plain": {policy.Policy{}.Grant("/w", true, "test"), []string{"bind /w/.git <- /real/.git rw nosuid nodev optional no-follow",
			"bind /w/.bashrc <- /real/.bashrc ro nosuid nodev optional no-follow", "bind /w/.git/hooks <- /real/.git/hooks ro nosuid nodev optional no-follow"}},
		"off":           {policy.Policy{Protect: policy.ProtectOff}.Grant("/w", true, "test"), nil},
		"read-only":     {policy.Policy{}.Grant("/w", false, "test"), nil},
		"its own grant": {policy.Policy{}.Grant("/w", true, "test").Grant("/w/.git", true, "test"), []string{"bind /w/.bashrc <- /real/.bashrc ro nosuid nodev optional no-follow"}},
	} {
		pol, err := policy.Normalize(c.pol, policy.Operator{})
		require.NoError(t, err)
		p, err := Compile(Request{Private: spare, Policy: pol, Command: []string{"x"}, Kept: kept}, hosts["kernel 6.18, user"])
		require.NoError(t, err)
		var got []string
		for _, op := range p.Mounts {
			if op.Kind == mounts.Bind && op.Source != op.Dest {
				got = append(got, op.String())
			}
		}
		require.Equal(t, c.want, got, name)
	}
}

// TestProtectWithoutMounts: a backend without mounts keeps nothing read-only. It says so, and is refused for strict alone.
func TestProtectWithoutMounts(t *testing.T) {
	for _, level := range policy.Protects {
		pol := policy.Policy{Protect: level, Backend: policy.BackendLandlock}.Grant("/w", true, "test")
		pol, err := policy.Normalize(pol, policy.Operator{})
		require.NoError(t, err)
		p, err := Compile(Request{Private: spare, Policy: pol, Command: []string{"x"}, Kept: []Kept{{"/w", "/w", ".git/hooks"}}}, hosts["kernel 6.18, user"])
		if level == policy.ProtectStrict {
			require.ErrorContains(t, err, "cannot make a place read-only inside a writable one")
			continue
		}
		require.NoError(t, err)
		text := ""
		for _, n := range p.Notes {
			text += n.String()
		}
		require.Equal(t, level != policy.ProtectOff, len(p.Protect.Compared) > 0)
		if level != policy.ProtectOff {
			require.Contains(t, text, "these are writable, and compared: /w/.git/hooks")
		}
	}
}
