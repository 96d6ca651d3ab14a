package plan

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/rlimit/cgroup"
	"github.com/nsrun/nsrun/seccomp"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the goldens anew")

// host returns hand-written facts, complete and without asking any kernel.
func host(kernel string, abi, uid int, lacks ...facts.Name) facts.Facts {
	f := facts.Facts{Kernel: kernel, Arch: "amd64", UID: uid, GID: uid, LastCap: 40, LandlockABI: abi, Answers: map[facts.Name]facts.Answer{}}
	for _, row := range facts.Table {
		f.Answers[row.Name] = facts.Answer{State: facts.Yes}
	}
	for _, name := range lacks {
		f.Answers[name] = facts.Answer{State: facts.No}
	}
	return f
}

var hosts = map[string]facts.Facts{
	"kernel 5.10, no Landlock, user":  host("5.10.0-28-amd64", 0, 1000, facts.Landlock, facts.MountAPI, facts.Overlay),
	"kernel 6.1, user":                host("6.1.0-25-amd64", 2, 1000),
	"kernel 6.12, user":               host("6.12.1", 6, 1000),
	"kernel 6.18, user":               host("6.18.0", 7, 1000),
	"kernel 6.18, root":               host("6.18.0", 7, 0),
	"kernel 6.18, no user namespaces": host("6.18.0", 7, 1000, facts.UserNS),
	"kernel 6.18, root in a container": host("6.18.0", 7, 0, facts.UserNS, facts.MountNS, facts.PidNS, facts.NetNS, facts.IpcNS, facts.UtsNS, facts.CgroupNS, facts.ProcMount,
		facts.MountAPI, facts.MountSetattr, facts.Overlay, facts.Bwrap, facts.Docker, facts.Podman),
	"kernel 5.15 in a container, user": host("5.15.0", 1, 1000, facts.UserNS, facts.Bwrap, facts.Docker, facts.Podman),
	"kernel 5.10 in a container, user": host("5.10.0", 0, 1000, facts.UserNS, facts.Landlock, facts.Bwrap, facts.Docker, facts.Podman),
	"kernel 5.4, name by name":         host("5.4.0", 0, 1000, facts.Landlock, facts.MountAPI, facts.Overlay, facts.Openat2, facts.CloseR),
	"nothing asked yet":                {Kernel: "6.18.0", Arch: "arm64", UID: 1000, GID: 1000, LastCap: 40, LandlockABI: 7},
}

// TestLocksOfPackagesAreCovered holds that no process in the sandbox can open a lock file of a package database that its user could open on the host.
func TestLocksOfPackagesAreCovered(t *testing.T) {
	covered := func(p policy.Policy, f facts.Facts) (all []string) {
		p, err := policy.Normalize(p, policy.Operator{})
		require.NoError(t, err)
		compiled, err := Compile(Request{Policy: p, Command: []string{"true"}}, f)
		require.NoError(t, err)
		for _, op := range compiled.Mounts {
			if op.Kind == mounts.Mask && op.Why == "locks the host's packages" {
				all = append(all, op.Dest)
			}
		}
		return all
	}
	user, root := hosts["kernel 6.18, user"], hosts["kernel 6.18, root"]
	rpm := []string{"/var/lib/rpm/.rpm.lock", "/usr/lib/sysimage/rpm/.rpm.lock", "/usr/share/rpm/.rpm.lock",
		"/var/lib/rpm/.dbenv.lock", "/usr/lib/sysimage/rpm/.dbenv.lock", "/usr/share/rpm/.dbenv.lock"}
	rest := []string{"/var/lib/dpkg/lock", "/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/triggers/Lock", "/lib/apk/db/lock", "/usr/lib/apk/db/lock", "/etc/.pwd.lock"}
	assert.ElementsMatch(t, rpm, covered(policy.Default("/home/me"), user), "others than root cannot open the rest")
	assert.ElementsMatch(t, append(rest, rpm...), covered(policy.Default("/home/me"), root))
	asked := policy.Default("/home/me").Grant("/var/lib", false, "--ro").Grant("/usr/lib/apk/db/lock", false, "--ro")
	assert.ElementsMatch(t, []string{"/lib/apk/db/lock", "/etc/.pwd.lock", rpm[1], rpm[2], rpm[4], rpm[5]}, covered(asked, root), "what is asked for is shown as it is")
	assert.Empty(t, covered(policy.Policy{}, root), "nothing of them is in view")
}

