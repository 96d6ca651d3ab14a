package session

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const mib = 1 << 20

// heap is what is alive of it, in bytes.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// filled is how much is collected of each stream here, and of a command.
const filled, both = mib / 4, mib / 2

func fill(id int) string {
	return fmt.Sprintf(`{"id":%d,"op":"exec","args":["fill"],"max_output":%d}`, id, filled)
}

// unread asks for so many commands that fill both streams with NUL bytes, and reads no answer. It returns how many of them have ended, once
// that are so many as are to, and what that has added to the heap.
func unread(c *talk, commands, to int) (ended int, grown int64) {
	c.t.Helper()
	before := heap()
	for i := range commands {
		c.send(fill(i))
	}
	testenv.Eventually(c.t, func() bool { return int(c.host.filled.Load()) >= to }, fmt.Sprintf("%d commands to end", to))
	time.Sleep(200 * time.Millisecond) // in which more would come
	return int(c.host.filled.Load()), heap() - before
}

// ranWell reads an answer and reports whether it is that of a command that ran. The answers are too long to be held against the schema each.
func ranWell(c *talk) bool {
	c.t.Helper()
	late := time.AfterFunc(testenv.Limit(0), func() { _ = c.outEnd.CloseWithError(io.ErrNoProgress) })
	defer late.Stop()
	l, err := c.out.ReadString('\n')
	require.NoError(c.t, err)
	return strings.Contains(l, `"verdict":"ok"`) && strings.Count(l, `\u0000`) == both
}

// TestWhatIsCollectedForAClientThatDoesNotReadIsBounded: by the output itself, of which the JSON would be six times as long.
func TestWhatIsCollectedForAClientThatDoesNotReadIsBounded(t *testing.T) {
	const commands, bound, slack = 96, 4 * mib, 8 * mib
	t.Run("where there is room for all, all run and are held", func(t *testing.T) {
		ended, grown := unread(open(beginWith(t, roomFor(commands*both))), commands, commands)
		assert.Equal(t, commands, ended)
		assert.Greater(t, grown, int64(commands*both-mib), "the heap is what is measured")
		assert.Less(t, grown, int64(commands*both+slack), "an answer is no JSON before its turn")
	})
	t.Run("else they wait to start", func(t *testing.T) {
		c := open(beginWith(t, roomFor(bound)))
		ended, grown := unread(c, commands, bound/both+1)
		assert.Equal(t, bound/both+1, ended, "and the one that is being written")
		assert.Less(t, grown, int64(bound+slack))
		for range commands {
			require.True(t, ranWell(c), "until the client reads")
		}
		before := c.host.filled.Load()
		for i := range 2 * bound / both { // the room is there again
			c.send(fill(i))
			require.True(t, ranWell(c))
		}
		assert.Equal(t, before+2*bound/both, c.host.filled.Load())
	})
}

func TestCommandsThatWriteLittleRunAllAtOnce(t *testing.T) {
	c := withSession(t)
	for i := range maxFlying {
		c.send(fmt.Sprintf(`{"id":%d,"op":"exec","args":["sleep"]}`, i))
	}
	c.asleep(maxFlying)
	closeEvery(t, c, `{"id":"all","op":"close","now":true}`)
}

// TestWhatWaitsToStart can be cancelled, ends with its session, and is not passed by: what wants little comes after what wants much.
func TestWhatWaitsToStart(t *testing.T) {
	c := open(beginWith(t, roomFor(8*mib)))
	ask := func(id string, most int) string {
		return fmt.Sprintf(`{"id":%q,"op":"exec","args":["sleep"],"max_output":%d}`, id, most)
	}
	c.send(ask("a", 3*mib))
	c.asleep(1)
	c.send(ask("b", 3*mib))
	assert.Equal(t, `{"id":"p","ok":{"protocol":1,"version":"test"}}`, c.ask(`{"id":"p","op":"ping"}`))
	c.send(`{"id":"s","op":"exec","args":["flood"],"stream":true}`)
	assert.Contains(t, c.line(), `{"id":"s","stdout":"`, "what is not collected does not wait")
	c.send(`{"id":"sc","op":"cancel","of":"s"}`)
	for wanted := 2; wanted > 0; { // in whichever order
		if line := c.line(); line == `{"id":"sc","ok":{}}` || strings.Contains(line, `"verdict":"interrupted"`) {
			wanted--
		}
	}
	time.Sleep(50 * time.Millisecond)
	assert.EqualValues(t, 1, c.host.asleep.Load())
	c.send(`{"id":"x","op":"cancel","of":"b"}`)
	assert.Equal(t, []string{`{"id":"b","error":{"kind":"closed","text":"it was cancelled"}}`, `{"id":"x","ok":{}}`}, gather(c, 2))
	c.send(ask("c", mib))
	c.asleep(2) // a and c fill it
	c.send(ask("d", mib), `{"id":"y","op":"cancel","of":"c"}`)
	assert.Contains(t, strings.Join(gather(c, 2), "\n"), `{"id":"c","ok":{"version":1,"verdict":"interrupted"`)
	c.asleep(2)
	c.send(ask("e", mib), `{"id":"z","op":"close","now":true}`)
	got := strings.Join(gather(c, 4), "\n")
	assert.Contains(t, got, `{"id":"a","ok":{"version":1,"verdict":"interrupted"`)
	assert.Contains(t, got, `{"id":"e","error":{"kind":"closed","text":"the session is closed"`)
}

