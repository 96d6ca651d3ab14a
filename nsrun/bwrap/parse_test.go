package bwrap

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
)

// world is a caller with descriptors in memory, each of which can be read once.
type world struct {
	Caller
	fds      map[int][]byte
	warnings []string
}

func newWorld(uid int, fds map[int][]byte) *world {
	w := &world{fds: fds, Caller: Caller{Argv0: "bwrap", UID: uid, GID: uid, EffectiveUID: uid, Cwd: []string{"/work"},
		Environ: []string{"PATH=/bin", "HOME=/home/me", "PWD=/work"}, Terminal: "/dev/pts/7"}}
	if uid == 0 {
		w.Caps = 1<<41 - 1
	}
	w.ReadFD = func(fd int) ([]byte, error) {
		data, ok := w.fds[fd]
		if !ok {
			return nil, errors.New("Bad file descriptor")
		}
		delete(w.fds, fd)
		return data, nil
	}
	w.Warn = func(text string) { w.warnings = append(w.warnings, text) }
	return w
}

var known = facts.Facts{LastCap: 40}

func parse(t *testing.T, args ...string) *plan.Plan {
	t.Helper()
	p, err := Parse(args, newWorld(1000, nil).Caller, known)
	require.NoError(t, err, "%q", args)
	return p
}

// refusal returns what a user with these descriptors is told.
func refusal(t *testing.T, w *world, args []string) string {
	t.Helper()
	_, err := Parse(args, w.Caller, known)
	var exit *Exit
	require.ErrorAs(t, err, &exit, "%q must be refused", args)
	require.Equal(t, 1, exit.Code, "every refusal ends with 1")
	require.Empty(t, exit.Stdout)
	return strings.TrimSuffix(exit.Stderr, "\n")
}

// split makes words of a line in which "" is an empty one.
func split(line string) []string {
	words := strings.Fields(line)
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], `""`, "")
	}
	return words
}

const layersWait = "--overlay-src must be followed by another --overlay-src or one of --overlay, --tmp-overlay, or --ro-overlay"

