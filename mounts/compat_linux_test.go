package mounts

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func lowerCompat(t *testing.T, have Have, host Resolver, ops ...Op) (string, []Resolved, error) {
	t.Helper()
	p := sys.Program{Trace: true}
	resolved, err := Lower(&p, Tree{Ops: ops, Compat: true}, have, host)
	return p.String(), resolved, err
}

// TestCompatDestinations says where an operation ends up, or with what it is refused. Each starts with /w of the host writable at /w, and
// symlinks made by the sandbox.
func TestCompatDestinations(t *testing.T) {
	host := fakeHost{"/w/d/f": "file", "/w/f": "file", "/w/rel": "-> d", "/w/abs": "-> /w/d", "/w/out": "-> /etc", "/w/dang": "-> gone", "/w/loop": "-> loop",
		"/w/up": "-> ../../../w/d", "/etc/passwd": "file", "/usr/x": "file"}
	start := []Op{{Kind: Bind, Source: "/w", Dest: "/w"}, {Kind: Symlink, Source: "w/d", Dest: "/own"}, {Kind: Symlink, Source: "/nowhere", Dest: "/lost"}}
	for dest, want := range map[string]string{
		"/w/d": "/w/d", "w/d": "/w/d", "/w/./d/": "/w/d", "/w/d/../d": "/w/d", "/../w/d": "/w/d", "/": "/",
		"/w/rel/new": "/w/d/new", "/w/abs/new": "/w/d/new", "/w/up/new": "/w/d/new", "/own/new": "/w/d/new", "/a/b/c": "/a/b/c", "a": "/a", "/x/../y": "/y",
		"/w/new/deep": "/w/new/deep",
		"/w/rel":      "symlink-dest", "/own": "symlink-dest", "/w/dang": "symlink-dest",
		"/w/f": "not-dir", "/w/f/x": "parents: not a directory", "/w/loop/x": "parents: too many levels of symbolic links",
		"/w/dang/x": "parents: no such file or directory", "/lost/x": "parents: no such file or directory",
		"/w/out/x": "parents: no such file or directory", // there is no /etc in the new root, and a link's target is not made
	} {
		_, resolved, err := lowerCompat(t, newWay, host, append(start[:3:3], Op{Kind: Tmpfs, Dest: dest, Mode: 0o755})...)
		got := ""
		var op *fault.Error
		if err == nil {
			got = resolved[3].Dest
		} else if require.ErrorAs(t, err, &op); op.Op == "parents" {
			got = "parents: " + op.Err.Error()
		} else {
			got = op.Op
		}
		assert.Equal(t, want, got, "destination %q", dest)
	}
}

