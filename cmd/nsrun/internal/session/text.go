package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf8"
)

// entries takes a line apart that should be one JSON object in UTF-8. With an error it may return entries all the same.
func entries(line []byte) ([]member, *Error) {
	var whole json.RawMessage
	if err := json.Unmarshal(line, &whole); err != nil {
		if fault := badText(line); fault != nil {
			return nil, fault
		}
		at := int64(len(line))
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			at = syntax.Offset
		}
		return nil, protocolError("", "write one JSON object a line", "at byte %d of the line: %v", at, err)
	}
	all, fault := members(line, "")
	if bad := badText(line); bad != nil {
		fault = bad
	}
	return all, fault
}

// badText says where a line has what is no text.
func badText(line []byte) *Error {
	const fix = "write UTF-8, and other bytes in base64"
	if !utf8.Valid(line) {
		at := 0
		for r, n := utf8.DecodeRune(line); r != utf8.RuneError || n != 1; r, n = utf8.DecodeRune(line[at:]) {
			at += n
		}
		return protocolError("", fix, "byte %d of the line is not UTF-8", at+1)
	}
	if at := halfSurrogate(line); at >= 0 {
		return protocolError("", fix, "at byte %d of the line: half of a surrogate pair", at+1)
	}
	return nil
}

// idOf finds the id in what a line begins with, if it comes first there.
func idOf(begin []byte) (i id) {
	d := json.NewDecoder(bytes.NewReader(begin))
	var value json.RawMessage
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return ""
	}
	if key, err := d.Token(); err != nil || key != "id" || d.Decode(&value) != nil || badText(value) != nil || i.read("id", value) != nil {
		return ""
	}
	return i
}

// halfSurrogate finds an escape that stands for no character, or is -1: encoding/json would take it for another.
func halfSurrogate(line []byte) int {
	unit := func(at int) uint64 {
		if at+6 > len(line) || line[at] != '\\' || line[at+1] != 'u' {
			return 0
		}
		n, _ := strconv.ParseUint(string(line[at+2:at+6]), 16, 16)
		return n
	}
	for i := 0; ; i++ {
		next := bytes.IndexByte(line[min(i, len(line)):], '\\')
		if next < 0 {
			return -1
		}
		i += next
		switch n := unit(i); {
		case n < 0xd800 || n > 0xdfff:
			i++ // what is escaped
		case n >= 0xdc00 || unit(i+6)>>10 != 0xdc00>>10:
			return i
		default:
			i += 11
		}
	}
}