// Each was checked against bubblewrap 0.13.1.
func TestRefusals(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--foo x", "Unknown option --foo"}, {"--bind=a b", "Unknown option --bind=a"}, {"-x", "Unknown option -x"}, {"- x", "Unknown option -"},
		{"--foo --version", "Unknown option --foo"},
		{"--chdir", "--chdir takes one argument"}, {"--remount-ro", "--remount-ro takes one argument"}, {"--argv0", "--argv0 takes one argument"},
		{"--ro-bind-fd 1", "--bind-fd takes two arguments"}, {"--overlay a b", "--overlay takes three arguments"},
		{"--argv0 a --argv0 b true", "--argv0 used multiple times"},
		{"--debug-opt=foo", "Unknown --debug-opt value: foo"}, {"--debug-opt foo", "Unknown option --debug-opt"},

		{"--chdir \"\" true", "--chdir does not take an empty path argument"}, {"--bind x \"\" true", "--bind does not take an empty path argument"},
		{"--symlink \"\" x true", "--symlink does not take an empty path argument"}, {"--lock-file \"\" x", "--lock-file does not take an empty path argument"},
		{"--file \"\" \"\" x", "Invalid fd: "}, {"--file 3 \"\" x", "--file does not take an empty path argument"},
		{"--chmod x \"\" y", "--chmod takes an octal argument <= 07777"}, {"--chmod 7 \"\" y", "--chmod does not take an empty path argument"},
		{"--ro-bind-fd 9 \"\" y", "--ro-bind-fd does not take an empty path argument"},
		{"--overlay a b \"\"", "--overlay requires at least one --overlay-src"}, {"--overlay-src a --overlay a b \"\"", "--overlay does not take an empty path argument"},
		{"--overlay-src \"\" --overlay a b c", "--overlay-src does not take an empty path argument"},
		{"--overlay-src \"\" --tmpfs \"\"", "--tmpfs does not take an empty path argument"},

		{"--tmp-overlay a", "--tmp-overlay requires at least one --overlay-src"}, {"--overlay-src a --ro-overlay b", "--ro-overlay requires at least two --overlay-src"},
		{"--overlay-src", layersWait}, {"--overlay-src a", layersWait}, {"--overlay-src a -- true", layersWait}, {"--overlay-src a --perms 7", layersWait},
		{"--overlay-src a --perms", "--perms takes an argument"}, {"--perms 7 --overlay-src", "--perms must be followed by an option that creates a file"},

		{"--perms 7 --bind / / x", "--perms must be followed by an option that creates a file"}, {"--perms 7 --perms 8", "--perms given twice for the same action"},
		{"--perms 10000", "--perms takes an octal argument <= 07777"}, {"--size 5 --size 5", "--size given twice for the same action"},
		{"--size 5 --perms 7 --dir /a x", "--size must be followed by --tmpfs"}, {"--size 0", "--size takes a non-zero number of bytes"},
		{"--size 9223372036854775808", "--size (for tmpfs) is limited to 9223372036854775807"}, {"--size 5 --perms 7 --foo", "Unknown option --foo"},

		{"--setenv a=b c x", "setenv failed"}, {"--setenv \"\" c x", "setenv failed"}, {"--unsetenv \"\" x", "unsetenv failed"},
		{"--uid x", "Invalid uid: x"}, {"--gid 4294967295", "Invalid gid: 4294967295"}, {"--info-fd -1", "Invalid fd: -1"},
		{"--cap-add chown", "unknown cap: chown"}, {"--cap-drop 64", "unknown cap: 64"},
		{"--exec-label a x", "labeling not supported on this system"},
		{"--seccomp 5 --add-seccomp-fd x", "--add-seccomp-fd cannot be combined with --seccomp"},
		{"--add-seccomp-fd 8 --seccomp x", "--seccomp cannot be combined with --add-seccomp-fd"},
		{"--add-seccomp-fd 7 x", "Invalid seccomp data, must be multiple of 8"}, {"--seccomp 7 x", "Invalid seccomp data, must be multiple of 8"},
		{"--seccomp 77 x", "Can't read seccomp data: Bad file descriptor"}, {"--args 77", "Can't read --args data: Bad file descriptor"},
		{"--file 77 /a x", "Can't write data to file /a: Bad file descriptor"},
		{"--file 3 /a --file 3 /b x", "Can't write data to file /b: Bad file descriptor"},
		{"--level-prefix --foo", "<3>bwrap: Unknown option --foo"},
	} {
		w := newWorld(1000, map[int][]byte{3: []byte("x"), 7: []byte("1234567"), 8: make([]byte, 8)})
		want := c.want
		if !strings.HasPrefix(want, "<") {
			want = "bwrap: " + want
		}
		assert.Equal(t, want, refusal(t, w, split(c.args)), "%s", c.args)
	}
}

// Options that do not go together are refused in bubblewrap's order: each line lacks what the one before was refused for.
func TestRefusalOrder(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--userns-block-fd 9 --disable-userns", "--userns-block-fd requires --unshare-user"},
		{"--userns-block-fd 9 --unshare-user --userns 3 --disable-userns", "--userns-block-fd requires --info-fd"},
		{"--userns 9 --unshare-user --unshare-user-try --disable-userns", "--userns is not compatible with --unshare-user"},
		{"--userns 9 --unshare-all --disable-userns", "--userns is not compatible with --unshare-user-try"},
		{"--unshare-all --disable-userns", "--disable-userns requires --unshare-user"},
		{"--unshare-user --disable-userns --userns-block-fd 9 --info-fd 9", "--disable-userns is not compatible with --userns-block-fd"},
		{"--as-pid-1 --hostname a --uid 5 --gid 5", "usage"},
		{"--as-pid-1 --hostname a --uid 5 --gid 5 x", "Specifying --uid requires --unshare-user or --userns"},
		{"--as-pid-1 --hostname a --gid 5 x", "Specifying --gid requires --unshare-user or --userns"},
		{"--as-pid-1 --hostname a x", "Specifying --hostname requires --unshare-uts"},
		{"--as-pid-1 --lock-file a x", "Specifying --as-pid-1 requires --unshare-pid"},
		{"--as-pid-1 --lock-file a --unshare-pid --unshare-cgroup x", "Specifying --as-pid-1 and --lock-file is not permitted"},
		{"--file 77 /a --unshare-cgroup x", "Cannot create new cgroup namespace because the kernel does not support it"},
	} {
		_, err := Parse(split(c.args), newWorld(0, nil).Caller, known.With(facts.CgroupNS, facts.Answer{State: facts.No}))
		require.Error(t, err, c.args)
		if c.want == "usage" {
			assert.True(t, strings.HasPrefix(err.Error(), "usage: bwrap "), c.args)
			continue
		}
		assert.EqualError(t, err, "bwrap: "+c.want, c.args)
	}
}

