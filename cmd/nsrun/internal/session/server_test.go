package session

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnswers(t *testing.T) {
	for _, c := range []struct{ name, send, want string }{
		{"ping", `{"id":1,"op":"ping"}`, `{"id":1,"ok":{"protocol":1,"version":"test"}}`},
		{"a string as id", `{"id":"ä","op":"ping"}`, `{"id":"ä","ok":{"protocol":1,"version":"test"}}`},
		{"words", `{"id":-7,"op":"exec","args":["echo","a","<b>"]}`, `{"id":-7,"ok":{RESULT,"stdout":"a <b>","stderr":"","stdout_bytes":5,"stderr_bytes":0}}`},
		{"a script", `{"id":1,"op":"exec","shell":"a|b"}`, `{"id":1,"ok":{RESULT,"stdout":"-c a|b","stderr":"","stdout_bytes":6,"stderr_bytes":0}}`},
		{"text to read", `{"id":1,"op":"exec","args":["cat"],"stdin":"é\u0000"}`, `{"id":1,"ok":{RESULT,"stdout":"é\u0000","stderr":"","stdout_bytes":3,"stderr_bytes":0}}`},
		{"bytes to read", `{"id":1,"op":"exec","args":["cat"],"stdin":{"base64":"/wA="}}`, `{"id":1,"ok":{RESULT,"stdout":{"base64":"/wA="},"stderr":"","stdout_bytes":2,"stderr_bytes":0}}`},
		{"nothing to read", `{"id":1,"op":"exec","args":["cat"]}`, `{"id":1,"ok":{RESULT,"stdout":"","stderr":"","stdout_bytes":0,"stderr_bytes":0}}`},
		{"base64 asked for", `{"id":1,"op":"exec","args":["echo","hi"],"encoding":"base64"}`, `{"id":1,"ok":{RESULT,"stdout":{"base64":"aGk="},"stderr":{"base64":""},"stdout_bytes":2,"stderr_bytes":0}}`},
		{"bytes written", `{"id":1,"op":"exec","args":["binary"]}`, `{"id":1,"ok":{RESULT,"stdout":{"base64":"/wA="},"stderr":"oops","stdout_bytes":2,"stderr_bytes":4}}`},
		{"cut in a character", `{"id":1,"op":"exec","args":["echo","éé"],"max_output":3}`, `{"id":1,"ok":{RESULT,"stdout":"é","stderr":"","stdout_bytes":4,"stderr_bytes":0,"stdout_truncated":true}}`},
		{"all options", `{"id":1,"op":"exec","args":["env"],"env":{"A":"1","B":"x=y"},"labels":{"task":"17"},"cwd":"sub","timeout":"1m30s","fresh":true,"terminal":{"rows":24,"cols":80}}`,
			`{"id":1,"ok":{RESULT,"stdout":"A=1,B=x=y,task=17 sub 1m30s true &{24 80}","stderr":"","stdout_bytes":41,"stderr_bytes":0}}`},
		{"seconds", `{"id":1,"op":"exec","args":["env"],"timeout":0.25}`, `{"id":1,"ok":{RESULT,"stdout":"  250ms false <nil>","stderr":"","stdout_bytes":19,"stderr_bytes":0}}`},
		{"a command that fails", `{"id":1,"op":"exec","args":["exit","3"]}`,
			`{"id":1,"ok":{"version":1,"verdict":"exit","code":3,"exit_status":3,"wall_ms":0,"user_ms":0,"system_ms":0,"max_rss_kib":0,"stdout":"","stderr":"","stdout_bytes":0,"stderr_bytes":0}}`},
		{"a receipt", `{"id":1,"op":"exec","args":["echo"],"receipt":true}`, `{"id":1,"ok":{RESULT,"receipt":{"backend":"fake"},"stdout":"","stderr":"","stdout_bytes":0,"stderr_bytes":0}}`},
		{"resolve", `{"id":1,"op":"resolve","path":"a"}`, `{"id":1,"ok":{"path":"/host/a"}}`},
		{"resolve to write", `{"id":1,"op":"resolve","path":"a","access":"write"}`, `{"id":1,"error":{"kind":"refused","text":"a is read-only","field":"path","fix":"grant it"}}`},
		{"not installed", `{"id":1,"op":"exec","args":["missing"]}`,
			`{"id":1,"error":{"kind":"not-found","text":"exec: missing: command not found in the sandbox","fix":"install it","name":"missing"}}`},
		{"not installed, to be started", `{"id":1,"op":"start","args":["missing"]}`,
			`{"id":1,"error":{"kind":"not-found","text":"exec: missing: command not found in the sandbox","fix":"install it","name":"missing"}}`},
		{"refused", `{"id":1,"op":"exec","args":["refused"]}`, `{"id":1,"error":{"kind":"refused","text":"/root is not shown","field":"cwd","fix":"grant it"}}`},
		{"a step that fails", `{"id":1,"op":"exec","args":["broken"]}`,
			`{"id":1,"error":{"kind":"setup","text":"mount (bind /a): operation not permitted","fix":"run nsrun doctor","step":"mount"}}`},
		{"an error of no kind", `{"id":1,"op":"exec","args":["odd"]}`, `{"id":1,"error":{"kind":"setup","text":"something else"}}`},
		{"a bad policy", `{"id":1,"op":"open","session":"x","manifest":"/bad"}`,
			`{"id":1,"error":{"kind":"refused","text":"allow lists are not supported","field":"network","fix":"write none or host"}}`},
		{"a host that lacks something", `{"id":1,"op":"open","session":"x","manifest":"/lacks"}`,
			`{"id":1,"error":{"kind":"refused","text":"this host cannot enforce the policy\n  landlock: files (boot with lsm=landlock)","fix":"boot with lsm=landlock","unmet":[{"feature":"landlock","loss":"files","fix":"boot with lsm=landlock"}]}}`},
		{"another session", `{"id":1,"op":"open","session":"x","policy":{},"dir":"/d"}`,
			`{"id":1,"ok":{"session":"x","dir":"/work","backend":"fake","receipt":{"backend":"fake","holds":["files"],"lost":["network"]}}}`},
		{"open twice", `{"id":1,"op":"open","policy":{}}`,
			`{"id":1,"error":{"kind":"protocol","text":"the session \"\" is open already","field":"session","fix":"give it another name, or close that one first"}}`},
		{"no such session", `{"id":1,"op":"exec","session":"y","args":["echo"]}`,
			`{"id":1,"error":{"kind":"closed","text":"the session \"y\" is not open","field":"session","fix":"open it first"}}`},
		{"close no such session", `{"id":1,"op":"close","session":"y"}`, `{"id":1,"error":{"kind":"closed","text":"the session \"y\" is not open","field":"session"}}`},
		{"close", `{"id":1,"op":"close","session":""}`, `{"id":1,"ok":{"closed":[""]}}`},
		{"close all", `{"id":1,"op":"close"}`, `{"id":1,"ok":{"closed":[""]}}`},
		{"cancel nothing", `{"id":1,"op":"cancel","of":9}`, `{"id":1,"error":{"kind":"closed","text":"nothing with the id 9 is in flight","field":"of"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := strings.Replace(c.want, "RESULT", `"version":1,"verdict":"ok","code":0,"exit_status":0,"wall_ms":0,"user_ms":0,"system_ms":0,"max_rss_kib":0`, 1)
			assert.Equal(t, want, withSession(t).ask(c.send))
		})
	}
}

func TestStreamsComeAsTheyAreAndThenTheResult(t *testing.T) {
	c := withSession(t)
	c.send(`{"id":1,"op":"exec","args":["bytes","aé€😀"],"stream":true}`)
	for _, want := range []string{"a", "é", "€", "😀"} {
		assert.Equal(t, `{"id":1,"stdout":"`+want+`"}`, c.line(), "no character is cut in two")
	}
	end := c.line()
	assert.Contains(t, end, `"verdict":"ok"`)
	assert.Contains(t, end, `"stdout_bytes":10,"stderr_bytes":0}`)
	c.send(`{"id":1,"op":"exec","args":["bytes","é"],"stream":true,"encoding":"base64"}`)
	assert.Equal(t, `{"id":1,"stdout":{"base64":"ww=="}}`, c.line())
	assert.Equal(t, `{"id":1,"stdout":{"base64":"qQ=="}}`, c.line())
	c.line()
	c.send(`{"id":1,"op":"exec","args":["binary"],"stream":true}`)
	assert.Equal(t, `{"id":1,"stdout":{"base64":"/wA="}}`, c.line())
	assert.Equal(t, `{"id":1,"stderr":"oops"}`, c.line())
	c.line()
}

func TestRequestsFollowAnOpenAtOnce(t *testing.T) {
	c := begin(t)
	c.send(`{"id":1,"op":"open","session":"a","policy":{}}`, `{"id":2,"op":"exec","session":"a","args":["echo","x"]}`,
		`{"id":3,"op":"open","session":"b","manifest":"/bad"}`, `{"id":4,"op":"exec","session":"b","args":["echo","x"]}`)
	got := map[float64]string{}
	for range 4 {
		l := c.line()
		got[unmarshal(t, l)["id"].(float64)] = l
	}
	assert.Contains(t, got[2], `"stdout":"x"`)
	assert.Contains(t, got[3], `"kind":"refused"`)
	assert.Contains(t, got[4], `"kind":"closed"`)
}

func TestTheHostKnowsOfMoreThanOneRequest(t *testing.T) {
	c := withSession(t)
	for range 3 {
		assert.Contains(t, c.ask(`{"id":1,"op":"exec","args":["echo","x"]}`), `"stdout":"x"`)
	}
	assert.Zero(t, c.host.busy.Load(), "one after the other")
	c.send(`{"id":1,"op":"exec","args":["sleep"]}`)
	c.asleep(1)
	assert.Zero(t, c.host.busy.Load())
	c.ask(`{"id":2,"op":"ping"}`)
	assert.NotZero(t, c.host.busy.Load())
}

func TestCancelEndsWhatIsInFlight(t *testing.T) {
	c := withSession(t)
	c.send(`{"id":1,"op":"exec","args":["sleep"]}`, `{"id":2,"op":"open","session":"slow","manifest":"/slow"}`)
	assert.Contains(t, c.ask(`{"id":1,"op":"ping"}`), `"text":"1 is in flight already"`)
	c.asleep(1)
	c.send(`{"id":3,"op":"cancel","of":1}`, `{"id":4,"op":"cancel","of":2}`)
	got := map[float64]string{}
	for range 4 {
		l := c.line()
		got[unmarshal(t, l)["id"].(float64)] = l
	}
	assert.Contains(t, got[1], `"verdict":"interrupted"`, "a command that ran has a result")
	assert.Equal(t, `{"id":2,"error":{"kind":"closed","text":"it was cancelled"}}`, got[2])
	assert.Equal(t, `{"id":3,"ok":{}}`, got[3])
	assert.Contains(t, c.ask(`{"id":1,"op":"ping"}`), `"ok"`, "the id is free again")
}

func TestCloseEndsTheCommandsOfItsSessionAlone(t *testing.T) {
	c := withSession(t)
	c.ask(`{"id":1,"op":"open","session":"b","policy":{}}`)
	c.send(`{"id":2,"op":"exec","args":["sleep"]}`, `{"id":3,"op":"exec","session":"b","args":["sleep"]}`)
	c.asleep(2)
	c.send(`{"id":4,"op":"close","session":"b","now":true}`)
	a, b := c.line(), c.line()
	if strings.Contains(a, `"id":4`) {
		a, b = b, a
	}
	assert.Contains(t, a, `{"id":3,"ok":{"version":1,"verdict":"interrupted"`)
	assert.Equal(t, `{"id":4,"ok":{"closed":["b"]}}`, b)
	assert.Contains(t, c.ask(`{"id":5,"op":"exec","session":"b","args":["echo"]}`), `"kind":"closed"`)
	assert.Contains(t, c.ask(`{"id":6,"op":"open","session":"b","policy":{}}`), `"ok"`, "the name is free again")
	assert.Equal(t, `{"id":7,"ok":{"closed":["","b"]}}`, closeEvery(t, c, `{"id":7,"op":"close","now":true}`))
}

// closeEvery sends a close and returns its answer, whatever comes before.
func closeEvery(t *testing.T, c *talk, line string) string {
	t.Helper()
	c.send(line)
	for {
		if l := c.line(); strings.Contains(l, `"closed":[`) {
			return l
		}
	}
}

func TestTheEndOfInputClosesAll(t *testing.T) {
	before := runtime.NumGoroutine()
	c := open(beginWith(t, func(s *server) { s.untimedLimit = time.Millisecond }))
	c.ask(`{"id":1,"op":"start","args":["deaf"]}`)
	c.send(`{"id":4,"op":"wait","of":1}`, `{"id":5,"op":"write","of":1,"data":"nobody reads this"}`)
	_, err := io.WriteString(c.in, `{"id":6,"op":"exec","args":["echo","cut off"]}`) // without a line end
	require.NoError(t, err)
	require.NoError(t, c.in.Close())
	rest := make(chan string)
	go func() {
		all, _ := io.ReadAll(c.out)
		rest <- string(all)
	}()
	require.NoError(t, c.finish())
	require.NoError(t, c.outEnd.CloseWithError(io.EOF))
	said := <-rest
	assert.Contains(t, said, `{"id":4,"ok":{"version":1,"verdict":"interrupted"`, "a client that still reads gets the answer")
	assert.Contains(t, said, `{"id":5,"error":{"kind":"closed"`)
	assert.NotContains(t, said, "cut off", "half a line is no request")
	testenv.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+2 }, "all goroutines but the test's own to end")
}

func TestTheEndWaitsForWhatIsBeingClosed(t *testing.T) {
	c := begin(t)
	c.ask(`{"id":1,"op":"open","manifest":"/slow to close"}`)
	c.send(`{"id":2,"op":"close"}`)
	require.NoError(t, c.in.Close())
	assert.Equal(t, `{"id":2,"ok":{"closed":[""]}}`, c.line())
	require.NoError(t, c.finish())
}

func TestAnOutputThatIsGoneClosesAll(t *testing.T) {
	c := withSession(t)
	require.NoError(t, c.outEnd.Close())
	c.send(`{"id":1,"op":"exec","args":["sleep"]}`, `{"id":2,"op":"ping"}`)
	require.ErrorIs(t, c.finish(), ErrOutput)
}

// lateFull is an output that is full, which is known only when the input has long ended.
type lateFull struct{}

func (lateFull) Write([]byte) (int, error) {
	time.Sleep(100 * time.Millisecond)
	return 0, syscall.ENOSPC
}

func TestAnAnswerThatIsLostAfterTheEndOfInputIsReported(t *testing.T) {
	err := Serve(t.Context(), strings.NewReader("hello\n"), lateFull{}, nil, &fakeHost{}, "test")
	require.ErrorIs(t, err, ErrOutput)
	require.ErrorIs(t, err, syscall.ENOSPC)
}

func TestTheContextsCauseIsTheEnd(t *testing.T) {
	c := withSession(t)
	cause := errors.New("SIGTERM")
	c.send(`{"id":1,"op":"exec","args":["sleep"]}`)
	c.asleep(1)
	c.end(cause)
	assert.Contains(t, c.line(), `"verdict":"interrupted"`)
	require.ErrorIs(t, c.finish(), cause)
}

func TestAClientThatDoesNotReadStopsItselfAlone(t *testing.T) {
	c := open(beginWith(t, func(s *server) { s.unreadLimit = 200 * time.Millisecond }))
	for i := range 8 {
		c.send(fmt.Sprintf(`{"id":%d,"op":"exec","args":["flood"],"stream":true}`, i))
	}
	c.send(`no JSON`) // its answer is not read either, and so no further line
	time.Sleep(200 * time.Millisecond)
	assert.Less(t, c.host.flooded.Load(), int64(2<<20), "who floods must wait")
	close(c.left)
	require.NoError(t, c.in.Close())
	require.ErrorIs(t, c.finish(), ErrOutput, "its going is noticed all the same, and that answers are lost")
}

func TestWhatIsInFlightIsBounded(t *testing.T) {
	c := withSession(t)
	for i := range maxFlying {
		c.send(fmt.Sprintf(`{"id":%d,"op":"exec","args":["sleep"]}`, i))
	}
	assert.Contains(t, c.ask(`{"id":"more","op":"exec","args":["echo"]}`), `"fix":"wait for answers first"`)
	assert.Contains(t, c.ask(`{"id":"ping","op":"ping"}`), `"ok"`, "what ends requests must get through")
	c.send(`{"id":"c","op":"cancel","of":0}`)
	c.line()
	c.line()
	assert.Contains(t, c.ask(`{"id":"more","op":"exec","args":["echo"]}`), `"ok"`)
	closeEvery(t, c, `{"id":"all","op":"close","now":true}`)
}

func TestTheBytesInFlightAreBounded(t *testing.T) {
	s := newServer(t.Context(), &fakeHost{}, "test")
	defer s.stop()
	ping := func(i int) *request {
		req, fault := decode(fmt.Appendf(nil, `{"id":%d,"op":"ping"}`, i))
		require.Nil(t, fault)
		return req
	}
	for i := range 4 { // nothing is written, and so none of them comes to its end
		carryOut, fault := s.begin(ping(i), MaxLine)
		require.Nil(t, fault)
		s.work.Go(carryOut)
	}
	_, fault := s.begin(ping(4), 1)
	require.NotNil(t, fault)
	assert.Equal(t, "wait for answers first", fault.Fix)
	<-s.out.lines // an answer would be taken, and its bytes given back, by the writer
	s.out.giveUp()
	s.work.Wait()
	_, fault = s.begin(ping(4), MaxLine)
	require.Nil(t, fault, "they are free again")
}

func TestManyRequestsAtOnce(t *testing.T) {
	c := withSession(t)
	const n = 100
	var sending sync.WaitGroup
	for i := range n {
		sending.Go(func() {
			_, err := fmt.Fprintf(c.in, `{"id":%d,"op":"exec","args":["bytes","%d"],"stream":%v}`+"\n", i, i, i%2 == 0)
			assert.NoError(t, err)
		})
	}
	said, ended := map[float64]string{}, 0
	for ended < n {
		v := unmarshal(t, c.line())
		id := v["id"].(float64)
		if out, ok := v["stdout"].(string); ok {
			said[id] += out
			continue
		}
		ended++
		if out, ok := v["ok"].(map[string]any)["stdout"].(string); ok {
			said[id] += out
		}
	}
	sending.Wait()
	for i := range n {
		assert.Equal(t, fmt.Sprint(i), said[float64(i)])
	}
	testenv.Eventually(t, func() bool {
		all := make([]byte, 1<<20)
		all = all[:runtime.Stack(all, true)]
		return bytes.Count(all, []byte("(*server).follow(")) == 2
	}, "one goroutine to take lines, and one to wait for that")
}