func workspacePolicy() policy.Policy {
	p := policy.Default("/home/me")
	p = p.Grant("/home/me/project", true, "--workspace").Grant("/home/me/notes", false, "fs:read hint ~/notes/**")
	p.Dir = "/home/me/project"
	p.Env = policy.Env{Pass: []string{"EDITOR", "GH_TOKEN"}, Set: []policy.Var{{Name: "GREETING", Value: "hello there"}}}
	p.Timeout = 30 * time.Second
	p = p.WithLimit("open_files", 256).WithLimit("cpu_seconds", 10).WithLimit("memory_mb", 512)
	p, _ = policy.Normalize(p, policy.Operator{})
	return p
}

func networkPolicy() policy.Policy {
	p := workspacePolicy()
	p.Network = policy.NetworkHost
	p.Seccomp = policy.Seccomp{Filter: "compute", Deny: []string{"prctl"}}
	p.FS = append(p.FS, policy.FS{Kind: policy.Socket, Source: "/run/mcp.sock", Dest: "/run/mcp.sock", Write: true, Why: "sockets[0]"})
	return p
}

// toolsPolicy has what presets add: a copy of a cache, places, files, and a private directory with some of the host's.
func toolsPolicy() policy.Policy {
	p := workspacePolicy()
	p.Tools = []string{"git", "go", "gpg"}
	for _, e := range []policy.FS{
		{Kind: policy.Overlay, Source: "/home/me/.cache/go-build", Dest: "/home/me/.cache/go-build", Write: true, Optional: true, Tool: "go", Variable: "EDITOR"},
		{Kind: policy.Bind, Source: "/home/me/go/pkg/mod", Dest: "/home/me/go/pkg/mod", Optional: true, Quiet: true, Tool: "go"},
		{Kind: policy.File, Dest: "/home/me/.gitconfig", Data: []byte("[user]\n"), Optional: true, Quiet: true, Tool: "git"},
		{Kind: policy.Tmpfs, Dest: "/home/me/.gnupg", Write: true, Mode: 0o700, Tool: "gpg"},
		{Kind: policy.Bind, Source: "/home/me/.gnupg/pubring.kbx", Dest: "/home/me/.gnupg/pubring.kbx", Optional: true, Tool: "gpg"},
		{Kind: policy.File, Dest: "/home/me/.gnupg/trustdb.gpg", Data: []byte("trust"), Mode: 0o600, Optional: true, Quiet: true, Tool: "gpg"},
	} {
		e.Why = "tool " + e.Tool
		p.FS = append(p.FS, e)
	}
	p, _ = policy.Normalize(p, policy.Operator{})
	return p
}

func degraded(p policy.Policy) policy.Policy {
	p.Fallback = policy.Degrade
	return p
}

func backend(p policy.Policy, b policy.Backend) policy.Policy {
	p.Backend, p.SelfTest = b, b != policy.BackendNone
	return p
}

// spare is where plans have their private directory.
var spare = PrivatePlace{Dir: "/home/me/.local/state/nsrun/run/NAME"}

var environ = []string{"LANG=C.UTF-8", "TERM=xterm", "EDITOR=vi", "GH_TOKEN=secret", "LD_PRELOAD=/evil.so", "HOME=/home/me"}

// TestGoldens plans each policy for each host. The result is a plan's text, or the refusal.
func TestGoldens(t *testing.T) {
	policies := map[string]policy.Policy{
		"landlock": backend(workspacePolicy(), policy.BackendLandlock), "none": backend(workspacePolicy(), policy.BackendNone),
		"docker": backend(workspacePolicy(), policy.BackendDocker), "bwrap": backend(workspacePolicy(), policy.BackendBwrap),
		"default": policy.Default("/home/me"), "workspace": workspacePolicy(), "network": networkPolicy(), "degrade": degraded(workspacePolicy()),
		"tools": toolsPolicy(), "tools-landlock": backend(toolsPolicy(), policy.BackendLandlock),
	}
	for name, pol := range policies {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", name+".txtar")
			got := &txtar.Archive{Comment: []byte("Plans of policy " + name + ". go test ./nsrun/plan -update writes this file anew; review it like code.\n\n")}
			for _, h := range sortedKeys(hosts) {
				text := ""
				p, err := Compile(Request{Private: spare, Policy: pol, Command: []string{"python3", "a tool.py"}, Environ: environ}, hosts[h])
				if err != nil {
					text = "refused: " + err.Error() + "\n"
				} else {
					text = p.String()
				}
				got.Files = append(got.Files, txtar.File{Name: h, Data: []byte(text)})
			}
			if *update {
				require.NoError(t, os.MkdirAll("testdata", 0o755))
				require.NoError(t, os.WriteFile(file, txtar.Format(got), 0o644))
				return
			}
			want, err := txtar.ParseFile(file)
			require.NoError(t, err)
			require.Equal(t, len(want.Files), len(got.Files), "a host was added or removed: run with -update")
			for i := range got.Files {
				assert.Equal(t, want.Files[i].Name, got.Files[i].Name)
				assert.Equal(t, string(want.Files[i].Data), string(got.Files[i].Data), got.Files[i].Name)
			}
		})
	}
}

