package bwrap

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
)

func parseAs(t *testing.T, uid int, f facts.Facts, line string) *plan.Plan {
	t.Helper()
	p, err := Parse(split(line), newWorld(uid, map[int][]byte{3: []byte("12345678"), 4: []byte("87654321")}).Caller, f)
	require.NoError(t, err, line)
	return p
}

func TestDefaults(t *testing.T) {
	p := parseAs(t, 1000, known, "x")
	assert.Equal(t, &plan.Plan{Version: plan.Version, Backend: "native", Command: []string{"x"}, Env: []string{"PATH=/bin", "HOME=/home/me", "PWD=/work"},
		Identity: plan.Identity{UID: 1000, GID: 1000, HostUID: 1000, HostGID: 1000}, Namespaces: []string{"user", "mount"}, Network: "host", LastCap: 40,
		Mechanisms: plan.Mechanisms{MountAPI: true, Openat2: true, CloseRange: true},
		Bwrap:      &plan.Bwrap{Dirs: []string{"/work", "/home/me"}, Users: plan.Users{FirstUID: 1000, FirstGID: 1000}}}, p)

	p = parseAs(t, 0, known, "x")
	assert.Equal(t, []string{"mount"}, p.Namespaces, "root gets none unasked")
	assert.True(t, p.Bwrap.KeepCaps)
	assert.Len(t, p.Bwrap.Caps, 41)
}

func TestNoMountsAreNil(t *testing.T) {
	assert.Nil(t, parse(t, "--unshare-all", "true", "one", "two", "three").Mounts, "plans are compared")
}

func TestNamespaces(t *testing.T) {
	none := known.With(facts.UserNS, facts.Answer{State: facts.No}).With(facts.CgroupNS, facts.Answer{State: facts.No})
	for _, c := range []struct {
		uid   int
		facts facts.Facts
		args  string
		want  []string
	}{
		{0, known, "--unshare-all x", []string{"user", "mount", "pid", "ipc", "uts", "net", "cgroup"}},
		{0, none, "--unshare-all x", []string{"mount", "pid", "ipc", "uts", "net"}},
		{0, none, "--unshare-user-try x", []string{"mount"}},
		{0, none, "--unshare-user x", []string{"user", "mount"}},
		{1000, none, "--unshare-user-try x", []string{"user", "mount"}},
		{0, known, "--unshare-all --share-net x", []string{"user", "mount", "pid", "ipc", "uts", "cgroup"}},
		{0, known, "--share-net --unshare-net x", []string{"mount", "net"}},
		{0, known, "--pidns 5 x", []string{"mount"}},
		{0, known, "--pidns 5 --unshare-pid --unshare-cgroup x", []string{"mount", "pid", "cgroup"}},
		{1000, known, "--userns 5 x", []string{"mount"}},
	} {
		p := parseAs(t, c.uid, c.facts, c.args)
		assert.Equal(t, c.want, p.Namespaces, "%d %s", c.uid, c.args)
		want := "host"
		for _, n := range c.want {
			if n == "net" {
				want = "none"
			}
		}
		assert.Equal(t, want, p.Network, c.args)
	}
}

func TestUsers(t *testing.T) {
	five := 5
	for _, c := range []struct {
		uid  int
		args string
		want plan.Users
	}{
		{1000, "--dev /dev x", plan.Users{Second: true}},
		{1000, "--dev /dev --uid 0 --gid 0 x", plan.Users{}},
		{1000, "--dev /dev --uid 0 x", plan.Users{Second: true}},
		{1000, "--uid 5 x", plan.Users{FirstUID: 5, FirstGID: 1000}},
		{1000, "--unshare-user --disable-userns x", plan.Users{FirstUID: 1000, FirstGID: 1000, Second: true, Disable: true}},
		{0, "--dev /dev x", plan.Users{}},
		{0, "--dev /dev --unshare-user --uid 7 x", plan.Users{Second: true}},
		{1000, "--dev /dev --unshare-user --userns-block-fd 5 --info-fd 6 x", plan.Users{FirstUID: 1000, FirstGID: 1000, Foreign: true}},
		{1000, "--userns 5 --dev /dev --uid 7 --assert-userns-disabled x", plan.Users{FirstUID: 7, FirstGID: 1000, FD: &five, Assert: true}},
	} {
		assert.Equal(t, c.want, parseAs(t, c.uid, known, c.args).Bwrap.Users, "%d %s", c.uid, c.args)
	}
}

