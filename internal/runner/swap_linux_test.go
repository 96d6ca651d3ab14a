package runner

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func read(t *testing.T, h *HostPath) string {
	t.Helper()
	f, err := h.Open(os.O_RDONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	data, err := io.ReadAll(f)
	require.NoError(t, err)
	return string(data)
}

// TestAGrantThatIsReplaced: what was granted lies in a directory that the sandbox can write, and puts a link in its place.
func TestAGrantThatIsReplaced(t *testing.T) {
	work, outside := tree(t)
	require.NoError(t, os.WriteFile(outside+"/g", []byte("HOST"), 0o644))
	for name, grant := range map[string]string{"directory": work + "/sub", "file": work + "/sub/g"} {
		t.Run(name, func(t *testing.T) {
			s := opened(t, NewPolicy().WorkspaceAt(work, "/workspace").ReadWrite(grant))
			h, err := s.ResolvePath(work+"/sub/g", ForWriting)
			require.NoError(t, err)
			assert.Equal(t, "g", read(t, h), "positive control")
			assert.Equal(t, OK, sh(t, s, "cd /workspace && mv sub was && ln -s "+outside+" sub").Verdict, "positive control: inside it can be done")
			data, err := os.ReadFile(h.Path)
			require.NoError(t, err)
			assert.Equal(t, "HOST", string(data), "positive control: the name leads out")
			for _, flag := range []int{os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_CREATE} {
				_, err = h.Open(flag, 0o644)
				assert.Error(t, err)
			}
			_, err = s.ResolvePath(work+"/sub/g", ForReading)
			assert.Error(t, err)
			data, err = os.ReadFile(outside + "/g")
			require.NoError(t, err)
			assert.Equal(t, "HOST", string(data))
			assert.Equal(t, OK, sh(t, s, "cd /workspace && rm sub && mv was sub").Verdict)
			assert.Equal(t, "g", read(t, h), "positive control: it was the link")
		})
	}
}

// TestALinkToWhatIsReadOnlyInside is put in the place of a file that may be written.
func TestALinkToWhatIsReadOnlyInside(t *testing.T) {
	work, _ := tree(t)
	s := opened(t, NewPolicy().Workspace(work).ReadOnly(work+"/fixed"))
	h, err := s.ResolvePath("f", ForWriting)
	require.NoError(t, err)
	f, err := h.Open(os.O_WRONLY|os.O_TRUNC, 0)
	require.NoError(t, err, "positive control")
	f.Close()
	r := sh(t, s, "rm f && ln -s fixed/r f && echo EVIL >f")
	assert.NotEqual(t, OK, r.Verdict, "positive control: inside that is no way to write there")
	target, err := os.Readlink(work + "/f")
	require.NoError(t, err)
	assert.Equal(t, "fixed/r", target)
	for _, flag := range []int{os.O_WRONLY, os.O_RDWR | os.O_TRUNC, os.O_WRONLY | os.O_APPEND | os.O_CREATE} {
		_, err = h.Open(flag, 0o644)
		assert.ErrorIs(t, err, unix.ELOOP)
	}
	data, err := os.ReadFile(work + "/fixed/r")
	require.NoError(t, err)
	assert.Equal(t, "r", string(data))
}

// TestALastNameThatIsALink: the last name of a path is followed like the others, and refused where it leads out.
func TestALastNameThatIsALink(t *testing.T) {
	work, outside := tree(t)
	s := opened(t, NewPolicy().Workspace(work))
	sh(t, s, "ln -s "+outside+"/secret a; ln -s ../outside/secret b; ln -s sub/deep/../g c; ln -s /proc/self/root/etc/passwd d; ln -s in e")
	for _, name := range []string{"a", "b", "d", "up", "abs", "self"} {
		for _, access := range []Access{ForReading, ForWriting} {
			_, err := s.ResolvePath(name, access)
			var refused *RefusedError
			assert.ErrorAs(t, err, &refused, name)
		}
	}
	for _, name := range []string{"c", "e"} { // positive control
		h, err := s.ResolvePath(name, ForWriting)
		if assert.NoError(t, err, name) {
			assert.Equal(t, work+"/sub/g", h.Path)
			assert.Equal(t, "g", read(t, h))
		}
	}
}

// TestForReadingIsNotForWriting, whatever the flag.
func TestForReadingIsNotForWriting(t *testing.T) {
	work, _ := tree(t)
	s := opened(t, NewPolicy().Workspace(work))
	h, err := s.ResolvePath("f", ForReading)
	require.NoError(t, err)
	assert.Equal(t, "f", read(t, h), "positive control")
	for _, flag := range []int{os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC, os.O_RDONLY | os.O_CREATE, os.O_RDONLY | os.O_APPEND} {
		_, err := h.Open(flag, 0o644)
		assert.Error(t, err, flag)
	}
	data, err := os.ReadFile(filepath.Join(work, "f"))
	require.NoError(t, err)
	assert.Equal(t, "f", string(data))
}

// TestWhatWouldKeepItsReaderWaiting is refused at once.
func TestWhatWouldKeepItsReaderWaiting(t *testing.T) {
	work, _ := tree(t)
	s := opened(t, NewPolicy().Workspace(work))
	file, err := s.ResolvePath("f", ForWriting)
	require.NoError(t, err)
	if r := sh(t, s, "rm f && mkfifo f pipe"); r.Verdict != OK {
		t.Skipf("no FIFO can be made here: %s", r.Stderr)
	}
	pipe, err := s.ResolvePath("pipe", ForWriting)
	require.NoError(t, err)
	for _, h := range []*HostPath{file, pipe} {
		for _, flag := range []int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC} {
			returns(t, "Open", func() {
				_, err := h.Open(flag, 0)
				assert.Error(t, err)
			})
		}
	}
	h, err := s.ResolvePath("sub", ForReading)
	require.NoError(t, err)
	dir, err := h.Open(os.O_RDONLY, 0)
	require.NoError(t, err, "positive control: a directory is not")
	dir.Close()
	assert.Equal(t, OK, sh(t, s, "rm f && echo new >f").Verdict)
	assert.Equal(t, "new\n", read(t, &HostPath{Path: file.Path, root: file.root, below: file.below}))
	f, err := file.Open(os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	require.NoError(t, err)
	assert.Zero(t, flags&unix.O_NONBLOCK)
}
