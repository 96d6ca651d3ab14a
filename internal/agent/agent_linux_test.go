package agent

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/internal/testenv"
)

const name = "socket"

// packet is a message with its length before it.
func packet(kind byte, rest ...byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(1+len(rest))), append([]byte{kind}, rest...)...)
}

// host is an agent that answers each message with that message, and counts them.
type host struct {
	path string
	seen [256]atomic.Int32
}

func newHost(t *testing.T) *host {
	h := &host{path: filepath.Join(t.TempDir(), "host")}
	l, err := net.Listen("unix", h.path)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 4+longest)
				for {
					m, err := message(c, buf)
					if err != nil {
						return
					}
					h.seen[m[4]].Add(1)
					_, _ = c.Write(m)
				}
			}()
		}
	}()
	return h
}

// dial connects, if need be when there is room in the queue.
func dial(t *testing.T, dir string) (c net.Conn) {
	t.Helper()
	testenv.Eventually(t, func() bool {
		var err error
		c, err = net.Dial("unix", filepath.Join(dir, name))
		return !errors.Is(err, syscall.EAGAIN) && assert.NoError(t, err)
	}, "there is room in the queue")
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(testenv.Limit(10*time.Second))))
	return c
}

func ask(t *testing.T, c net.Conn, request []byte) []byte {
	t.Helper()
	_, err := c.Write(request)
	require.NoError(t, err)
	answer, err := message(c, make([]byte, 4+longest))
	require.NoError(t, err)
	return answer
}

func start(t *testing.T, h string) string {
	t.Helper()
	dir := t.TempDir()
	f, err := Start(dir, name, h)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	return dir
}

// TestOnlyListingAndSigningPass sends every message there can be.
func TestOnlyListingAndSigningPass(t *testing.T) {
	h := newHost(t)
	c := dial(t, start(t, h.path))
	for kind := range 256 {
		request := packet(byte(kind), 0, 0, 0, 0)
		want, passed := packet(failure), int32(0)
		if kind == signRequest {
			want, passed = request, 1
		}
		assert.Equal(t, want, ask(t, c, request), kind)
		assert.Equal(t, passed, h.seen[kind].Load(), kind)
	}
	list := packet(requestIdentities)
	assert.Equal(t, list, ask(t, c, list))
	assert.EqualValues(t, 1, h.seen[requestIdentities].Load(), "with more after it, it is another message")
}

// TestWhatIsNoMessage: the connection ends, and the host's agent has seen nothing of it.
func TestWhatIsNoMessage(t *testing.T) {
	h := newHost(t)
	dir := start(t, h.path)
	for _, wrong := range [][]byte{{0, 0, 0, 0}, {0, 4, 0, 1, signRequest}, {0xff, 0xff, 0xff, 0xff}, []byte("GET / HTTP/1.1\r\n\r\n")} {
		c := dial(t, dir)
		_, err := c.Write(wrong)
		require.NoError(t, err)
		_, err = c.Read(make([]byte, 1))
		assert.Error(t, err, "%q", wrong)
	}
	assert.Equal(t, packet(requestIdentities), ask(t, dial(t, dir), packet(requestIdentities)), "others are served")
	for kind := range h.seen {
		if kind != requestIdentities {
			assert.Zero(t, h.seen[kind].Load())
		}
	}
}

// TestLongMessages: the longest passes whole, in pieces too.
func TestLongMessages(t *testing.T) {
	c := dial(t, start(t, newHost(t).path))
	request := packet(signRequest, bytes.Repeat([]byte("x"), longest-1)...)
	go func() {
		for rest := request; len(rest) > 0; {
			n := min(len(rest), 50_000)
			_, _ = c.Write(rest[:n])
			rest = rest[n:]
		}
	}()
	answer, err := message(c, make([]byte, 4+longest))
	require.NoError(t, err)
	assert.Equal(t, request, answer)
}

// TestManyClients: those that say nothing keep others waiting only until they end.
func TestManyClients(t *testing.T) {
	dir := start(t, newHost(t).path)
	var idle []net.Conn
	for range 2 * mostClients {
		c, err := net.Dial("unix", filepath.Join(dir, name))
		if err != nil {
			break // the queue is full
		}
		idle = append(idle, c)
	}
	require.Greater(t, len(idle), mostClients)
	for _, c := range idle {
		c.Close()
	}
	assert.Equal(t, packet(requestIdentities), ask(t, dial(t, dir), packet(requestIdentities)))
}

