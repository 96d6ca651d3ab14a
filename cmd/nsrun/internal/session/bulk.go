package session

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"
)

// marshal gives one line of JSON for what can be nothing but written.
func marshal(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("bug: an answer cannot be written: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// textOrBase64 encodes bytes: as text if they are UTF-8 and base64 is not asked for, otherwise in base64.
func textOrBase64(b []byte, base64Asked bool) any {
	if !base64Asked && utf8.Valid(b) {
		return string(b)
	}
	return map[string]string{"base64": base64.StdEncoding.EncodeToString(b)}
}

// bulk is output that was collected. It is told piece by piece when it is its line's turn: as JSON it has up to six times its bytes.
type bulk struct {
	bytes  []byte
	base64 bool // asked for
}

// gap is what a line has in the place of bulk until that is written. No other value is like it, and a string has no quote without a backslash.
const gap = `["",[]]`

// MarshalJSON leaves the gap.
func (*bulk) MarshalJSON() ([]byte, error) { return []byte(gap), nil }

// write writes what told would give. What is wrong with w is told by its Flush.
func (b *bulk) write(w *bufio.Writer) {
	if b.base64 || !utf8.Valid(b.bytes) {
		_, _ = w.WriteString(`{"base64":"`)
		e := base64.NewEncoder(base64.StdEncoding, w)
		_, _ = e.Write(b.bytes)
		_ = e.Close()
		_, _ = w.WriteString(`"}`)
		return
	}
	_ = w.WriteByte('"')
	for rest := b.bytes; len(rest) > 0; {
		n := whole(rest[:min(len(rest), maxEvent)])
		text := marshal(string(rest[:n]))
		_, _ = w.Write(text[1 : len(text)-1])
		rest = rest[n:]
	}
	_ = w.WriteByte('"')
}

// whole is how many of b's bytes are whole characters: all, but for one at the end that is cut in two.
func whole(b []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return len(b) - i
			}
			break
		}
	}
	return len(b)
}
