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
}

// network is a word, or an object that lists what can be reached.
type network struct{}

var netWords = oneOf([]policy.Network{policy.NetworkNone, policy.NetworkHost})

func netForm() record[netWish] {
	return record[netWish]{what: "network", rows: []row[netWish]{
		{"allow", "what can be reached, and nothing else: NAME, *.NAME, ADDRESS or BLOCK, each with :PORT or :FIRST-LAST; see nsrun help network",
			listForm[string]{netRule}, func(w *netWish) any { return w.allow }},
	}}
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

func (network) read(d *decoder, n *node, key string, into any) {
	w := into.(*netWish)
	switch {
	case n.kind == object:
		*w.mode = policy.NetworkAllow
		netForm().read(d, n, key, w)
	case n.kind == list, n.kind == text && n.text == string(policy.NetworkAllow):
		d.places[key] = n.at
		d.add(n.at, key, n.kind.String()+" stands where the list needs its key", `write {"allow": ["example.com:443"]}, or none, or host`)
	default:
		var word string
		netWords.read(d, n, key, &word)
		*w.mode = policy.Network(word)
	}
}

func (network) json(from any) (string, bool) {
	w := from.(*netWish)
	if *w.mode != policy.NetworkAllow {
		word := string(*w.mode)
		return netWords.json(&word)
	}
	all := *w.allow
	if all == nil {
		all = []string{}
	}
	text, err := json.Marshal(map[string]any{"allow": all})
	return string(text), err == nil
}

func (network) schema() map[string]any {
	return map[string]any{"oneOf": []any{netWords.schema(), netForm().schema()}}
}