func TestCapabilities(t *testing.T) {
	for _, c := range []struct {
		uid  int
		args string
		keep bool
		want int // how many
		has  []int
	}{
		{0, "x", true, 41, nil}, {0, "--cap-drop 5 x", false, 40, nil}, {0, "--cap-drop all --cap-add cap_kill --cap-add 12 x", false, 2, []int{5, 12}},
		{0, "--cap-add cap_kill x", false, 41, nil}, {1000, "x", false, 0, nil}, {1000, "--cap-add ALL x", false, 41, nil},
		{1000, "--cap-add 63 x", false, 0, nil}, {1000, "--cap-add cap_kill --cap-drop CAP_KILL x", false, 0, nil},
	} {
		b := parseAs(t, c.uid, known, c.args).Bwrap
		assert.Equal(t, c.keep, b.KeepCaps, c.args)
		assert.Len(t, b.Caps, c.want, c.args)
		if c.has != nil {
			assert.Equal(t, c.has, b.Caps, c.args)
		}
	}
}

func TestWaiterAndDescriptors(t *testing.T) {
	for _, c := range []struct {
		args     string
		waiter   bool
		consumed []int
	}{
		{"x", false, nil}, {"--unshare-pid x", true, nil}, {"--unshare-pid --as-pid-1 x", false, nil}, {"--lock-file /a x", true, nil},
		{"--sync-fd 9 x", true, []int{9}}, {"--unshare-pid --as-pid-1 --sync-fd 9 x", false, nil}, {"--pidns 9 x", false, []int{9}},
		{"--block-fd 8 --info-fd 7 --info-fd 6 --json-status-fd 5 --userns2 9 x", false, []int{5, 6, 8, 9}},
		{"--bind-fd 9 /a --file 3 /b --add-seccomp-fd 4 x", false, []int{3, 4, 9}}, {"--seccomp 3 x", false, []int{3}},
	} {
		b := parseAs(t, 1000, known, c.args).Bwrap
		assert.Equal(t, c.waiter, b.Waiter, c.args)
		assert.Equal(t, c.consumed, b.Consumed, c.args)
	}
}

func TestPlanOfTheRest(t *testing.T) {
	p := parseAs(t, 1000, known, "--argv0 a --chdir b --clearenv --unshare-uts --hostname c --hostname d --add-seccomp-fd 3 --add-seccomp-fd 4 --new-session --die-with-parent "+
		"--level-prefix --not-a-security-boundary --lock-file e --debug-opt=force-openat-fallback --debug-opt=force-mount-setattr-fallback x")
	b := p.Bwrap
	assert.Equal(t, "a", *b.Argv0)
	assert.Equal(t, "b", *b.Chdir)
	assert.Equal(t, []string{"/work"}, b.Dirs, "no HOME is left")
	assert.Equal(t, "d", p.Hostname)
	assert.Equal(t, []string{"c", "d"}, b.Hostnames)
	assert.Equal(t, [][]byte{[]byte("12345678"), []byte("87654321")}, b.Filters)
	assert.True(t, b.NewSession && b.DieWithParent && b.LevelPrefix && b.Lenient)
	assert.Equal(t, []string{"e"}, b.LockFiles)
	assert.Equal(t, plan.Mechanisms{CloseRange: true}, p.Mechanisms)
}

func TestLabels(t *testing.T) {
	w := newWorld(1000, nil)
	w.Labels = func(label string) error {
		if label == "bad" {
			return assert.AnError
		}
		return nil
	}
	p, err := Parse(split("--file-label one --tmpfs /a --exec-label e --file-label two x"), w.Caller, known)
	require.NoError(t, err)
	assert.Equal(t, "two", p.Mounts[0].Context, "the last one counts, for all")
	assert.Equal(t, "e", p.Bwrap.ExecLabel)
	assert.Len(t, w.warnings, 1)
	assert.Equal(t, "bwrap: invalid label bad: "+assert.AnError.Error(), refusal(t, w, split("--exec-label bad x")))
}

// TestOwnProgram: a command line that executes bubblewrap itself inside gets this program under that name, and no other command does.
func TestOwnProgram(t *testing.T) {
	for line, want := range map[string]string{
		"/proc/self/exe --version": "bwrap", "/proc/thread-self/exe x": "bwrap", "--argv0 other /proc/self/exe": "other", "/proc/1/exe": "", "x /proc/self/exe": "",
	} {
		got := ""
		if name := parseAs(t, 1000, known, line).Bwrap.Argv0; name != nil {
			got = *name
		}
		assert.Equal(t, want, got, line)
	}
}
