package main

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
)

func madeUp() report {
	f := facts.Facts{Kernel: "6.1\x1b[31m", Arch: "amd64", UID: 7, LandlockABI: 2, LandlockErrata: 5, LandlockRefused: []string{"truncate"},
		Distro: facts.Distro{ID: "debian", Name: "Debian\x07 12"}, Surroundings: []string{"docker", "wsl2"}}
	f = f.With(facts.UserNS, facts.Answer{State: facts.No, Detail: "clone: EPERM\x1b", Fix: "do\x1b this"})
	f = f.With(facts.Bwrap, facts.Answer{State: facts.Yes, Detail: "0.8.0 (/usr/bin/bwrap)"})
	f = f.With(facts.TimeNS, facts.Answer{State: facts.No, Detail: "too old"})
	return report{known: f, what: []string{"a", "b"}, missing: []plan.Note{
		{Feature: "user_namespace", Loss: "first", Found: "EPERM", Fix: "do this"}, {Feature: "landlock", Loss: "second", Fix: "do that"},
		{Feature: "mount_namespace", Loss: "third", Found: "EPERM", Fix: "do this"}, {Feature: "user_namespace", Loss: "first", Found: "EPERM", Fix: "do this"},
	}}
}

func TestDoctorSaysTheVerdictFirst(t *testing.T) {
	r := madeUp()
	r.all = true
	text := r.String()
	assert.True(t, strings.HasPrefix(text, `this host cannot enforce a and b
  user_namespace: first
      found: EPERM
      fix: do this
      also missing for this: mount_namespace
  landlock: second
      fix: do that

kernel 6.1?[31m amd64, uid 7, Landlock ABI 2 (errata fixed: 1 3)
Landlock rights that the kernel refuses: truncate
distribution Debian? 12
inside of docker, wsl2

`), text)
	assert.Contains(t, text, `
user_namespace         no       3.8  required
    found: clone: EPERM?
    lost:  no sandbox by the backend native
    fix:   do? this
`)
	assert.Contains(t, text, "\ntime_namespace         no       5.6\n    found: too old\n", "what is not required is no alarm")
	assert.Contains(t, text, "\nbwrap                  yes      3.8\n    found: 0.8.0 (/usr/bin/bwrap)\n")
	assert.NotContains(t, text, "\x1b")
	for _, row := range facts.Table {
		assert.Contains(t, text, "\n"+string(row.Name)+" ")
	}
	r.missing = nil
	assert.True(t, strings.HasPrefix(r.String(), "this host can enforce a and b\n\nkernel"))
}

// everything is a host on which each feature is there.
func everything() report {
	f := facts.Facts{Kernel: "6.1", Arch: "amd64", UID: 7, LandlockABI: 2}
	for _, row := range facts.Table {
		f = f.With(row.Name, facts.Answer{State: facts.Yes, Detail: "found"})
	}
	return report{known: f, what: []string{"the default policy"}, tested: plan.Acts[:2], degrade: "native",
		backends: []backendStatus{{Name: "native", Available: true}, {Name: "bwrap", Available: true}, {Name: "docker", Why: "none"}, {Name: "none", Available: true}}}
}

func TestDoctorIsShortOnAGoodHost(t *testing.T) {
	r := everything()
	assert.Equal(t, `this host can enforce the default policy
self-test: in a sandbox started for it, these failed as they must: read-outside write-outside

kernel 6.1 amd64, uid 7, Landlock ABI 2

namespaces    all 9
files         all 8
system calls  all 6
cgroups       all 5
network       all 2
backends      native, bwrap; not docker
with --fallback degrade a run would use native
nsrun doctor --all has a line for each feature and backend
`, r.String())
	r.known = r.known.With(facts.TimeNS, facts.Answer{State: facts.No}).With(facts.CgroupV1, facts.Answer{State: facts.No}).With(facts.Docker, facts.Answer{State: facts.No})
	text := r.String()
	assert.Contains(t, text, "\nnamespaces    8 of 9, not time_namespace\n")
	assert.Contains(t, text, "\ncgroups       4 of 5, not cgroup_v1\n")
	assert.NotContains(t, text, "missing", "nothing is lost without these")
}

// TestDoctorReportsACauseOnce, whatever depends on it, and nothing that the verdict has.
func TestDoctorReportsACauseOnce(t *testing.T) {
	r := everything()
	for _, name := range []facts.Name{facts.CgroupNS, facts.Overlay} {
		r.known = r.known.With(name, facts.Answer{State: facts.No, Detail: "it needs a user namespace", Fix: "allow it"})
	}
	r.known = r.known.With(facts.SeccompNotify, facts.Answer{State: facts.Unknown, Detail: "EIO", Fix: "retry"})
	assert.True(t, strings.HasSuffix(r.String(), `
missing, but not required
  cgroup_namespace: the sandbox's place in the cgroup tree stays in view
      found: it needs a user namespace
      fix: allow it
      also missing for this: overlay
  seccomp_notify: refused system calls cannot be handed to a supervisor
      found: EIO
      fix: retry
`), r.String())
	r.missing = []plan.Note{{Feature: "user_namespace", Loss: "no sandbox", Found: "EPERM", Fix: "allow it"}}
	text := r.String()
	assert.Equal(t, 1, strings.Count(text, "allow it"), text)
	assert.Contains(t, text, "seccomp_notify: ")
}

