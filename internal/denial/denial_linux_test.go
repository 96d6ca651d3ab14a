package denial

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m.Run)) }

// TestCalls: what a plan watches has a row, and each row is watched at some level.
func TestCalls(t *testing.T) {
	p, err := plan.Compile(plan.Request{Policy: policy.Policy{Explain: policy.ExplainAll}, Command: []string{"x"}, Sole: true}, facts.Facts{Arch: "amd64", LandlockABI: 7})
	require.NoError(t, err)
	require.NotNil(t, p.Explain)
	for _, name := range p.Explain.Calls {
		known(t, name)
	}
	for _, c := range calls {
		assert.Contains(t, p.Explain.Calls, c.name)
	}
}

// TestPeek: memory up to the end of a page is read, and what is not there is no string.
func TestPeek(t *testing.T) {
	const page = 4096
	area, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	defer unix.Munmap(area)
	require.NoError(t, unix.Mprotect(area[page:], unix.PROT_NONE))
	base := sys.Addr(&area[0])
	copy(area[page-6:], "/path\x00")
	text, ok := peekString(uint32(os.Getpid()), base+page-6)
	assert.True(t, ok)
	assert.Equal(t, "/path", text)
	copy(area[page-6:], "/paths")
	_, ok = peekString(uint32(os.Getpid()), base+page-6)
	assert.False(t, ok, "it does not end")
	_, ok = peekString(uint32(os.Getpid()), base+page)
	assert.False(t, ok)
	for i := range page - 1 {
		area[i] = 'x'
	}
	area[page-1] = 0
	text, ok = peekString(uint32(os.Getpid()), base)
	assert.True(t, ok)
	assert.Len(t, text, page-1)
}

// TestQuestion: the name of a query, and of nothing else.
func TestQuestion(t *testing.T) {
	query := []byte("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03com\x00\x00\x01\x00\x01")
	assert.Equal(t, "example.com", question(query))
	for i := range query {
		assert.NotPanics(t, func() { question(query[:i]) })
	}
	answer := append([]byte{}, query...)
	answer[2] |= 0x80
	assert.Empty(t, question(answer))
}

func FuzzQuestion(f *testing.F) {
	f.Add([]byte("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03com\x00\x00\x01\x00\x01"))
	f.Fuzz(func(t *testing.T, m []byte) { assert.LessOrEqual(t, len(question(m)), len(m)) })
}

// hostWithFile is the host, and a directory of it with one file, "file".
func hostWithFile(t *testing.T) (h *host, dir string) {
	h, err := newHost()
	require.NoError(t, err)
	t.Cleanup(h.close)
	dir, err = filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(dir+"/file", nil, 0o600))
	return h, dir
}

// TestHost: links are followed on the host, also to another mount, and a file system that is not local is not entered.
func TestHost(t *testing.T) {
	h, dir := hostWithFile(t)
	require.NoError(t, os.Symlink("file", dir+"/link"))
	require.NoError(t, os.Symlink("/dev/null", dir+"/away"))
	require.NoError(t, os.Symlink("round", dir+"/round"))
	for name, want := range map[string]string{"/file": dir + "/file", "/link": dir + "/file", "/away": "/dev/null"} {
		fd, err := h.open(dir + name)
		require.NoError(t, err, name)
		assert.Equal(t, want, reached(fd))
		unix.Close(fd)
	}
	_, err := h.open(dir + "/none")
	assert.ErrorIs(t, err, unix.ENOENT)
	_, err = h.open(dir + "/round")
	assert.ErrorIs(t, err, unix.ELOOP)
	for i := range h.mounts {
		if h.mounts[i].Point == "/dev" {
			h.mounts[i].FSType = "fuse.sshfs"
		}
	}
	_, err = h.open(dir + "/away")
	assert.ErrorIs(t, err, errElsewhere)
	_, err = h.open("/proc/self/status")
	assert.ErrorIs(t, err, errElsewhere)
}

// TestQuoted: what a shell makes of the word is the path.
func TestQuoted(t *testing.T) {
	assert.Equal(t, "/a/b.c", quoted("/a/b.c"))
	assert.Equal(t, `'/a b'`, quoted("/a b"))
	assert.Equal(t, `'/a;rm -rf /'`, quoted("/a;rm -rf /"))
	assert.Equal(t, `'/it'\''s'`, quoted("/it's"))
}

