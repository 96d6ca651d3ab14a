package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// scanner reads JSON (RFC 8259) strictly. encoding/json is no help but for numbers and escapes: it takes keys twice and what
// follows the value, and does not say in which column a value begins.
type scanner struct {
	*tree
	data []byte
	pos  int
	// line and column are the place of mark, counted on when asked for; marks only move forward.
	line, column, mark int
	open               []opened
}

// opened is a bracket that is not closed yet.
type opened struct {
	at      place
	bracket byte
}

// stop ends a scan; its fault is noted already.
type stop struct{}

func (t *tree) readJSON(data []byte, start int) (root *node, ok bool) {
	s := &scanner{tree: t, data: data, pos: start, line: 1, column: 1}
	s.line += bytes.Count(data[:start], []byte("\n"))
	s.column += start - 1 - bytes.LastIndexByte(data[:start], '\n')
	s.mark = start
	defer func() {
		if r := recover(); r != nil {
			if _, stopped := r.(stop); !stopped {
				panic(r)
			}
			root, ok = nil, false
		}
	}()
	root = s.value("", 0)
	if c := s.peek(); c == '/' || c == '#' {
		s.fail("", noComments, commentFix)
	}
	if s.pos < len(data) {
		s.fail("", "something follows the manifest", "one file holds one manifest; remove the rest")
	}
	return root, true
}

// here is the place of pos.
func (s *scanner) here() place {
	for _, c := range s.data[s.mark:s.pos] {
		switch {
		case c == '\n':
			s.line, s.column = s.line+1, 1
		case utf8.RuneStart(c):
			s.column++
		}
	}
	s.mark = s.pos
	return place{s.line, s.column}
}

func (s *scanner) fail(key, what, fix string) {
	s.add(s.here(), key, what, fix)
	panic(stop{})
}

// space skips white space.
func (s *scanner) space() {
	for s.pos < len(s.data) && strings.IndexByte(" \t\r\n", s.data[s.pos]) >= 0 {
		s.pos++
	}
}

// peek is the next byte that is not white space, 0 at the end.
func (s *scanner) peek() byte {
	if s.space(); s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) value(key string, depth int) *node {
	c := s.peek()
	n := &node{at: s.here()}
	if depth == maxDepth && (c == '{' || c == '[') {
		s.fail(key, fmt.Sprintf("lists and objects are nested deeper than %d", maxDepth), "no manifest needs that")
	}
	switch {
	case c == '{':
		s.object(n, key, depth)
	case c == '[':
		s.list(n, key, depth)
	case c == '"':
		n.kind, n.text = text, s.str(key)
	case c == '-' || c >= '0' && c <= '9':
		n.kind, n.text = number, s.number(key)
	default:
		s.word(n, key)
	}
	return n
}

func (s *scanner) object(n *node, key string, depth int) {
	n.kind = object
	seen := map[string]place{}
	s.each(key, '}', func() {
		if s.peek() != '"' {
			s.withoutQuotes(key)
		}
		m := member{at: s.here()}
		m.name = s.str(key)
		if s.peek() != ':' {
			s.unexpected(dotted(key, m.name), "a colon")
		}
		s.pos++
		m.value = s.value(dotted(key, m.name), depth+1)
		s.join(n, seen, m, key)
	})
}

func (s *scanner) list(n *node, key string, depth int) {
	n.kind = list
	s.each(key, ']', func() {
		n.items = append(n.items, s.value(indexed(key, len(n.items)), depth+1))
	})
}

// each reads what stands between brackets, an entry at a time.
func (s *scanner) each(key string, end byte, entry func()) {
	s.open = append(s.open, opened{s.here(), s.data[s.pos]})
	defer func() { s.open = s.open[:len(s.open)-1] }()
	s.pos++
	if s.peek() == end {
		s.pos++
		return
	}
	for {
		if s.grow(s.here()) {
			panic(stop{})
		}
		entry()
		switch s.peek() {
		case end:
			s.pos++
			return
		case ',':
			s.pos++
			if s.peek() == end {
				s.fail(key, "a comma comes before the closing bracket", "remove the comma")
			}
		default:
			s.withoutComma(key, end)
		}
	}
}

const (
	noComments = "JSON has no comments"
	commentFix = "remove it, or write the manifest in YAML"
)

// unexpected fails on what stands here.
func (s *scanner) unexpected(key, wanted string) {
	switch c := s.peek(); {
	case c == 0:
		last := s.open[len(s.open)-1]
		s.add(unclosed(last.at, last.bracket))
		panic(stop{})
	case c == '/' || c == '#':
		s.fail(key, noComments, commentFix)
	case c == '\'':
		s.fail(key, "JSON has no single quotes", "use double quotes")
	}
	r, _ := utf8.DecodeRune(s.data[s.pos:])
	s.fail(key, fmt.Sprintf("unexpected %q", r), "write "+wanted)
}

