package manifest

import (
	"encoding/json"
	"errors"

	"github.com/nsrun/nsrun/nsrun/netrule"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// netWish points to what "network" sets.
type netWish struct {
	mode  *policy.Network
	allow *[]string
	proxy *bool // nil in a ceiling
}

// network is a word, or an object that lists what can be reached.
type network struct{ proxy bool }

func netWords() stringForm {
	w := oneOf([]policy.Network{policy.NetworkNone, policy.NetworkHost})
	w.more = ` or {"allow": ["example.com:443"]}`
	return w
}

func netForm(proxy bool) record[netWish] {
	r := record[netWish]{what: "network", rows: []row[netWish]{
		{"allow", "what can be reached, and nothing else: NAME, *.NAME, ADDRESS or BLOCK, each with :PORT or :FIRST-LAST; see nsrun help network",
			listForm[string]{netRule}, func(w *netWish) any { return w.allow }},
	}}
	if proxy {
		r.rows = append(r.rows, row[netWish]{"proxy_env", "whether there is a proxy on the sandbox's loopback, too, and the variables that name it are set; it permits no more",
			boolForm{false}, func(w *netWish) any { return w.proxy }})
	}
	return r
}

var netRule = stringForm{validate: func(s string) (problem, fix string) {
	return ruleFault(policy.CheckRule(s))
}}

// ruleFault takes the fault of a rule apart.
func ruleFault(err error) (problem, fix string) {
	if f := (*netrule.Fault)(nil); errors.As(err, &f) {
		return clip(f.Rule) + " " + f.Text, f.Fix
	}
	return "", ""
}

func (f network) read(d *decoder, n *node, key string, into any) {
	w := into.(*netWish)
	switch {
	case n.kind == object:
		*w.mode = policy.NetworkAllow
		netForm(f.proxy).read(d, n, key, w)
	case n.kind == list, n.kind == text && n.text == string(policy.NetworkAllow):
		d.places[key] = n.at
		d.add(n.at, key, n.kind.String()+" stands where the list needs its key", `write {"allow": ["example.com:443"]}, or none, or host`)
	default:
		var word string
		netWords().read(d, n, key, &word)
		*w.mode = policy.Network(word)
	}
}

func (network) json(from any) (string, bool) {
	w := from.(*netWish)
	if *w.mode != policy.NetworkAllow {
		word := string(*w.mode)
		return netWords().json(&word)
	}
	all := *w.allow
	if all == nil {
		all = []string{}
	}
	fields := map[string]any{"allow": all}
	if w.proxy != nil && *w.proxy {
		fields["proxy_env"] = true
	}
	text, err := json.Marshal(fields)
	return string(text), err == nil
}

func (f network) schema() map[string]any {
	return map[string]any{"oneOf": []any{netWords().schema(), netForm(f.proxy).schema()}}
}
