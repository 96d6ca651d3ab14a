package manifest

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// asked lists what a policy shows beyond what every sandbox has, as "source>dest access kind".
func asked(p policy.Policy) []string {
	var out []string
	for _, e := range p.FS {
		if e.System {
			continue
		}
		s := e.Source
		if e.Dest != e.Source {
			s += ">" + e.Dest
		}
		if s += " ro"; e.Write {
			s = strings.TrimSuffix(s, "ro") + "rw"
		}
		if e.Kind != policy.Bind {
			s += " " + string(e.Kind)
		}
		if e.NoExec {
			s += " noexec"
		}
		if e.Optional {
			s += "?"
		}
		out = append(out, s)
	}
	return out
}

func notes(p policy.Policy) string {
	var all []string
	for _, n := range p.Notes {
		all = append(all, n.String())
	}
	return strings.Join(all, "\n")
}

func TestDerivation(t *testing.T) {
	for _, c := range []struct {
		name, text string
		fs         []string
		network    policy.Network
		dir, note  string
	}{
		{"A2 nothing", `{}`, nil, policy.NetworkNone, "/", ""},
		{"S1 hint with **", `{"capabilities":[{"kind":"fs","mode":"read","hints":["~/notes/**"]}]}`, []string{"/home/me/notes ro?"}, "none", "/", ""},
		{"S1 hint of tmp", `{"capabilities":[{"kind":"fs","mode":"read","hints":["/tmp/**","/tmp/*"]}]}`, []string{"/tmp ro?"}, "none", "/", "in place of a private one"},
		{"S1 hint without glob", `{"capabilities":[{"kind":"fs","mode":"write","hints":["~/Pictures"]}]}`, []string{"/home/me/Pictures rw?"}, "none", "/", ""},
		{"S1 duplicates", `{"capabilities":[{"kind":"fs","mode":"read","hints":["/a/b*","/a/c","/a/?","/a/c"]}]}`, []string{"/a ro?", "/a/c ro?"}, "none", "/", ""},
		{"mounts", `{"mounts":[{"from":"~/data","to":"/data"},{"from":"/srv/t","to":"/t","write":true,"exec":false}]}`,
			[]string{"/home/me/data>/data ro", "/srv/t>/t rw noexec"}, "none", "/", ""},
		{"mounts: code stays read-only by its other name", `{"code":"/data/app/x.py","mounts":[{"from":"/data","to":"/w","write":true}]}`,
			[]string{"/data>/w rw", "/data/app ro", "/data/app>/w/app ro"}, "none", "/data/app", ""},
		{"S1 the home itself", `{"capabilities":[{"kind":"fs","mode":"read","hints":["~/*"]}]}`, []string{"/home/me ro?"}, "none", "/", "shows the home directory"},
		{"S1 network", `{"capabilities":["network:http"]}`, nil, "host", "/", ""},
		{"S1 any network", `{"capabilities":["network:connect"]}`, nil, "host", "/", ""},
		{"S1 code", `{"capabilities":["code:exec"]}`, nil, "none", "/", ""},
		{"S1 unknown families", `{"capabilities":["mail:send","time:now"]}`, nil, "none", "/", "mail:send changes nothing"},
		{"S1 code directory", `{"code":"/srv/exec/x/main.py"}`, []string{"/srv/exec/x ro"}, "none", "/srv/exec/x", ""},
		{"S1 string without hints", `{"capabilities":["fs:read"]}`, nil, "none", "/", "fs:read without hints grants nothing"},
		{"MF03 relative to the manifest", `{"capabilities":[{"kind":"fs","mode":"read","hints":["data/**"]}],"code":"/srv/data2/x.py"}`,
			[]string{"/srv/data2 ro", "/srv/tools/data ro?"}, "none", "/srv/data2", ""},
		{"MF03 code beside the manifest shows its hints", `{"capabilities":[{"kind":"fs","mode":"read","hints":["data/**"]}],"code":"x.py"}`,
			[]string{"/srv/tools ro"}, "none", "/srv/tools", ""},
		{"union of capabilities", `{"capabilities":[{"kind":"fs","mode":"write","hints":["/a"]},{"kind":"fs","mode":"read","hints":["/a"]}]}`, []string{"/a rw?"}, "none", "/", ""},
		{"MF13 narrowed", `{"capabilities":[{"kind":"fs","mode":"write","hints":["/a"]}],"extra_ro":["/a"]}`, []string{"/a ro?"}, "none", "/", "/a was asked for read-only and writable; it is read-only"},
		{"MF13 child read-only", `{"extra_rw":["/a"],"extra_ro":["/a/b/c"]}`, []string{"/a rw?", "/a/b/c ro?"}, "none", "/", ""},
		{"MF13 child writable", `{"extra_ro":["/a"],"extra_rw":["/a/b"]}`, []string{"/a ro?", "/a/b rw?"}, "none", "/", ""},
		{"system stays read-only", `{"extra_rw":["/usr"],"autonomy":"readonly"}`, nil, "none", "/", "/usr is the system's; it is read-only"},
		{"but where one insists", `{"force_rw":["/usr"]}`, []string{"/usr rw?"}, "none", "/", ""},
		{"a mount that insists", `{"mounts":[{"from":"/usr","to":"/data","write":true,"force":true}]}`, []string{"/usr>/data rw"}, "none", "/", ""},
		{"home none", `{"home":"none"}`, nil, "none", "/", ""},
		{"home a directory", `{"home":"~/other"}`, []string{"/home/me/other>/home/me rw"}, "none", "/", ""},
		{"S2 conductor", `{"workspace":"/w","shared_dirs":["/s"],"sockets":["/run/a.sock","/run/b.sock"]}`,
			[]string{"/s rw?", "/w rw", "/run/a.sock ro socket?", "/run/b.sock ro socket?"}, "none", "/w", ""},
		{"S4 workspace at", `{"workspace":"~/p","workspace_at":"/workspace"}`, []string{"/home/me/p>/workspace rw"}, "none", "/workspace", ""},
		{"workspace at same", `{"workspace":"/w","workspace_at":"same","chdir":"/w/sub"}`, []string{"/w rw"}, "none", "/w/sub", ""},
		{"B5 code in a workspace shown elsewhere", `{"workspace":"/w","workspace_at":"/workspace","code":"/w/tool/x.py","extra_ro":["/w/keep"]}`,
			[]string{"/w>/workspace rw", "/w/keep ro?", "/w/tool ro", "/w/keep>/workspace/keep ro?", "/w/tool>/workspace/tool ro"}, "none", "/workspace", ""},
		{"B5 code beside the workspace", `{"workspace":"/w","code":"/w/x.py"}`, []string{"/w ro"}, "none", "/w", "/w was asked for read-only and writable"},
		{"none against a capability", `{"network":"none","capabilities":["network:http"]}`, nil, "none", "/", "there is none"},
		{"hints of a network", `{"capabilities":[{"kind":"network","mode":"http","hints":["example.com"]}]}`, nil, "allow", "/", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := mustPolicy(t, c.text)
			assert.Equal(t, c.fs, asked(p))
			assert.Equal(t, c.network, p.Network)
			assert.Equal(t, c.dir, p.Dir)
			if c.note == "" {
				assert.Empty(t, p.Notes)
			}
			assert.Contains(t, notes(p), c.note)
			assert.NoError(t, p.Validate())
			for _, e := range p.FS {
				assert.Truef(t, e.System || e.NoFollow, "%s does not follow planted links", e.Dest)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	p := mustPolicy(t, "{}")
	assert.Equal(t, 30*time.Second, p.Timeout)
	assert.Equal(t, policy.DefaultKillGrace, p.KillGrace)
	assert.Equal(t, []policy.Limit{{Name: "core", Value: 0}}, p.Limits)
	p = mustPolicy(t, `{"limits":{"core":7,"timeout":"90s"}}`)
	assert.Equal(t, []policy.Limit{{Name: "core", Value: 7}}, p.Limits)
	assert.Equal(t, 90*time.Second, p.Timeout)
}

func TestHomes(t *testing.T) {
	m := mustParse(t, `{"extra_ro":["~/a"]}`)
	for _, home := range []string{"", "/", "relative", "/a/../b", "/home/\x00"} {
		_, err := m.Policy(Context{Home: home, Dir: "/srv"})
		assert.ErrorContainsf(t, err, "m:1:14: extra_ro[0]: \"~/a\" needs a home directory", "MF04: HOME=%q", home)
		_, err = mustParse(t, "{}").Policy(Context{Home: home})
		assert.NoError(t, err, "a home that nobody uses does not matter")
	}
	_, err := mustParse(t, `{"code":"x.py"}`).Policy(Context{Home: "/home/me"})
	assert.ErrorContains(t, err, "the manifest's directory is not known")
}

// TestOrder checks MF14: manifests that list the same things in another order mean the same.
func TestOrder(t *testing.T) {
	a := mustPolicy(t, `{"capabilities":["x:y","a:b",{"kind":"fs","mode":"read","hints":["/q/*","/b","/q/?"]},{"kind":"fs","mode":"write","hints":["/b"]}],
		"extra_rw":["/z","/y"],"extra_ro":["/y","/b/c"],"pass_env":["B","A"],"set_env":{"D":"1","C":"2"},"limits":{"pids":1,"memory_mb":2},"seccomp":{"deny":["b","a"]}}`)
	b := mustPolicy(t, `{"seccomp":{"deny":["a","b","a"]},"limits":{"memory_mb":2,"pids":1},"set_env":{"C":"2","D":"1"},"pass_env":["A","B"],"extra_ro":["/b/c","/y"],"extra_rw":["/y","/z"],
		"capabilities":[{"hints":["/b"],"mode":"write","kind":"fs"},{"kind":"fs","mode":"read","hints":["/q/?","/q/*","/b"]},"a:b","x:y"]}`)
	assert.Equal(t, a, b)
}

func TestSelf(t *testing.T) {
	for text, bad := range map[string]bool{
		`{"extra_rw":["/srv/tools"]}`:                                     true,
		`{"extra_rw":["/srv/tools/tool.json"]}`:                           true,
		`{"workspace":"/srv","workspace_at":"/ws"}`:                       true,
		`{"workspace":"/srv","extra_ro":["/srv/tools"]}`:                  true, // a parent could be renamed
		`{"workspace":"/srv/tools/out"}`:                                  false,
		`{"extra_ro":["/srv"]}`:                                           false,
		`{"extra_rw":["/srv/tool"]}`:                                      false,
		`{"workspace":"/srv/tools","code":"x.py"}`:                        false, // read-only after all
		`{"capabilities":[{"kind":"fs","mode":"write","hints":["*/x"]}]}`: true,
	} {
		m, err := Parse("m", []byte(text))
		if err == nil {
			_, err = m.Policy(here)
		}
		assert.Equalf(t, bad, err != nil, "MF27 %s: %v", text, err)
	}
}

func TestRawFile(t *testing.T) {
	m := mustParse(t, `{"seccomp":{"raw":"f.bpf"}}`)
	ctx, data, asked := here, []byte(nil), ""
	ctx.Read = func(path string) ([]byte, error) {
		asked = path
		return data, nil
	}
	for _, n := range []int{0, 7} {
		data = make([]byte, n)
		_, err := m.Policy(ctx)
		assert.ErrorContains(t, err, "seccomp.raw", "a filter that was asked for is never left out")
	}
	data = make([]byte, 8)
	p, err := m.Policy(ctx)
	require.NoError(t, err)
	assert.Equal(t, "/srv/tools/f.bpf", asked)
	assert.Equal(t, data, p.Seccomp.Raw)
	ctx.Read = func(string) ([]byte, error) { return nil, os.ErrNotExist }
	_, err = m.Policy(ctx)
	assert.ErrorIs(t, err, os.ErrNotExist)
	assert.ErrorContains(t, err, "m: seccomp.raw: ")
}

func TestPolicyOfAManifestMadeInGo(t *testing.T) {
	_, err := (&Manifest{Workspace: "/proc/x", Wishes: policy.Policy{Network: "web"}}).Policy(here)
	assert.ErrorContains(t, err, `manifest: workspace: "/proc/x" names a place of the kernel`)
	p, err := (&Manifest{Wishes: policy.Policy{Network: "web"}}).Policy(here)
	require.NoError(t, err)
	_, err = policy.Normalize(p, policy.Operator{})
	assert.ErrorContains(t, err, `network: "web" is unknown`)
}