// TestAnAgentThatIsGone: a client finds that nobody answers, and the next one the agent that was started anew.
func TestAnAgentThatIsGone(t *testing.T) {
	h := newHost(t)
	path := filepath.Join(t.TempDir(), "agent")
	dir := start(t, path)
	c := dial(t, dir)
	_, err := c.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF)
	require.NoError(t, os.Symlink(h.path, path))
	_, err = dial(t, dir).Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF, "no symlink is followed: it leads wherever its owner likes")
	require.NoError(t, os.Rename(h.path, path))
	assert.Equal(t, packet(requestIdentities), ask(t, dial(t, dir), packet(requestIdentities)))
}

// TestCloseEndsAll: nothing is served afterwards, and no goroutine is left (testenv.Main looks).
func TestCloseEndsAll(t *testing.T) {
	dir := t.TempDir()
	f, err := Start(dir, name, newHost(t).path)
	require.NoError(t, err)
	c := dial(t, dir)
	assert.Equal(t, packet(requestIdentities), ask(t, c, packet(requestIdentities)))
	testenv.Returns(t, "Close", f.Close)
	_, err = c.Read(make([]byte, 1))
	assert.Error(t, err)
	_, err = net.Dial("unix", filepath.Join(dir, name))
	assert.Error(t, err)
}

// TestSocketOfALongPath: an address has room for 107 bytes. Nobody else can connect, and one that is there is not replaced.
func TestSocketOfALongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	require.NoError(t, os.Mkdir(dir, 0o700))
	f, err := Start(dir, name, "/nowhere")
	require.NoError(t, err)
	defer f.Close()
	info, err := os.Lstat(filepath.Join(dir, name))
	require.NoError(t, err)
	assert.Equal(t, os.ModeSocket|0o600, info.Mode())
	_, err = Start(dir, name, "/nowhere")
	assert.ErrorContains(t, err, "address already in use")
	_, err = Start(filepath.Join(dir, "none"), name, "/nowhere")
	assert.ErrorIs(t, err, os.ErrNotExist)
}

type both struct {
	io.Reader
	io.Writer
}

// TestAClientThatEnds while the agent asks its user makes room for others.
func TestAClientThatEnds(t *testing.T) {
	path, asked := filepath.Join(t.TempDir(), "mute"), make(chan struct{}, 2*mostClients)
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if m, err := message(c, make([]byte, 4+longest)); err == nil && m[4] == requestIdentities {
					_, _ = c.Write(m)
				}
				asked <- struct{}{}
				_, _ = c.Read(make([]byte, 1)) // until the filter ends it
			}()
		}
	}()
	dir := start(t, path)
	var waiting []net.Conn
	for range mostClients {
		c := dial(t, dir)
		_, err := c.Write(packet(signRequest, 1))
		require.NoError(t, err)
		testenv.Receive(t, asked, "the agent asks")
		waiting = append(waiting, c)
	}
	for _, c := range waiting {
		c.Close()
	}
	assert.Equal(t, packet(requestIdentities), ask(t, dial(t, dir), packet(requestIdentities)))
}

// FuzzRelay: whatever a client sends, what the host's agent gets is a row of messages that list or sign.
func FuzzRelay(f *testing.F) {
	f.Add(packet(requestIdentities), packet(12, 0, 0, 0, 0))
	f.Add(append(packet(19), packet(signRequest, 1, 2, 3)...), packet(14, 1))
	f.Add([]byte{0, 0, 0, 5, signRequest, 0}, []byte{})
	f.Fuzz(func(t *testing.T, client, agent []byte) {
		var host, answers bytes.Buffer
		buf, from, at := make([]byte, 4+longest), bytes.NewReader(client), both{bytes.NewReader(agent), &host}
		for {
			m, err := message(from, buf)
			if err != nil || relay(slices.Clone(m), &answers, at, make([]byte, 4+longest)) != nil {
				break
			}
		}
		for host.Len() > 0 {
			m, err := message(&host, buf)
			require.NoError(t, err)
			require.True(t, m[4] == signRequest || m[4] == requestIdentities && len(m) == 5)
		}
		for answers.Len() > 0 {
			_, err := message(&answers, buf)
			require.NoError(t, err)
		}
	})
}