func sortedKeys[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	for i := range keys {
		for j := i; j > 0 && keys[j] < keys[j-1]; j-- {
			keys[j], keys[j-1] = keys[j-1], keys[j]
		}
	}
	return keys
}

func TestStrictRefusesAndListsEveryLackWithItsFix(t *testing.T) {
	f := host("4.19", 0, 1000, facts.UserNS, facts.Landlock, facts.Seccomp)
	f = f.With(facts.UserNS, facts.Answer{State: facts.No, Fix: "sysctl -w kernel.unprivileged_userns_clone=1"})
	_, err := Compile(Request{Private: spare, Policy: policy.Policy{}, Command: []string{"true"}}, f)
	var refused *CompatibilityError
	require.ErrorAs(t, err, &refused)
	require.Len(t, refused.Unmet, 3)
	assert.Contains(t, err.Error(), "sysctl -w kernel.unprivileged_userns_clone=1", "the probe's own fix goes before the table's")
	for _, n := range refused.Unmet {
		assert.NotEmpty(t, n.Fix)
	}
}

func TestDegradeNeverComesToNone(t *testing.T) {
	bare := host("6.18", 7, 1000, facts.UserNS, facts.Landlock, facts.Bwrap, facts.Docker, facts.Podman)
	_, err := Compile(Request{Private: spare, Policy: policy.Policy{Fallback: policy.Degrade}, Command: []string{"true"}}, bare)
	var refused *CompatibilityError
	require.ErrorAs(t, err, &refused, "to go without a sandbox takes a word of its own")
	assert.Contains(t, err.Error(), "user_namespace: ")
	assert.Contains(t, err.Error(), "nor can the backend bwrap: ", "each backend says why not")
	assert.Contains(t, err.Error(), "nor can the backend landlock: ")
}

func TestDegradeNotesEachLoss(t *testing.T) {
	p, err := Compile(Request{Private: spare, Policy: policy.Policy{Fallback: policy.Degrade}, Command: []string{"true"}},
		host("6.18", 0, 1000, facts.Landlock, facts.Seccomp, facts.CgroupNS))
	require.NoError(t, err)
	var features []string
	for _, n := range p.Notes {
		features = append(features, n.Feature)
	}
	assert.ElementsMatch(t, []string{"landlock", "seccomp", "cgroup_namespace", "network"}, features)
	assert.Nil(t, p.Landlock)
	assert.Nil(t, p.Seccomp)
}

func TestEveryLimitIsPlannedOrRefused(t *testing.T) {
	for _, l := range policy.LimitTable {
		p := policy.Policy{}.WithLimit(l.Name, max(1, l.Max/4))
		_, err := Compile(Request{Private: spare, Policy: p, Command: []string{"true"}}, hosts["kernel 6.18, user"])
		var refused *CompatibilityError
		if err != nil && !errors.As(err, &refused) {
			t.Errorf("%s: %v", l.Name, err)
		}
	}
}

func TestPidsAsRootIsRefusedNotIgnored(t *testing.T) {
	_, err := Compile(Request{Private: spare, Policy: policy.Policy{}.WithLimit("pids", 10), Command: []string{"true"}}, hosts["kernel 6.18, root"])
	require.ErrorContains(t, err, "RLIMIT_NPROC does not bind")
}

func TestCommandIsChecked(t *testing.T) {
	for _, command := range [][]string{nil, {}, {""}, {"a\x00b"}, {"a", "b\x00"}} {
		_, err := Compile(Request{Private: spare, Command: command}, hosts["kernel 6.18, user"])
		assert.Error(t, err, "%q", command)
	}
}