// Every option that takes words is refused without them, in words that tell how many.
func TestArity(t *testing.T) {
	for _, row := range options {
		for n := range len(row.operands) {
			args := append([]string{row.name}, slicesOf("1", n)...)
			want := row.lack()
			if row.name == layerOption {
				want = layersWait
			}
			assert.Equal(t, "bwrap: "+want, refusal(t, newWorld(0, nil), args), "%q", args)
		}
	}
}

func slicesOf(word string, n int) (words []string) {
	for range n {
		words = append(words, word)
	}
	return words
}

func TestForeignPrivileges(t *testing.T) {
	w := newWorld(1000, nil)
	w.EffectiveUID = 0
	assert.Equal(t, "bwrap: setuid use of bubblewrap is not supported", refusal(t, w, []string{"--help"}))
	_, err := Parse([]string{"--version"}, w.Caller, known)
	assert.Equal(t, &Exit{Stdout: "bubblewrap 0.13.1\n"}, err, "--version alone works always")
	w = newWorld(1000, nil)
	w.Caps = 1
	assert.Equal(t, "bwrap: Unexpected capabilities but not setuid, old file caps config?", refusal(t, w, nil))
}

func TestHelp(t *testing.T) {
	for _, args := range []string{"--help", "--unshare-user --help --foo", "--perms 7 --help", "--args 5"} {
		w := newWorld(0, map[int][]byte{5: []byte("--help")})
		w.Argv0 = "/opt/odd name"
		_, err := Parse(split(args), w.Caller, known)
		var exit *Exit
		require.ErrorAs(t, err, &exit)
		assert.Zero(t, exit.Code)
		assert.Empty(t, exit.Stderr)
		assert.True(t, strings.HasPrefix(exit.Stdout, "usage: /opt/odd name [OPTIONS...] [--] COMMAND [ARGS...]\n\n    --help "), exit.Stdout)
	}
	assert.True(t, strings.HasPrefix(refusal(t, newWorld(0, nil), nil), "usage: bwrap "), "no arguments at all are a mistake")
}

