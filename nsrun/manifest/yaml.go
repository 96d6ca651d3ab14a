package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxYAMLKeys bounds the keys of a YAML file: its reader compares them in a time that grows with their square.
const maxYAMLKeys = 1000

// refused are the parts of YAML that let one place of a file change what another means, or a word what it is.
var refused = [...]struct {
	kind      token.Type
	text, fix string
}{
	{token.AnchorType, "YAML anchors are not taken", "write the value where it is needed"},
	{token.AliasType, "YAML aliases are not taken", "write the value itself; quote a string that begins with *"},
	{token.TagType, "YAML tags are not taken", "leave the tag out; quote a string that begins with !"},
	{token.MergeKeyType, "YAML merge keys are not taken", "write the keys where they are needed"},
	{token.DirectiveType, "YAML directives are not taken", "remove the line; quote a string that begins with %"},
	{token.MappingKeyType, "YAML keys written with ? are not taken", "write key: value"},
	{token.LiteralType, "YAML block strings are not taken", "write the string in quotes, on one line"},
	{token.FoldedType, "YAML block strings are not taken", "write the string in quotes, on one line"},
	{token.DocumentEndType, "YAML document ends are not taken", "remove the line; one file holds one manifest"},
}

// readYAML makes the tree of a YAML file. The words of YAML are checked before its grammar: what is refused, too many or too deep
// never reaches the parser, which was not made for hostile input.
func (t *tree) readYAML(data []byte) (root *node, ok bool) {
	if len(data) > MaxSizeYAML {
		t.add(place{1, 1}, "", fmt.Sprintf("a YAML file of more than %d bytes is not taken", MaxSizeYAML), "write it in JSON")
		return nil, false
	}
	if before, _, tabs := bytes.Cut(data, []byte("\t")); tabs {
		at := place{1 + bytes.Count(before, []byte("\n")), utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1}
		t.add(at, "", "there is a tab, which YAML takes in few places", "use spaces")
		return nil, false
	}
	defer func() {
		if recover() != nil { // the parser's own mistake
			t.add(place{1, 1}, "", "the YAML reader gave up on the file", "write it in JSON")
			root, ok = nil, false
		}
	}()
	tokens := lexer.Tokenize(strings.ReplaceAll(string(data), "\r\n", "\n"))
	if t.tokenFaults(tokens, strings.Split(string(data), "\n")) || !t.tokens(tokens) {
		return nil, false
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // join finds them, and goes on
	if err != nil {
		t.syntax(err)
		return nil, false
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		t.add(place{1, 1}, "", "the file is empty, or holds several documents", "one file holds one manifest; {} is the default one")
		return nil, false
	}
	root = t.yaml(file.Docs[0].Body, "")
	return root, t.entries <= maxEntries
}

// syntax notes what the parser says.
func (t *tree) syntax(err error) {
	var located interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if errors.As(err, &located) {
		t.explain(located.GetMessage(), located.GetToken())
		return
	}
	t.explain("", nil)
}

// parserMessage makes what the parser says, which may hold words of the file, fit for an error text.
func parserMessage(s string) string {
	s = strconv.Quote(s[:min(len(s), 200)])
	return strings.ReplaceAll(s[1:len(s)-1], `\"`, `"`)
}

func placeOf(tk *token.Token) place { return place{tk.Position.Line, tk.Position.Column} }

// tokens checks the words of a file and reports whether its grammar may be looked at.
func (t *tree) tokens(all token.Tokens) bool {
	before, keys, entries, begun := len(t.all), 0, 0, false
	var open nesting
	for _, tk := range all {
		for _, r := range refused {
			if r.kind == tk.Type {
				t.add(placeOf(tk), "", r.text, r.fix)
			}
		}
		switch tk.Type {
		case token.DocumentHeaderType:
			if begun {
				t.add(placeOf(tk), "", "a second YAML document begins", "one file holds one manifest; remove the rest")
			}
		case token.SequenceEntryType, token.CollectEntryType:
			if next := after(tk); tk.Type == token.SequenceEntryType && (next == nil || next.Position.Line != tk.Position.Line) {
				t.add(placeOf(tk), "", "nothing stands after the dash", "write - item on one line")
			}
			if entries++; entries == maxEntries {
				t.add(placeOf(tk), "", fmt.Sprintf("there are more than %d entries", maxEntries), "split the manifest")
			}
		case token.MappingValueType:
			switch {
			case touches(tk, tk.Next):
				t.add(placeOf(tk), "", "a colon stands between two words", "put a space after it, or quote the string that holds it")
			case tk.Prev == nil || tk.Prev.Position.Line != tk.Position.Line:
				t.add(placeOf(tk), "", "a colon begins a line", "write key: value on one line")
			case stray(tk):
				t.stray(tk)
			}
			if keys++; keys == maxYAMLKeys+1 {
				t.add(placeOf(tk), "", fmt.Sprintf("there are more than %d keys", maxYAMLKeys), "write the manifest in JSON")
			}
		}
		begun = begun || tk.Type != token.CommentType && tk.Type != token.DirectiveType && len(t.all) == before
		if open.add(tk); open.depth() > maxDepth {
			t.add(placeOf(tk), "", fmt.Sprintf("lists and objects are nested deeper than %d", maxDepth), "no manifest needs that")
			return false
		}
	}
	return len(t.all) == before
}

// touches reports whether b begins where a ends, one character on.
func touches(a, b *token.Token) bool {
	return b != nil && b.Position.Line == a.Position.Line && b.Position.Column == a.Position.Column+1
}

// after is the word after a, comments left out.
func after(a *token.Token) *token.Token {
	next := a.Next
	for next != nil && next.Type == token.CommentType {
		next = next.Next
	}
	return next
}

// stray reports whether what follows a colon on later lines is anything but a list or object that is indented as it should be:
// there, readers of YAML differ.
func stray(colon *token.Token) bool {
	next := after(colon)
	if next == nil || next.Position.Line == colon.Position.Line {
		return false
	}
	key := colon.Prev.Position.Column
	if next.Type == token.SequenceEntryType {
		return next.Position.Column < key
	}
	value := after(next)
	return value == nil || value.Type != token.MappingValueType || value.Position.Line != next.Position.Line
}

// stray adds the fault of what follows a colon on later lines.
func (t *tree) stray(colon *token.Token) {
	if next := after(colon); next.Type == token.StringType && next.Position.Column > colon.Prev.Position.Column {
		text, fix := withoutColon(next.Value)
		t.add(placeOf(next), "", text, fix)
		return
	}
	t.add(placeOf(colon), "", "the value does not stand on the line of its key", "write key: value on one line, and indent lists and objects")
}

// nesting follows how deep the words of a file stand in each other; it never says less than it is.
type nesting struct {
	flow   int   // open brackets
	blocks []int // columns, doubled: even ones of objects, odd ones of lists, which may stand in the column of the object around them
}

func (n *nesting) depth() int { return n.flow + len(n.blocks) }

func (n *nesting) add(tk *token.Token) {
	switch tk.Type {
	case token.SequenceStartType, token.MappingStartType:
		n.flow++
	case token.SequenceEndType, token.MappingEndType:
		n.flow = max(0, n.flow-1)
	case token.SequenceEntryType:
		n.push(2*tk.Position.Column + 1)
	case token.MappingValueType:
		if tk.Prev != nil && n.flow == 0 {
			n.push(2 * tk.Prev.Position.Column)
		}
	}
}

func (n *nesting) push(block int) {
	for len(n.blocks) > 0 && n.blocks[len(n.blocks)-1] >= block {
		n.blocks = n.blocks[:len(n.blocks)-1]
	}
	n.blocks = append(n.blocks, block)
}

// yaml turns what the parser made into our tree.
func (t *tree) yaml(from ast.Node, path string) *node {
	switch n := from.(type) {
	case *ast.MappingNode:
		obj := &node{kind: object, at: placeOf(n.GetToken())}
		t.yamlMembers(obj, n.Values, path)
		return obj
	case *ast.MappingValueNode:
		obj := &node{kind: object, at: placeOf(n.Key.GetToken())}
		t.yamlMembers(obj, []*ast.MappingValueNode{n}, path)
		return obj
	case *ast.SequenceNode:
		seq := &node{kind: list, at: placeOf(n.GetToken())}
		for i, item := range n.Values {
			if t.grow(placeOf(n.GetToken())) {
				break
			}
			seq.items = append(seq.items, t.yaml(item, indexed(path, i)))
		}
		return seq
	case *ast.StringNode, *ast.NullNode, *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return t.scalar(from.GetToken(), path)
	case nil:
		return &node{kind: null, at: place{1, 1}}
	}
	at := place{1, 1}
	if tk := from.GetToken(); tk != nil && tk.Position != nil {
		at = placeOf(tk)
	}
	t.add(at, path, "this part of YAML is not taken", "write plain keys, lists and values")
	return &node{kind: null, at: at}
}

func (t *tree) yamlMembers(obj *node, values []*ast.MappingValueNode, path string) {
	seen := map[string]place{}
	for _, v := range values {
		tk := v.Key.GetToken()
		if t.grow(placeOf(tk)) {
			return
		}
		key := t.scalar(tk, path)
		if _, isText := v.Key.(*ast.StringNode); !isText || key.kind != text {
			t.add(key.at, path, "the key "+clip(tk.Value)+" is not a plain string", "quote it")
			continue
		}
		if obj.members == nil {
			obj.at = key.at
		}
		m := member{key.text, key.at, t.yaml(v.Value, dotted(path, key.text))}
		t.join(obj, seen, m, path)
	}
}

// scalar reads one word: quoted it is a string, bare it is what all readers of YAML agree on, or unclear.
func (t *tree) scalar(tk *token.Token, path string) *node {
	n := &node{kind: text, at: placeOf(tk), text: tk.Value}
	if strings.Contains(strings.TrimSpace(tk.Origin), "\n") {
		t.add(n.at, path, "a string goes on in the next line", "write it on one line, in quotes")
	}
	switch tk.Type {
	case token.SingleQuoteType:
	case token.DoubleQuoteType:
		if strings.ContainsRune(tk.Value, '\ufffd') && !strings.ContainsRune(tk.Origin, '\ufffd') {
			t.add(n.at, path, "the escape is half of a surrogate pair", "write the character itself")
		}
	default:
		n.kind = bareKind(tk.Value)
		if tk.Type == token.ImplicitNullType {
			n.kind, n.text = null, ""
		}
	}
	return n
}

// bareKind says what a word without quotes is. Readers of YAML 1.1 and 1.2 differ over yes, no, on, off, 010, 1_000, 0x1f, 12:30
// and the like; those are unclear.
func bareKind(s string) kind {
	if s != "" && strings.IndexByte("?:,[]{}#&*!|>'\"%@`", s[0]) >= 0 {
		return unclear
	}
	switch strings.ToLower(s) {
	case "", "~", "null":
		return null
	case "true", "false":
		if s == strings.ToLower(s) {
			return boolean
		}
		return unclear
	case "yes", "no", "on", "off", "y", "n", ".inf", "+.inf", "-.inf", ".nan", "=", "<<":
		return unclear
	}
	switch {
	case isNumber(s):
		return number
	case strings.IndexByte("0123456789+-.", s[0]) >= 0 && strings.Trim(s, "0123456789+-._:,eE") == "" && strings.ContainsAny(s, "0123456789"),
		len(s) > 1 && s[0] == '0' && strings.ContainsAny(s[1:2], "xXoObB"):
		return unclear
	}
	return text
}
