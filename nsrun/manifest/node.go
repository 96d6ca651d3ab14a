package manifest

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/nsrun/nsrun/nsrun/policy"
)

const (
	// MaxSize is the size of the largest manifest in bytes. Callers read at most one byte more than that.
	MaxSize = 1 << 20
	// MaxSizeYAML is that of the largest one in YAML, whose reader takes time that grows with the square of the input.
	MaxSizeYAML = 64 << 10

	maxDepth   = 32     // of lists and objects in each other
	maxEntries = 10_000 // list items and object members in all
)

// kind is what a value of a file is.
type kind uint8

const (
	null kind = iota
	boolean
	number
	text
	list
	object
	unclear // a bare word of YAML that readers take for different things
)

var kindNames = [...]string{"null", "true or false", "a number", "a string", "a list", "an object", "a bare word"}

func (k kind) String() string { return kindNames[k] }

// place is where a value or key begins, counted from 1.
type place struct{ line, column int }

// node is one value of a file.
type node struct {
	kind kind
	at   place
	// text is a string's value, a number's or boolean's spelling.
	text    string
	items   []*node  // of a list
	members []member // of an object, in the file's order, each name once
}

type member struct {
	name  string
	at    place
	value *node
}

// tree collects what both readers share: faults, and how much is still allowed.
type tree struct {
	faults
	entries int
}

// grow counts one more entry and reports whether that is too many.
func (t *tree) grow(at place) bool {
	t.entries++
	if t.entries == maxEntries+1 {
		t.add(at, "", fmt.Sprintf("there are more than %d entries", maxEntries), "split the manifest")
	}
	return t.entries > maxEntries
}

// join adds a member, unless its name is there already.
func (t *tree) join(obj *node, seen map[string]place, m member, path string) {
	if first, twice := seen[m.name]; twice {
		t.add(m.at, dotted(path, m.name), fmt.Sprintf("the key is there already, in line %d", first.line), "keep one of the two")
		return
	}
	seen[m.name] = m.at
	obj.members = append(obj.members, m)
}

// read makes the tree of a file, JSON or YAML, and reports false when it cannot.
func (t *tree) read(data []byte) (*node, bool) {
	if len(data) > MaxSize {
		t.add(place{1, 1}, "", fmt.Sprintf("the file is larger than %d bytes", MaxSize), "this is no manifest; give the right file")
		return nil, false
	}
	if !t.clean(data) {
		return nil, false
	}
	for i, c := range data {
		switch c {
		case ' ', '\t', '\r', '\n':
		case '{':
			return t.readJSON(data, i)
		case '/':
			t.add(place{1 + bytes.Count(data[:i], []byte("\n")), 1}, "", noComments, "remove it; a comment of YAML begins with #")
			return nil, false
		default:
			return t.readYAML(data)
		}
	}
	t.add(place{1, 1}, "", "the file is empty", `write {} for the defaults`)
	return nil, false
}

// clean reports whether data is UTF-8 text in which nothing can hide: no control characters but tabs and line ends, no marks
// that reorder text, and no byte order mark.
func (t *tree) clean(data []byte) bool {
	at := place{1, 1}
	for i := 0; i < len(data); at.column++ {
		if c := data[i]; c >= ' ' && c < 0x7f {
			i++
			continue
		}
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == '\n':
			at = place{at.line + 1, 0}
		case r == '\t' || r == '\r' && i+1 < len(data) && data[i+1] == '\n':
		case r == utf8.RuneError && size == 1:
			t.add(at, "", fmt.Sprintf("byte %#02x is not UTF-8", data[i]), "save the file as UTF-8")
			return false
		case r == '\ufeff':
			t.add(at, "", "there is a byte order mark", "save the file as UTF-8 without one")
			return false
		case policy.CheckText(string(r)) != nil:
			t.add(at, "", fmt.Sprintf("character %U is a control character or reorders text", r), "remove it")
			return false
		}
		i += size
	}
	return true
}
