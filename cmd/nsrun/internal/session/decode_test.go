package session

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBadLinesAreAnswered(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, c := range []struct{ name, send, id, field, says string }{
		{"nothing", ``, "null", "", "at byte 0"},
		{"blanks", `  `, "null", "", "at byte 2"},
		{"no JSON", `hello`, "null", "", "at byte 1 of the line: invalid character 'h'"},
		{"cut off", `{"id":1,`, "null", "", "at byte 8 of the line: unexpected end"},
		{"two objects", `{"id":1,"op":"ping"}{"id":2,"op":"ping"}`, "null", "", "at byte 21"},
		{"a list", `[1]`, "null", "", "a list is not an object"},
		{"a number", `7`, "null", "", "a number is not an object"},
		{"no JSON and not UTF-8", "\"\xff", "null", "", "byte 2 of the line is not UTF-8"},
		{"an id that is not UTF-8", "{\"id\":\"\xff\",\"op\":\"ping\"}", "null", "", "byte 8 of the line is not UTF-8"},
		{"not UTF-8", "{\"id\":1,\"op\":\"\xff\"}", "1", "", "byte 15 of the line is not UTF-8"},
		{"half a pair", `{"id":1,"op":"exec","args":["\\\udc80"]}`, "1", "", "at byte 32 of the line: half of a surrogate pair"},
		{"the first half", `{"id":1,"op":"exec","args":["\ud83dx"]}`, "1", "", "half of a surrogate pair"},
		{"no id", `{"op":"ping"}`, "null", "id", "the request has none"},
		{"null as id", `{"id":null,"op":"ping"}`, "null", "id", "null cannot be an id"},
		{"a fraction as id", `{"id":1.5,"op":"ping"}`, "null", "id", "1.5 is not an integer"},
		{"a huge id", `{"id":1e400,"op":"ping"}`, "null", "id", "1e400 is not an integer"},
		{"an empty id", `{"id":"","op":"ping"}`, "null", "id", "the string has 0 bytes"},
		{"a long id", `{"id":"` + long + `","op":"ping"}`, "null", "id", "the string has 300 bytes"},
		{"an id with NUL", `{"id":"\u0000","op":"ping"}`, "null", "id", "there is a NUL character"},
		{"a list as id", `{"id":[1],"op":"ping"}`, "null", "id", "a list cannot be an id"},
		{"an id twice", `{"id":1,"op":"ping","id":1}`, "null", "id", "the key is given twice"},
		{"an id twice, escaped", `{"id":1,"op":"ping","i\u0064":1}`, "null", "id", "the key is given twice"},
		{"no op", `{"id":1}`, "1", "op", "the request has none"},
		{"an op of another type", `{"id":1,"op":3}`, "1", "op", "a number is not a string"},
		{"an unknown op", `{"id":1,"op":"exex"}`, "1", "op", "did you mean exec?"},
		{"another unknown op", `{"id":1,"op":"` + long + `"}`, "1", "op", "known are open, exec, start"},
		{"an unknown key", `{"id":1,"op":"exec","arg":["x"]}`, "1", "arg", "did you mean args?"},
		{"a key in other letters", `{"id":1,"op":"exec","Args":["x"]}`, "1", "Args", "did you mean args?"},
		{"a key of another op", `{"id":1,"op":"ping","args":["x"]}`, "1", "args", "ping takes no such field"},
		{"a key twice", `{"id":1,"op":"exec","args":["x"],"args":["y"]}`, "1", "args", "the key is given twice"},
		{"no command", `{"id":1,"op":"exec"}`, "1", "args", "a list of arguments, or a script"},
		{"two commands", `{"id":1,"op":"exec","args":["x"],"shell":"y"}`, "1", "args", "give one of args"},
		{"an empty command", `{"id":1,"op":"exec","args":[]}`, "1", "args", "there is no program in it"},
		{"an empty program", `{"id":1,"op":"exec","args":[""]}`, "1", "args", "there is no program in it"},
		{"a string as args", `{"id":1,"op":"exec","args":"ls -la"}`, "1", "args", "a string is not a list"},
		{"null as an argument", `{"id":1,"op":"exec","args":["x",null]}`, "1", "args[1]", "null is not a string"},
		{"NUL in an argument", `{"id":1,"op":"exec","args":["x\u0000"]}`, "1", "args[0]", "there is a NUL character"},
		{"NUL in a script", `{"id":1,"op":"exec","shell":"x\u0000"}`, "1", "shell", "there is a NUL character"},
		{"NUL in a path", `{"id":1,"op":"resolve","path":"x\u0000"}`, "1", "path", "there is a NUL character"},
		{"NUL in a variable", `{"id":1,"op":"exec","args":["x"],"env":{"A":"\u0000"}}`, "1", "env.A", "there is a NUL character"},
		{"a variable twice", `{"id":1,"op":"exec","args":["x"],"env":{"A":"","A":""}}`, "1", "env.A", "the key is given twice"},
		{"a variable with =", `{"id":1,"op":"exec","args":["x"],"env":{"A=B":""}}`, "1", "env.A=B", "cannot be a variable's name"},
		{"a variable that is a number", `{"id":1,"op":"exec","args":["x"],"env":{"A":1}}`, "1", "env.A", "a number is not a string"},
		{"a label's name", `{"id":1,"op":"exec","args":["x"],"labels":{"Task":"1"}}`, "1", "labels.Task", "cannot be a label's name"},
		{"a label of two lines", `{"id":1,"op":"start","args":["x"],"labels":{"task":"a\nb"}}`, "1", "labels.task", "the value has control characters"},
		{"a list of variables", `{"id":1,"op":"exec","args":["x"],"env":["A=1"]}`, "1", "env", "a list is not an object"},
		{"a number as stdin", `{"id":1,"op":"exec","args":["x"],"stdin":1}`, "1", "stdin", "neither text nor base64"},
		{"bad base64", `{"id":1,"op":"exec","args":["x"],"stdin":{"base64":"?"}}`, "1", "stdin.base64", "illegal base64"},
		{"more than base64", `{"id":1,"op":"exec","args":["x"],"stdin":{"base64":"","x":1}}`, "1", "stdin", "neither text nor base64"},
		{"a time that is none", `{"id":1,"op":"exec","args":["x"],"timeout":"soon"}`, "1", "timeout", `\"soon\" is not a time`},
		{"no time", `{"id":1,"op":"exec","args":["x"],"timeout":0}`, "1", "timeout", "0s is not a time above 0"},
		{"a time before", `{"id":1,"op":"exec","args":["x"],"timeout":-1}`, "1", "timeout", "leave it out"},
		{"a long time", `{"id":1,"op":"exec","args":["x"],"timeout":1e300}`, "1", "timeout", "more than a year"},
		{"a long time in words", `{"id":1,"op":"exec","args":["x"],"timeout":"99999h"}`, "1", "timeout", "up to a year"},
		{"true as a time", `{"id":1,"op":"exec","args":["x"],"timeout":true}`, "1", "timeout", "true is not a time"},
		{"no output", `{"id":1,"op":"exec","args":["x"],"max_output":0}`, "1", "max_output", "whole number above 0"},
		{"too much output", `{"id":1,"op":"exec","args":["x"],"max_output":16777217}`, "1", "max_output", "use stream for more"},
		{"a bound on a stream", `{"id":1,"op":"exec","args":["x"],"max_output":1,"stream":true}`, "1", "max_output", "remove one"},
		{"a word as a boolean", `{"id":1,"op":"exec","args":["x"],"fresh":"yes"}`, "1", "fresh", "neither true nor false"},
		{"an encoding that is none", `{"id":1,"op":"exec","args":["x"],"encoding":"hex"}`, "1", "encoding", `\"hex\" is not an encoding`},
		{"a flat terminal", `{"id":1,"op":"exec","args":["x"],"terminal":{"rows":1}}`, "1", "terminal", "from 1 to 65535"},
		{"a vast terminal", `{"id":1,"op":"exec","args":["x"],"terminal":{"rows":1,"cols":65536}}`, "1", "terminal", "from 1 to 65535"},
		{"a terminal with depth", `{"id":1,"op":"exec","args":["x"],"terminal":{"rows":1,"cols":1,"depth":1}}`, "1", "terminal.depth", "no such key"},
		{"no terminal", `{"id":1,"op":"resize","of":2}`, "1", "terminal", "resize needs it"},
		{"an access that is none", `{"id":1,"op":"resolve","path":"x","access":"rw"}`, "1", "access", "write read or write"},
		{"no policy", `{"id":1,"op":"open"}`, "1", "manifest", "give one of manifest and policy"},
		{"two policies", `{"id":1,"op":"open","manifest":"x","policy":{}}`, "1", "manifest", "give one of manifest and policy"},
		{"dir of a manifest", `{"id":1,"op":"open","manifest":"x","dir":"/"}`, "1", "dir", "its own directory"},
		{"of nothing", `{"id":1,"op":"wait"}`, "1", "of", "wait needs it"},
		{"of null", `{"id":1,"op":"wait","of":null}`, "1", "of", "null cannot be an id"},
		{"a signal that is none", `{"id":1,"op":"signal","of":2,"signal":"HELLO"}`, "1", "signal", `\"HELLO\" is not a signal`},
		{"nothing to write", `{"id":1,"op":"write","of":2}`, "1", "data", "there is nothing to write"},
		{"deep", strings.Repeat("[", 20000), "null", "", "exceeded max depth"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := withSession(t)
			got := k.ask(c.send)
			assert.True(t, strings.HasPrefix(got, `{"id":`+c.id+`,"error":{"kind":"protocol",`), got)
			e := unmarshal(t, got)["error"].(map[string]any)
			field, _ := e["field"].(string)
			assert.Equal(t, c.field, field)
			assert.Contains(t, got, c.says)
			assert.NotEmpty(t, e["fix"], "there is something that can be done")
			assert.Contains(t, k.ask(`{"id":"after","op":"ping"}`), `"ok"`, "the conversation goes on")
		})
	}
}

