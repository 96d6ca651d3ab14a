package load

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/nsrun"
	"github.com/nsrun/nsrun/nsrun/manifest"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// write makes files below a new directory, and returns its real path. The operator's variable is not set in the test.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	t.Setenv(CeilingVariable, "")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return dir
}

// source finds what a policy shows from a path of the host.
func source(pol policy.Policy, path string) (policy.FS, bool) {
	for _, e := range pol.FS {
		if e.Source == path {
			return e, true
		}
	}
	return policy.FS{}, false
}

func openFiles(pol policy.Policy) int64 {
	for _, l := range pol.Limits {
		if l.Name == "open_files" {
			return l.Value
		}
	}
	return -1
}

const notes = `{"name": "notes", "code": "tool/main.py",
 "capabilities": [{"kind": "fs", "mode": "write", "hints": ["out/**"]}],
 "pass_env": ["EDITOR"], "limits": {"timeout": "5s", "open_files": 64}}`

func TestManifestIsAPolicyWithItselfProtected(t *testing.T) {
	dir := write(t, map[string]string{"agent.json": notes, "tool/main.py": "", "out/x": ""})
	name := filepath.Join(dir, "agent.json")
	pol, err := Manifest(name)
	require.NoError(t, err)
	spec := pol.Spec()
	assert.Equal(t, "notes", spec.Name)
	assert.Equal(t, 5*time.Second, spec.Timeout)
	assert.Equal(t, int64(64), openFiles(spec))
	assert.Equal(t, []string{"EDITOR"}, spec.Env.Pass)
	code, ok := source(spec, filepath.Join(dir, "tool"))
	assert.True(t, ok && !code.Write, "the code's directory is shown read-only: %+v", spec.FS)
	out, ok := source(spec, filepath.Join(dir, "out"))
	assert.True(t, ok && out.Write, "what the manifest grants is writable: %+v", spec.FS)

	want, err := nsrun.FromPolicy(spec, policy.Operator{}, name)
	require.NoError(t, err)
	assert.Equal(t, want, pol, "the manifest is protected")
}

func TestRelativeNamesAndSymlinksAreFollowedToTheFile(t *testing.T) {
	dir := write(t, map[string]string{"real/agent.json": notes, "real/tool/main.py": ""})
	require.NoError(t, os.Symlink("real/agent.json", filepath.Join(dir, "link.json")))
	t.Chdir(dir)
	pol, err := Manifest("link.json")
	require.NoError(t, err)
	_, ok := source(pol.Spec(), filepath.Join(dir, "real/tool"))
	assert.True(t, ok, "relative paths start where the file lies, not the symlink: %+v", pol.Spec().FS)
	want, err := nsrun.FromPolicy(pol.Spec(), policy.Operator{}, filepath.Join(dir, "real/agent.json"))
	require.NoError(t, err)
	assert.Equal(t, want, pol, "it is the file that is protected, not the symlink")
}

// The kernel takes the .. after a symlink for the parent of where that leads. What is read there is what must be protected.
func TestDotDotAfterASymlink(t *testing.T) {
	dir := write(t, map[string]string{"far/off/x": "", "far/agent.json": `{"name": "far"}`, "agent.json": `{"name": "near"}`})
	require.NoError(t, os.Symlink("far/off", filepath.Join(dir, "link")))
	t.Chdir(dir)
	for _, name := range []string{"link/../agent.json", filepath.Join(dir, "link") + "/../agent.json"} {
		pol, err := Manifest(name)
		require.NoError(t, err)
		assert.Equal(t, "far", pol.Spec().Name)
		want, err := nsrun.FromPolicy(pol.Spec(), policy.Operator{}, filepath.Join(dir, "far/agent.json"))
		require.NoError(t, err)
		assert.Equal(t, want, pol, "the file that was read is protected")
	}
	require.NoError(t, os.WriteFile("far/agent.json", []byte(`{"workspace": "`+dir+`/far"}`), 0o644))
	_, err := Manifest("link/../agent.json")
	assert.ErrorContains(t, err, "would be writable, and this manifest lies in it")
}

