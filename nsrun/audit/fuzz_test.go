package audit

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzAudit writes rows of any words: each is one line of UTF-8 JSON, in which nothing is a control character, no longer than the bound, and
// means what was written; what was shortened is named, and is a beginning of it.
func FuzzAudit(f *testing.F) {
	f.Add("ls\x00-la", "/home/me", "agent", "HOME\x00PATH", "not found", "a note", 0)
	f.Add("\xff\xfe\x00\x1b[2J\x00\u202e\u0085\u2028", "/\x7f", "$(reboot)`id`", "A\xff", "\"\\", "\x01", 1)
	f.Add(strings.Repeat("x", 70<<10), strings.Repeat("\x01", 5000), strings.Repeat("\xff", 9000), strings.Repeat("N\x00", 9000), strings.Repeat("é", 9000), "n", 1024)
	f.Add(strings.Repeat("\x01", 3000)+"é\xff", strings.Repeat("\U0001f600", 3000), "", "", "\ufffd", "{\"base64\":\"aGk=\"}", 1024)
	f.Add("--password=ab&cd\x00PASSWORD='a b' x\x00PASSWORD=\"a\\\x00x PASSWORD=a\\ b\x00{\"password\":\"a b\",\\\"token\\\":\\\"c\x00postgres://u:p#@/?s@h/,://:@\x00://:1/@://", "", "", "", "TOKEN='", "", 3)
	f.Add("--token\x00secret\x00GH_TOKEN=x\x00https://u:p@h/", "", "", "", "Authorization: Bearer x", "", 3)
	f.Add("", strings.Repeat("/d\u202e", 300), "", "", "", "", 99)
	f.Add("", "/etc/hosts", "", "", "", "", 99)
	f.Fuzz(func(t *testing.T, words, cwd, name, names, wrong, note string, open int) {
		argv, _ := Redact(strings.Split(words, "\x00"))
		start := Start{Slot: 1, Argv: Texts(argv), Cwd: Text(cwd), Policy: Text(name), Env: Texts(strings.Split(names, "\x00")), Backend: "native"}
		end := End{Verdict: "exit", Error: Text(wrong), Receipt: mustMarshal(t, map[string]string{"x": name}), Notes: []Text{Text(note)}, Denials: []json.RawMessage{}}
		for i := range max(0, open%100) {
			end.Denials = append(end.Denials, mustMarshal(t, map[string]any{"path": cwd, "count": i}))
		}
		runs := make([]Run, max(0, open%(maxOpen+1)))
		for i := range runs {
			runs[i] = Run{"0123456789abcdef", i}
		}
		for _, r := range []Row{{Kind: startKind, Start: &start}, {Kind: endKind, End: &end}} {
			r.Version, r.ID, r.Prev, r.Time, r.Open = Version, "0123456789abcdef", Genesis, "2026-01-02T03:04:05.123456789Z", runs
			line, err := encode(r)
			require.NoError(t, err)
			require.Less(t, len(line), MaxRow)
			require.True(t, utf8.Valid(line) && json.Valid(line))
			require.False(t, bytes.ContainsFunc(line, func(r rune) bool { return r != ' ' && !unicode.IsPrint(r) || r == '$' || r == '`' }), "%q", line)
			back, err := ParseRow(line)
			require.NoError(t, err)
			assert.Equal(t, runs, back.Open)
			if back.Cut == nil {
				sameRow(t, r, back)
				continue
			}
			checkCut(t, r, back)
		}
	})
}

func sameRow(t *testing.T, want, got Row) {
	t.Helper()
	if want.End != nil { // bytes that are no text are replaced in a receipt, and characters are escaped
		a, b := *want.End, *got.End
		assert.JSONEq(t, string(a.Receipt), string(b.Receipt))
		require.Len(t, b.Denials, len(a.Denials))
		for i := range a.Denials {
			assert.JSONEq(t, string(a.Denials[i]), string(b.Denials[i]))
		}
		a.Receipt, b.Receipt, a.Denials, b.Denials = nil, nil, nil, nil
		want.End, got.End = &a, &b
	}
	assert.Equal(t, want, got)
}

func checkCut(t *testing.T, want, got Row) {
	t.Helper()
	cut := func(name string) bool { return slices.Contains(got.Cut, name) }
	begins := func(name string, whole, part Text) {
		assert.True(t, strings.HasPrefix(string(whole), string(part)), name)
		assert.Equal(t, cut(name), whole != part, name)
	}
	if want.End != nil {
		begins("error", want.Error, got.Error)
		assert.Equal(t, cut("receipt"), got.Receipt == nil)
		assert.Equal(t, cut("denials"), len(want.Denials) != len(got.Denials))
		assert.True(t, cut("receipt") || cut("denials"))
		for i, d := range got.Denials {
			assert.JSONEq(t, string(want.Denials[i]), string(d), "the first are kept")
		}
		return
	}
	begins("cwd", want.Cwd, got.Cwd)
	begins("policy", want.Policy, got.Policy)
	assert.Equal(t, cut("argv"), got.ArgvCut)
	if got.ArgvCut {
		assert.Equal(t, len(want.Argv), got.ArgvWords)
	}
	for i, w := range got.Argv {
		assert.True(t, strings.HasPrefix(string(want.Argv[i]), string(w)))
	}
}

func mustMarshal(t *testing.T, v any) []byte {
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return data
}

// FuzzParseRow reads any line: what it takes for a row can be written again and is the same row then.
func FuzzParseRow(f *testing.F) {
	f.Add([]byte(`{"nsrun_audit":1,"row":"end","prev":"","id":"a","time":"","verdict":"ok","wall_ms":0,"user_ms":0,"system_ms":0,"max_rss_kib":0,"notes":[],"denials":[],"open":[]}`))
	f.Add([]byte(`{"nsrun_audit":1,"row":"start","id":"a","slot":0,"argv":[{"base64":"/w=="},{}],"cwd":null}`))
	f.Add([]byte(`{"nsrun_audit":1,"row":"torn","bytes":1,"open":null}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := ParseRow(line)
		if err != nil || len(line) > 4<<10 { // what we never write, such as a long id, is not cut
			return
		}
		data, err := encode(r)
		require.NoError(t, err)
		_, err = ParseRow(data)
		require.NoError(t, err)
	})
}