func TestPlanSurvivesJSON(t *testing.T) {
	for name, f := range hosts {
		p, err := Compile(Request{Private: spare, Policy: degraded(networkPolicy()), Command: []string{"x", "\x01"}, Environ: environ, Terminal: true}, f)
		if err != nil {
			continue
		}
		data, err := json.Marshal(p)
		require.NoError(t, err)
		var back Plan
		require.NoError(t, json.Unmarshal(data, &back))
		again, err := json.Marshal(&back)
		require.NoError(t, err)
		assert.Equal(t, string(data), string(again), name)
		assert.Equal(t, p.String(), back.String(), name)
	}
}

// TestEveryFieldIsInTheText changes each field of a plan and expects another text: a new field fails until String knows it.
func TestEveryFieldIsInTheText(t *testing.T) {
	silent := map[string]bool{"Version": true, "LastCap": true} // constants of the format and of the host's kernel
	base, err := Compile(Request{Private: spare, Policy: networkPolicy(), Command: []string{"x"}}, hosts["kernel 6.18, user"])
	require.NoError(t, err)
	for i := range reflect.TypeFor[Plan]().NumField() {
		field := reflect.TypeFor[Plan]().Field(i)
		changed := *base
		v := reflect.ValueOf(&changed).Elem().Field(i)
		switch v.Kind() {
		case reflect.String:
			v.SetString(v.String() + "x")
		case reflect.Int, reflect.Int64:
			v.SetInt(v.Int() + int64(time.Second))
		case reflect.Bool:
			v.SetBool(!v.Bool())
		default:
			v.SetZero()
		}
		if field.Name == "Notes" {
			changed.Notes = []Note{{Feature: "a", Loss: "b"}}
		}
		switch field.Name {
		case "Bwrap":
			changed.Bwrap = &Bwrap{}
		case "Container":
			changed.Container = &Container{CLI: "podman"}
		case "Scope":
			changed.Scope = &Scope{Socket: "/run/x"}
		case "Cgroups":
			changed.Cgroups = []cgroup.Tree{{Version: 2, Dir: "/x"}}
		case "EnforcedBy":
			changed.EnforcedBy = []Enforcement{{Limit: "a=1", By: "b"}}
		case "SelfTest":
			changed.SelfTest = []Act{ActMount}
		case "Allow":
			changed.Allow = &Allow{Rules: []string{"example.com"}, Step: StepRedirect}
		case "Explain":
			changed.Explain = &Explain{Calls: []string{"open"}}
		case "Tools":
			changed.Tools = []string{"go"}
		case "Private":
			changed.Private = &Private{Dir: "/x"}
		case "Audit":
			changed.Audit = []string{"/a.jsonl"}
		case "Labels":
			changed.Labels = []policy.Var{{Name: "task", Value: "1"}}
		}
		assert.Equal(t, silent[field.Name], changed.String() == base.String(), "field %s", field.Name)
	}
}

