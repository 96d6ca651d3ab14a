package manifest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// seeds are all files of the golden of faults, and some that are good.
func seeds(f *testing.F) {
	data, err := os.ReadFile("testdata/faults.txt")
	require.NoError(f, err)
	for _, part := range strings.Split(string(data), "== ")[1:] {
		_, rest, _ := strings.Cut(part, "\n")
		input, _, _ := strings.Cut(rest, "-- faults\n")
		f.Add([]byte(input))
	}
	for _, s := range []string{"{}", everything, everythingYAML, `{"capabilities":["mail:x",{"kind":"fs","mode":"read","hints":["~/a*"]}]}`, "name: \"<&>\\u00e9\"\n"} {
		f.Add([]byte(s))
	}
}

// FuzzManifest: what is taken is written and read back as the same; its policy is the same each time, valid, and never makes the
// manifest itself writable.
func FuzzManifest(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse("m", data)
		if err != nil {
			assert.NoError(t, policy.CheckText(strings.ReplaceAll(err.Error(), "\n", "")), "an error text is plain")
			return
		}
		out, err := m.Marshal()
		require.NoErrorf(t, err, "%q", data)
		again, err := Parse("m", out)
		require.NoError(t, err)
		require.Equal(t, bare(m), bare(again))
		ctx := here
		ctx.Read = eightBytes
		p, err := m.Policy(ctx)
		q, err2 := again.Policy(ctx)
		require.Equal(t, err == nil, err2 == nil)
		require.Equal(t, p, q)
		if err != nil {
			return
		}
		p, err = policy.Normalize(p, policy.Operator{})
		require.NoError(t, err)
		for _, e := range p.FS {
			require.False(t, e.Kind == policy.Bind && e.Write && policy.Inside(ctx.Path, e.Source), "MF27")
			require.False(t, e.Kind == policy.Bind && e.Write && e.System)
		}
		full := m.Wishes.Autonomy == policy.FullAccess
		unsaid := m.Wishes.Network == ""
		some := slices.ContainsFunc(m.Capabilities, func(c Capability) bool { return c.Kind == "network" })
		wide := slices.ContainsFunc(m.Capabilities, func(c Capability) bool { return c.Kind == "network" && len(c.Hints) == 0 })
		listed := m.Wishes.Network == policy.NetworkAllow || unsaid && some && !wide
		require.Equal(t, p.Network == policy.NetworkHost, m.Wishes.Autonomy != policy.ReadOnly && (m.Wishes.Network == "host" || unsaid && wide || full && !listed))
	})
}

// FuzzHint: a hint that is taken gives a clean path at or above everything that it names, never the whole host.
func FuzzHint(f *testing.F) {
	for _, s := range []string{"~/notes/**", "/tmp/*", "~", "~/", "/", "/*", "*", "a/b*", "../x", "$HOME/x", "~root/x", "/proc/self/cwd", "/a//b", "/a/./b", "/a/[b/c]", "{a,b}", "/a/b?", "~/../x", "/a/*/../..", "", "."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if problem, fix := hint(s); problem != "" {
			require.NotEmpty(t, fix)
			return
		}
		abs, problem, _ := here.resolve(s)
		require.Empty(t, problem)
		require.NotEqual(t, "/", abs)
		require.False(t, strings.ContainsAny(strings.TrimPrefix(strings.TrimPrefix(abs, here.Home), here.Dir), globs))
		if policy.CheckText(s) != nil || len(abs) > 4095 {
			return // refused beside
		}
		require.NoError(t, policy.CheckPath(abs))
		require.False(t, kernelPlace(abs))
		switch {
		case strings.HasPrefix(s, "/"):
			require.True(t, strings.HasPrefix(s, abs))
		case strings.HasPrefix(s, "~"):
			require.True(t, policy.Inside(abs, here.Home))
		default:
			require.True(t, policy.Inside(abs, here.Dir) && abs != here.Dir)
		}
	})
}

// FuzzCeiling: no panic, and what is taken holds only clean absolute paths and known limits.
func FuzzCeiling(f *testing.F) {
	seeds(f)
	f.Add([]byte(`{"fs_read":["/"],"fs_write":["/srv"],"sockets":["/run"],"network":"host","pass_env":["CI_*"],"limits":{"pids":5,"timeout":"1h"},"seccomp":["default"],"fallback":"degrade","landlock":false,"host_etc":true,"version":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseCeiling("c", data)
		if err != nil {
			return
		}
		for _, dir := range slices.Concat(c.FSRead, c.FSWrite, c.Sockets) {
			require.NoError(t, policy.CheckPath(dir))
		}
		for _, l := range c.Limits {
			require.NoError(t, l.Check())
		}
		p, err := (&Manifest{Workspace: "/srv/w", ExtraRO: []string{"/etc/x"}, Wishes: policy.Policy{Network: "host"}}).Policy(Context{})
		require.NoError(t, err)
		p, err = policy.Normalize(p, policy.Operator{Ceilings: []policy.Ceiling{c}})
		if len(c.Commands) > 0 {
			require.ErrorContains(t, err, "asks for command rules")
			return
		}
		require.NoError(t, err)
		require.NoError(t, p.Validate())
	})
}
