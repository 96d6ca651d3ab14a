package netrule

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Fault is a rule that cannot be used.
type Fault struct {
	Rule string // as it was written
	Text string // what is wrong, and where in the rule
	Fix  string // what to write instead
}

// Error gives the rule, what is wrong with it and what to do.
func (f *Fault) Error() string {
	return fmt.Sprintf("rule %s: %s; %s", quote(f.Rule), f.Text, f.Fix)
}

// maxRule is more bytes than a rule can have, with a scheme, a name, ports and +force.
const maxRule = 320

// parser reads one rule. scheme, host and ports are parts of text.
type parser struct {
	text  string
	notes []string

	scheme, host, ports string
	colon               bool // there was one before ports
	rule                Rule
}

// Parse reads a rule: [scheme://]host[:ports][+force], as the package's documentation has it. notes list the parts that were read in another form than they were
// written: "EXAMPLE.com. is read as example.com". An error is a *Fault.
func Parse(text string) (r Rule, notes []string, err error) {
	p := &parser{text: text}
	for _, step := range []func(*parser) *Fault{(*parser).checkText, (*parser).split, (*parser).parseScheme, (*parser).parseHost, (*parser).parsePorts, (*parser).checkForce} {
		if fault := step(p); fault != nil {
			return Rule{}, nil, fault
		}
	}
	return p.rule, p.notes, nil
}

func (p *parser) fault(fix, format string, args ...any) *Fault {
	return &Fault{Rule: p.text, Text: fmt.Sprintf(format, args...), Fix: fix}
}

// checkText refuses what no rule has, so that faults of the parts need not look for it.
func (p *parser) checkText() *Fault {
	const shape = "write it as example.com:443"
	switch {
	case p.text == "":
		return p.fault(`write a host such as "example.com:443"`, "it is empty")
	case len(p.text) > maxRule:
		return p.fault("write one host", "it has more than %d bytes", maxRule)
	}
	_, after, found := strings.Cut(p.text, "://")
	if !found {
		after = p.text
	}
	for _, c := range p.text {
		switch {
		case c >= 0x80:
			return p.fault("write the xn-- form of the name", "it has the character %q, which is not ASCII", c)
		case c == ',' || c == '|' || c == ';':
			return p.fault("write one rule for each host and each port or range of ports", "it has %q, and a rule is one host", c)
		case c == '@':
			return p.fault("leave out what is before the @", "it has a user name")
		case c == '?' || c == '#':
			return p.fault("end the rule after the host and port", "it has %q, and a rule has no query or fragment", c)
		case c == '%' && strings.Count(after, ":") > 1:
			return p.fault("write the address without the % and what follows", "it has a scope, and an address in a rule has none")
		case c <= ' ' || c == 0x7f || c == '%' || c == '\\' || c == '"' || c == '\'':
			return p.fault(shape, "it has the character %q, which no rule has", c)
		}
	}
	return nil
}

// split finds the parts. It accepts a bare IPv6 address or block if no port follows.
func (p *parser) split() *Fault {
	rest := p.text
	if at := strings.IndexByte(rest, '+'); at >= 0 {
		if rest[at:] != forced {
			return p.fault("write +force at the end, or leave it out", "nothing but +force may follow the host and port, and it has %s", quote(rest[at:]))
		}
		rest, p.rule.Force = rest[:at], true
	}
	if before, after, found := strings.Cut(rest, "://"); found {
		if p.scheme, rest = before, after; p.scheme == "" {
			return p.fault("write https, http, udp or tcp before ://, or leave both out", "it has no scheme before ://")
		}
	}
	switch {
	case strings.HasPrefix(rest, "["):
		inner, after, closed := strings.Cut(rest[1:], "]")
		if !closed {
			return p.fault("write [address]:port", "the bracket is not closed")
		}
		if !strings.Contains(inner, ":") {
			return p.fault("write the host without brackets", "the brackets hold %s, and they are for IPv6 addresses only", quote(inner))
		}
		p.host, p.ports, p.colon = strings.Cut(after, ":")
		if p.host != "" && p.host[0] != '/' {
			return p.fault("write [address]:port", "%s follows the bracket", quote(p.host))
		}
		p.host = inner + p.host
	case strings.Count(rest, ":") > 1:
		p.host = rest
	default:
		p.host, p.ports, p.colon = strings.Cut(rest, ":")
	}
	if p.host == "" {
		return p.fault(`name a host, as in "example.com:443"`, "it has no host")
	}
	return nil
}

