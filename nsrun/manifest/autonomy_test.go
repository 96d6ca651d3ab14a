package manifest

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// random makes a manifest that grants this and that.
func random(r *rand.Rand) *Manifest {
	pick := func(from ...string) []string {
		return slices.DeleteFunc(slices.Clone(from), func(string) bool { return r.IntN(2) == 0 })
	}
	m := &Manifest{SharedDirs: pick("/work/a", "/work/a/b", "/srv/x"), Sockets: pick("/run/mcp.sock", "/work/a/s.sock", "/srv/x/s"),
		ExtraRO: pick("/work/a", "/opt/ro", "/srv"), ExtraRW: pick("/opt/ro/rw", "~/out", "/tmp/x")}
	m.Wishes.Network = policy.Network(append(pick("none", "host"), "")[0])
	for _, c := range pick("read", "write") {
		m.Capabilities = append(m.Capabilities, Capability{"fs", c, pick("~/notes/**", "/data/[ab]*", "/work/a")})
	}
	for range r.IntN(2) {
		m.Capabilities = append(m.Capabilities, Capability{Kind: "network", Mode: "http"})
	}
	for _, w := range pick("/work/ws") {
		m.Workspace, m.WorkspaceAt = w, append(pick("/workspace"), "same")[0]
	}
	m.Wishes.Isolation = policy.Isolation(append(pick("subprocess"), "", "container")[r.IntN(2)])
	return m
}

// TestAutonomyIsNeverWiderThanTheManifest, but for the host's network under full, and a ceiling cuts it afterwards.
func TestAutonomyIsNeverWiderThanTheManifest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ceiling := policy.Ceiling{FSRead: []string{"/"}, FSWrite: []string{"/work"}}
	for range 2000 {
		m := random(r)
		written := normal(t, m, policy.Operator{})
		for _, a := range policy.Autonomies {
			m.Wishes.Autonomy = a
			got := normal(t, m, policy.Operator{})
			again, err := policy.Normalize(got, policy.Operator{})
			require.NoError(t, err)
			require.Equal(t, got, again, "it is idempotent")
			notes := got.Notes[len(written.Notes):]
			for _, e := range got.FS {
				i := slices.IndexFunc(written.FS, func(w policy.FS) bool { return w.Dest == e.Dest })
				require.GreaterOrEqualf(t, i, 0, "%s was not asked for", e.Dest)
				w := written.FS[i]
				masked := e.Kind == policy.Tmpfs && !e.Write && w.Kind == policy.Socket
				require.Truef(t, masked || e.Kind == w.Kind && e.Source == w.Source && (!e.Write || w.Write), "%s is wider", e.Dest)
				require.Falsef(t, a == policy.ReadOnly && (e.Kind == policy.Bind && e.Write || e.Kind == policy.Socket), "%s under readonly", e.Dest)
			}
			switch a {
			case policy.ReadOnly:
				assert.Equal(t, policy.NetworkNone, got.Network.Mode())
				changed := slices.ContainsFunc(written.FS, func(e policy.FS) bool { return e.Kind == policy.Socket || e.Kind == policy.Bind && e.Write })
				assert.Equal(t, changed || written.Network.Mode() == policy.NetworkHost || written.Isolation == policy.Subprocess, len(notes) > 0, "each change is told")
			case policy.Supervised:
				written.Autonomy = a
				assert.Equal(t, written, got, "as written")
				assert.Empty(t, notes)
				written.Autonomy = ""
			case policy.FullAccess:
				assert.Equal(t, policy.NetworkHost, got.Network)
				assert.Equal(t, written.FS, got.FS)
			}
			cut := normal(t, m, policy.Operator{Ceilings: []policy.Ceiling{ceiling}})
			assert.Equal(t, policy.NetworkNone, cut.Network.Mode(), "the ceiling has the last word")
			for _, e := range cut.FS {
				require.False(t, e.Kind == policy.Socket || e.Kind == policy.Bind && e.Write && !policy.Inside(e.Source, "/work"))
			}
		}
	}
}
