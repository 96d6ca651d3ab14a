package netrule

import "slices"

// Cut applies a ceiling. kept has each rule, or the part of its ports, that a rule of the ceiling covers, and lost has the rest. Both keep the
// order of rs; a rule of which ports are lost may become several.
//
// A wildcard covers the names below it and narrower wildcards; a block covers the blocks inside it. A rule of the ceiling without a
// scheme covers http and https too, and one with a scheme covers that scheme only. A rule with force is covered by rules with force only. A
// rule that two rules of the ceiling cover together is covered for ports alone: two halves of a block do not cover the block.
func (rs Rules) Cut(ceiling Rules) (kept, lost Rules) {
	for _, r := range rs {
		var covered []Ports
		for _, c := range ceiling {
			if c.covers(r) {
				covered = append(covered, c.Ports...)
			}
		}
		covered = merge(covered)
		kept = append(kept, r.with(intersect(r.Ports, covered))...)
		lost = append(lost, r.with(subtract(r.Ports, covered))...)
	}
	return kept, lost
}

// covers reports whether the ceiling's rule c allows all that r does, ports aside.
func (c Rule) covers(r Rule) bool {
	switch {
	case c.UDP() != r.UDP(), c.Scheme != "" && c.Scheme != r.Scheme, r.Force && !c.Force:
		return false
	case r.Host != "":
		return c.names(r.Host)
	}
	return c.Host == "" && c.Prefix.IsValid() && c.Prefix.Bits() <= r.Prefix.Bits() && c.Prefix.Contains(r.Prefix.Addr())
}

// with gives rules like r for other ports, one for each range, or one with the default ports.
func (r Rule) with(ports []Ports) (rules Rules) {
	if samePorts(ports, r.Ports) || samePorts(ports, defaultPorts(r.Scheme)) && ports != nil {
		r.Ports = slices.Clone(ports)
		return Rules{r}
	}
	for _, p := range ports {
		r.Ports = []Ports{p}
		rules = append(rules, r)
	}
	return rules
}

// merge sorts ports and joins those that overlap or touch.
func merge(ports []Ports) (merged []Ports) {
	ports = slices.Clone(ports)
	slices.SortFunc(ports, func(a, b Ports) int { return int(a.From) - int(b.From) })
	for _, p := range ports {
		if n := len(merged); n > 0 && int(p.From) <= int(merged[n-1].To)+1 {
			merged[n-1].To = max(merged[n-1].To, p.To)
			continue
		}
		merged = append(merged, p)
	}
	return merged
}

// intersect gives the ports that are in both lists, each of which is merged.
func intersect(a, b []Ports) (both []Ports) {
	for _, p := range a {
		for _, q := range b {
			if from, to := max(p.From, q.From), min(p.To, q.To); from <= to {
				both = append(both, Ports{from, to})
			}
		}
	}
	return both
}

// subtract gives the ports of a that are not in b. Both are merged.
func subtract(a, b []Ports) (rest []Ports) {
	for _, p := range a {
		from := int(p.From) // wider than a port: one after 65535 exists
		for _, q := range b {
			if int(q.To) < from || q.From > p.To {
				continue
			}
			if int(q.From) > from {
				rest = append(rest, Ports{uint16(from), q.From - 1})
			}
			from = int(q.To) + 1
		}
		if from <= int(p.To) {
			rest = append(rest, Ports{uint16(from), p.To})
		}
	}
	return rest
}