// TestCompatParts names the part of each operation that cannot be done, by which a front end finds its words.
func TestCompatParts(t *testing.T) {
	host := fakeHost{"/w/d/f": "file", "/w/f": "file", "/w/l": "-> f", "/usr/x": "file", "/dev/null": "char 1:3"}
	file := Op{Kind: File, Mode: 0o666}
	at := func(op Op, dest string) Op { op.Dest = dest; return op }
	fd := 3
	for name, c := range map[string]struct {
		op   Op
		part string
		err  error
	}{
		"no source":                   {Op{Kind: Bind, Source: "/nope", Dest: "/x"}, "source", unix.ENOENT},
		"optional no source":          {Op{Kind: Bind, Source: "/nope", Dest: "/x", Optional: true}, "", nil},
		"source below a file":         {Op{Kind: Bind, Source: "/w/f/", Dest: "/x"}, "source", unix.ENOTDIR},
		"directory on a file":         {Op{Kind: Bind, Source: "/usr", Dest: "/w/f"}, "not-dir", unix.ENOTDIR},
		"file on a directory":         {Op{Kind: Bind, Source: "/usr/x", Dest: "/w/d"}, "not-file", unix.EISDIR},
		"file on the root":            {Op{Kind: Bind, Source: "/usr/x", Dest: "/"}, "not-file", unix.EISDIR},
		"file over a link":            {at(file, "/w/l"), "file", unix.ELOOP},
		"file over a dir":             {at(file, "/w/d"), "file", unix.EISDIR},
		"data on a link":              {Op{Kind: Data, Dest: "/w/l"}, "symlink-dest", unix.ELOOP},
		"dir on a link":               {Op{Kind: Dir, Dest: "/w/l"}, "not-dir", unix.ENOTDIR},
		"same symlink":                {Op{Kind: Symlink, Source: "f", Dest: "/w/l"}, "", nil},
		"other symlink":               {Op{Kind: Symlink, Source: "g", Dest: "/w/l"}, "symlink-differs", unix.EEXIST},
		"symlink on a file":           {Op{Kind: Symlink, Source: "g", Dest: "/w/f"}, "symlink-exists", unix.EEXIST},
		"chmod of nothing":            {Op{Kind: Chmod, Dest: "/w/nope"}, "open", unix.ENOENT},
		"name that is too long":       {Op{Kind: Tmpfs, Dest: "/w/d/" + strings.Repeat("x", 256)}, "file", unix.ENAMETOOLONG},
		"parent that is too long":     {Op{Kind: Tmpfs, Dest: "/" + strings.Repeat("x", 256) + "/d"}, "parents", unix.ENAMETOOLONG},
		"symlink that is too long":    {Op{Kind: Symlink, Source: "f", Dest: "/" + strings.Repeat("x", 256)}, "symlink", unix.ENAMETOOLONG},
		"remount of nothing":          {Op{Kind: Remount, Dest: "/w/nope"}, "file", unix.ENOENT},
		"layer that is gone":          {Op{Kind: Overlay, Layers: []string{"/nope"}, Dest: "/o", Scratch: true}, "source", unix.ENOENT},
		"descriptor that is not open": {Op{Kind: Bind, Source: "/usr", FD: ptr(1 << 20), Dest: "/x"}, "stat-fd", unix.EBADF},
		"descriptor":                  {Op{Kind: Bind, Source: "/usr", FD: &fd, Dest: "/x"}, "", nil},
		"no device":                   {Op{Kind: Dev, Dest: "/dev"}, "dev-source", unix.ENOENT},
	} {
		null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		fd = null
		_, _, err = lowerCompat(t, newWay, host, Op{Kind: Bind, Source: "/w", Dest: "/w"}, c.op)
		unix.Close(null)
		if c.part == "" {
			assert.NoError(t, err, name)
			continue
		}
		var op *fault.Error
		if assert.ErrorAs(t, err, &op, name) {
			assert.Equal(t, c.part, op.Op, name)
			assert.ErrorIs(t, err, c.err, name)
			assert.Equal(t, 2, op.Index, name)
		}
	}
}

func ptr[T any](v T) *T { return &v }

// TestCompatModesOfParents: a bind's parents are 0700, which is upstream's.
func TestCompatModesOfParents(t *testing.T) {
	for _, c := range []struct {
		op   Op
		want string
	}{
		{Op{Kind: Bind, Source: "/usr", Dest: "/p/x"}, `"p", 0700`}, {Op{Kind: Symlink, Source: "y", Dest: "/p/x"}, `"p", 0700`},
		{Op{Kind: Dir, Dest: "/p/x", Mode: 0o755}, `"p", 0755`}, {Op{Kind: Dir, Dest: "/p/x", Mode: 0o750}, `"p", 0750`}, {Op{Kind: Dir, Dest: "/p/x"}, `"p", 0700`},
		{Op{Kind: Tmpfs, Dest: "/p/x", Mode: 0o705}, `"p", 0705`}, {Op{Kind: File, Dest: "/p/x", Mode: 0o666}, `"p", 0755`},
		{Op{Kind: Data, Dest: "/p/x", Mode: 0o600}, `"p", 0700`},
	} {
		text, _, err := lowerCompat(t, newWay, plainHost, c.op)
		require.NoError(t, err)
		assert.Contains(t, text, "mkdirat($1, "+c.want+")", "%v", c.op)
	}
}

