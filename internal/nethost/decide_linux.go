package nethost

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/nsrun/netrule"
)

// The operations of a refusal.
const (
	opResolve = "resolve"
	opConnect = "connect"
	opSend    = "send"
	opRequest = "request"
)

// target is what a program in the sandbox wants to reach: a name or an address, and a port.
type target struct {
	name string // canonical, or empty for an address
	addr netip.Addr
	port uint16
	udp  bool
}

// host returns the name or the address.
func (t target) host() string {
	if t.name != "" {
		return t.name
	}
	return t.addr.String()
}

func (t target) String() string { return net.JoinHostPort(t.host(), strconv.Itoa(int(t.port))) }

// target finds what an address inside of the sandbox stands for: a name, if it is synthetic.
func (s *Server) target(to netip.AddrPort, udp bool) target {
	addr := to.Addr().Unmap().WithZone("")
	if name, ok := s.pool.name(addr); ok {
		return target{name: name, port: to.Port(), udp: udp}
	}
	return target{addr: addr, port: to.Port(), udp: udp}
}

// allows reports whether a rule lists t.
func (s *Server) allows(t target) (ok bool) {
	if t.name != "" {
		_, ok = s.rules.now().Name(t.name, t.port, t.udp)
	} else {
		_, ok = s.rules.now().Addr(t.addr, t.port, t.udp)
	}
	return ok
}

// decide returns the rule that allows t, or a refusal. It looks nothing up.
func (s *Server) decide(op string, t target) (netrule.Rule, *netmessage.Refusal) {
	if t.port == 0 {
		return netrule.Rule{}, s.refusal(op, t, netmessage.Malformed, "there is no port 0")
	}
	if t.name != "" {
		if rule, ok := s.rules.now().Name(t.name, t.port, t.udp); ok {
			return rule, nil
		}
		if s.rules.now().Lists(t.name) {
			return netrule.Rule{}, s.refusal(op, t, netmessage.Port, "a rule names "+t.name+", but not this port")
		}
		return netrule.Rule{}, s.refusal(op, t, netmessage.Unlisted, "no rule names "+t.name)
	}
	rule, ok := s.rules.now().Addr(t.addr, t.port, t.udp)
	switch {
	case ok && netrule.Metadata(t.addr) && !rule.Force:
		return rule, s.refusal(op, t, netmessage.Guarded, t.host()+" is a metadata service, and the rule does not have +force")
	case ok:
		return rule, nil
	}
	switch why := s.guard(t.addr); {
	case why != "":
		return rule, s.refusal(op, t, netmessage.Guarded, "no rule lists "+t.host()+", which is "+why)
	case synthetic.Contains(t.addr):
		x := s.refusal(op, t, netmessage.Unlisted, t.host()+" is an address that nsrun gives to names, and no name of this run has it")
		x.Rule = ""
		return rule, x
	}
	return rule, s.refusal(op, t, netmessage.Unlisted, "no rule lists "+t.host())
}

// allowsStill reports whether the rules of now allow a connection that was made by earlier ones: to t, at an address, of which scheme says what it speaks.
func (s *Server) allowsStill(t target, at netip.Addr, scheme string) bool {
	rule, refused := s.decide(opConnect, t)
	return refused == nil && (rule.Scheme == "" || rule.Scheme == scheme) && (t.name == "" || !at.IsValid() || s.guardName(at, t, rule) == "")
}

// refusal describes a refusal of t. It has the rule that would allow t if a rule is what is missing.
func (s *Server) refusal(op string, t target, reason, detail string) *netmessage.Refusal {
	x := &netmessage.Refusal{Op: op, Name: t.name, Port: int(t.port), Reason: reason, Detail: detail}
	if t.addr.IsValid() {
		x.Address = t.addr.String()
	}
	switch reason {
	case netmessage.Unlisted, netmessage.Port:
		x.Rule = netrule.Suggest(t.name, t.addr, t.port, t.udp)
	case netmessage.Guarded:
		x.Rule = netrule.Suggest("", t.addr, t.port, t.udp)
	}
	if t.addr.IsValid() && netrule.Metadata(t.addr) {
		x.Rule = "" // it has the keys of the machine: to permit it is for who knows of it, and no advice to a program
	}
	return x
}

// line is a refusal in one line, for the program that was refused.
func line(t target, x *netmessage.Refusal) string {
	if x.Rule != "" && (x.Reason == netmessage.Unlisted || x.Reason == netmessage.Port) {
		return fmt.Sprintf("nsrun: %s is not in the network's allow-list; add --net allow:%s", t, x.Rule)
	}
	text := fmt.Sprintf("nsrun: %s: %s", t, x.Detail)
	if x.Rule != "" {
		text += "; add --net allow:" + x.Rule
	}
	return text
}

// guard says why an address may not be dialled for a name, or is empty.
func (s *Server) guard(a netip.Addr) string {
	if why := netrule.Guard(a); why != "" {
		return why
	}
	own, known := s.ownAddresses()
	switch {
	case !known:
		return "perhaps one of the host's own addresses, which cannot be listed"
	case slices.Contains(own, a.Unmap().WithZone("")), s.options.Local(a):
		return "one of the host's own addresses"
	}
	return ""
}

// ownFresh is how long the list of the host's own addresses is used. Listing them takes a conversation with the kernel.
const ownFresh = 2 * time.Second