func TestALongLineIsSkipped(t *testing.T) {
	k := withSession(t)
	_, err := io.Copy(k.in, io.LimitReader(endless('x'), MaxLine+1))
	require.NoError(t, err)
	_, err = io.Copy(k.in, io.LimitReader(endless('y'), 40<<20))
	require.NoError(t, err)
	assert.Contains(t, k.ask(""), `{"id":null,"error":{"kind":"protocol","text":"the line is longer than 16777216 bytes"`)
	_, err = io.WriteString(k.in, `{"id":"big","op":"exec","stdin":"`)
	require.NoError(t, err)
	_, err = io.Copy(k.in, io.LimitReader(endless('x'), MaxLine))
	require.NoError(t, err)
	assert.Contains(t, k.ask(`"}`), `{"id":"big","error":`, "its id is told, if that comes first")
	assert.Contains(t, k.ask(`{"id":1,"op":"ping"}`), `"ok"`)
}

type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

func TestLinesHaveAnExactLimit(t *testing.T) {
	for begin, want := range map[string]id{"": "", "{": "", `{"id"`: "", `{"id":7`: "7", `{"id":7,"x`: "7", `{"id":"a"`: `"a"`, `{"id":"a`: "", `{"op":"x","id":7`: "", `["id",7`: "", `{"id":"\ud800","x`: ""} {
		assert.Equal(t, want, idOf([]byte(begin)), begin)
	}
	for _, size := range []int{0, 1, 4095, 4096, 4097, 9999, 10000} {
		l := newLines(strings.NewReader(strings.Repeat("x", size)+"\n"+strings.Repeat("y", 10001)+"\nz\nrest"), 10000)
		got, err := l.next()
		require.NoError(t, err)
		assert.Len(t, got, size)
		_, err = l.next()
		require.ErrorIs(t, err, errLong)
		assert.Less(t, cap(l.kept), 64<<10, "a long line is not kept")
		got, err = l.next()
		require.NoError(t, err)
		assert.Equal(t, "z", string(got))
		_, err = l.next()
		require.ErrorIs(t, err, io.EOF, "what has no line end is no line")
	}
}