// TestBulkIsWrittenAsTextOrBase64 whatever is in it, and wherever it is cut.
func TestBulkIsWrittenAsTextOrBase64(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "a line": "line\n", "NUL": "\x00", "no UTF-8": "\xff", "markup": "<a>&\u2028\"\\",
		"many of three bytes": strings.Repeat("€", 32<<10), "many of four, and one": "x" + strings.Repeat("😀", 32<<10),
		"much that is no UTF-8": strings.Repeat("\x00\xff", 32<<10), "half a character": strings.Repeat("€", 32<<10) + "\xe2",
	} {
		for _, asked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", name, asked), func(t *testing.T) {
				var got bytes.Buffer
				w := bufio.NewWriter(&got)
				e := ended{counts: &counts{StdoutBytes: 7, StdoutTruncated: true}, collected: &[2][]byte{[]byte(text), []byte("e")}, base64: asked}
				require.NoError(t, answer{ID: "1", OK: e}.write(w))
				head, tail, found := strings.Cut(got.String(), `,"stdout":`+textOrBase64(text, asked)+`,"stderr":`+textOrBase64("e", asked)+",")
				require.True(t, found)
				assert.Equal(t, `"stdout_bytes":7,"stderr_bytes":0,"stdout_truncated":true}}`+"\n", tail)
				assert.True(t, strings.HasPrefix(head, `{"id":1,"ok":{`), head)
				assert.True(t, json.Valid(got.Bytes()))
			})
		}
	}
	assert.ErrorIs(t, answer{OK: ended{collected: &[2][]byte{make([]byte, mib), nil}}}.write(bufio.NewWriter(broken{})), io.ErrClosedPipe)
}

// textOrBase64 is how encoding/json writes output.
func textOrBase64(s string, base64Asked bool) string {
	if base64Asked || !utf8.ValidString(s) {
		return string(marshal(map[string][]byte{"base64": []byte(s)}))
	}
	return string(marshal(s))
}

func FuzzOutput(f *testing.F) {
	for c := range rune(0x100) {
		f.Add(string(c), uint(0))
	}
	for _, seed := range []string{"a\u2028b\u2029\u202a", "\xe2", "\xe2\x80", "€\xe2\x80\xa8", "<&>\x7f\ufffd😀"} {
		f.Add(seed, uint(2))
	}
	f.Fuzz(func(t *testing.T, s string, cut uint) {
		var got bytes.Buffer
		writeOutput(&got, false, []byte(s))
		require.Equal(t, textOrBase64(s, false), got.String())
		s = strings.ToValidUTF8(s, "")
		at := whole([]byte(s[:cut%uint(len(s)+1)]))
		got.Reset()
		writeOutput(&got, false, []byte(s[:at]), []byte(s[at:]))
		require.Equal(t, textOrBase64(s, false), got.String(), "in parts")
	})
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// TestAsManyProcessesAsThereMayBe are no reason to refuse what is not one more.
func TestAsManyProcessesAsThereMayBe(t *testing.T) {
	c := withSession(t)
	for i := range maxProcesses {
		require.Equal(t, fmt.Sprintf(`{"id":%d,"ok":{"started":true}}`, i), c.ask(fmt.Sprintf(`{"id":%d,"op":"start","args":["cat"]}`, i)))
	}
	const refused = `{"id":"more","error":{"kind":"protocol","text":"there are 256 processes that run or were not waited for",` +
		`"fix":"end one of them and wait for it, by the op wait, or close its session"}}`
	assert.Equal(t, refused, c.ask(`{"id":"more","op":"start","args":["cat"]}`))
	assert.Contains(t, c.ask(`{"id":"e","op":"exec","args":["echo","hi"]}`), `"stdout":"hi"`)
	for i := range maxProcesses { // one for each
		c.send(fmt.Sprintf(`{"id":"w%d","op":"wait","of":%d}`, i, i))
	}
	assert.Contains(t, c.ask(`{"id":"one more","op":"wait","of":0}`), `"fix":"wait for answers first"`)
	c.send(`{"id":"d","op":"write","of":7,"data":"hello\n"}`)
	assert.Equal(t, []string{`{"id":"d","ok":{}}`, `{"id":7,"stdout":"hello\n"}`}, gather(c, 2))
	c.send(`{"id":"s","op":"signal","of":7,"signal":"USR1"}`)
	assert.Equal(t, []string{`{"id":"s","ok":{}}`, `{"id":7,"stderr":"user defined signal 1\n"}`}, gather(c, 2))
	assert.Contains(t, c.ask(`{"id":"e","op":"exec","args":["echo","hi"]}`), `"stdout":"hi"`)
	assert.Equal(t, refused, c.ask(`{"id":"more","op":"start","args":["cat"]}`))

	c.send(`{"id":"c","op":"cancel","of":7}`)
	got := strings.Join(gather(c, 4), "\n")
	assert.Contains(t, got, `{"id":"c","ok":{}}`)
	assert.Contains(t, got, `{"id":"w7","ok":{"version":1,"verdict":"interrupted"`)
	testenv.Eventually(t, func() bool { return strings.Contains(c.ask(`{"id":7,"op":"start","args":["cat"]}`), `"started":true`) },
		"its place to be free, and its id")
	assert.Equal(t, refused, c.ask(`{"id":"more","op":"start","args":["cat"]}`), "there was one place")
	closeEvery(t, c, `{"id":"all","op":"close","now":true}`)
}

// TestWhatCouldNotBeStartedIsNoProcess, as often as that is.
func TestWhatCouldNotBeStartedIsNoProcess(t *testing.T) {
	c := withSession(t)
	for range maxProcesses + 1 {
		require.Contains(t, c.ask(`{"id":1,"op":"start","args":["missing"]}`), `"kind":"not-found"`)
	}
}
