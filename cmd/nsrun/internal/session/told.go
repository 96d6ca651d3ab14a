package session

import (
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

// told is how bytes are told: as text where they are UTF-8, unless base64 is asked for, and in base64 otherwise.
func told(b []byte, base64Asked bool) any {
	if !base64Asked && utf8.Valid(b) {
		return string(b)
	}
	return map[string]string{"base64": base64.StdEncoding.EncodeToString(b)}
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