// ownAddresses lists the host's own addresses. If the host cannot list them, as when this process has no descriptor left, the last list is used; known
// says that there is one.
func (s *Server) ownAddresses() (own []netip.Addr, known bool) {
	s.own.Lock()
	defer s.own.Unlock()
	if time.Since(s.own.listed) > ownFresh {
		if list, err := s.options.Own(); err == nil {
			s.own.list, s.own.listed = list, time.Now()
		}
	}
	return s.own.list, !s.own.listed.IsZero()
}

// interfaceAddresses lists the addresses of this host's interfaces.
func interfaceAddresses() (list []netip.Addr, err error) {
	addrs, err := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			list = append(list, ownOf(n)...)
		}
	}
	return list, err
}

// ownOf gives an interface's address, and those by which its whole network can be reached: package net allows every UDP socket to broadcast.
func ownOf(n *net.IPNet) (list []netip.Addr) {
	addr, ok := netip.AddrFromSlice(n.IP)
	if !ok {
		return nil
	}
	addr = addr.Unmap()
	ones, _ := n.Mask.Size()
	list = append(list, addr)
	if !addr.Is4() || ones >= 31 { // RFC 3021
		return list
	}
	first, last := addr.As4(), addr.As4()
	for i, m := range n.Mask[len(n.Mask)-4:] {
		first[i], last[i] = first[i]&m, last[i]|^m
	}
	return append(list, netip.AddrFrom4(first), netip.AddrFrom4(last))
}

const (
	lookupTime = 5 * time.Second
	dialTime   = 10 * time.Second
)

// addresses resolves an allowed target by one lookup, and returns those of its addresses that may be dialled.
func (s *Server) addresses(ctx context.Context, op string, t target, rule netrule.Rule) ([]netip.Addr, *netmessage.Refusal) {
	if t.name == "" {
		return []netip.Addr{t.addr}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	found, err := s.options.Lookup(ctx, t.name)
	if err != nil || len(found) == 0 {
		return nil, s.refusal(op, t, netmessage.Unresolvable, "the host cannot resolve "+t.name+": "+lookupError(err))
	}
	var good []netip.Addr
	var refused *netmessage.Refusal
	for _, a := range found {
		a = a.Unmap().WithZone("")
		if why := s.guardName(a, t, rule); why != "" {
			with := t
			with.addr = a
			refused = s.refusal(op, with, netmessage.Guarded, fmt.Sprintf("%s is %s, which is %s", t.name, a, why))
			continue
		}
		good = append(good, a)
	}
	if len(good) == 0 {
		return nil, refused
	}
	return good, nil
}

// guardName says why an address of a listed name may not be dialled. A rule that lists the address itself, with the port, overrides the guard; for a
// metadata service that rule, or the name's, must have force.
func (s *Server) guardName(a netip.Addr, t target, rule netrule.Rule) string {
	why := s.guard(a)
	if why == "" || rule.Force && netrule.Metadata(a) {
		return ""
	}
	if byAddr, ok := s.rules.now().Addr(a, t.port, t.udp); ok && (byAddr.Force || !netrule.Metadata(a)) {
		return ""
	}
	return why
}

func lookupError(err error) string {
	var dns *net.DNSError
	switch {
	case err == nil:
		return "it has no address"
	case errors.As(err, &dns) && dns.IsNotFound:
		return "there is no such host"
	case errors.As(err, &dns) && dns.IsTimeout, errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	}
	return strings.TrimSpace(err.Error())
}

// reach resolves an allowed target and connects to it: to the checked addresses one after the other. at is the one that it is connected to.
func (s *Server) reach(ctx context.Context, t target, rule netrule.Rule) (conn net.Conn, at netip.Addr, refused *netmessage.Refusal) {
	op, network := opConnect, "tcp"
	if t.udp {
		op, network = opSend, "udp"
	}
	addrs, refused := s.addresses(ctx, op, t, rule)
	if refused != nil {
		return nil, at, refused
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	end := time.Now().Add(dialTime)
	var failed error
	var last netip.Addr
	for i, a := range addrs {
		// An address that does not answer leaves time for the others.
		part := max(time.Until(end)/time.Duration(len(addrs)-i), time.Second)
		one, stop := context.WithTimeout(ctx, part)
		conn, err := s.options.Dial(one, network, netip.AddrPortFrom(a, t.port))
		stop()
		if err == nil {
			return conn, a, nil
		}
		failed, last = err, a
		if ctx.Err() != nil {
			break
		}
	}
	with := t
	with.addr = last
	return nil, at, s.refusal(op, with, netmessage.Unreachable, fmt.Sprintf("the host cannot connect to %s: %s", netip.AddrPortFrom(last, t.port), dialError(failed)))
}

// dialError is an error of a connect without its addresses.
func dialError(err error) string {
	var op *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &op):
		return op.Err.Error()
	}
	return err.Error()
}

// resolver is one for all connections: those that wait for the same name at the same time share a lookup.
var resolver = &net.Resolver{PreferGo: true}

// lookupHost resolves a name by Go's resolver: /etc/hosts, then the servers of /etc/resolv.conf. A name with a dot is a full one, to which the host's
// search list adds nothing.
func lookupHost(ctx context.Context, name string) ([]netip.Addr, error) {
	if strings.Contains(name, ".") {
		name += "."
	}
	return resolver.LookupNetIP(ctx, "ip", name)
}

// dialHost connects by the host's network.
func dialHost(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	d.SetMultipathTCP(false)
	return d.DialContext(ctx, network, to.String())
}