func (p *parser) parseScheme() *Fault {
	scheme := strings.ToLower(p.scheme)
	p.note(p.scheme, scheme)
	switch scheme {
	case "", schemeTCP:
	case schemeHTTP, schemeHTTPS, schemeUDP:
		p.rule.Scheme = scheme
	default:
		return p.fault("write https, http, udp or tcp, or no scheme for every protocol over TCP", "there is no scheme %s", quote(p.scheme))
	}
	return nil
}

func (p *parser) parseHost() *Fault {
	addr, bits, block := strings.Cut(p.host, "/")
	switch {
	case strings.Contains(p.host, "*"):
		return p.parseWildcard()
	case strings.Contains(addr, ":"):
		return p.parsePrefix(addr, bits, block)
	}
	name, literal, err := Canonical(addr)
	switch {
	case err != nil:
		return p.fault(`name a host, as in "example.com:443"`, "%v", err)
	case literal.IsValid() && literal.String() != addr:
		return p.fault("write "+literal.String(), "%s is an unusual form of the address %s", quote(addr), literal)
	case literal.IsValid():
		return p.parsePrefix(addr, bits, block)
	case block:
		return p.fault("end the rule after the host and port", "it has a path, and rules are about whole hosts")
	case name == "localhost" || strings.HasSuffix(name, ".localhost"):
		return p.fault("write 127.0.0.1 and the port for the host's loopback", "%s is the sandbox's own loopback, which needs no rule", name)
	}
	p.note(addr, name)
	p.rule.Host = name
	return nil
}

// parseWildcard reads "*.name". The name below has to have a dot: "*.com" is nobody's intention.
func (p *parser) parseWildcard() *Fault {
	const everything = "name the hosts; the network mode host has no rules"
	parent, first := strings.CutPrefix(p.host, "*.")
	switch {
	case strings.Trim(p.host, "*.") == "":
		return p.fault(everything, "%s would allow every host", p.host)
	case !first || strings.Contains(parent, "*"):
		return p.fault("write *.name, as in *.example.com", "* stands in %s, and it can only be the whole first label", p.host)
	}
	name, literal, err := Canonical(parent)
	switch {
	case err != nil:
		return p.fault("write *.name, as in *.example.com", "%v", err)
	case literal.IsValid():
		return p.fault("write a block, as in 10.0.0.0/8", "%s is a wildcard of an address", p.host)
	case name == "localhost":
		return p.fault("leave the rule out", "%s is the sandbox's own loopback, which needs no rule", p.host)
	case !strings.Contains(name, "."):
		return p.fault("name the hosts, or write *.example."+name, "%s would allow everything below %s by accident", p.host, name)
	}
	p.note(p.host, "*."+name)
	p.rule.Host = "*." + name
	return nil
}

// parsePrefix reads an address or a block, which is not short for something else.
func (p *parser) parsePrefix(text, length string, block bool) *Fault {
	addr, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return p.fault("write an address such as [2001:db8::1]:443", "%s is not an IPv6 address", quote(text))
	case addr.Is4In6():
		return p.fault("write "+addr.Unmap().String(), "%s is an unusual form of the address %s", text, addr.Unmap())
	}
	bits := addr.BitLen()
	if block {
		n, err := strconv.ParseUint(length, 10, 8)
		if err != nil || int(n) > bits || strconv.FormatUint(n, 10) != length {
			return p.fault(fmt.Sprintf("write the length of the block, 1 to %d", bits), "%s is not the length of a block, in bits", quote(length))
		}
		bits = int(n)
	}
	prefix := netip.PrefixFrom(addr, bits)
	if prefix != prefix.Masked() {
		return p.fault(fmt.Sprintf("write %s for the block, or %s for the address", Rule{Prefix: prefix.Masked()}.host(), Rule{Prefix: netip.PrefixFrom(addr, addr.BitLen())}.host()),
			"%s has bits outside of a block of %d bits", text, bits)
	}
	p.rule.Prefix = prefix
	if addr.Is6() {
		brackets := strings.Contains(p.text, "[")
		if written := strings.ToLower(text); written != addr.String() || text != written || !brackets {
			p.notes = append(p.notes, p.host+" is read as "+p.rule.host())
		}
	}
	return p.checkWidth()
}

