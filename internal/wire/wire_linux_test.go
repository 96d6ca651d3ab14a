package wire

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func pair(t *testing.T) (a, b int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	return fds[0], fds[1]
}

type message struct {
	Name string
	Word []byte
}

func TestAMessageComesAsItWent(t *testing.T) {
	a, b := pair(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	// A plan of a thousand binds is more than a socket's buffer takes.
	sent := message{strings.Repeat("long ", 1<<20), []byte{0xff, 0xfe}}
	require.NoError(t, Send(a, sent, int(w.Fd())))
	w.Close()
	var got message
	fds, err := Receive(b, &got)
	require.NoError(t, err)
	require.Len(t, fds, 1)
	assert.Equal(t, sent, got)
	_, err = unix.Write(fds[0], []byte("through"))
	require.NoError(t, err)
	unix.Close(fds[0])
	data, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.Equal(t, "through", string(data))
}

func TestTheEndAndNonsense(t *testing.T) {
	a, b := pair(t)
	require.NoError(t, unix.Send(a, []byte("x"), 0))
	_, err := Receive(b, &message{})
	assert.ErrorContains(t, err, "bug")
	require.NoError(t, Send(a, "not an order"))
	_, err = Receive(b, &message{})
	assert.Error(t, err)
	require.NoError(t, unix.Shutdown(a, unix.SHUT_RDWR))
	_, err = Receive(b, &message{})
	assert.ErrorIs(t, err, io.EOF)
	assert.ErrorIs(t, Send(a, message{}), unix.EPIPE)
}

// TestTheEndRacesTheLastMessage looks for a message at the moment that it comes, and the end behind it: the kernel may tell of that first.
// A socket that does not block has the wider window.
func TestTheEndRacesTheLastMessage(t *testing.T) {
	for i := range testenv.Times(20000) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		require.NoError(t, err)
		sent := make(chan error, 1)
		go func() {
			sent <- Send(fds[1], i)
			unix.Close(fds[1])
		}()
		got, err := -1, error(unix.EAGAIN)
		for errors.Is(err, unix.EAGAIN) {
			_, err = Receive(fds[0], &got)
		}
		unix.Close(fds[0])
		require.NoError(t, errors.Join(err, <-sent), "round %d", i)
		require.Equal(t, i, got)
	}
}

// TestAMessageCarriesManyDescriptors: as many as the kernel takes, of which the memory file is one.
func TestAMessageCarriesManyDescriptors(t *testing.T) {
	a, b := pair(t)
	many := make([]int, maxPassed-1)
	for i := range many {
		many[i] = a
	}
	require.NoError(t, Send(a, "many", many...))
	var got string
	fds, err := Receive(b, &got)
	require.NoError(t, err)
	assert.Len(t, fds, len(many))
	assert.Equal(t, "many", got)
	CloseAll(fds)
	assert.ErrorIs(t, Send(a, "too many", append(many, a)...), unix.EINVAL)
}