// TestCompatRootIsReopened: what is mounted over "/" is the root from then on.
func TestCompatRootIsReopened(t *testing.T) {
	for _, have := range []Have{newWay, {}} {
		text, _, err := lowerCompat(t, have, plainHost, Op{Kind: Bind, Source: "/", Dest: "/", Flags: Flags{ReadOnly}}, Op{Kind: Tmpfs, Dest: "/"},
			Op{Kind: Dir, Dest: "/usr/new", Mode: 0o755})
		require.NoError(t, err)
		assert.GreaterOrEqual(t, strings.Count(text, `"newroot", O_PATH|O_DIRECTORY|O_CLOEXEC`), 3, "opened when made, and after each mount over it")
		assert.Contains(t, text, `mkdirat($1, "usr", 0755)`, "the host's /usr is covered")
	}
}

// TestCompatHostIsEnteredByDescriptor: what is made below a bind is made by a name in a directory that was opened without following.
func TestCompatHostIsEnteredByDescriptor(t *testing.T) {
	text, _, err := lowerCompat(t, newWay, plainHost, Op{Kind: Bind, Source: "/home/me/w", Dest: "/w"}, Op{Kind: Dir, Dest: "/w/sub/a/b", Mode: 0o755},
		Op{Kind: Tmpfs, Dest: "/w/sub/a/t", Mode: 0o755}, Op{Kind: Dir, Dest: "/w/sub/a/t/in", Mode: 0o755})
	require.NoError(t, err)
	for _, line := range strings.Split(text, "\n") {
		if strings.Contains(line, "mkdirat(") {
			assert.NotContains(t, line, `"w/`, "a path through the host could be changed on the way")
		}
	}
	assert.Contains(t, text, `openat2($1, "w/sub/a", {O_PATH, RESOLVE_NO_SYMLINKS|RESOLVE_BENEATH}`)
}

// TestFollowAgreesWithTheKernel resolves random paths in random trees, and compares with openat2(RESOLVE_IN_ROOT).
func TestFollowAgreesWithTheKernel(t *testing.T) {
	probe, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	if err != nil {
		require.Empty(t, os.Getenv("CI"), "CI must have openat2")
		t.Skipf("no openat2 here: %v", err)
	}
	unix.Close(probe)
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 60 {
		root := t.TempDir()
		names := randomTree(t, rnd, root)
		fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		for range 60 {
			dest := randomPath(rnd, names, 4)
			want := inRoot(t, fd, root, dest)
			got := followed(root, dest)
			require.Equal(t, want, got, "seed %d, path %q in %s", seed, dest, root)
		}
		unix.Close(fd)
	}
}

// randomTree makes directories, files and symlinks with few names, so that paths often meet them.
func randomTree(t *testing.T, rnd *rand.Rand, root string) []string {
	names := []string{"a", "b", "c", "d"}
	dirs := []string{root}
	for range 14 {
		at := filepath.Join(dirs[rnd.IntN(len(dirs))], names[rnd.IntN(len(names))])
		if _, err := os.Lstat(at); err == nil {
			continue
		}
		switch rnd.IntN(5) {
		case 0:
			require.NoError(t, os.WriteFile(at, nil, 0o600))
		case 1, 2:
			target := randomPath(rnd, names, 3)
			require.NoError(t, os.Symlink(target, at))
		default:
			require.NoError(t, os.Mkdir(at, 0o700))
			dirs = append(dirs, at)
		}
	}
	return names
}

func randomPath(rnd *rand.Rand, names []string, most int) string {
	var words []string
	for range 1 + rnd.IntN(most) {
		words = append(words, append(names, "..", ".")[rnd.IntN(len(names)+2)])
	}
	p := strings.Join(words, "/")
	if rnd.IntN(2) == 0 {
		p = "/" + p
	}
	return p
}

