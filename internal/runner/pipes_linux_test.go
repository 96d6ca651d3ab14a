package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fifo makes one and opens it as a reader on the host does, who gets what was written by now.
func fifo(t *testing.T, name string) (read func() string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, unix.Mkfifo(name, 0o666))
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return func() string {
		buf := make([]byte, 64)
		n, err := unix.Read(fd, buf)
		if !errors.Is(err, unix.EAGAIN) {
			require.NoError(t, err)
		}
		return string(buf[:max(n, 0)])
	}
}

// shared makes a directory outside of /tmp, which is private inside.
func shared(t *testing.T) string {
	t.Helper()
	dir, err := testenv.MakeDir("nsrun-fifo-")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// TestNoFIFOIsWrittenIntoBelowWhatIsReadOnly: finding S3. What is writable around it, a directory of the host or the private /tmp, is to
// Landlock above what is mounted in it, and a read-only mount does not count for FIFOs.
func TestNoFIFOIsWrittenIntoBelowWhatIsReadOnly(t *testing.T) {
	work := shared(t)
	sub := filepath.Join(work, "sub")
	free, near, deep, again := fifo(t, work+"/p"), fifo(t, sub+"/p"), fifo(t, sub+"/a/b/p"), fifo(t, sub+"/rw/p")
	covered := map[string]func() string{sub + "/p": near, sub + "/a/b/p": deep}
	grants := NewPolicy().Workspace(work).ReadOnly(sub).ReadWrite(sub + "/rw")
	if inTmp, err := os.MkdirTemp("/tmp", "nsrun-fifo-"); !errors.Is(err, unix.EROFS) { // there are machines where nothing can be made there
		require.NoError(t, err)
		t.Cleanup(func() { os.RemoveAll(inTmp) })
		covered[inTmp+"/p"] = fifo(t, inTmp+"/p")
		grants.ReadOnly(inTmp)
	}
	write := func(name string) []string { return Shell("echo x >" + name + " || exit 3") }
	p := built(t, grants)
	run := func(name string) *ExecResult {
		r, err := Run(t.Context(), p, write(name), nil)
		require.NoError(t, err, name)
		return r
	}
	run(work + "/p")
	assert.Equal(t, "x\n", free(), "positive control: a FIFO in what is writable is written into")
	run(sub + "/rw/p")
	assert.Equal(t, "x\n", again(), "and one that is granted to be written inside")
	for name, read := range covered {
		r := run(name)
		assert.Empty(t, read(), name)
		assert.Contains(t, fmt.Sprint(r.Receipt.Notes), name, "what is covered is told")
	}
	s := opened(t, NewPolicy().Workspace(work).ReadOnly(sub))
	_, err := s.Exec(t.Context(), write(sub+"/a/b/p"), nil)
	require.NoError(t, err)
	assert.Empty(t, deep(), "in a session")
}