// TestEveryPolicyFieldReachesThePlan does the same for policies.
func TestEveryPolicyFieldReachesThePlan(t *testing.T) {
	// They show only on a host, or with a backend, that lacks something: TestDegradeNotesEachLoss, TestRequire.
	explained := map[string]bool{"Fallback": true, "Require": true,
		"CommandRules": true} // definitions, which are asked before there is a plan
	explained["AllowMost"] = true      // for what is allowed later
	explained["ManifestSHA256"] = true // for audit logs, which whoever runs a plan keeps
	plain := policy.Policy{FS: []policy.FS{{Kind: policy.Bind, Source: "/etc", Dest: "/etc"}}}
	text := func(p policy.Policy) string {
		out, err := Compile(Request{Private: spare, Policy: p, Command: []string{"x"}, Environ: environ, Rule: "x"}, hosts["kernel 6.18, user"])
		require.NoError(t, err)
		data, err := json.Marshal(out)
		require.NoError(t, err)
		return string(data)
	}
	id := 5
	for i := range reflect.TypeFor[policy.Policy]().NumField() {
		name := reflect.TypeFor[policy.Policy]().Field(i).Name
		base := plain
		if strings.HasPrefix(name, "Protect") {
			base = base.Grant("/w", true, "x")
		}
		p := base
		switch v := reflect.ValueOf(&p).Elem().Field(i); name {
		case "FS":
			p.FS = nil
		case "Env":
			p.Env = policy.Env{Pass: []string{"EDITOR"}}
		case "Network":
			p.Network = policy.NetworkHost
		case "Allow":
			p.Network, p.Allow = policy.NetworkAllow, []string{"example.com"}
		case "ProxyEnv":
			p.Network, p.ProxyEnv = policy.NetworkAllow, true
		case "UID", "GID":
			v.Set(reflect.ValueOf(&id))
		case "Limits":
			p.Limits = []policy.Limit{{Name: "core", Value: 0}}
		case "Seccomp":
			p.Seccomp.Filter = policy.SeccompOff
		case "Audit":
			p.Audit = []string{"/a.jsonl"}
		case "Labels":
			p.Labels = []policy.Var{{Name: "task", Value: "1"}}
		case "Tools":
			p.Tools = []string{"go"}
		case "ProtectPaths":
			p.ProtectPaths = []string{"/elsewhere"}
		case "Notes":
			p.Notes = []Note{{Feature: "a", Loss: "b"}}
		default:
			switch v.Kind() {
			case reflect.String:
				v.SetString("/x")
				if name == "Hostname" {
					v.SetString("x")
				}
				if name == "Fallback" {
					v.SetString("degrade")
				}
				if name == "Backend" {
					v.SetString("bwrap")
				}
				if name == "Autonomy" {
					v.SetString("readonly")
				}
				if name == "Explain" {
					v.SetString("on")
				}
				if name == "Protect" {
					v.SetString("off")
				}
				if name == "Isolation" {
					v.SetString("subprocess")
				}
			case reflect.Bool:
				v.SetBool(true)
			case reflect.Int64:
				v.SetInt(int64(time.Minute))
			}
		}
		if !explained[name] {
			assert.NotEqual(t, text(base), text(p), "policy field %s changes nothing in a plan", name)
		}
	}
}

// TestReadOnlyHoldsWhoeverAsks: nothing is planned for a policy that no front end has narrowed.
func TestReadOnlyHoldsWhoeverAsks(t *testing.T) {
	pol := networkPolicy()
	pol.Autonomy = policy.ReadOnly
	_, err := Compile(Request{Private: spare, Policy: pol, Command: []string{"x"}}, hosts["kernel 6.18, user"])
	require.ErrorContains(t, err, "it has more than autonomy readonly")
	pol, err = policy.Normalize(pol, policy.Operator{})
	require.NoError(t, err)
	a := compileFor(t, pol, hosts["kernel 6.18, user"])
	assert.Equal(t, "none", a.Network)
	for _, op := range a.Mounts {
		assert.False(t, op.Kind == mounts.Bind && !op.Flags.Has(mounts.ReadOnly), op.Dest)
	}
	for _, rule := range a.Landlock.Paths {
		if strings.HasPrefix(rule.Path, "/home/") && rule.Path != pol.Home {
			assert.NotContains(t, rule.Access.Names(), "write_file", rule.Path)
		}
		if rule.Access&landlock.WriteFile != 0 {
			assert.Zero(t, rule.Access&landlock.Execute, rule.Path)
		}
	}
}

// TestACommandNobodyHasCheckedIsNotPlanned: under command rules, forgetting to check by them is an error and not a run.
func TestACommandNobodyHasCheckedIsNotPlanned(t *testing.T) {
	pol := policy.Policy{Commands: "passive"}
	_, err := Compile(Request{Private: spare, Policy: pol, Command: []string{"x"}}, hosts["kernel 6.18, user"])
	assert.ErrorContains(t, err, "bug: nothing has checked the command by the command rules passive")
	p, err := Compile(Request{Private: spare, Policy: pol, Command: []string{"x"}, Rule: "x FILE", RuleEnv: []string{"A=2", "HOME=/x"}, Environ: []string{"A=1"}}, hosts["kernel 6.18, user"])
	require.NoError(t, err)
	assert.Subset(t, p.Env, []string{"A=2", "HOME=/x"}, "what a rule sets wins")
	assert.Contains(t, p.String(), `commands    passive, by the rule "x FILE"`)
	pol.Isolation = policy.Permissive
	p, err = Compile(Request{Private: spare, Policy: pol, Command: []string{"x"}, Rule: "x", RuleEnv: []string{"A=2"}, Environ: []string{"A=1", "B=1"}}, hosts["kernel 6.18, user"])
	require.NoError(t, err)
	assert.Equal(t, []string{"B=1", "A=2"}, p.Env, "once")
	_, err = Compile(Request{Private: spare, Policy: policy.Policy{Commands: "passive"}, Session: true}, hosts["kernel 6.18, user"])
	assert.NoError(t, err, "a session's commands are checked one by one")
}

