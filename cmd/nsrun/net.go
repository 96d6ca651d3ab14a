package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// netWords are the values that completion offers for --net.
var netWords = []string{string(policy.NetworkNone), string(policy.NetworkHost), allowWord}

const allowWord = "allow:"

// applyNet puts the network of --net in the place of the manifest's. Rules add to the manifest's rules.
func (f *flags) applyNet(pol *policy.Policy) error {
	if len(f.net) == 0 {
		return nil
	}
	if rules, ok := strings.CutPrefix(f.net[0], allowWord); !ok {
		return f.netWord(pol, rules)
	}
	if pol.Network != policy.NetworkAllow {
		pol.Network, pol.Allow = policy.NetworkAllow, nil
	}
	pol.Allow = slices.Clip(pol.Allow)
	for _, value := range f.net {
		list, ok := strings.CutPrefix(value, allowWord)
		if !ok {
			return twoNetworks(f.net)
		}
		for rule := range strings.SplitSeq(list, ",") {
			if rule == "" {
				return fmt.Errorf("--net %s: a rule is missing; name what can be reached, as in --net allow:example.com:443, or use --net none", value)
			}
			if err := policy.CheckRule(rule); err != nil {
				return fmt.Errorf("--net %s: %w", value, err)
			}
			pol.Allow = append(pol.Allow, rule)
		}
	}
	return nil
}

// netWord is --net none or --net host.
func (f *flags) netWord(pol *policy.Policy, word string) error {
	if len(f.net) > 1 {
		return twoNetworks(f.net)
	}
	if policy.Network(word) == policy.NetworkAllow {
		return fmt.Errorf("--net allow: name what can be reached, as in --net allow:example.com:443")
	}
	pol.Network, pol.Allow = policy.Network(word), nil // Validate knows the words
	return nil
}

// twoNetworks says of several values of --net, which are not all rules, that one of them is too many.
func twoNetworks(given []string) error {
	other := 1
	if strings.HasPrefix(given[0], allowWord) {
		other = slices.IndexFunc(given, func(g string) bool { return !strings.HasPrefix(g, allowWord) })
	}
	return fmt.Errorf("--net is given twice, as %q and as %q; give one of them", given[0], given[other])
}
