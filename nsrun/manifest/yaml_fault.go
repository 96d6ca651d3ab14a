package manifest

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

// The parser reports where it gave up, in words of its own. This file finds the line that has to be changed, and says how.

// parserText has our words for a message of the parser or its lexer.
type parserText struct{ has, text, fix string }

var parserTexts = [...]parserText{
	{"end character of double-quoted", "the string has no closing double quote", "write the quote at its end, on the same line"},
	{"end character of single-quoted", "the string has no closing single quote", "write the quote at its end, on the same line; write an apostrophe within it twice"},
	{"mapping value is not allowed", "the value has a colon and a space in it", "quote the value; an object begins on the next line"},
	{"block sequence entries are not allowed", "a list begins on the line of its key", "begin it on the next line, or write [A, B]"},
	{"',' or", "a comma is missing before this", "separate the entries by commas"},
	{"invalid key", "a list or object is used as a key", "write a word before the colon"},
	{"is a reserved character", "a string begins with a character that YAML reserves", "quote the string"},
	{"value is not allowed", "the line does not belong to the ones above", "indent it like the lines it belongs to; write a dash and a space before each item of a list"},
}

// explain adds the fault that a message of the parser means. tk is where the parser gave up, or nil.
func (t *tree) explain(message string, tk *token.Token) {
	at := place{1, 1}
	if tk != nil && tk.Position != nil {
		at = placeOf(tk)
	}
	if strings.Contains(message, "non-map value") && tk != nil {
		text, fix := withoutColon(tk.Value)
		t.add(at, "", text, fix)
		return
	}
	for _, known := range parserTexts {
		if strings.Contains(message, known.has) {
			t.add(at, "", known.text, known.fix)
			return
		}
	}
	t.add(at, "", "the YAML cannot be read: "+parserMessage(message), "check the indentation, and quote strings with special characters")
}

// withoutColon describes a line that YAML reads as neither a key with its value nor an item of a list.
func withoutColon(line string) (text, fix string) {
	before, after, colon := strings.Cut(line, ":")
	switch {
	case strings.HasPrefix(line, "-"):
		return "there is no space after the dash", "write " + clip("- "+strings.TrimLeft(line, "-"))
	case colon && before != "" && after != "":
		return "there is no space after the colon", "write " + clip(before+": "+after)
	}
	return clip(line) + " has no colon after the key", "write key: value, or - item in a list"
}

// tokenFaults finds what must be mended before anything else is worth a message: characters that are no YAML, and brackets that do not
// match, after which the lexer takes keys for entries. file has the lines of the file.
func (t *tree) tokenFaults(all token.Tokens, file []string) bool {
	before := len(t.all)
	for _, tk := range all {
		if tk.Type == token.InvalidType {
			t.explain(tk.Error, tk)
		}
	}
	if len(t.all) == before {
		t.brackets(all)
	}
	for i := 0; i < len(all) && len(t.all) == before; i++ {
		t.runOn(all[i], file)
	}
	return len(t.all) > before
}

// brackets adds the first bracket without its partner.
func (t *tree) brackets(all token.Tokens) {
	var open []*token.Token
	for _, tk := range all {
		switch tk.Type {
		case token.SequenceStartType, token.MappingStartType:
			open = append(open, tk)
		case token.SequenceEndType, token.MappingEndType:
			if len(open) == 0 {
				t.add(placeOf(tk), "", tk.Value+" closes nothing", "remove it")
				return
			}
			last := open[len(open)-1]
			if tk.Value != partner(last.Value[0]) {
				t.add(mismatch(placeOf(tk), tk.Value[0], placeOf(last), last.Value[0]))
				return
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.add(unclosed(placeOf(open[0]), open[0].Value[0]))
	}
}

// partner is the bracket that closes another.
func partner(bracket byte) string { return string(bracket + 2) } // [ ] and { } lie two apart in ASCII

// unclosed and mismatch are the arguments of add for a bracket without its partner, in JSON and in YAML.
func unclosed(at place, bracket byte) (place, string, string, string) {
	return at, "", "the " + string(bracket) + " is not closed", "write " + partner(bracket) + " after its last entry"
}

func mismatch(at place, found byte, opened place, bracket byte) (place, string, string, string) {
	return at, "", fmt.Sprintf("%c cannot close the %c of line %d, column %d", found, bracket, opened.line, opened.column), "write " + partner(bracket)
}

// runOn adds the fault of a bare string that the lexer has joined from several lines, if a colon or dash in it shows that its lines were
// meant to be apart.
func (t *tree) runOn(tk *token.Token, file []string) {
	lines := strings.Split(strings.TrimSpace(tk.Origin), "\n")
	if tk.Type != token.StringType || len(lines) < 2 {
		return
	}
	first, second := strings.TrimSpace(lines[0]), strings.TrimSpace(lines[1])
	at := placeOf(tk)
	for n := max(1, at.line-len(lines)); n <= min(at.line, len(file)); n++ { // the lexer gives some of them the place of their last line
		if column := strings.Index(file[n-1], first); column >= 0 {
			at = place{n, utf8.RuneCountInString(file[n-1][:column]) + 1}
			break
		}
	}
	next := place{at.line + 1, len(lines[1]) - len(strings.TrimLeft(lines[1], " ")) + 1}
	key := tk.Next != nil && tk.Next.Type == token.MappingValueType
	switch behind := tk.Prev; {
	case behind != nil && behind.Position.Line == at.line && behind.Type == token.SequenceEntryType && strings.HasPrefix(second, "-"):
		t.add(next, "", "the dash is indented more than the one above", fmt.Sprintf("indent it like line %d", at.line))
	case behind != nil && behind.Position.Line == at.line && behind.Type == token.MappingValueType && key && len(lines) == 2:
		t.add(next, "", "the line is indented more than the one above", fmt.Sprintf("indent it like line %d", at.line))
	case key || behind != nil && behind.Type == token.MappingValueType && behind.Position.Line < at.line:
		text, fix := withoutColon(first)
		t.add(at, "", text, fix)
	}
}