// TestDroppedVariablesAreReported, with the reason: a secret, or a hook that was not named.
func TestDroppedVariablesAreReported(t *testing.T) {
	p := policy.Policy{Env: policy.Env{All: true, Pass: []string{"EDITOR"}, Set: []policy.Var{{Name: "PATH", Value: "/bin:.:/usr/bin"}}}}
	out, err := Compile(Request{Private: spare, Policy: p, Command: []string{"x"}, Environ: append([]string{"LD_AUDIT=/evil.so", "BASH_ENV=/evil"}, environ...)}, hosts["kernel 6.18, user"])
	require.NoError(t, err)
	text := out.String()
	for _, want := range []string{
		"env: not passed, because the names look like secrets: GH_TOKEN (set them",
		"env: not passed with the rest, because the loader and the C library act on it: LD_AUDIT, LD_PRELOAD (name those that are needed with pass_env or --env)",
		"env: not passed with the rest, because shells act on it: BASH_ENV (",
		`env: PATH holds ".": programs are looked for in whatever directory a command happens to be (give absolute directories alone)`,
		"\n      EDITOR=vi\n", "\n      HOME=/\n",
	} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "evil", "no value of theirs is told")
}

func TestLandlockNeverAllowsMoreThanTheMounts(t *testing.T) {
	p, err := Compile(Request{Private: spare, Policy: workspacePolicy(), Command: []string{"x"}}, hosts["kernel 6.18, user"])
	require.NoError(t, err)
	for _, rule := range p.Landlock.Paths {
		for _, op := range p.Mounts {
			if op.Dest == rule.Path && op.Kind == mounts.Bind && op.Flags.Has(mounts.ReadOnly) {
				assert.NotContains(t, rule.Access.Names(), "write_file", rule.Path)
				assert.NotContains(t, rule.Access.Names(), "make_reg", rule.Path)
			}
		}
		assert.NotContains(t, rule.Access.Names(), "make_char")
		assert.NotContains(t, rule.Access.Names(), "make_block")
	}
}

func TestTextShowsNoControlCharacters(t *testing.T) {
	p, err := Compile(Request{Private: spare, Policy: policy.Policy{}, Command: []string{"a\x1b[31m", "b\nnotes", "c\u202e"}}, hosts["kernel 6.18, user"])
	require.NoError(t, err)
	assert.False(t, strings.ContainsAny(p.String(), "\x1b\u202e"))
	assert.Contains(t, p.String(), `"b\nnotes"`)
}

// TestReadOnlyLeavesAreKeptInPlace holds that no directory between a writable grant and a read-only one in it can be renamed (FS15).
func TestReadOnlyLeavesAreKeptInPlace(t *testing.T) {
	pol := policy.Default("/home/me").Grant("/w", true, "--workspace").Grant("/w/a/b/leaf", false, "--ro").Grant("/w/a/other", false, "--ro").
		Grant("/w/direct", false, "--ro")
	pol, _ = policy.Normalize(pol, policy.Operator{})
	p, err := Compile(Request{Private: spare, Policy: pol, Command: []string{"x"}}, hosts["kernel 6.18, user"])
	require.NoError(t, err)
	var at []string
	for _, op := range p.Mounts {
		if strings.HasPrefix(op.Dest, "/w") {
			at = append(at, op.Dest)
		}
	}
	assert.ElementsMatch(t, []string{"/w", "/w/direct", "/w/a", "/w/a/other", "/w/a/b", "/w/a/b/leaf"}, at)
	assert.Less(t, slices.Index(at, "/w/a"), slices.Index(at, "/w/a/other"))
	assert.Less(t, slices.Index(at, "/w/a/b"), slices.Index(at, "/w/a/b/leaf"))
}

func TestPoliciesNameTheSeccompFiltersThereAre(t *testing.T) {
	assert.Equal(t, append(seccomp.Names(), policy.SeccompOff), policy.SeccompFilters)
}
