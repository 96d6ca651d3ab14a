package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func compileFor(t *testing.T, p policy.Policy, f facts.Facts) *Plan {
	t.Helper()
	out, err := Compile(Request{Private: spare, Policy: p, Command: []string{"x"}, Environ: environ}, f)
	require.NoError(t, err)
	return out
}

func TestTraitsAreComplete(t *testing.T) {
	resolved := map[string]bool{}
	for _, row := range Traits {
		assert.NotEmpty(t, row.Promise, row.Name)
		assert.NotEmpty(t, row.Without, row.Name)
		assert.False(t, resolved[row.Name], "%s has two rows", row.Name)
		resolved[row.Name] = true
		assert.Equal(t, Carried, row.Backends[0].Grade, "%s: native gives every guarantee", row.Name)
		for i, cell := range row.Backends {
			if cell.Grade == Weaker {
				assert.NotEmpty(t, cell.Loss, "%s, %s: weaker says by what", row.Name, Backends()[i])
			}
			if cell.Grade == Carried {
				assert.Empty(t, cell.Loss, "%s, %s", row.Name, Backends()[i])
			}
		}
		got, ok := LookupTrait(row.Name)
		assert.True(t, ok)
		assert.Equal(t, row, got)
	}
	assert.Len(t, policy.Guarantees, len(resolved))
	for i, name := range policy.Guarantees {
		assert.Equal(t, Traits[i].Name, name, "the names of both tables, in the same order")
	}
	_, ok := LookupTrait("no_such")
	assert.False(t, ok)
}

// TestNoGuaranteeIsLostInSilence holds for every backend, host and policy here: a guarantee holds, or a note tells, or the policy has no
// use for it.
func TestNoGuaranteeIsLostInSilence(t *testing.T) {
	for name, pol := range map[string]policy.Policy{"workspace": workspacePolicy(), "network": networkPolicy()} {
		for _, b := range policy.Backends {
			for where, f := range hosts {
				p, err := Compile(Request{Private: spare, Policy: backend(pol, b), Command: []string{"x"}}, f)
				if err != nil {
					continue
				}
				for _, row := range Traits {
					useless := row.Name == "terminal" || row.Name == "device_modes" && f.UID != 0 ||
						pol.Network == policy.NetworkHost && (row.Name == "network" || row.Name == "loopback")
					noted := slices.ContainsFunc(p.Notes, func(n Note) bool { return n.Feature == row.Name })
					enforced := slices.Contains(p.Holds, row.Name)
					noted = noted || !enforced && p.Backend == BackendNone && strings.Contains(p.String(), "sandbox: the command runs without a sandbox: no guarantee holds but ")
					assert.True(t, enforced || noted || useless, "%s, backend %s, %s: %s is lost in silence", name, p.Backend, where, row.Name)
					assert.False(t, enforced && noted && row.Name != "landlock", "%s, backend %s, %s: %s holds and does not", name, p.Backend, where, row.Name)
				}
			}
		}
	}
}

func TestRequire(t *testing.T) {
	user := hosts["kernel 6.18, user"]
	pol := workspacePolicy()
	for _, row := range Traits {
		if row.Name != "limits" { // memory_mb
			pol.Require = append(pol.Require, row.Name)
		}
	}
	p := compileFor(t, pol, user)
	assert.Equal(t, BackendNative, p.Backend, "native holds what can be required")

	pol.Backend = policy.BackendLandlock
	_, err := Compile(Request{Private: spare, Policy: pol, Command: []string{"x"}}, user)
	var refused *CompatibilityError
	require.ErrorAs(t, err, &refused)
	var names []string
	for _, n := range refused.Unmet {
		names = append(names, n.Feature)
		assert.NotEmpty(t, n.Fix, n.Feature)
	}
	assert.Subset(t, names, []string{"view", "private_tmp", "process_view", "hostname", "loopback"}, "all at once")

	pol.Require = []string{"veiw", "sandbox", "nonsense"}
	_, err = Compile(Request{Private: spare, Policy: pol, Command: []string{"x"}}, user)
	assert.ErrorContains(t, err, `require[0]: "veiw" is not a guarantee`)
	assert.ErrorContains(t, err, `require[2]: "nonsense" is not a guarantee`)
}

