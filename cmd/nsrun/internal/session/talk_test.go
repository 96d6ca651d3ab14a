package session

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"
)

// talk is a conversation with a server, by pipes.
type talk struct {
	t      *testing.T
	host   *fakeHost
	server *server
	in     *io.PipeWriter
	out    *bufio.Reader
	outEnd *io.PipeReader
	end    context.CancelCauseFunc
	left   chan struct{}
	ended  chan error
}

func begin(t *testing.T) *talk {
	t.Helper()
	return beginWith(t, func(*server) {})
}

// roomFor is another bound on output that is collected.
func roomFor(collected int64) func(*server) {
	return func(s *server) { s.collected = semaphore.NewWeighted(collected) }
}

// beginWith is begin with a server that has other bounds.
func beginWith(t *testing.T, change func(*server)) *talk {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ctx, end := context.WithCancelCause(t.Context())
	c := &talk{t: t, host: &fakeHost{later: make(chan struct{}), gate: make(chan struct{})}, in: toServer, out: bufio.NewReader(fromServer), outEnd: fromServer, end: end,
		left: make(chan struct{}), ended: make(chan error, 1)}
	c.server = newServer(ctx, c.host, "test")
	change(c.server)
	go func() { c.ended <- c.server.serve(in, out, c.left) }()
	t.Cleanup(func() {
		_ = toServer.Close()
		_ = fromServer.Close()
		end(nil)
	})
	return c
}

// withSession is begin with the session "" open.
func withSession(t *testing.T) *talk {
	t.Helper()
	return open(begin(t))
}

func open(c *talk) *talk {
	c.t.Helper()
	require.Contains(c.t, c.ask(`{"id":"o","op":"open","policy":{}}`), `"ok":{"session":""`)
	return c
}

func (c *talk) send(lines ...string) {
	c.t.Helper()
	for _, l := range lines {
		_, err := io.WriteString(c.in, l+"\n")
		require.NoError(c.t, err)
		checkLine(c.t, l, false)
	}
}

// line is the next line, which must be one that the schema knows.
func (c *talk) line() string {
	c.t.Helper()
	late := time.AfterFunc(testenv.Limit(0), func() { _ = c.outEnd.CloseWithError(errors.New("no line comes")) })
	defer late.Stop()
	l, err := c.out.ReadString('\n')
	require.NoError(c.t, err)
	checkLine(c.t, l, true)
	return strings.TrimSuffix(l, "\n")
}

func (c *talk) ask(line string) string {
	c.t.Helper()
	c.send(line)
	return c.line()
}

// asleep waits until so many commands sleep.
func (c *talk) asleep(n int32) {
	c.t.Helper()
	testenv.Eventually(c.t, func() bool { return c.host.asleep.Load() == n }, fmt.Sprintf("%d commands to sleep", n))
}

// finish waits for the server's end.
func (c *talk) finish() error {
	c.t.Helper()
	err := testenv.Receive(c.t, c.ended, "the end of the server")
	require.Zero(c.t, c.host.open.Load(), "every sandbox is closed")
	return err
}

func unmarshal(t *testing.T, line string) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(line), &v), line)
	return v
}
