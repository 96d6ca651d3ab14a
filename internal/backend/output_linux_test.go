package backend

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pumping is a pump from a pipe to a file, and the command's end of the pipe.
func pumping(t *testing.T, to *os.File, plain bool) (*pumps, *os.File) {
	t.Helper()
	from, theirs, err := os.Pipe()
	require.NoError(t, err)
	fd, err := unix.Dup(int(from.Fd()))
	require.NoError(t, err)
	require.NoError(t, from.Close())
	s := &pumps{all: []*pump{{from: fd, to: int(to.Fd()), plain: plain, left: 1 << 20}}}
	t.Cleanup(func() { s.close(); theirs.Close() })
	return s, theirs
}

// served lets it serve once what is ready.
func served(t *testing.T, s *pumps) {
	t.Helper()
	turns := 0
	once := func(bool) (time.Duration, bool) { turns++; return 0, turns == 1 }
	require.NoError(t, loop(once, s.sources(func() {})...))
}

func TestTheEndOfAReaderIsSeenBeforeTheNextWrite(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	s, theirs := pumping(t, w, false)
	served(t, s)
	require.False(t, s.all[0].ended, "positive control: somebody reads")
	require.NoError(t, r.Close())
	served(t, s)
	fds := []unix.PollFd{{Fd: int32(theirs.Fd())}}
	n, err := unix.Poll(fds, 0)
	require.NoError(t, err)
	assert.Equal(t, 1, n, "a command that waits for the end of its reader, as tail -f does, sees it")
	assert.NotZero(t, fds[0].Revents&unix.POLLERR)
}

// A command that writes too much is killed, which its end should tell, and no SIGPIPE on the way there.
func TestTooMuchBreaksNoPipe(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	s, theirs := pumping(t, w, false)
	s.all[0].left = 2
	_, err = theirs.WriteString("abc")
	require.NoError(t, err)
	served(t, s)
	require.False(t, s.all[0].passed.Over, "so much may be")
	served(t, s)
	require.True(t, s.all[0].passed.Over)
	_, err = theirs.WriteString("more")
	assert.NoError(t, err)
	served(t, s)
	s.close()
	_, err = theirs.WriteString("more")
	assert.ErrorIs(t, err, unix.EPIPE, "positive control")
	buf := make([]byte, 10)
	n, err := r.Read(buf)
	require.NoError(t, err)
	assert.Equal(t, "ab", string(buf[:n]))
}

func TestWhatAFileDoesNotTakeIsReported(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	s, theirs := pumping(t, full, true)
	_, err = theirs.WriteString("hi")
	require.NoError(t, err)
	served(t, s)
	s.all[0].to = 1
	assert.Equal(t, unix.ENOSPC.Error(), s.all[0].passed.Lost)
	assert.Zero(t, s.passed()[0].Bytes)
	require.Len(t, s.notes(), 1)
	assert.Contains(t, s.notes()[0].Loss, "standard output: it took 0 bytes")
}

// TestWhatCannotBeSplicedIsReported has a reader's end in the place of the writer's, for an error that is not the end of the reader.
func TestWhatCannotBeSplicedIsReported(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	s, theirs := pumping(t, r, false)
	_, err = theirs.WriteString("abc")
	require.NoError(t, err)
	s.all[0].move()
	assert.True(t, s.all[0].ended)
	assert.Equal(t, Passed{Lost: unix.EBADF.Error()}, s.all[0].passed)
}

// TestNothingIsLostWithItsReader has a reader that has gone, which the command sees itself.
func TestNothingIsLostWithItsReader(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	s, theirs := pumping(t, w, false)
	_, err = theirs.WriteString("abc")
	require.NoError(t, err)
	require.NoError(t, r.Close())
	s.all[0].move()
	assert.True(t, s.all[0].ended)
	assert.Empty(t, s.all[0].passed.Lost)
}

func TestAFIFOIsLeftAlone(t *testing.T) {
	name := t.TempDir() + "/fifo"
	require.NoError(t, unix.Mkfifo(name, 0o600))
	fifo, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	defer fifo.Close()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	assert.False(t, nameless(int(fifo.Fd())), "its readers come and go")
	assert.True(t, nameless(int(w.Fd())), "positive control")
}

// TestARestThatCannotBeWaitedForIsReported has ppoll(2) fail while a command's last output waits for its reader: it is lost then, which must be said.
func TestARestThatCannotBeWaitedForIsReported(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	var limit unix.Rlimit
	require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &limit))
	for files, notes := range map[uint64]int{limit.Cur: 0, 1: 1} { // one is fewer than there are sources: EINVAL
		s, theirs := pumping(t, w, false)
		_, err = theirs.WriteString("the last")
		require.NoError(t, err)
		require.NoError(t, theirs.Close())
		require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: limit.Max}, nil))
		s.rest(time.Time{}, func() bool { return false }, &source{fd: -1})
		require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, &limit, nil))
		found := s.all[0].passed.Notes("standard output")
		require.Len(t, found, notes, "%d files", files)
		if notes > 0 {
			assert.Equal(t, "standard output: it took 0 bytes, and the rest is lost: ppoll: invalid argument", found[0].Loss)
		}
	}
}

// TestDataThatCannotBeCountedIsReported: what is in a pipe at the command's end is passed on, and where it cannot be counted it is lost, which must be said.
func TestDataThatCannotBeCountedIsReported(t *testing.T) {
	s := &pumps{all: []*pump{{from: -1, to: 1}}}
	s.stopBehind()
	assert.True(t, s.done())
	assert.Equal(t, "ioctl(TIOCINQ): bad file descriptor", s.all[0].passed.Lost)
}

// TestAdviceOnLostOutputFitsItsCause: room helps where there was none, and nowhere else.
func TestAdviceOnLostOutputFitsItsCause(t *testing.T) {
	for cause, room := range map[error]bool{unix.ENOSPC: true, unix.EDQUOT: true, unix.EIO: false, unix.EPIPE: false} {
		notes := Passed{Counted: true, Bytes: 7, Lost: cause.Error()}.Notes("standard error")
		require.Len(t, notes, 1, cause)
		assert.Equal(t, "standard error: it took 7 bytes, and the rest is lost: "+cause.Error(), notes[0].Loss)
		assert.Equal(t, room, strings.Contains(notes[0].Fix, "make room"), "%s: %s", cause, notes[0].Fix)
	}
	assert.Empty(t, Passed{Counted: true, Bytes: 7}.Notes("standard error"), "nothing was lost")
}