// TestAsks: which links are followed, and what is removed.
func TestAsks(t *testing.T) {
	for _, c := range []struct {
		name              string
		flags             uint64
		args              [6]uint64
		nofollow, removes bool
	}{
		{"stat", 0, [6]uint64{}, false, false}, {"lstat", 0, [6]uint64{}, true, false}, {"readlink", 0, [6]uint64{}, true, false},
		{"newfstatat", 0, [6]uint64{3: unix.AT_SYMLINK_NOFOLLOW}, true, false}, {"statx", 0, [6]uint64{3: unix.AT_SYMLINK_NOFOLLOW}, false, false},
		{"openat", unix.O_NOFOLLOW, [6]uint64{}, true, false}, {"openat", unix.O_CREAT, [6]uint64{}, false, false}, {"openat", unix.O_CREAT | unix.O_EXCL, [6]uint64{}, true, false},
		{"rmdir", 0, [6]uint64{}, true, true}, {"unlinkat", 0, [6]uint64{2: unix.AT_REMOVEDIR}, true, true}, {"unlinkat", 0, [6]uint64{}, true, false},
		{"chmod", 0, [6]uint64{}, false, false}, {"lchown", 0, [6]uint64{}, true, false},
	} {
		e := event{name: c.name, call: known(t, c.name), flags: c.flags}
		e.asks(c.args)
		assert.Equal(t, c.nofollow, e.nofollow, "%s %v", c.name, c.args)
		assert.Equal(t, c.removes, e.removes, "%s %v", c.name, c.args)
	}
	for _, a := range slices.Concat(atFlags, accessModes) {
		known(t, a.call)
	}
	for _, name := range atLinks {
		known(t, name)
	}
}

// known returns a call that is watched.
func known(t *testing.T, name string) call {
	t.Helper()
	c, ok := callOf(name)
	require.True(t, ok, name)
	return c
}

// TestLets: what the host lets a call do to a file, a link, a directory and what is not the caller's.
func TestLets(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/file", nil, 0o600))
	require.NoError(t, os.Symlink("file", dir+"/link"))
	for _, c := range []struct {
		name  string
		flags uint64
		mode  uint32
		path  string
		want  bool
	}{
		{"openat", unix.O_RDWR, 0, "/file", true}, {"openat", unix.O_WRONLY, 0, "", false}, {"openat", unix.O_RDONLY, 0, "", true}, {"openat", unix.O_TMPFILE | unix.O_RDWR, 0, "", true},
		{"openat", unix.O_DIRECTORY, 0, "/file", false}, {"openat", unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY, 0, "/file", false}, {"openat", unix.O_RDONLY, 0, "/link", false},
		{"openat", unix.O_PATH, 0, "/link", true}, {"execve", 0, 0, "/file", false}, {"chdir", 0, 0, "/file", false}, {"chdir", 0, 0, "", true}, {"connect", 0, 0, "/file", false},
		{"readlink", 0, 0, "/file", false}, {"readlink", 0, 0, "/link", true}, {"stat", 0, 0, "/file", true}, {"access", 0, unix.R_OK | unix.W_OK, "/file", true},
		{"chmod", 0, 0, "/file", true}, {"truncate", 0, 0, "/file", true}, {"truncate", 0, 0, "", false}, {"mkdir", 0, 0, "", true}, {"mkdir", 0, 0, "/file", false},
	} {
		fd, err := unix.Open(dir+c.path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		assert.Equal(t, c.want, lets(event{name: c.name, call: known(t, c.name), flags: c.flags, mode: c.mode}, fd, false), "%s %#x %s", c.name, c.flags, c.path)
		unix.Close(fd)
	}
}

// TestRememberedPaths: short paths take as little memory as long ones.
func TestRememberedPaths(t *testing.T) {
	l := looker{Watch: &Watch{seen: map[[3]string]bool{}}}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 1 << 20 {
		l.remember([3]string{"open", "/" + strconv.Itoa(i), strconv.Itoa(1 << 30)})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	assert.NotEmpty(t, l.seen)
	assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(2*mostSeen))
	runtime.KeepAlive(l)
}

// TestAddress: an address of the internet counts where there is no network, and is not even looked at elsewhere.
func TestAddress(t *testing.T) {
	closed := []byte{unix.AF_INET, 0, 0, 1, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}
	n := sys.Notification{PID: uint32(os.Getpid()), Args: [6]uint64{0, sys.Addr(&closed[0]), uint64(len(closed))}}
	e := event{name: "connect", call: known(t, "connect")}
	got := readAddress(e, n, true)
	require.Len(t, got, 1)
	assert.Equal(t, "127.0.0.1:1", got[0].path)
	assert.Empty(t, readAddress(e, n, false))
	runtime.KeepAlive(closed)
}

// TestGrant: a change can be copied into a manifest, whatever the path; there is none for a path that JSON cannot have.
func TestGrant(t *testing.T) {
	for _, at := range []string{"/a b", "/it's", "/\x01\x7f\a", "/\u202e\"\\", "/\U000e0001"} {
		c := grant("--ro", "extra_ro", at)
		require.NotNil(t, c, "%q", at)
		var got map[string][]string
		require.NoError(t, json.Unmarshal([]byte("{"+c.Manifest+"}"), &got), c.Manifest)
		assert.Equal(t, map[string][]string{"extra_ro": {at}}, got)
	}
	assert.Nil(t, grant("--ro", "extra_ro", "/a\xff"))
}
