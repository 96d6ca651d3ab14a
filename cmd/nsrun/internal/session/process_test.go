package session

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// gather reads n lines, in an order of their own.
func gather(c *talk, n int) []string {
	var all []string
	for range n {
		all = append(all, c.line())
	}
	slices.Sort(all)
	return all
}

func TestAProcessIsTalkedTo(t *testing.T) {
	c := withSession(t)
	require.Equal(t, `{"id":"p","ok":{"started":true}}`, c.ask(`{"id":"p","op":"start","args":["cat"]}`))
	c.send(`{"id":1,"op":"write","of":"p","data":"hello\n"}`)
	assert.Equal(t, []string{`{"id":"p","stdout":"hello\n"}`, `{"id":1,"ok":{}}`}, gather(c, 2))
	c.send(`{"id":1,"op":"write","of":"p","data":{"base64":"/w=="}}`)
	assert.Equal(t, []string{`{"id":"p","stdout":{"base64":"/w=="}}`, `{"id":1,"ok":{}}`}, gather(c, 2))
	c.send(`{"id":1,"op":"signal","of":"p","signal":"SIGUSR1"}`)
	assert.Equal(t, []string{`{"id":"p","stderr":"user defined signal 1\n"}`, `{"id":1,"ok":{}}`}, gather(c, 2))
	c.send(`{"id":1,"op":"resize","of":"p","terminal":{"rows":3,"cols":4}}`)
	assert.Equal(t, []string{`{"id":"p","stderr":"3x4\n"}`, `{"id":1,"ok":{}}`}, gather(c, 2))
	assert.Contains(t, c.ask(`{"id":"p","op":"ping"}`), `in flight already`, "its id is taken")

	c.send(`{"id":1,"op":"write","of":"p","data":"bye","eof":true}`, `{"id":2,"op":"wait","of":"p"}`)
	got := strings.Join(gather(c, 5), "\n")
	assert.Contains(t, got, `{"id":"p","stdout":"bye"}`)
	assert.Contains(t, got, `{"id":"p","closed":"stdout"}`)
	assert.Contains(t, got, `{"id":"p","closed":"stderr"}`)
	assert.Contains(t, got, `{"id":1,"ok":{}}`)
	assert.Contains(t, got, `{"id":2,"ok":{"version":1,"verdict":"ok","code":0`)
	assert.NotContains(t, got, `"stdout_bytes"`)
}

func TestWritesAreDoneInTheirOrder(t *testing.T) {
	c := withSession(t)
	c.send(`{"id":"p","op":"start","args":["cat"]}`)
	want := ""
	for i := range 100 {
		c.send(fmt.Sprintf(`{"id":%d,"op":"write","of":"p","data":"%d "}`, i, i))
		want += fmt.Sprintf("%d ", i)
	}
	c.send(`{"id":"e","op":"write","of":"p","eof":true}`)
	got := ""
	for !strings.HasSuffix(got, "END") {
		v := unmarshal(t, c.line())
		if v["id"] == "p" && v["stdout"] != nil {
			got += v["stdout"].(string)
		} else if v["closed"] == "stdout" {
			got += "END"
		}
	}
	assert.Equal(t, want+"END", got)
}

