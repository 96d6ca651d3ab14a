package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text is a string of any bytes. In JSON it is a string, or {"base64": "..."} where it is not UTF-8.
type Text string

// MarshalJSON writes the text.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(map[string][]byte{"base64": []byte(t)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *Text) UnmarshalJSON(data []byte) error {
	if data[0] != '{' {
		return json.Unmarshal(data, (*string)(t))
	}
	var raw struct{ Base64 []byte }
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	if raw.Base64 == nil {
		return errors.New("an object stands in the place of a text, and has no base64")
	}
	*t = Text(raw.Base64)
	return nil
}

// Texts makes texts of strings.
func Texts(all []string) []Text {
	out := make([]Text, len(all))
	for i, s := range all {
		out[i] = Text(s)
	}
	return out
}

// Armor escapes what in a line of JSON does not print, and what a shell expands between double quotes, as JSON does. Such characters stand
// in strings alone, so the line means the same. A log that is shown on a terminal, or taken for a shell's file, has nothing to obey.
func Armor(line []byte) []byte {
	plain := func(r rune) bool {
		return r != '$' && r != '`' && r != utf8.RuneError && (r == ' ' || unicode.IsPrint(r))
	}
	text := string(line)
	if strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return line
	}
	var out strings.Builder
	for _, r := range text {
		switch {
		case plain(r):
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return []byte(out.String())
}

// Plain is a text for a terminal: what does not print is escaped, and so is a backslash.
func Plain(t Text) string {
	var out strings.Builder
	for i, r := range string(t) {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(string(t[i:]), string(utf8.RuneError)):
			fmt.Fprintf(&out, `\x%02x`, t[i])
		case r == '\\':
			out.WriteString(`\\`)
		case unicode.IsPrint(r):
			out.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&out, `\U%08x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}
