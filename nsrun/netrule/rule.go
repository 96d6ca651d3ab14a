package netrule

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Rule is one row of an allow-list. [Parse] makes it. Either Host or Prefix is set.
type Rule struct {
	Host   string       // canonical name such as "example.com", or "*.pypi.org"
	Prefix netip.Prefix // an address or a block; IPv4 is never written as IPv6
	Ports  []Ports      // sorted and merged; never empty

	// Scheme is the protocol:
	//   ""       any over TCP; where TLS or HTTP is spoken, it must name the host
	//   "https"  TLS with that name; clients send no name for an address, so TLS alone is required of one
	//   "http"   HTTP with that Host
	//   "udp"    UDP
	Scheme string

	Force bool // the rule insists on a metadata address
}

// Ports are the ports From to To, both included.
type Ports struct{ From, To uint16 }

// The schemes of a rule.
const (
	schemeHTTP  = "http"
	schemeHTTPS = "https"
	schemeTCP   = "tcp" // is written as "" in a Rule
	schemeUDP   = "udp"
)

// forced is the end of a rule that insists on a metadata address.
const forced = "+force"

// UDP reports whether the rule is about UDP; every other one is about TCP.
func (r Rule) UDP() bool { return r.Scheme == schemeUDP }

// String gives the canonical form. For every rule of [Parse] and [Rules.Cut], Parse(r.String()) gives r and no notes.
func (r Rule) String() string {
	var b strings.Builder
	if r.Scheme != "" {
		b.WriteString(r.Scheme + "://")
	}
	b.WriteString(r.host())
	if !samePorts(r.Ports, defaultPorts(r.Scheme)) {
		for i, p := range r.Ports {
			b.WriteByte(":|"[min(i, 1)]) // Parse makes no rule with several ranges, other than the default
			b.WriteString(p.String())
		}
	}
	if r.Force {
		b.WriteString(forced)
	}
	return b.String()
}

// host gives the host as it is written in a rule.
func (r Rule) host() string {
	if r.Host != "" {
		return r.Host
	}
	text := r.Prefix.Addr().String()
	if r.Prefix.Addr().Is6() {
		text = "[" + text + "]"
	}
	if !r.Prefix.IsSingleIP() {
		text += "/" + strconv.Itoa(r.Prefix.Bits())
	}
	return text
}

// String gives "443" or "8000-8999".
func (p Ports) String() string {
	text := strconv.Itoa(int(p.From))
	if p.From != p.To {
		text += "-" + strconv.Itoa(int(p.To))
	}
	return text
}

// defaultPorts are those of a rule that is written without. UDP has none.
func defaultPorts(scheme string) []Ports {
	switch scheme {
	case "":
		return []Ports{{80, 80}, {443, 443}}
	case schemeHTTP:
		return []Ports{{80, 80}}
	case schemeHTTPS:
		return []Ports{{443, 443}}
	}
	return nil
}

func samePorts(a, b []Ports) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Rules is an allow-list. Everything that no rule names is refused.
type Rules []Rule

// Name returns the rule that allows a connection to a canonical name, or UDP to it. If several rules do, it is one without a scheme if
// there is one, and among those one with Force; otherwise the first.
func (rs Rules) Name(name string, port uint16, udp bool) (Rule, bool) {
	return rs.best(port, udp, func(r Rule) bool { return r.names(name) })
}

// Addr returns the rule that allows a connection to an address that the program has used as such, or UDP to it, and chooses as [Rules.Name] does.
// An IPv4 address written as IPv6 is that IPv4 address; an address with a zone matches nothing.
func (rs Rules) Addr(a netip.Addr, port uint16, udp bool) (Rule, bool) {
	if a.Zone() != "" {
		return Rule{}, false
	}
	a = a.Unmap()
	return rs.best(port, udp, func(r Rule) bool { return r.Host == "" && r.Prefix.Contains(a) })
}

// Lists reports whether a rule has the canonical name, at whatever port. DNS answers for those names, and for no others.
func (rs Rules) Lists(name string) bool {
	for _, r := range rs {
		if r.names(name) {
			return true
		}
	}
	return false
}

// NamesItself reports whether a rule has the canonical name itself, and not by a wildcard.
func (rs Rules) NamesItself(name string) bool {
	return slices.ContainsFunc(rs, func(r Rule) bool { return name != "" && r.Host == name })
}

func (rs Rules) best(port uint16, udp bool, matches func(Rule) bool) (best Rule, found bool) {
	for _, r := range rs {
		if r.UDP() != udp || !r.port(port) || !matches(r) {
			continue
		}
		if !found || r.rank() > best.rank() {
			best, found = r, true
		}
	}
	return best, found
}

// rank orders rules that match the same connection: the one that allows more has the higher rank.
func (r Rule) rank() (rank int) {
	if r.Scheme == "" {
		rank += 2
	}
	if r.Force {
		rank++
	}
	return rank
}

func (r Rule) port(port uint16) bool {
	for _, p := range r.Ports {
		if p.From <= port && port <= p.To {
			return port != 0
		}
	}
	return false
}

// names reports whether the rule covers a canonical name, or a wildcard that is narrower or the same.
func (r Rule) names(name string) bool {
	if r.Host == "" || name == "" {
		return false
	}
	parent, wild := strings.CutPrefix(r.Host, "*.")
	if !wild {
		return r.Host == name
	}
	// "*" of a narrower wildcard stands for one label or more, so it counts as one.
	label, below := strings.CutSuffix(name, "."+parent)
	return below && label != ""
}