func TestAProcessEnds(t *testing.T) {
	for _, c := range []struct{ name, by, answer string }{
		{"cancelled", `{"id":"x","op":"cancel","of":"p"}`, `{"id":"x","ok":{}}`},
		{"with its session", `{"id":"x","op":"close","now":true}`, `{"id":"x","ok":{"closed":[""]}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := withSession(t)
			k.ask(`{"id":"p","op":"start","args":["deaf"]}`)
			k.send(`{"id":1,"op":"write","of":"p","data":"nobody reads this"}`, `{"id":2,"op":"wait","of":"p"}`, c.by)
			got := strings.Join(gather(k, 5), "\n")
			assert.Contains(t, got, c.answer)
			assert.Contains(t, got, `{"id":2,"ok":{"version":1,"verdict":"interrupted"`)
			assert.Contains(t, got, `{"id":1,"error":{"kind":"closed"`)
			assert.Contains(t, got, `{"id":"p","closed":"stdout"}`)
			for range 100 { // its id is free again in a moment
				if got = k.ask(`{"id":"q","op":"wait","of":"p"}`); strings.Contains(got, "nothing with the id") {
					return
				}
			}
			assert.Fail(t, "its id is not free", got)
		})
	}
}

func TestRequestsToAProcessThatIsNone(t *testing.T) {
	c := withSession(t)
	c.send(`{"id":"s","op":"exec","args":["sleep"]}`)
	assert.Contains(t, c.ask(`{"id":1,"op":"write","of":"s","data":"x"}`), `"kind":"protocol","text":"\"s\" is no process"`)
	assert.Contains(t, c.ask(`{"id":1,"op":"signal","of":"t","signal":"TERM"}`), `"kind":"closed"`)
	c.send(`{"id":"p","op":"start","args":["missing"]}`, `{"id":1,"op":"write","of":"p","data":"x"}`)
	got := gather(c, 2)
	assert.Contains(t, got[0], `"kind":"not-found"`)
	assert.Contains(t, got[1], `"kind":"closed"`)
	assert.Contains(t, c.ask(`{"id":"p","op":"ping"}`), `"ok"`, "the id of what has not started is free")
}

func TestAWaitCanBeCancelledAndAWriteCannot(t *testing.T) {
	c := withSession(t)
	c.ask(`{"id":"p","op":"start","args":["deaf"]}`)
	c.send(`{"id":1,"op":"wait","of":"p"}`, `{"id":2,"op":"cancel","of":1}`)
	assert.Equal(t, []string{`{"id":1,"error":{"kind":"closed","text":"it was cancelled"}}`, `{"id":2,"ok":{}}`}, gather(c, 2))
	c.send(`{"id":1,"op":"write","of":"p","data":"x"}`)
	assert.Contains(t, c.ask(`{"id":2,"op":"cancel","of":1}`), `"a write cannot be cancelled"`)
}

// TestWhatIsCancelledWaitsNoMore, however long its process lives.
func TestWhatIsCancelledWaitsNoMore(t *testing.T) {
	c := withSession(t)
	c.ask(`{"id":"p","op":"start","args":["deaf"]}`)
	before := runtime.NumGoroutine()
	for range 50 {
		c.send(`{"id":1,"op":"wait","of":"p"}`, `{"id":2,"op":"cancel","of":1}`)
		assert.Contains(t, strings.Join(gather(c, 2), ""), "it was cancelled")
	}
	testenv.Eventually(t, func() bool { return runtime.NumGoroutine() < before+10 }, "the goroutines that waited to end")
}

// TestASessionThatDiesTakesItsProcesses: their ids are free when another one has its name.
func TestASessionThatDiesTakesItsProcesses(t *testing.T) {
	c := withSession(t)
	const each = 200 // of 256 that there may be
	for round := range 3 {
		for i := range each {
			require.Contains(t, c.ask(fmt.Sprintf(`{"id":"p%d","op":"start","args":["deaf"]}`, i)), `"started":true`, round)
		}
		c.send(`{"id":1,"op":"exec","args":["die"]}`)
		got := strings.Join(gather(c, 2*each+1), "\n")
		assert.Contains(t, got, `{"id":1,"ok":{"version":1,"verdict":"interrupted"`)
		assert.Contains(t, got, `{"id":"p0","closed":"stdout"}`)
		require.Contains(t, c.ask(`{"id":1,"op":"open","policy":{}}`), `"ok"`)
		end := time.Now().Add(testenv.Limit(0))
		for i := range each {
			for !strings.Contains(c.ask(fmt.Sprintf(`{"id":"p%d","op":"ping"}`, i)), `"protocol":1`) {
				require.True(t, time.Now().Before(end), "its ids are not free")
			}
		}
	}
}