func TestArgumentFiles(t *testing.T) {
	for _, c := range []struct{ name, file, args, want string }{
		{"last word need not end in NUL", "--dir\x00/a", "--args 5 x", "/a"},
		{"last word ends in NUL", "--dir\x00/a\x00", "--args 5 x", "/a"},
		{"empty", "", "--args 5 --dir /b x", "/b"},
		{"in its place", "--dir\x00/a", "--dir /0 --args 5 --dir /b x", "/0 /a /b"},
		{"a word ends the file", "--dir\x00/a\x00word\x00--foo", "--args 5 --dir /b x", "/a /b"},
		{"-- ends the file", "--dir\x00/a\x00--\x00--foo", "--args 5 --dir /b x", "/a /b"},
		{"an empty word ends the file", "--dir\x00/a\x00\x00--foo", "--args 5 --dir /b x", "/a /b"},
		{"permissions for the file", "--dir\x00/a", "--perms 0700 --args 5 x", "/a"},
		{"nested", "--args\x006", "--args 5 x", "bwrap: --args not supported in arguments file"},
		{"pending permissions", "--perms\x007", "--args 5 --dir /b x", "bwrap: --perms must be followed by an option that creates a file"},
		{"pending size before a word", "--size\x007\x00word", "--args 5 --tmpfs /b x", "bwrap: --size must be followed by --tmpfs"},
		{"pending layer", "--overlay-src\x00a", "--args 5 --tmp-overlay /b x", "bwrap: " + layersWait},
		{"cut short", "--bind\x00/", "--args 5 / x", "bwrap: --bind takes two arguments"},
		{"read twice", "--dir\x00/a", "--args 5 --args 5 x", "bwrap: Can't read --args data: Bad file descriptor"},
		{"many", strings.Repeat("--new-session\x00", maxWords-2), "--args 5 x", "bwrap: Exceeded maximum number of arguments 9000"},
		{"one fewer", strings.Repeat("--new-session\x00", maxWords-3), "--args 5 x", ""},
	} {
		w := newWorld(1000, map[int][]byte{5: []byte(c.file)})
		p, err := Parse(split(c.args), w.Caller, known)
		if err != nil {
			assert.EqualError(t, err, c.want, c.name)
			continue
		}
		var dests []string
		for _, op := range p.Mounts {
			dests = append(dests, op.Dest)
		}
		assert.Equal(t, c.want, strings.Join(dests, " "), c.name)
	}
}

func TestWordLimit(t *testing.T) {
	_, err := Parse(slicesOf("x", maxWords), newWorld(1000, nil).Caller, known)
	assert.NoError(t, err)
	_, err = Parse(slicesOf("x", maxWords+1), newWorld(1000, nil).Caller, known)
	assert.EqualError(t, err, "bwrap: Exceeded maximum number of arguments 9000")
}

func TestWarnings(t *testing.T) {
	for _, name := range strings.Fields("--chdir --block-fd --userns-block-fd --info-fd --json-status-fd --seccomp --userns --userns2 --pidns --uid --gid --hostname") {
		w := newWorld(1000, map[int][]byte{2: nil})
		_, _ = Parse([]string{name, "1", "--level-prefix", name, "2", "x"}, w.Caller, known)
		assert.Equal(t, []string{fmt.Sprintf("<4>bwrap: Only the last %s option will take effect\n", name)}, w.warnings)
	}
	w := newWorld(1000, nil)
	assert.Equal(t, "bwrap: --chdir does not take an empty path argument", refusal(t, w, []string{"--chdir", "a", "--chdir", ""}))
	assert.Len(t, w.warnings, 1, "the warning comes first")
	w = newWorld(1000, nil)
	p, err := Parse(split("--sync-fd 4 --sync-fd 5 x"), w.Caller, known)
	require.NoError(t, err)
	assert.Empty(t, w.warnings)
	assert.Equal(t, []int{4, 5}, p.Bwrap.SyncFDs)
}

func TestCommand(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"x --foo", []string{"x", "--foo"}}, {"-- --bind / /", []string{"--bind", "/", "/"}}, {"\"\" a", []string{"", "a"}},
		{"--perms 7 x", []string{"x"}}, {"--size 7 -- x", []string{"x"}}, {"-- --", []string{"--"}},
	} {
		assert.Equal(t, c.want, parse(t, split(c.args)...).Command, c.args)
	}
	assert.Contains(t, refusal(t, newWorld(0, nil), []string{"--"}), "usage: ")
}