func TestAbsolute(t *testing.T) {
	dir := write(t, nil)
	t.Chdir(dir)
	for name, want := range map[string]string{
		"a": dir + "/a", "./a//b": dir + "/a/b", "a..b": dir + "/a..b", "l/../a": dir + "/l/../a", "..": dir + "/..",
		"/x/../y": "/x/../y", "/": "/", ".": dir,
	} {
		got, err := Absolute(name)
		require.NoError(t, err)
		assert.Equal(t, want, got, name)
	}
	gone := filepath.Join(dir, "gone")
	require.NoError(t, os.Mkdir(gone, 0o755))
	t.Chdir(gone)
	require.NoError(t, os.Remove(gone))
	_, err := Absolute("a")
	assert.ErrorContains(t, err, "a: the working directory is gone: ")
	got, err := Absolute("/a")
	require.NoError(t, err, "an absolute path needs none")
	assert.Equal(t, "/a", got)
}

func TestBadManifestsSayWhatAndWhere(t *testing.T) {
	dir := write(t, map[string]string{
		"empty.json":  "",
		"broken.json": "{\n  \"name\": \"x\",,\n}",
		"key.json":    "{\n  \"netwrok\": \"none\",\n  \"uid\": \"x\"}",
		"yaml.yaml":   "name: x\nlimits: {pids: 0x10}\n",
		"long.json":   "{}" + strings.Repeat(" ", manifest.MaxSize),
	})
	t.Chdir(dir)
	require.NoError(t, os.WriteFile("self.json", []byte(`{"workspace": "`+dir+`"}`), 0o644))
	require.NoError(t, unix.Mkfifo("pipe.json", 0o644))
	require.NoError(t, os.Symlink("loop.json", "loop.json"))
	for _, c := range []struct{ name, file, says string }{
		{"is not there", "nope.json", "manifest: open nope.json: no such file or directory"},
		{"has no name", "", "manifest: open : no such file or directory"},
		{"is a directory", ".", "manifest: . is a directory; name the file in it"},
		{"is a FIFO that nobody writes", "pipe.json", "manifest: pipe.json is not a regular file"},
		{"is a device", "/dev/zero", "manifest: /dev/zero is not a regular file"},
		{"is a symlink to itself", "loop.json", "too many levels of symbolic links"},
		{"is too long", "long.json", "manifest: long.json has 1048578 bytes; at most 1048576 are read"},
		{"is empty", "empty.json", "empty.json:1:1: the file is empty (write {} for the defaults)"},
		{"is no JSON", "broken.json", "broken.json:2:15: "},
		{"has an unknown key", "key.json", "key.json:2:3: netwrok: a manifest has no such key (did you mean network?)"},
		{"has two faults, and both are told", "key.json", "key.json:3:10: uid: \"x\" stands where a number is wanted"},
		{"is YAML with a doubtful number", "yaml.yaml", `yaml.yaml:2:16: limits.pids: "0x10" stands where a number is wanted`},
		{"makes itself writable", "self.json", "would be writable, and this manifest lies in it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pol, err := Manifest(c.file)
			require.Error(t, err)
			assert.Contains(t, err.Error(), c.says)
			assert.Equal(t, nsrun.Policy{}, pol, "an error comes with the closed policy")
			_, err = Spec(c.file)
			assert.ErrorContains(t, err, c.says, "Spec says the same")
		})
	}
}

// A manifest's autonomy counts for programs as for the command, and before the ceiling.
func TestAutonomyOfAManifest(t *testing.T) {
	dir := write(t, map[string]string{"ws/x": "", "ceiling.json": `{"fs_read": ["/"], "fs_write": ["/"]}`})
	for autonomy, want := range map[string]struct {
		writable bool
		network  policy.Network
	}{"readonly": {false, policy.NetworkNone}, "supervised": {true, policy.NetworkNone}, "full": {true, policy.NetworkHost}} {
		text := []byte(`{"workspace": "` + dir + `/ws", "network": "none", "autonomy": "` + autonomy + `"}`)
		for range 2 {
			pol, err := Bytes("m", text, "")
			require.NoError(t, err)
			pol, err = nsrun.FromPolicy(pol.Spec(), policy.Operator{})
			require.NoError(t, err)
			i := slices.IndexFunc(pol.Spec().FS, func(e policy.FS) bool { return e.Dest == dir+"/ws" })
			assert.Equal(t, want.writable, pol.Spec().FS[i].Write, autonomy)
			assert.Equal(t, want.network, pol.Spec().Network.Mode(), autonomy)
			t.Setenv(CeilingVariable, dir+"/ceiling.json")
			want.network = policy.NetworkNone
		}
		t.Setenv(CeilingVariable, "")
	}
}

