package session

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
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

// writer is a buffer. An error of the writer below it is returned by its Flush.
type writer interface {
	io.Writer
	io.StringWriter
	io.ByteWriter
}

// writeOutput writes what a command has written, given in parts, as JSON: as text if it is UTF-8 and base64 is not asked for. encoding/json would
// copy it three times; output that is collected is long, and as JSON up to six times as long.
func writeOutput(w writer, base64Asked bool, parts ...[]byte) {
	if base64Asked || slices.ContainsFunc(parts, func(b []byte) bool { return !utf8.Valid(b) }) {
		_, _ = w.WriteString(`{"base64":"`)
		e := base64.NewEncoder(base64.StdEncoding, w)
		for _, b := range parts {
			_, _ = e.Write(b)
		}
		_ = e.Close()
		_, _ = w.WriteString(`"}`)
		return
	}
	_ = w.WriteByte('"')
	for _, b := range parts {
		writeEscaped(w, b)
	}
	_ = w.WriteByte('"')
}

// escapes are how encoding/json writes the characters of ASCII that a string cannot hold as they are.
var escapes struct {
	sync.Once
	table [utf8.RuneSelf]string
}

func escape() *[utf8.RuneSelf]string {
	escapes.Do(func() {
		for c := range escapes.table {
			if quoted := marshal(string(rune(c))); len(quoted) > len(`"x"`) {
				escapes.table[c] = string(quoted[1 : len(quoted)-1])
			}
		}
	})
	return &escapes.table
}

// writeEscaped writes UTF-8 as it stands in a string of JSON. U+2028 and U+2029 are escaped because readers of lines, such as Node's readline,
// take them for ends of lines.
func writeEscaped(w writer, text []byte) {
	table, from := escape(), 0
	for i := 0; i < len(text); i++ {
		escaped, size := "", 1
		switch c := text[i]; {
		case c < utf8.RuneSelf:
			escaped = table[c]
		case c == 0xe2 && text[i+1] == 0x80 && text[i+2]|1 == 0xa9:
			escaped, size = fmt.Sprintf(`\u20%x`, text[i+2]&0x2f), 3
		}
		if escaped != "" {
			_, _ = w.Write(text[from:i])
			_, _ = w.WriteString(escaped)
			from = i + size
		}
	}
	_, _ = w.Write(text[from:])
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
