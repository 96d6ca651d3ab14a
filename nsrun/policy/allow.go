package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/netrule"
)

// checkAllow checks the rules of the network allow.
func (p Policy) checkAllow(say sayer) {
	if len(p.Allow) > 0 && p.Network.Mode() != NetworkAllow {
		say("allow", "there are rules for a network that is %s; use the network allow, or leave them out", p.Network.Mode())
	}
	if p.ProxyEnv && p.Network.Mode() != NetworkAllow {
		say("proxy_env", "there is no proxy for a network that is %s; use the network allow, or leave it out", p.Network.Mode())
	}
	for i, text := range p.Allow {
		if err := CheckRule(text); err != nil {
			say(fmt.Sprintf("allow[%d]", i), "%v", err)
		}
	}
}

// CheckRule returns the fault of a text that is no rule of the network allow: a [*netrule.Fault].
func CheckRule(text string) error {
	r, _, err := netrule.Parse(text)
	if err != nil {
		return err
	}
	if r.UDP() && slices.ContainsFunc(r.Ports, func(p netrule.Ports) bool { return p.From <= dns && dns <= p.To }) {
		return &netrule.Fault{Rule: text, Text: "UDP to port 53 is answered inside, by the names of the list", Fix: "leave that port out"}
	}
	return nil
}

const dns = 53

// spelled writes the rules as they are understood, with a note for each that was written in another way.
func (p Policy) spelled() (Policy, []Note) {
	if len(p.Allow) == 0 {
		return p, nil
	}
	var notes []Note
	all := make([]string, len(p.Allow))
	for i, text := range p.Allow {
		r, said, err := netrule.Parse(text)
		if err != nil { // Validate has the error
			return p, nil
		}
		all[i] = r.String()
		for _, s := range said {
			notes = append(notes, Note{Feature: "network", Loss: s})
		}
	}
	p.Allow = all
	return p, notes
}

// network cuts the network down to the ceiling's.
func (k *cutter) network(c Ceiling) {
	has, most := k.Network.Mode(), c.Network.Mode()
	switch {
	case has == NetworkNone, most == NetworkHost:
		return
	case has == NetworkHost && most == NetworkAllow:
		k.Network, k.Allow = NetworkAllow, append([]string{}, c.Allow...)
		k.most(c)
		k.supervise()
		k.note("network", "the host's network is beyond the ceiling; there is "+strings.Join(c.Allow, " "), `"network": "host"`)
	case has == NetworkHost:
		k.Network, k.ProxyEnv = NetworkNone, false
		k.supervise()
		k.note("network", "the host's network is beyond the ceiling; there is none", `"network": "host"`)
	case most == NetworkNone:
		k.Network, k.ProxyEnv = NetworkNone, false
		k.note("network", "the rules "+strings.Join(k.Allow, " ")+" are beyond the ceiling; there is no network", `"network": {"allow": [...]}`)
		k.Allow = nil
	default:
		k.rules(c)
	}
}

// supervise takes an autonomy away that is the host's network, and nothing else.
func (k *cutter) supervise() {
	if k.Autonomy == FullAccess {
		k.Autonomy = Supervised
	}
}

func (k *cutter) rules(c Ceiling) {
	rules, err := netrule.ParseAll(k.Allow)
	most, err2 := netrule.ParseAll(c.Allow)
	if errors.Join(err, err2) != nil { // both were checked
		k.Network, k.Allow, k.ProxyEnv = NetworkNone, nil, false
		return
	}
	kept, lost := rules.Cut(most)
	k.Allow = nil
	for _, r := range kept {
		k.Allow = append(k.Allow, r.String())
	}
	k.most(c)
	for _, r := range lost {
		k.note("network", "the rule "+r.String()+" is beyond the ceiling", fmt.Sprintf(`"network": {"allow": [%q]}`, r.String()))
	}
}

// most bounds what may be added later by one more ceiling: what all of them permit. A rule that only two ceilings together make, such as https of one
// and a name of the other, is left out.
func (k *cutter) most(c Ceiling) {
	if k.AllowMost == nil {
		k.AllowMost = append([]string{}, c.Allow...)
		return
	}
	before, err := netrule.ParseAll(k.AllowMost)
	now, err2 := netrule.ParseAll(c.Allow)
	k.AllowMost = []string{}
	if errors.Join(err, err2) != nil { // both were checked
		return
	}
	kept, _ := before.Cut(now)
	narrower, _ := now.Cut(before)
	for _, r := range slices.Concat(kept, narrower) {
		if text := r.String(); !slices.Contains(k.AllowMost, text) {
			k.AllowMost = append(k.AllowMost, text)
		}
	}
}