// TestDoctorOffersNoCgroupsWhereThereAreSome, of either version.
func TestDoctorOffersNoCgroupsWhereThereAreSome(t *testing.T) {
	r := everything()
	for _, name := range []facts.Name{facts.CgroupV2, facts.CgroupV1, facts.SystemdScope, facts.PidMax} {
		r.known = r.known.With(name, facts.Answer{State: facts.No, Detail: "d", Fix: "fix of " + string(name)})
	}
	assert.Equal(t, 1, strings.Count(r.String(), "fix of "), "one for the same loss: %s", r)
	assert.Contains(t, r.String(), "fix of cgroup_v2")
	r.known.Groups = []facts.Group{{Version: 1, Dir: "/g"}}
	assert.NotContains(t, r.String(), "fix of ")
}

func TestDoctorPrintsTheProfileThatItsFixLoads(t *testing.T) {
	r := everything()
	r.known.Program = facts.Program{Path: "/opt/nsrun"}
	r.missing = []plan.Note{{Feature: "user_namespace", Loss: "no sandbox", Found: "EPERM", Fix: r.known.Program.AppArmorFix()}}
	assert.Contains(t, r.String(), "\n  profile nsrun /opt/nsrun flags=(unconfined) {\n    userns,\n")
	r.missing[0].Fix = "something else"
	assert.NotContains(t, r.String(), "AppArmor")
}

func TestDoctorOnMirroredNetworking(t *testing.T) {
	r := everything()
	assert.NotContains(t, r.String(), "127.0.0.1")
	r.known.Surroundings = []string{"wsl2", "wsl2-mirrored"}
	assert.Contains(t, r.String(), "inside of wsl2, wsl2-mirrored\nwith --net host a sandbox reaches what listens on 127.0.0.1 in Windows")
}

func TestDoctorsColours(t *testing.T) {
	r := madeUp()
	r.colour, r.all = true, true
	text := r.String()
	assert.Contains(t, text, "\x1b[1;31mthis host cannot enforce a and b\x1b[0m\n")
	assert.Contains(t, text, "\nuser_namespace         \x1b[1;31mno      \x1b[0m 3.8")
	assert.Contains(t, text, "\ntime_namespace         no       5.6\n", "what is not required is no alarm")
	assert.Contains(t, text, "\nlandlock               \x1b[33munknown \x1b[0m 5.13")
	assert.Contains(t, text, "fix:   do? this", "what others wrote cannot colour")
	for _, c := range []struct {
		environ []string
		want    bool
	}{
		{nil, true}, {[]string{"TERM=xterm"}, true}, {[]string{"TERM=dumb"}, false}, {[]string{"NO_COLOR=1", "TERM=xterm"}, false},
		{[]string{"NO_COLOR=", "TERM=xterm"}, true},
	} {
		assert.Equal(t, c.want, coloured(c.environ), c.environ)
	}
}

func TestDoctorColoursATerminalAlone(t *testing.T) {
	needSandbox(t)
	for _, c := range []struct {
		env  string
		want bool
	}{{"TERM=xterm", true}, {"TERM=dumb", false}, {"NO_COLOR=1", false}} {
		master, slave := openPTY(t)
		cmd := exec.Command("nsrun", "doctor")
		cmd.Env, cmd.Stdout = append(os.Environ(), "TERM=xterm", "NO_COLOR=", c.env), slave
		require.NoError(t, cmd.Start())
		require.NoError(t, slave.Close())
		out, _ := io.ReadAll(master) // EIO, when the last one that has the terminal open is gone
		require.NoError(t, cmd.Wait())
		assert.Equal(t, c.want, strings.Contains(string(out), "\x1b[1;32mthis host can enforce"), c.env)
		assert.Equal(t, c.want, strings.Contains(string(out), "\x1b"), c.env)
	}
}

func TestDoctorOnBackends(t *testing.T) {
	r := madeUp()
	r.all = true
	r.backends = []backendStatus{{Name: "native", Why: "no\x1b"}, {Name: "landlock", Available: true, Version: "1", Loses: []string{"view"}}}
	assert.Contains(t, r.String(), "\nbackends (--backend)\nnative    not here\n    why:   no?\nlandlock  available  1\n    loses: view\nwith --fallback degrade a run would be refused all the same\n")
	r.degrade, r.missing, r.tested = "landlock", nil, plan.Acts[:2]
	assert.Contains(t, r.String(), "with --fallback degrade a run would use landlock\n")
	assert.Contains(t, r.String(), "\nself-test: in a sandbox started for it, these failed as they must: read-outside write-outside\n")
}
