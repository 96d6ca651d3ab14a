package manifest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// A form is what a value may be. It has three readers, so that what is decoded, written and published cannot differ.
type form interface {
	// read decodes n into a pointer of the form's own type; faults go to d.
	read(d *decoder, n *node, key string, into any)
	// json is the canonical spelling of what the pointer points to, and false when it is absent.
	json(from any) (string, bool)
	// schema is the JSON Schema of the form.
	schema() map[string]any
}

// decoder is one decoding: its faults and the places of all values by their keys.
type decoder struct {
	*faults
	places map[string]place
	listed []string // the records whose keys a fault has listed
}

// want reports whether n is of kind k, and says so when it is not.
func (d *decoder) want(n *node, key string, k kind) bool {
	d.places[key] = n.at
	if n.kind == k {
		return true
	}
	if key == "" { // the whole file
		d.add(n.at, "", "the file holds "+n.kind.String()+" instead of "+k.String(), "write key: value on a line for each key, or a JSON object")
		return false
	}
	what, fix := n.kind.String(), "give "+k.String()
	switch {
	case k == list && n.kind == text:
		fix = `give a list, as in ["A", "B"]`
	case k == number && n.kind == text:
		what, fix = clip(n.text), "write plain digits, without a unit and without quotes"
	case n.kind == null:
		what, fix = "null", "leave the key out, or give "+k.String()
	case n.kind == unclear && k == boolean:
		what, fix = clip(n.text), "write true or false"
	case n.kind == unclear && k == number:
		what, fix = clip(n.text), "write plain decimal digits"
	case n.kind == unclear:
		what, fix = clip(n.text)+", which readers of YAML take for different things,", "quote it"
	case k == text && (n.kind == number || n.kind == boolean):
		what, fix = n.kind.String()+", "+clip(n.text)+",", "quote it"
	}
	d.add(n.at, key, what+" stands where "+k.String()+" is wanted", fix)
	return false
}

// stringForm is a string that a function validates: it reports what is wrong and what to do, or nothing.
type stringForm struct {
	validate func(string) (problem, fix string)
	choices  []string // the only strings, where there are few
	more     string   // what is possible beside them, for messages
	pattern  string   // for the schema
}

func (w stringForm) read(d *decoder, n *node, key string, into any) {
	if !d.want(n, key, text) {
		return
	}
	problem, fix := w.check(n.text)
	if problem != "" {
		d.add(n.at, key, problem, fix)
		return
	}
	*into.(*string) = n.text
}

func (w stringForm) check(s string) (problem, fix string) {
	if policy.CheckText(s) != nil {
		return clip(s) + " holds control characters, or marks that reorder text", "remove them"
	}
	if w.choices != nil && !slices.Contains(w.choices, s) {
		fix = "use " + strings.Join(w.choices, " or ") + w.more
		if near, ok := policy.Nearest(s, w.choices); ok {
			fix = "did you mean " + near + "?"
		}
		return clip(s) + " is unknown", fix
	}
	if w.validate != nil {
		return w.validate(s)
	}
	return "", ""
}

func (w stringForm) json(from any) (string, bool) {
	s := *from.(*string)
	return quote(s), s != ""
}

func (w stringForm) schema() map[string]any {
	s := map[string]any{"type": "string"}
	if w.choices != nil {
		s["enum"] = w.choices
	}
	if w.pattern != "" {
		s["pattern"] = w.pattern
	}
	return s
}

// quote spells a string in JSON. Unlike encoding/json it leaves what is not UTF-8 for Parse to find.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ':
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// listForm is a list of values of one form.
type listForm[T any] struct{ of form }

func (l listForm[T]) read(d *decoder, n *node, key string, into any) {
	if !d.want(n, key, list) || len(n.items) == 0 {
		return
	}
	all := make([]T, len(n.items))
	for i, item := range n.items {
		l.of.read(d, item, indexed(key, i), &all[i])
	}
	*into.(*[]T) = all
}

func (l listForm[T]) json(from any) (string, bool) {
	all := *from.(*[]T)
	parts := make([]string, len(all))
	for i := range all {
		s, ok := l.of.json(&all[i])
		if !ok {
			s = `""` // refused when it is read
		}
		parts[i] = s
	}
	return "[" + strings.Join(parts, ",") + "]", len(all) > 0
}

func (l listForm[T]) schema() map[string]any {
	return map[string]any{"type": "array", "items": l.of.schema()}
}

// boolForm is true or false, where one of them is what holds without it.
type boolForm struct{ byDefault bool }

func (f boolForm) read(d *decoder, n *node, key string, into any) {
	if d.want(n, key, boolean) {
		*into.(*bool) = (n.text == "true") != f.byDefault
	}
}

func (f boolForm) json(from any) (string, bool) {
	changed := *from.(*bool)
	return strconv.FormatBool(changed != f.byDefault), changed
}

func (f boolForm) schema() map[string]any {
	return map[string]any{"type": "boolean", "default": f.byDefault}
}

// intForm is a whole number within bounds.
type intForm struct {
	min, max int64
}

func (a intForm) read(d *decoder, n *node, key string, into any) {
	if !d.want(n, key, number) {
		return
	}
	v, err := strconv.ParseInt(n.text, 10, 64)
	fix := fmt.Sprintf("give %d to %d, in plain digits", a.min, a.max)
	if a.min == a.max {
		fix = fmt.Sprintf("give %d", a.min)
	}
	switch whole := strings.Trim(n.text, "0123456789") == "" || strings.Trim(n.text[1:], "0123456789") == ""; {
	case !whole:
		d.add(n.at, key, clip(n.text)+" is not a whole number", fix)
	case err != nil || v < a.min || v > a.max:
		d.add(n.at, key, clip(n.text)+" is out of range", fix)
	default:
		storeInt(into, v)
	}
}

func (a intForm) json(from any) (string, bool) {
	v, ok := loadInt(from)
	return strconv.FormatInt(v, 10), ok
}

func (a intForm) schema() map[string]any {
	return map[string]any{"type": "integer", "minimum": a.min, "maximum": a.max}
}

// durationForm is a time: a Go duration as a string, or whole seconds as a number.
type durationForm struct{}

const (
	minDuration = time.Millisecond
	maxDuration = 365 * 24 * time.Hour
	timeFix     = `write whole seconds, or a string like "1m30s"`
)

func (durationForm) read(d *decoder, n *node, key string, into any) {
	d.places[key] = n.at
	var v time.Duration
	var err error
	switch n.kind {
	case number:
		var seconds int64
		seconds, err = strconv.ParseInt(n.text, 10, 32)
		v = time.Duration(seconds) * time.Second
	case text:
		v, err = time.ParseDuration(n.text)
	default:
		err = strconv.ErrSyntax
	}
	switch {
	case err != nil && n.text == "":
		d.add(n.at, key, n.kind.String()+" stands where a time is wanted", timeFix)
	case err != nil:
		d.add(n.at, key, clip(n.text)+" is not a time", timeFix)
	case v < minDuration || v > maxDuration:
		d.add(n.at, key, clip(n.text)+" is out of range", fmt.Sprintf("give %v to %v", minDuration, maxDuration))
	default:
		*into.(*time.Duration) = v
	}
}

func (durationForm) json(from any) (string, bool) {
	v := *from.(*time.Duration)
	return quote(v.String()), v != 0
}

func (durationForm) schema() map[string]any {
	return map[string]any{"oneOf": []any{
		map[string]any{"type": "integer", "minimum": 1, "maximum": int64(maxDuration / time.Second)},
		map[string]any{"type": "string", "pattern": `^[+]?([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|ms|s|m|h)`},
	}}
}