// withoutComma fails on what stands after an entry, where a comma or end is wanted.
func (s *scanner) withoutComma(key string, end byte) {
	switch c := s.peek(); {
	case c == ']' || c == '}':
		last := s.open[len(s.open)-1]
		s.add(mismatch(s.here(), c, last.at, last.bracket))
		panic(stop{})
	case c == '"' || c == '{' || c == '[' || c == '-' || s.bareWord() != "":
		s.fail(key, "a comma is missing before this", "separate the entries by commas")
	}
	s.unexpected(key, fmt.Sprintf("a comma or %c", end))
}

// withoutQuotes fails on what stands where a key is wanted.
func (s *scanner) withoutQuotes(key string) {
	if word := s.bareWord(); word != "" {
		s.fail(key, "the key "+clip(word)+" has no double quotes", "a file that begins with { is JSON: quote each key, or leave the outer braces out and write YAML")
	}
	s.unexpected(key, "a key in double quotes")
}

// bareWord is the word that stands here without quotes, if any.
func (s *scanner) bareWord() string {
	s.peek()
	end := s.pos
	for end < len(s.data) && (s.data[end] == '_' || s.data[end]|0x20 >= 'a' && s.data[end]|0x20 <= 'z' || s.data[end] >= '0' && s.data[end] <= '9') {
		end++
	}
	return string(s.data[s.pos:end])
}

// word reads true, false or null.
func (s *scanner) word(n *node, key string) {
	for w, k := range map[string]kind{"true": boolean, "false": boolean, "null": null} {
		if bytes.HasPrefix(s.data[s.pos:], []byte(w)) {
			n.kind, n.text = k, w
			s.pos += len(w)
			return
		}
	}
	word := s.bareWord()
	if word == "" {
		s.unexpected(key, "a value")
	}
	fix := "quote it"
	switch other := strings.ToLower(word); other { // how other languages spell the words of JSON
	case "true", "false", "null":
		fix = "write " + other
	case "none", "nil", "undefined":
		fix = "write null"
	case "yes":
		fix = "write true"
	case "no":
		fix = "write false"
	}
	s.fail(key, clip(word)+" is no value of JSON", fix)
}

func (s *scanner) number(key string) string {
	start := s.pos
	for s.pos < len(s.data) && strings.IndexByte("+-.0123456789eE", s.data[s.pos]) >= 0 {
		s.pos++
	}
	lit := string(s.data[start:s.pos])
	if !isNumber(lit) {
		s.pos = start
		s.fail(key, clip(lit)+" is not a number of JSON", "write it in plain digits")
	}
	return lit
}

// isNumber reports whether lit is a number in the spelling of JSON.
func isNumber(lit string) bool {
	return strings.Trim(lit, "+-.0123456789eE") == "" && json.Valid([]byte(lit))
}

// str reads a string. Its escapes are for encoding/json, which makes of half a surrogate pair a character that does not stand there.
func (s *scanner) str(key string) string {
	start, escaped := s.pos, false
	for s.pos++; s.pos < len(s.data) && s.data[s.pos] != '"'; s.pos++ {
		switch c := s.data[s.pos]; {
		case c == '\\':
			escaped = true
			s.pos++
		case c < ' ':
			s.fail(key, "a line end or tab stands in a string", "close the string by a double quote")
		}
	}
	if s.pos >= len(s.data) {
		s.pos = len(s.data)
		s.fail(key, "the file ends inside a string", "close it by a double quote")
	}
	s.pos++
	lit := s.data[start:s.pos]
	if !escaped {
		return string(lit[1 : len(lit)-1])
	}
	var text string
	err := json.Unmarshal(lit, &text)
	written := strings.ReplaceAll(strings.ToLower(string(lit)), `\\`, "")
	if err != nil || strings.Count(text, "\ufffd") != strings.Count(written, "\ufffd")+strings.Count(written, `\ufffd`) {
		s.pos = start
		s.fail(key, "the string has an escape that is not one of JSON, or half of a surrogate pair", "write the character itself")
	}
	return text
}

// dotted is the path of a member. A name that is not plain is quoted, so that no error text says what the file dictates.
func dotted(path, name string) string {
	plain := func(r rune) bool {
		return r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
	}
	switch {
	case name == "" || len(name) > 60 || strings.IndexFunc(name, func(r rune) bool { return !plain(r) }) >= 0:
		return path + "[" + clip(name) + "]"
	case path == "":
		return name
	}
	return path + "." + name
}

func indexed(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