func TestAFileIsReadUpToItsLimit(t *testing.T) {
	dir := write(t, map[string]string{"four": "abcd"})
	data, err := File(filepath.Join(dir, "four"), 4)
	require.NoError(t, err)
	assert.Equal(t, "abcd", string(data))
	_, err = File(filepath.Join(dir, "four"), 3)
	assert.ErrorContains(t, err, "four has 4 bytes; at most 3 are read")
	_, err = File("/proc/self/status", 3) // a file that hides its size
	assert.ErrorContains(t, err, "/proc/self/status is longer than 3 bytes")
}

func TestAManifestsFilterIsRead(t *testing.T) {
	const allow = "\x06\x00\x00\x00\x00\x00\xff\x7f" // return SECCOMP_RET_ALLOW
	dir := write(t, map[string]string{"allow.bpf": allow, "none.bpf": "", "odd.bpf": "12345", "long.bpf": strings.Repeat(allow, 4097)})
	for _, c := range []struct{ file, says string }{
		{"allow.bpf", ""},
		{"none.bpf", "m: seccomp.raw: " + dir + "/none.bpf is empty; a filter has at least one instruction of 8 bytes"},
		{"odd.bpf", "m:1:21: seccomp.raw: the file holds 5 bytes (a filter is a positive number of 8 byte instructions)"},
		{"long.bpf", "long.bpf has 32776 bytes; at most 32768 are read"},
		{"missing.bpf", "m: seccomp.raw: open " + dir + "/missing.bpf: no such file or directory"},
		{".", "m:1:21: seccomp.raw: \".\" names the manifest's own directory"},
	} {
		pol, err := Bytes("m", []byte(`{"seccomp": {"raw": "`+c.file+`"}}`), dir)
		if c.says != "" {
			assert.ErrorContains(t, err, c.says)
			continue
		}
		require.NoError(t, err, c.file)
		assert.Equal(t, allow, string(pol.Spec().Seccomp.Raw))
	}
}

func TestBytesStartFromTheDirectory(t *testing.T) {
	dir := write(t, map[string]string{"tool/main.py": "", "out/x": "", "file": ""})
	require.NoError(t, os.Symlink(".", filepath.Join(dir, "link")))
	t.Chdir(dir)
	for _, start := range []string{dir, ".", filepath.Join(dir, "link")} {
		pol, err := Bytes("request 7", []byte(notes), start)
		require.NoError(t, err, start)
		_, ok := source(pol.Spec(), filepath.Join(dir, "tool"))
		assert.True(t, ok, "from %s the code is found: %+v", start, pol.Spec().FS)
	}
	for _, c := range []struct{ name, text, dir, says string }{
		{"a relative path without a directory", notes, "", "request 7:1:27: code: \"tool/main.py\" is relative, and the manifest's directory is not known"},
		{"a directory that is not there", notes, "nope", "request 7: directory: lstat " + dir + "/nope: no such file or directory"},
		{"a directory that is a file", notes, "file", "request 7: directory: file is not one; give that which relative paths start from"},
		{"an unknown key", `{"x": 1}`, dir, "request 7:1:2: x: a manifest has no such key"},
		{"nothing", "", dir, "request 7:1:1: the file is empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Bytes("request 7", []byte(c.text), c.dir)
			assert.ErrorContains(t, err, c.says)
		})
	}
	pol, err := Bytes("request 7", []byte("{}"), "")
	require.NoError(t, err, "without relative paths no directory is needed")
	want, err := nsrun.FromPolicy(pol.Spec(), policy.Operator{})
	require.NoError(t, err)
	assert.Equal(t, want, pol, "there is no file to protect")
}
