package manifest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// named is an object whose keys name values, kept as a list in the order of names. key is where a T has its name, value the rest.
type named[T any] struct {
	of      func(name string) form
	check   func(string) (problem, fix string)
	pattern string // of names, for the schema
	key     func(*T) *string
	value   func(*T) any
}

// settings are named strings, as environment variables are.
func settings(check func(name string) (problem, fix string), value func(name, value string) (problem, fix string), pattern string) named[policy.Var] {
	of := func(name string) form {
		return stringForm{validate: func(s string) (string, string) { return value(name, s) }}
	}
	return named[policy.Var]{of, check, pattern, func(v *policy.Var) *string { return &v.Name }, func(v *policy.Var) any { return &v.Value }}
}

func (f named[T]) read(d *decoder, n *node, key string, into any) {
	if !d.want(n, key, object) || len(n.members) == 0 {
		return
	}
	all := make([]T, len(n.members))
	for i, m := range n.members {
		at := dotted(key, m.name)
		if problem, fix := f.check(m.name); problem != "" {
			d.add(m.at, at, problem, fix)
		}
		*f.key(&all[i]) = m.name
		f.of(m.name).read(d, m.value, at, f.value(&all[i]))
	}
	slices.SortFunc(all, func(a, b T) int { return cmp.Compare(*f.key(&a), *f.key(&b)) })
	*into.(*[]T) = all
}

func (f named[T]) json(from any) (string, bool) {
	all := *from.(*[]T)
	parts := make([]string, len(all))
	for i := range all {
		text, _ := f.of("").json(f.value(&all[i]))
		parts[i] = quote(*f.key(&all[i])) + ":" + text
	}
	return "{" + strings.Join(parts, ",") + "}", len(parts) > 0
}

func (f named[T]) schema() map[string]any {
	s := map[string]any{"type": "object", "additionalProperties": f.of("").schema()}
	if f.pattern != "" {
		s["propertyNames"] = map[string]any{"pattern": f.pattern}
	}
	return s
}
