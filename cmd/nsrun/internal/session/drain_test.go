package session

import (
	"fmt"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// endInput closes the input and waits until the server has seen that.
func (c *talk) endInput() {
	c.t.Helper()
	require.NoError(c.t, c.in.Close())
	testenv.Eventually(c.t, func() bool {
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		return c.server.drained
	}, "the end of the input to be seen")
}

func TestTheEndOfInputComesAfterTheRequests(t *testing.T) {
	c := begin(t)
	c.send(`{"id":1,"op":"open","manifest":"/gate"}`, `{"id":2,"op":"exec","args":["later"]}`, `{"id":3,"op":"exec","args":["sooner"]}`,
		`{"id":4,"op":"close"}`)
	c.endInput()
	close(c.host.gate)
	for _, want := range []string{
		`{"id":1,"ok":{"session":""`,
		`{"id":2,"ok":{"version":1,"verdict":"ok"`,
		`{"id":3,"ok":{"version":1,"verdict":"ok"`,
		`{"id":4,"ok":{"closed":[""]}}`,
	} {
		assert.Contains(t, c.line(), want, "in the order of requests")
	}
	require.NoError(t, c.finish())
}

func TestTheEndOfInputIsTheEndOfAProcessesInput(t *testing.T) {
	c := withSession(t)
	c.send(`{"id":"p","op":"start","args":["cat"]}`, `{"id":1,"op":"write","of":"p","data":"hello"}`, `{"id":2,"op":"wait","of":"p"}`)
	require.NoError(t, c.in.Close())
	got := fmt.Sprint(gather(c, 6))
	assert.Contains(t, got, `{"id":"p","stdout":"hello"}`)
	assert.Contains(t, got, `{"id":"p","closed":"stdout"}`)
	assert.Contains(t, got, `{"id":2,"ok":{"version":1,"verdict":"ok"`)
	require.NoError(t, c.finish())
}

func TestACloseComesAfterTheRequestsBeforeIt(t *testing.T) {
	c := withSession(t)
	c.ask(`{"id":1,"op":"open","session":"b","policy":{}}`)
	c.send(`{"id":2,"op":"exec","args":["later"]}`, `{"id":3,"op":"close","session":""}`)
	assert.Contains(t, c.ask(`{"id":4,"op":"exec","args":["echo"]}`), `"text":"the session \"\" is not open"`, "what comes after it is too late")
	c.send(`{"id":4,"op":"exec","session":"b","args":["sooner"]}`)
	got := fmt.Sprint(gather(c, 3))
	assert.Contains(t, got, `{"id":4,"ok":{"version":1,"verdict":"ok"`, "other sessions do not wait")
	assert.Regexp(t, `{"id":2,"ok":{"version":1,"verdict":"ok".*{"id":3,"ok":{"closed":\[""\]}}`, got)
}

func TestACloseThatWaitsEndsWhatItWaitsForWhenItIsCancelled(t *testing.T) {
	c := withSession(t)
	c.send(`{"id":1,"op":"exec","args":["sleep"]}`, `{"id":2,"op":"close"}`, `{"id":3,"op":"cancel","of":2}`)
	got := fmt.Sprint(gather(c, 3))
	assert.Regexp(t, `{"id":1,("ok":{"version":1,"verdict":"interrupted"|"error":{"kind":"closed")`, got, "it may not have begun yet")
	assert.Contains(t, got, `{"id":2,"ok":{"closed":[""]}}`)
}

// TestAnswersInOrderNeedNoMoreRoom: one that waits for room to collect its output in does not wait for answers behind it, which hold that.
func TestAnswersInOrderNeedNoMoreRoom(t *testing.T) {
	c := open(beginWith(t, roomFor(4*mib)))
	const n = 32
	for i := range n {
		c.send(fill(i))
	}
	c.endInput()
	for range n {
		require.True(t, ranWell(c))
	}
	require.NoError(t, c.finish())
}

func TestAReaderThatIsSlowIsNoneThatIsGone(t *testing.T) {
	c := open(beginWith(t, func(s *server) { s.unreadLimit = 200 * time.Millisecond }))
	c.send(`{"id":1,"op":"exec","args":["echo","x"]}`, `{"id":2,"op":"exec","args":["sleep"]}`)
	c.endInput()
	c.line()
	c.asleep(1)
	time.Sleep(500 * time.Millisecond)
	assert.EqualValues(t, 1, c.host.asleep.Load(), "nothing was there to be read")
	c.end(nil)
	_ = c.line()
}