// checkWidth refuses blocks of everything, and very large ones without force.
func (p *parser) checkWidth() *Fault {
	prefix, shortest := p.rule.Prefix, 8
	if prefix.Addr().Is6() {
		shortest = 16
	}
	switch {
	case prefix.Bits() == 0:
		return p.fault("name the hosts or the blocks; the network mode host has no rules", "%s would allow every address", prefix)
	case prefix.Bits() < shortest && !p.rule.Force:
		return p.fault(fmt.Sprintf("write blocks of at least %d bits, or add +force", shortest), "%s is a very large block", prefix)
	}
	return nil
}

func (p *parser) parsePorts() *Fault {
	if !p.colon {
		p.rule.Ports = defaultPorts(p.rule.Scheme)
		if p.rule.Ports == nil {
			return p.fault("write udp://"+p.rule.host()+":PORT", "udp takes a port")
		}
		return nil
	}
	if p.ports == "*" {
		return p.fault("write 1-65535 for all ports", "* is not a port")
	}
	first, last, isRange := strings.Cut(p.ports, "-")
	from, fault := p.port(first)
	if fault != nil {
		return fault
	}
	to := from
	if isRange {
		if to, fault = p.port(last); fault != nil {
			return fault
		}
	}
	if to < from {
		return p.fault(fmt.Sprintf("write %d-%d", to, from), "the range of ports %s is reversed", p.ports)
	}
	p.rule.Ports = []Ports{{from, to}}
	return nil
}

// port reads a number from 1 to 65535 without a sign or leading zeros.
func (p *parser) port(text string) (uint16, *Fault) {
	n, err := strconv.ParseUint(text, 10, 16)
	switch {
	case strings.Contains(text, "/"):
		return 0, p.fault("end the rule after the host and port", "it has a path, and rules are about whole hosts")
	case err != nil || n == 0 || strconv.FormatUint(n, 10) != text:
		return 0, p.fault("write a number from 1 to 65535, or a range such as 8000-8999", "%s is not a port", quote(text))
	}
	return uint16(n), nil
}

func (p *parser) checkForce() *Fault {
	if prefix := p.rule.Prefix; prefix.IsValid() && !p.rule.Force && hasMetadata(prefix) {
		text := "%s has the address of a metadata service in it, which gives out credentials"
		if prefix.IsSingleIP() {
			text = "%s is a metadata service, which gives out credentials"
		}
		return p.fault("leave it out, or add +force", text, p.rule.host())
	}
	return nil
}

// note records that a part of the rule was read in another form.
func (p *parser) note(written, read string) {
	if written != read {
		p.notes = append(p.notes, written+" is read as "+read)
	}
}

// Suggest gives the rule that would allow a connection, or UDP, that was refused; it is empty if none would. a is valid only if the address itself
// has to be listed: the program used an address, or the name is listed and [Guard] refuses its address. Otherwise the rule has the name.
func Suggest(name string, a netip.Addr, port uint16, udp bool) string {
	r := Rule{Host: name, Ports: []Ports{{port, port}}}
	if a.IsValid() {
		a = a.WithZone("").Unmap()
		r.Host, r.Prefix, r.Force = "", netip.PrefixFrom(a, a.BitLen()), Metadata(a)
	}
	if udp {
		r.Scheme = schemeUDP
	}
	if parsed, _, err := Parse(r.String()); err != nil || parsed.Host != r.Host || parsed.Prefix != r.Prefix || strings.Contains(name, "*") {
		return ""
	}
	return r.String()
}
