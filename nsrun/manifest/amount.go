package manifest

import (
	"fmt"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// limitForm is a limit: a number in its unit, or a string of a number with a unit, such as "2G".
type limitForm struct {
	intForm
	limit policy.LimitRow
}

func (l limitForm) read(d *decoder, n *node, key string, into any) {
	if n.kind != text || l.limit.Pattern() == "" || strings.Trim(n.text, "0123456789") == "" {
		l.intForm.read(d, n, key, into)
		return
	}
	d.places[key] = n.at
	v, err := l.limit.Parse(n.text)
	switch {
	case err != nil:
		d.add(n.at, key, clip(n.text)+" is not an amount", err.Error())
	case v < l.min || v > l.max:
		d.add(n.at, key, clip(n.text)+" is out of range", fmt.Sprintf("give %d to %d %s", l.min, l.max, l.limit.Unit))
	default:
		storeInt(into, v)
	}
}

func (l limitForm) schema() map[string]any {
	number := l.intForm.schema()
	if l.limit.Pattern() == "" {
		return number
	}
	return map[string]any{"oneOf": []any{number, map[string]any{"type": "string", "pattern": l.limit.Pattern()}}}
}

// limitField is one limit in a list of them.
type limitField struct {
	all  *[]policy.Limit
	name string
}

// storeInt puts a number where it goes: a number whose zero means absent, one that may be absent, or a limit.
func storeInt(into any, v int64) {
	switch p := into.(type) {
	case *int:
		*p = int(v)
	case **int:
		n := int(v)
		*p = &n
	case limitField:
		*p.all = policy.Policy{Limits: *p.all}.WithLimit(p.name, v).Limits
	}
}

// loadInt is the number there, and false where it is absent.
func loadInt(from any) (int64, bool) {
	switch p := from.(type) {
	case *int:
		return int64(*p), *p != 0
	case limitField:
		return policy.Policy{Limits: *p.all}.Limit(p.name)
	}
	if p := *from.(**int); p != nil {
		return int64(*p), true
	}
	return 0, false
}
