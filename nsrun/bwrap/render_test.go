package bwrap

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/rlimit"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := "testdata/" + name
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), got, "%s: run with -update to accept", name)
}

func TestUsageText(t *testing.T) {
	text := usageText("bwrap", options[:])
	golden(t, "usage.txt", text)
	for _, row := range options {
		assert.Contains(t, text, "\n    "+row.synopsis()+" ", "clients look for it")
	}
	for line := range strings.Lines(text) {
		assert.LessOrEqual(t, len(line), 121, line)
	}
}

// again parses what has been rendered.
func again(t *testing.T, w *world, r Rendered) *plan.Plan {
	t.Helper()
	w.fds = map[int][]byte{}
	for _, b := range r.Data {
		w.fds[b.FD] = b.Data
	}
	p, err := Parse(r.Args, w.Caller, known)
	require.NoError(t, err, "%q", r.Args)
	assert.Empty(t, w.fds, "everything given is read")
	return p
}

func TestRenderIsReadBack(t *testing.T) {
	for _, line := range []string{
		"x -- --y",
		"--argv0 \"\" --level-prefix --unshare-all --share-net --hostname a --hostname b --chdir /c --setenv A b --unsetenv PATH x",
		"--userns 10 --userns2 11 --pidns 12 --block-fd 13 --json-status-fd 14 --sync-fd 15 --sync-fd 16 --file 3 /f --add-seccomp-fd 4 x",
		"--unshare-user --userns-block-fd 10 --info-fd 11 --uid 5 --gid 6 --assert-userns-disabled --lock-file /l --new-session --die-with-parent x",
		"--unshare-user --unshare-pid --as-pid-1 --disable-userns --cap-drop ALL --cap-add cap_kill --cap-add 12 --not-a-security-boundary x",
		"--tmpfs / --perms 0 --dir /a --size 4096 --perms 1777 --tmpfs /t --bind-fd 10 /b --ro-bind-fd 11 /c --ro-bind-data 3 /d --bind-data 4 /e --symlink t /s " +
			"--chmod 7777 /a --remount-ro / --proc /proc --dev /dev --mqueue /m --overlay-src a --overlay-src b --overlay u w /o --overlay-src a --tmp-overlay /o2 " +
			"--overlay-src a --overlay-src b --ro-overlay /o3 --dev-bind-try a b --ro-bind-try c d --bind-try e f --debug-opt=force-openat-fallback x",
	} {
		for _, uid := range []int{0, 1000} {
			if uid == 1000 && strings.Contains(line, "--cap-add 12") {
				uid = 7
			}
			w := newWorld(uid, map[int][]byte{3: []byte("12345678"), 4: []byte("87654321")})
			p, err := Parse(split(line), w.Caller, known)
			require.NoError(t, err, line)
			r, err := Render(p, 10)
			require.NoError(t, err)
			assert.Empty(t, r.Losses)
			q := again(t, w, r)
			s, err := Render(q, 10)
			require.NoError(t, err)
			assert.Equal(t, r, s, "a rendered line is rendered the same")
			assert.Equal(t, q, again(t, w, s))
			p.Bwrap.Consumed, q.Bwrap.Consumed = nil, nil
			assert.Equal(t, p, q, line)
		}
	}
}

func nativePlan() *plan.Plan {
	safe := mounts.Flags{mounts.ReadOnly, mounts.NoSuid, mounts.NoDev}
	return &plan.Plan{Version: plan.Version, Backend: "native", Command: []string{"/bin/sh", "-c", "true"}, Dir: "/work", Env: []string{"PATH=/bin", "broken"},
		Identity: plan.Identity{UID: 1000, GID: 1000, HostUID: 0, HostGID: 0}, Hostname: "sandbox", Network: "none", Terminal: true,
		Namespaces: []string{plan.User, plan.Mount, plan.Pid, plan.Ipc, plan.Uts, plan.Net, plan.Cgroup},
		Landlock:   &plan.Landlock{}, Limits: []rlimit.Limit{rlimit.Both("NOFILE", 64)},
		Seccomp: &plan.Seccomp{Filter: "default", Deny: []string{"ptrace", "bpf"}, Raw: make([]byte, 8)},
		Mounts: []mounts.Op{
			{Kind: mounts.Bind, Source: "/usr", Dest: "/usr", Flags: safe},
			{Kind: mounts.Bind, Source: "/bin", Dest: "/bin", Flags: safe, KeepLink: true},
			{Kind: mounts.Bind, Source: "/opt", Dest: "/opt", Flags: safe, Optional: true},
			{Kind: mounts.Bind, Source: "/home/me/w", Dest: "/work", Flags: mounts.Flags{mounts.NoSuid, mounts.NoDev, mounts.NoExec}, NoFollow: true, Within: []string{"/home/me"}, Only: "directory"},
			{Kind: mounts.Bind, Source: "/home/me/w/.git", Dest: "/work/.git", Flags: safe},
			{Kind: mounts.Tmpfs, Dest: "/tmp", Mode: 0o1777, Size: 1 << 20, Inodes: 7, Flags: mounts.Flags{mounts.NoSuid, mounts.NoDev}},
			{Kind: mounts.Tmpfs, Dest: "/empty", Flags: safe},
			{Kind: mounts.Proc, Dest: "/proc"}, {Kind: mounts.Dev, Dest: "/dev"}, {Kind: mounts.Dir, Dest: "/run"},
			{Kind: mounts.Symlink, Source: "run", Dest: "/var"},
			{Kind: mounts.File, Dest: "/etc/hostname", Data: []byte("sandbox\n"), Optional: true, FollowDest: true},
			{Kind: mounts.File, Dest: "/tmp/own", Data: []byte("own"), Mode: 0o600},
			{Kind: mounts.File, Dest: "/empty/own", Data: []byte("own"), Mode: 0o600},
			{Kind: mounts.Mask, Dest: "/etc/shadow", Optional: true},
		}}
}

