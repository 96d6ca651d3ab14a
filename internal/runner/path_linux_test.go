package runner

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// tree makes a workspace with what leads out of it, and a secret beside it.
func tree(t *testing.T) (work, outside string) {
	t.Helper()
	base := t.TempDir()
	base, err := filepath.EvalSymlinks(base)
	require.NoError(t, err)
	work, outside = filepath.Join(base, "work"), filepath.Join(base, "outside")
	for _, dir := range []string{work + "/sub/deep", work + "/fixed", outside} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	for file, text := range map[string]string{work + "/f": "f", work + "/sub/g": "g", work + "/fixed/r": "r", outside + "/secret": "s"} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	for name, to := range map[string]string{"in": "sub/g", "up": "../outside/secret", "abs": outside + "/secret", "dir": "../outside", "self": "self", "none": "sub/none",
		"tofixed": "fixed/r"} {
		require.NoError(t, os.Symlink(to, filepath.Join(work, name)))
	}
	return work, outside
}

func TestResolvePath(t *testing.T) {
	work, outside := tree(t)
	s := opened(t, NewPolicy().WorkspaceAt(work, "/workspace").ReadOnly(outside))
	for name, want := range map[string]string{
		"f": "/f", "/workspace/f": "/f", "./sub/../f": "/f", "in": "/sub/g", "/workspace": "", "/workspace/": "", ".": "", "sub/": "/sub", "/workspace//sub///g": "/sub/g",
	} {
		h, err := s.ResolvePath(name, ForReading)
		if assert.NoError(t, err, name) {
			assert.Equal(t, work+want, h.Path, name)
		}
	}
	for _, name := range []string{"up", "abs", "dir/secret", "self", "../outside/secret", "/etc/../workspace/up", "/tmp/x", "/proc/self/environ", "/dev/null", "/etc/passwd",
		"", "a\x00", "/", "/nowhere", "f/below", strings.Repeat("x", 300)} {
		_, err := s.ResolvePath(name, ForReading)
		var refused *RefusedError
		if !assert.ErrorAs(t, err, &refused, "%.40q", name) {
			continue
		}
		assert.Equal(t, "path", refused.Field)
		assert.NotEmpty(t, refused.Fix)
	}
	_, err := s.ResolvePath("not/there", ForReading)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	_, err = s.ResolvePath("none", ForReading)
	assert.ErrorIs(t, err, fs.ErrNotExist)

	h, err := s.ResolvePath("sub/new", ForWriting)
	require.NoError(t, err)
	assert.Equal(t, work+"/sub/new", h.Path)
	f, err := h.Open(os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	_, err = f.WriteString("made outside")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	assert.Equal(t, "made outside", string(sh(t, s, "cat sub/new").Stdout))
	h, err = s.ResolvePath("a/b/../b/c", ForWriting)
	require.NoError(t, err)
	assert.Equal(t, work+"/a/b/c", h.Path)
	require.NoError(t, os.MkdirAll(filepath.Dir(h.Path), 0o755))
	f, err = h.Open(os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	assert.Equal(t, OK, sh(t, s, "test -f a/b/c").Verdict)
	for _, name := range []string{"none", "none/new", "f/new", "f/new/er", "dir/new", "dir/new/er", "up/new/er", outside + "/new", outside, outside + "/secret"} {
		_, err := s.ResolvePath(name, ForWriting)
		assert.Error(t, err, name)
	}
}

// TestAPlaceIsWhatItIsInside: a link within the workspace that leads to a place which is read-only inside is not a way to write there.
func TestAPlaceIsWhatItIsInside(t *testing.T) {
	work, _ := tree(t)
	s := opened(t, NewPolicy().Workspace(work).ReadOnly(filepath.Join(work, "fixed")))
	h, err := s.ResolvePath("fixed/r", ForReading)
	require.NoError(t, err)
	assert.Equal(t, work+"/fixed/r", h.Path)
	var refused *RefusedError
	_, err = s.ResolvePath("fixed/r", ForWriting)
	assert.ErrorAs(t, err, &refused)
	_, err = s.ResolvePath("tofixed", ForWriting)
	assert.ErrorAs(t, err, &refused)
	_, err = s.ResolvePath("f", ForWriting)
	assert.NoError(t, err)
}

// TestALinkThatIsPutThereLater is what Open is for: between ResolvePath and it the sandbox replaces the file.
func TestALinkThatIsPutThereLater(t *testing.T) {
	work, outside := tree(t)
	s := opened(t, NewPolicy().Workspace(work))
	h, err := s.ResolvePath("sub/g", ForReading)
	require.NoError(t, err)
	sh(t, s, "rm sub/g; ln -s "+outside+"/secret sub/g")
	_, err = os.ReadFile(h.Path)
	assert.NoError(t, err, "positive control: the path leads out now")
	_, err = h.Open(os.O_RDONLY, 0)
	assert.Error(t, err)
	sh(t, s, "rm -r sub; ln -s "+outside+" sub; cp f "+work+"/secret")
	h.below = "sub/secret"
	_, err = h.Open(os.O_RDONLY, 0)
	assert.Error(t, err)
}

func TestAFileThatIsGranted(t *testing.T) {
	work, _ := tree(t)
	s := opened(t, NewPolicy().ReadWrite(filepath.Join(work, "f")))
	h, err := s.ResolvePath(filepath.Join(work, "f"), ForWriting)
	require.NoError(t, err)
	f, err := h.Open(unix.O_RDWR, 0)
	require.NoError(t, err)
	f.Close()
	_, err = s.ResolvePath(filepath.Join(work, "sub/g"), ForReading)
	assert.Error(t, err)
	_, err = s.ResolvePath(filepath.Join(work, "f/x"), ForWriting)
	assert.Error(t, err)
}