func TestRequireIsStrongerThanDegrade(t *testing.T) {
	pol := degraded(workspacePolicy())
	pol.Require = []string{"landlock"}
	_, err := Compile(Request{Private: spare, Policy: pol, Command: []string{"x"}}, hosts["kernel 5.10, no Landlock, user"])
	assert.ErrorContains(t, err, "landlock: ")

	pol.Require = []string{"view"}
	_, err = Compile(Request{Private: spare, Policy: pol, Command: []string{"x"}}, hosts["kernel 6.18, root in a container"])
	var refused *CompatibilityError
	require.ErrorAs(t, err, &refused, "the ladder does not go below what is required")
	assert.Contains(t, err.Error(), "nor can the backend landlock: view: ")
}

func TestTheLadder(t *testing.T) {
	pol := degraded(workspacePolicy())
	for _, tt := range []struct {
		lacks []facts.Name
		want  string
	}{
		{nil, BackendNative},
		{[]facts.Name{facts.UserNS}, BackendBwrap},
		{[]facts.Name{facts.UserNS, facts.Bwrap}, BackendDocker},
		{[]facts.Name{facts.UserNS, facts.Bwrap, facts.Docker}, BackendDocker},
		{[]facts.Name{facts.UserNS, facts.Bwrap, facts.Docker, facts.Podman}, BackendLandlock},
		{[]facts.Name{facts.Landlock}, BackendNative},
	} {
		p := compileFor(t, pol, host("6.18", 7, 1000, tt.lacks...))
		assert.Equal(t, tt.want, p.Backend, tt.lacks)
		if p.Backend != BackendNative {
			assert.Contains(t, p.String(), "native cannot be used here: user_namespace")
		}
	}
	unasked := facts.Facts{Arch: "amd64", UID: 1, LandlockABI: 7, Answers: map[facts.Name]facts.Answer{facts.UserNS: {State: facts.No}}}
	assert.Equal(t, BackendLandlock, compileFor(t, pol, unasked).Backend, "a program that nobody has asked about is no rung")
	podman := compileFor(t, backend(pol, policy.BackendDocker), host("6.18", 7, 1000, facts.Docker))
	assert.Equal(t, "podman", podman.Container.CLI)
}

func TestStrictSaysWhatDegradeWouldDo(t *testing.T) {
	_, err := Compile(Request{Private: spare, Policy: workspacePolicy(), Command: []string{"x"}}, hosts["kernel 6.18, root in a container"])
	require.Error(t, err)
	assert.Contains(t, err.Error(), "with fallback degrade (--fallback degrade) the backend landlock would run it, without the guarantees view,")
}

func TestLandlockRefusesWhatTakesAMount(t *testing.T) {
	pol := backend(workspacePolicy(), policy.BackendLandlock)
	id := 7
	pol.UID, pol.Hostname = &id, "x"
	pol.FS = append(pol.FS,
		policy.FS{Kind: policy.Bind, Source: "/srv", Dest: "/elsewhere", Why: "one"},
		policy.FS{Kind: policy.Bind, Source: "/home/me/project/.git", Dest: "/home/me/project/.git", Why: "two"},
		policy.FS{Kind: policy.File, Dest: "/made", Why: "three"})
	_, err := Compile(Request{Private: spare, Policy: pol, Command: []string{"x"}, Terminal: true}, hosts["kernel 6.18, user"])
	for _, words := range []string{"/srv at /elsewhere (one)", "/home/me/project/.git (two) is to have fewer rights", "file /made (three)", "user namespace",
		"UTS namespace", "a terminal of the command's own"} {
		assert.ErrorContains(t, err, words)
	}
}

func TestLandlockListsNothingButGrants(t *testing.T) {
	p := compileFor(t, backend(workspacePolicy(), policy.BackendLandlock), hosts["kernel 6.18, user"])
	for _, rule := range p.Landlock.Paths {
		assert.NotEqual(t, "/", rule.Path, "rights on the root are rights on everything")
	}
	assert.NotZero(t, p.Landlock.HandledNet)
	assert.True(t, p.KillScope)
	assert.Equal(t, []string{"inet", "unix", "ipc", "processes"}, p.Seccomp.Refuse)
	old := compileFor(t, backend(networkPolicy(), policy.BackendLandlock), hosts["kernel 6.1, user"])
	assert.False(t, old.KillScope)
	assert.Equal(t, []string{"ipc", "processes", "sessions"}, old.Seccomp.Refuse, "the network is the host's, and a socket is granted")
	for _, name := range []string{"files", "processes", "kill_tree", "unix_sockets"} {
		assert.NotContains(t, old.Holds, name)
	}
}