func TestWholeCharacters(t *testing.T) {
	for s, want := range map[string]int{"": 0, "a": 1, "é": 2, "a\xc3": 1, "\xe2\x82": 0, "x\xf0\x9f\x98": 1, "\xff": 1, "\x80\x80\x80\x80": 4, "a\xe2": 1} {
		assert.Equal(t, want, whole([]byte(s)), "%q", s)
	}
}

// Whatever comes, each line gets one answer, and what is written fits the schema.
func FuzzLines(f *testing.F) {
	for _, seed := range []string{"", "\n", "{}\n", `{"id":1,"op":"ping"}` + "\n" + `{"id":1,"op":"ping"}` + "\n",
		`{"id":1,"op":"open","policy":{}}` + "\n" + `{"id":2,"op":"exec","args":["echo","x"]}` + "\n" + `{"id":3,"op":"close"}` + "\n",
		`{"id":1,"op":"open","policy":{}}` + "\n" + `{"id":2,"op":"start","args":["cat"]}` + "\n" + `{"id":3,"op":"write","of":2,"data":{"base64":"eA=="},"eof":true}` + "\n",
		`{"id":"\ud800"}` + "\n", `{"id":1,"op":"resize","of":1,"terminal":{}}` + "\n", "[[[[\n", `{"id":1,"op":"exec","args":["sleep"],"timeout":1e9}` + "\n",
		`{"a":{"b":{"c":[]}},"a":1}` + "\n\xff\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var out bytes.Buffer
		done := make(chan error, 1)
		go func() { done <- Serve(t.Context(), bytes.NewReader(data), &out, nil, &fakeHost{}, "test") }()
		require.NoError(t, testenv.Receive(t, done, "the end of the server"))
		answers := 0
		for line := range strings.Lines(out.String()) {
			checkLine(t, line, true)
			if v := unmarshal(t, line); v["ok"] != nil || v["error"] != nil {
				answers++
			}
		}
		require.Equal(t, bytes.Count(data, []byte("\n")), answers, "each line gets one answer:\n%s", out.String())
	})
}