func TestRenderNative(t *testing.T) {
	r, err := Render(nativePlan(), 10)
	require.NoError(t, err)
	var out strings.Builder
	for _, word := range r.Args {
		if strings.HasPrefix(word, "--") {
			out.WriteString("\n")
		} else {
			out.WriteString(" ")
		}
		out.WriteString(word)
	}
	out.WriteString("\n\n")
	for _, n := range r.Losses {
		out.WriteString(n.String() + "\n")
	}
	golden(t, "native.txt", out.String()[1:])
	assert.Equal(t, []Blob{{FD: 10, Data: []byte("sandbox\n")}, {FD: 11, Data: []byte("own")}, {FD: 12, Data: []byte("own")}, {FD: 13, Data: make([]byte, 8)}}, r.Data)

	w := newWorld(0, nil)
	p := again(t, w, r)
	assert.Equal(t, nativePlan().Namespaces, p.Namespaces)
	assert.Equal(t, 1000, p.Identity.UID)
	assert.Empty(t, p.Bwrap.Caps)
}

// Whatever nsrun itself plans must be a line that bubblewrap reads.
func TestRenderCompiled(t *testing.T) {
	f := known
	f.Arch, f.LandlockABI = "amd64", 3
	p, err := plan.Compile(plan.Request{Policy: policy.Default("/home/me").Grant("/work", true, "asked for"), Command: []string{"true"}}, f)
	require.NoError(t, err)
	r, err := Render(p, 3)
	require.NoError(t, err)
	assert.NotEmpty(t, r.Losses)
	q := again(t, newWorld(0, nil), r)
	assert.Equal(t, p.Command, q.Command)
	assert.ElementsMatch(t, p.Env, q.Env)
	assert.Equal(t, p.Namespaces, q.Namespaces)
}

func TestRenderRefusals(t *testing.T) {
	p := nativePlan()
	p.Command = nil
	_, err := Render(p, 3)
	assert.EqualError(t, err, "no command")
	p.Command = []string{"a\x00"}
	_, err = Render(p, 3)
	assert.ErrorContains(t, err, "NUL")
	p.Command = slicesOf("x", maxWords)
	_, err = Render(p, 3)
	assert.ErrorContains(t, err, "bubblewrap takes 9000")
}

// TestLateDataKeepsItsDescriptor: what a pipe holds is not read here, but by whoever makes the mounts; a second use finds nothing.
func TestLateDataKeepsItsDescriptor(t *testing.T) {
	late := func() *world {
		w := newWorld(1000, map[int][]byte{8: []byte("now")})
		open := map[int]bool{9: true}
		w.Late = func(fd int) bool {
			was := open[fd]
			delete(open, fd)
			return was
		}
		return w
	}
	args := strings.Fields("--ro-bind-data 9 /d --file 8 /f --bind / / x")
	p, err := Parse(args, late().Caller, known)
	require.NoError(t, err)
	require.NotNil(t, p.Mounts[0].FD)
	assert.Equal(t, 9, *p.Mounts[0].FD)
	assert.Empty(t, p.Mounts[0].Data)
	assert.Equal(t, "now", string(p.Mounts[1].Data))
	assert.Equal(t, []int{8, 9}, p.Bwrap.Consumed)

	r, err := Render(p, 8)
	require.NoError(t, err)
	assert.Equal(t, []Blob{{FD: 8, Data: []byte("now")}}, r.Data)
	back, err := Parse(r.Args, late().Caller, known)
	require.NoError(t, err)
	assert.Equal(t, p, back)

	_, err = Parse(strings.Fields("--file 9 /a --file 9 /b --bind / / x"), late().Caller, known)
	require.ErrorContains(t, err, "Can't write data to file /b: Bad file descriptor")
}
