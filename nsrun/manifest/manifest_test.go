package manifest

import (
	"errors"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write golden files")

// eightBytes is a file of one instruction.
func eightBytes(string) ([]byte, error) { return make([]byte, 8), nil }

var here = Context{Home: "/home/me", Dir: "/srv/tools", Path: "/srv/tools/tool.json"}

// everything is a manifest with each key.
const everything = `{
  "name": "all",
  "version": 1,
  "capabilities": ["network:http", "code:exec", {"kind": "fs", "mode": "write", "hints": ["~/notes/**", "/data/[ab]*"]}],
  "workspace": "/work/ws",
  "workspace_at": "/workspace",
  "shared_dirs": ["/work/shared"],
  "sockets": ["/run/mcp.sock"],
  "extra_ro": ["/work/ws/config"],
  "extra_rw": ["~/out"],
  "force_rw": ["/opt"],
  "home": "none",
  "noexec": true,
  "mounts": [{"from": "~/data", "to": "/data", "write": true, "exec": false}, {"from": "/srv/lib", "to": "/lib/own"}],
  "protect": "strict",
  "protect_paths": ["/work/ws/deploy.sh"],
  "tools": ["go", "~/tools/mine.json"],
  "code": "bin/tool.py",
  "chdir": "/workspace/sub",
  "network": {"allow": ["example.com:443", "*.pypi.org"], "proxy_env": true},
  "pass_env": ["FOO"],
  "set_env": {"PATH": "/usr/bin", "A": "b"},
  "limits": {"pids": 64, "memory_mb": 512, "timeout": "1m30s", "kill_grace": 5},
  "seccomp": {"filter": "compute", "deny": ["ptrace"], "raw": "filter.bpf"},
  "hostname": "box",
  "uid": 0,
  "gid": 1000,
  "fallback": "degrade",
  "require": ["files"],
  "isolation": "container",
  "self_test": true,
  "explain": "all",
  "autonomy": "readonly",
  "commands": "lint",
  "command_rules": {"lint": {"extends": "passive", "programs": {"shellcheck": ["FILE...", "-f gcc FILE..."], "make": ["", "-n ..."]}}, "all": {}},
  "backend": "bwrap",
  "audit": "~/audit.jsonl",
  "labels": {"task": "17", "role": "tester"},
  "landlock": false
}`

const everythingYAML = `# the same in YAML
name: all
version: 1
capabilities:
  - network:http
  - code:exec
  - kind: fs
    mode: write
    hints: ["~/notes/**", '/data/[ab]*']
workspace: /work/ws
workspace_at: /workspace
shared_dirs: [/work/shared]
sockets:
- /run/mcp.sock
extra_ro: [/work/ws/config]
extra_rw: ["~/out"]
force_rw: [/opt]
home: none
noexec: true
mounts:
  - {from: "~/data", to: /data, write: true, exec: false}
  - from: /srv/lib
    to: /lib/own
protect: strict
protect_paths: [/work/ws/deploy.sh]
tools: [go, ~/tools/mine.json]
code: bin/tool.py
chdir: /workspace/sub
network: {allow: ["example.com:443", "*.pypi.org"], proxy_env: true}
pass_env: [FOO]
set_env: {PATH: /usr/bin, A: b}
limits: {pids: 64, memory_mb: 512, timeout: 1m30s, kill_grace: 5}
seccomp:
  filter: compute
  deny: [ptrace]
  raw: filter.bpf
hostname: box
uid: 0
gid: 1000
fallback: degrade
require: [files]
isolation: container
self_test: true
explain: all
autonomy: readonly
commands: lint
command_rules:
  lint:
    extends: passive
    programs: {shellcheck: ["FILE...", "-f gcc FILE..."], make: ["", "-n ..."]}
  all: {}
backend: bwrap
audit: ~/audit.jsonl
labels: {task: "17", role: tester}
landlock: false
`

// bare is m without what only tells where it was read.
func bare(m *Manifest) Manifest {
	c := *m
	c.file, c.places = "", nil
	return c
}

func mustParse(t testing.TB, text string) *Manifest {
	t.Helper()
	m, err := Parse("m", []byte(text))
	require.NoError(t, err)
	return m
}

func mustPolicy(t testing.TB, text string) policy.Policy {
	t.Helper()
	return normal(t, mustParse(t, text), policy.Operator{})
}

// normal is what comes of a manifest's wishes.
func normal(t testing.TB, m *Manifest, op policy.Operator) policy.Policy {
	t.Helper()
	ctx := here
	ctx.Read = eightBytes
	p, err := m.Policy(ctx)
	require.NoError(t, err)
	p, err = policy.Normalize(p, op)
	require.NoError(t, err)
	return p
}

func TestEverything(t *testing.T) {
	zero, thousand := 0, 1000
	want := Manifest{
		Version:      1,
		Capabilities: []Capability{{"network", "http", nil}, {"code", "exec", nil}, {"fs", "write", []string{"~/notes/**", "/data/[ab]*"}}},
		Workspace:    "/work/ws", WorkspaceAt: "/workspace",
		SharedDirs: []string{"/work/shared"}, Sockets: []string{"/run/mcp.sock"},
		ExtraRO: []string{"/work/ws/config"}, ExtraRW: []string{"~/out"}, ForceRW: []string{"/opt"}, Home: "none", ProtectPaths: []string{"/work/ws/deploy.sh"}, Tools: []string{"go", "~/tools/mine.json"},
		Mounts: []Mount{{From: "~/data", To: "/data", Write: true, NoExec: true}, {From: "/srv/lib", To: "/lib/own"}},
		Code:   "bin/tool.py", Chdir: "/workspace/sub", RawFilter: "filter.bpf", Audit: "~/audit.jsonl",
		Wishes: policy.Policy{
			Name: "all", Network: "allow", Allow: []string{"example.com:443", "*.pypi.org"}, ProxyEnv: true,
			Env:     policy.Env{Pass: []string{"FOO"}, Set: []policy.Var{{Name: "A", Value: "b"}, {Name: "PATH", Value: "/usr/bin"}}},
			Limits:  []policy.Limit{{Name: "memory_mb", Value: 512}, {Name: "pids", Value: 64}},
			Timeout: 90 * time.Second, KillGrace: 5 * time.Second,
			Seccomp:  policy.Seccomp{Filter: "compute", Deny: []string{"ptrace"}},
			Hostname: "box", UID: &zero, GID: &thousand, Fallback: "degrade", Backend: "bwrap", NoLandlock: true,
			Require: []string{"files"}, NoExec: true, Isolation: "container", SelfTest: true, Protect: "strict",
			Labels:  []policy.Var{{Name: "role", Value: "tester"}, {Name: "task", Value: "17"}},
			Explain: "all", Autonomy: "readonly", Commands: "lint", CommandRules: []policy.CommandRules{{Name: "all"}, {Name: "lint", Extends: "passive", Programs: []policy.Program{
				{Name: "make", Shapes: []string{"", "-n ..."}}, {Name: "shellcheck", Shapes: []string{"FILE...", "-f gcc FILE..."}}}}},
		},
	}
	for _, text := range []string{everything, everythingYAML} {
		assert.Equal(t, want, bare(mustParse(t, text)))
	}
	for i := range reflect.TypeFor[Manifest]().NumField() {
		f := reflect.TypeFor[Manifest]().Field(i)
		if f.IsExported() {
			assert.Falsef(t, reflect.ValueOf(want).Field(i).IsZero(), "field %s is in this test", f.Name)
		}
	}
}

// TestEveryKeyReachesThePolicy parses one key at a time: each must change the policy, or be on the list of those that do not.
func TestEveryKeyReachesThePolicy(t *testing.T) {
	silent := map[string]string{"version": "says how to read the file", "chdir": "", "workspace_at": ""}
	root, ok := (&tree{}).readJSON([]byte(everything), 0)
	require.True(t, ok)
	names := manifestForm().names()
	require.Len(t, root.members, len(names), "the manifest of this test has every key of the table")
	full := mustParse(t, everything)
	whole, err := full.Policy(Context{here.Home, here.Dir, here.Path, eightBytes})
	require.NoError(t, err)
	for i, row := range manifestForm().rows {
		assert.Equal(t, root.members[i].name, row.name, "the test manifest is in the table's order")
		if silent[row.name] != "" {
			continue
		}
		less := *full
		v := reflect.ValueOf(row.at(&less))
		if p, ok := row.at(&less).(*limits); ok {
			*p.all, *p.timeout, *p.grace = nil, 0, 0
		}
		if row.name == "seccomp" {
			less.Wishes.Seccomp, less.RawFilter, v = policy.Seccomp{}, "", reflect.ValueOf(new(int))
		}
		if p, ok := row.at(&less).(*netWish); ok {
			*p.mode, *p.allow, *p.proxy, v = "", nil, false, reflect.ValueOf(new(int))
		}
		v.Elem().SetZero()
		without, err := less.Policy(Context{here.Home, here.Dir, here.Path, eightBytes})
		require.NoError(t, err)
		assert.NotEqualf(t, whole, without, "%s reaches the policy", row.name)
	}
}

func TestMarshalGivesTheManifestBack(t *testing.T) {
	for _, text := range []string{"{}", everything, `{"limits":{"core":0,"timeout":7},"capabilities":["mail:send",{"kind":"fs","mode":"read"}]}`, "landlock: true"} {
		m := mustParse(t, text)
		out, err := m.Marshal()
		require.NoError(t, err)
		again := mustParse(t, string(out))
		assert.Equal(t, bare(m), bare(again))
		twice, err := again.Marshal()
		require.NoError(t, err)
		assert.Equal(t, string(out), string(twice), "the canonical form is stable")
	}
	_, err := (&Manifest{Workspace: "relative"}).Marshal()
	assert.ErrorContains(t, err, "manifest:2:16: workspace:", "what Parse would refuse is not written")
	_, err = (&Manifest{Wishes: policy.Policy{Name: "\xff"}}).Marshal()
	assert.ErrorContains(t, err, "UTF-8")
}

// faultTexts gives the texts of all faults of an error, and checks that each is a Fault.
func faultTexts(t *testing.T, err error) string {
	t.Helper()
	require.Error(t, err)
	joined, ok := err.(interface{ Unwrap() []error })
	require.Truef(t, ok, "%v is a joined error", err)
	for _, one := range joined.Unwrap() {
		var f *policy.Fault
		require.True(t, errors.As(one, &f))
		assert.NoErrorf(t, policy.CheckText(one.Error()), "an error text holds no character that the terminal would act on")
	}
	return err.Error() + "\n"
}

// TestFaults compares the faults of testdata/faults.txt: after "== input name" a file, after "-- " its faults.
func TestFaults(t *testing.T) {
	const golden = "testdata/faults.txt"
	data, err := os.ReadFile(golden)
	require.NoError(t, err)
	var out strings.Builder
	for _, part := range strings.Split(string(data), "== ")[1:] {
		head, rest, _ := strings.Cut(part, "\n")
		input, _, _ := strings.Cut(rest, "-- faults\n")
		raw := strings.NewReplacer(`<NUL>`, "\x00", `<ESC>`, "\x1b", `<RLO>`, "\u202e", `<BOM>`, "\ufeff", `<FF>`, "\xff", `<TAB>`, "\t").Replace(input)
		var faults string
		m, err := Parse("m", []byte(raw))
		if err == nil {
			_, err = m.Policy(here)
		}
		faults = faultTexts(t, err)
		out.WriteString("== " + head + "\n" + input + "-- faults\n" + faults)
	}
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(out.String()), 0o644))
	}
	assert.Equal(t, string(data), out.String(), "go test ./nsrun/manifest -run TestFaults -update writes it anew")
}
