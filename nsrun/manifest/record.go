package manifest

import (
	"slices"
	"strings"
)

// row is one key of an object: how it is called, what it means, what it may be and where it goes.
type row[T any] struct {
	name, help string
	form       form
	at         func(*T) any
}

// record is an object with known keys, decoded into a T.
type record[T any] struct {
	what     string // for error texts: "a manifest"
	rows     []row[T]
	required []string
}

func (r record[T]) names() []string {
	names := make([]string, len(r.rows))
	for i, one := range r.rows {
		names[i] = one.name
	}
	return names
}

func (r record[T]) read(d *decoder, n *node, key string, into any) {
	if !d.want(n, key, object) {
		return
	}
	t, names := into.(*T), r.names()
	values := make([]*node, len(names))
	for _, m := range n.members {
		if i := slices.Index(names, m.name); i >= 0 {
			values[i] = m.value
		} else {
			d.unknown(m, key, r.what, r.named)
		}
	}
	for i, one := range r.rows { // in the table's order, whatever the file's
		if values[i] != nil {
			one.form.read(d, values[i], dotted(key, one.name), one.at(t))
		}
	}
	for _, name := range r.required {
		if !slices.ContainsFunc(n.members, func(m member) bool { return m.name == name }) {
			d.add(n.at, dotted(key, name), "the key is missing", "add it")
		}
	}
}

// named lists the keys, each with what it means.
func (r record[T]) named() []namedKey {
	all := make([]namedKey, len(r.rows))
	for i, one := range r.rows {
		all[i] = namedKey{one.name, one.help}
	}
	return all
}

func (r record[T]) json(from any) (string, bool) {
	var parts []string
	for _, one := range r.rows {
		if s, ok := one.form.json(one.at(from.(*T))); ok {
			parts = append(parts, quote(one.name)+":"+s)
		}
	}
	return "{" + strings.Join(parts, ",") + "}", len(parts) > 0
}

func (r record[T]) schema() map[string]any {
	properties := map[string]any{}
	for _, one := range r.rows {
		s := one.form.schema()
		s["description"] = one.help
		properties[one.name] = s
	}
	s := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if r.required != nil {
		s["required"] = r.required
	}
	return s
}