func TestMountOptions(t *testing.T) {
	five := 5
	apart := mounts.Flags{mounts.NoSuid, mounts.NoDev}
	ro := mounts.Flags{mounts.ReadOnly, mounts.NoSuid, mounts.NoDev}
	for _, c := range []struct {
		args string
		want mounts.Op
	}{
		{"--bind s d", mounts.Op{Kind: mounts.Bind, Source: "s", Dest: "d", Flags: apart}},
		{"--bind-try s d", mounts.Op{Kind: mounts.Bind, Source: "s", Dest: "d", Flags: apart, Optional: true}},
		{"--ro-bind-try s d", mounts.Op{Kind: mounts.Bind, Source: "s", Dest: "d", Flags: ro, Optional: true}},
		{"--dev-bind s d", mounts.Op{Kind: mounts.Bind, Source: "s", Dest: "d", Flags: mounts.Flags{mounts.NoSuid}}},
		{"--ro-bind-fd 5 d", mounts.Op{Kind: mounts.Bind, Source: "/proc/self/fd/5", FD: &five, Dest: "d", Flags: ro}},
		{"--bind-fd 5 d", mounts.Op{Kind: mounts.Bind, Source: "/proc/self/fd/5", FD: &five, Dest: "d", Flags: apart}},
		{"--tmpfs d", mounts.Op{Kind: mounts.Tmpfs, Dest: "d", Flags: apart, Mode: 0o755}},
		{"--size 0x10 --perms 1777 --tmpfs d", mounts.Op{Kind: mounts.Tmpfs, Dest: "d", Flags: apart, Mode: 0o1777, Size: 16}},
		{"--perms 0 --dir d", mounts.Op{Kind: mounts.Dir, Dest: "d"}},
		{"--dir d", mounts.Op{Kind: mounts.Dir, Dest: "d", Mode: 0o755}},
		{"--file 3 d", mounts.Op{Kind: mounts.File, Dest: "d", Mode: 0o666, Data: []byte("data")}},
		{"--bind-data 3 d", mounts.Op{Kind: mounts.Data, Dest: "d", Mode: 0o600, Data: []byte("data"), Flags: apart}},
		{"--perms 0644 --ro-bind-data 3 d", mounts.Op{Kind: mounts.Data, Dest: "d", Mode: 0o644, Data: []byte("data"), Flags: ro}},
		{"--symlink t d", mounts.Op{Kind: mounts.Symlink, Source: "t", Dest: "d"}},
		{"--remount-ro d", mounts.Op{Kind: mounts.Remount, Dest: "d", Flags: mounts.Flags{mounts.ReadOnly, mounts.NoSuid, mounts.NoDev}}},
		{"--chmod 1755 d", mounts.Op{Kind: mounts.Chmod, Dest: "d", Mode: 0o1755}},
		{"--mqueue d", mounts.Op{Kind: mounts.Mqueue, Dest: "d"}},
		{"--dev d", mounts.Op{Kind: mounts.Dev, Dest: "d", Source: "/dev/pts/7"}},
		{"--proc d", mounts.Op{Kind: mounts.Proc, Dest: "d", Source: "/proc", Flags: mounts.Flags{mounts.NoSuid, mounts.NoDev, mounts.NoExec}}},
		{"--proc d --unshare-pid", mounts.Op{Kind: mounts.Proc, Dest: "d", Flags: mounts.Flags{mounts.NoSuid, mounts.NoDev, mounts.NoExec}}},
		{"--pidns 4 --proc d", mounts.Op{Kind: mounts.Proc, Dest: "d", Flags: mounts.Flags{mounts.NoSuid, mounts.NoDev, mounts.NoExec}}},
		{"--overlay-src a --overlay-src b --overlay u w d", mounts.Op{Kind: mounts.Overlay, Dest: "d", Layers: []string{"a", "b"}, Upper: "u", Work: "w", Flags: apart}},
		{"--overlay-src a --tmp-overlay d", mounts.Op{Kind: mounts.Overlay, Dest: "d", Layers: []string{"a"}, Scratch: true, Flags: apart}},
		{"--overlay-src a --overlay-src b --ro-overlay d", mounts.Op{Kind: mounts.Overlay, Dest: "d", Layers: []string{"a", "b"}, Flags: apart}},
	} {
		w := newWorld(1000, map[int][]byte{3: []byte("data")})
		p, err := Parse(append(split(c.args), "x"), w.Caller, known)
		require.NoError(t, err, c.args)
		assert.Equal(t, []mounts.Op{c.want}, p.Mounts, c.args)
	}
}