// inRoot says where the kernel gets to.
func inRoot(t *testing.T, fd int, root, dest string) string {
	at, err := -1, error(unix.EAGAIN)
	for errors.Is(err, unix.EAGAIN) { // something was renamed somewhere: openat2(2)
		at, err = unix.Openat2(fd, dest, &unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	}
	if err != nil {
		return err.Error()
	}
	defer unix.Close(at)
	where, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", at))
	require.NoError(t, err)
	return filepath.Join("/", strings.TrimPrefix(where, root))
}

// followed says where lowering gets to, in a root that is a bind of the directory.
func followed(root, dest string) string {
	var look Host
	defer look.Close()
	l := &lowering{p: &sys.Program{}, resolver: &look, view: newView(0), made: map[string]node{}}
	l.view.cover("/", node{origin: host, source: root, dir: true})
	s, err := l.follow(dest, nil)
	if err == nil && !s.exists() {
		err = unix.ENOENT
	}
	if err != nil {
		return bare(err).Error()
	}
	return s.path
}

// TestADescriptorThatIsNotOpenIsNoneOfOurs names descriptors that a walk to them would open, and one that this process has open itself, as
// early calls have the host's root.
func TestADescriptorThatIsNotOpenIsNoneOfOurs(t *testing.T) {
	host := &Host{}
	defer host.Close()
	own, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(own)
	fds := []int{own}
	free, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	unix.Close(free)
	for fd := free; fd < free+6; fd++ {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil { // it is none of the test's own
			fds = append(fds, fd)
		}
	}
	for _, fd := range fds {
		for _, format := range []string{"/proc/self/fd/%d", "/dev/fd/%d", "/proc/thread-self/fd/%d", fmt.Sprintf("/proc/%d/fd/", os.Getpid()) + "%d",
			"/proc/self/fd/%d/usr", "/proc/self/root/proc/self/fd/%d"} {
			name := fmt.Sprintf(format, fd)
			_, _, err := lowerCompat(t, newWay, host, Op{Kind: Bind, Source: name, Dest: "/x"})
			var op *fault.Error
			if assert.ErrorAs(t, err, &op, name) {
				assert.Equal(t, "source", op.Op, name)
				assert.ErrorIs(t, err, unix.ENOENT, name)
			}
			_, _, err = lowerCompat(t, newWay, host, Op{Kind: Bind, Source: name, FD: &fd, Dest: "/x"})
			assert.ErrorIs(t, err, unix.ENOENT, name)
			calls, _, err := lowerCompat(t, newWay, host, Op{Kind: Bind, Source: name, Dest: "/nsrun-optional", Optional: true})
			require.NoError(t, err, name)
			assert.NotContains(t, calls, "nsrun-optional", name)
		}
	}
	passed, err := unix.FcntlInt(uintptr(own), unix.F_DUPFD, 3) // as a caller passes one on: not close-on-exec
	require.NoError(t, err)
	defer unix.Close(passed)
	for _, format := range []string{"/proc/self/fd/%d", "/dev/fd/%d"} {
		_, result, err := lowerCompat(t, newWay, host, Op{Kind: Bind, Source: fmt.Sprintf(format, passed), Dest: "/x"})
		require.NoError(t, err)
		assert.Equal(t, "/", result[0].Source, "a descriptor of the caller's is shown")
	}
}

func TestModeTextIsAsFmtPrintsIt(t *testing.T) {
	for mode := range uint32(1 << 15) {
		require.Equal(t, fmt.Sprintf("%04o", mode), modeText(mode))
	}
	for _, mode := range []uint32{1 << 20, 1 << 31, 1<<32 - 1} {
		assert.Equal(t, fmt.Sprintf("%04o", mode), modeText(mode))
	}
}