func TestIsolationLevels(t *testing.T) {
	pol := workspacePolicy()
	pol.Isolation = policy.Subprocess
	p := compileFor(t, pol, hosts["kernel 6.18, user"])
	assert.Equal(t, BackendNone, p.Backend)
	assert.Equal(t, []string{"environment", "descriptors", "status"}, p.Holds, "memory_mb binds each process alone")
	assert.NotContains(t, strings.Join(p.Env, "\n"), "GH_TOKEN")
	assert.NotEmpty(t, p.Limits)

	pol.Isolation = policy.Permissive
	p = compileFor(t, pol, hosts["kernel 6.18, user"])
	assert.Equal(t, environ, p.Env, "as the caller would run it")
	assert.Empty(t, p.Limits)
	assert.NotContains(t, p.Holds, "environment")
	assert.Equal(t, pol.Timeout.String(), p.Timeout.String())
}

func TestDockerCarriesLimitsOfAllTogether(t *testing.T) {
	pol := backend(workspacePolicy(), policy.BackendDocker).WithLimit("pids", 50).WithLimit("cpu_percent", 150)
	p := compileFor(t, pol, hosts["kernel 6.18, root"])
	assert.Equal(t, &Container{CLI: "docker", Flags: []string{"--memory=536870912b", "--memory-swap=536870912b", "--pids-limit=50", "--cpu-period=100000", "--cpu-quota=150000"}}, p.Container)
	assert.Contains(t, p.Holds, "limits")
}

// TestDocsHaveTheTables compares the tables in doc with those in the code; -update writes them anew.
func TestDocsHaveTheTables(t *testing.T) {
	for name, table := range map[string]string{"backends.md traits": Markdown(), "manifest.md autonomy": AutonomyMarkdown(), "limits.md limits": LimitMarkdown()} {
		file, name, _ := strings.Cut(name, " ")
		testenv.DocTable(t, "../../doc/"+file, name, table, *update)
	}
}

// TestRefusedRightsWeaken holds for kernels that report rights and refuse them.
func TestRefusedRightsWeaken(t *testing.T) {
	f := host("6.18", 7, 1000)
	f.LandlockRefused = []string{"write_file", "make_reg"}
	p := compileFor(t, backend(workspacePolicy(), policy.BackendLandlock), f)
	assert.NotContains(t, p.Holds, "files")
	assert.NotContains(t, p.Holds, "landlock")
	f = host("7.2", 9, 1000)
	f.LandlockRefused = []string{"scope_abstract_unix"}
	p = compileFor(t, backend(workspacePolicy(), policy.BackendLandlock), f)
	assert.Contains(t, p.Seccomp.Refuse, "unix", "nothing else keeps abstract sockets away")
	assert.Contains(t, p.Holds, "unix_sockets")
	old := compileFor(t, backend(workspacePolicy(), policy.BackendLandlock), host("5.15", 1, 1000))
	assert.Contains(t, old.String(), "files that can be read can be cut short")
}

func TestWithoutABuiltinFilter(t *testing.T) {
	for b, lost := range map[policy.Backend][]string{
		policy.BackendNative: {"network", "seccomp"}, policy.BackendBwrap: {"network", "privileges"}, policy.BackendDocker: {"network", "privileges", "keyring"},
		policy.BackendLandlock: {"privileges", "keyring"},
	} {
		pol := backend(workspacePolicy(), b)
		pol.Seccomp.Filter = policy.SeccompOff
		p := compileFor(t, pol, hosts["kernel 6.18, user"])
		for _, name := range lost {
			assert.NotContains(t, p.Holds, name, b)
		}
	}
}

func TestTmpfsLimitNeedsATmpfs(t *testing.T) {
	pol := backend(policy.Default("/home/me"), policy.BackendLandlock).WithLimit("tmpfs_mb", 1)
	_, err := Compile(Request{Private: spare, Policy: pol, Command: []string{"x"}}, hosts["kernel 6.18, user"])
	assert.ErrorContains(t, err, "tmpfs_mb: the backend landlock has no private file systems to bound")
}
