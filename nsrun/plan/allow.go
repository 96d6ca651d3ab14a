package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/netrule"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// Allow is the network of a plan with an allow-list: everything that the command sends arrives at sockets of the sandbox's own network namespace, and
// nsrun's helper connects from the host to what the rules name.
type Allow struct {
	// Rules are what can be reached, in the form of [netrule.Rule.String].
	Rules []string `json:"rules"`
	// Step is how connections get to the helper: [StepRedirect] or [StepPorts].
	Step string `json:"step"`
	// TCP and TCP6 are the ports that are listened on one by one, of IPv4 and of IPv6: those of rules, and 53 for questions about names. There are none by
	// StepRedirect, which needs none.
	TCP  []uint16 `json:"tcp,omitempty"`
	TCP6 []uint16 `json:"tcp6,omitempty"`
	// UDP and UDP6 are the ports of UDP that rules name. IPv6 is for rules that list addresses of IPv6.
	UDP  []uint16 `json:"udp,omitempty"`
	UDP6 []uint16 `json:"udp6,omitempty"`
	// Proxy has a proxy for HTTP and SOCKS5 at [ProxyAddress], which the environment names.
	Proxy bool `json:"proxy,omitempty"`
}

// AllowLimits are the limits of a network with an allow-list. 0 is none.
type AllowLimits struct {
	Connections, HostConnections int
	HostBytes                    int64
	IdleSeconds                  int
}

// AllowLimits returns the limits of the plan's network.
func (p *Plan) AllowLimits() AllowLimits {
	value := func(name string) int64 { n, _ := p.Bound(name); return n }
	return AllowLimits{Connections: int(value(policy.NetConnections)), HostConnections: int(value(policy.NetHostConnections)),
		HostBytes: value(policy.NetHostMB) << 20, IdleSeconds: int(value(policy.NetIdleSeconds))}
}

// ProxyAddress is where the proxy of the network allow listens, on the sandbox's loopback.
const ProxyAddress = "127.0.0.1:15002"

// proxyEnv are the variables that programs look for. curl takes http_proxy in lower case alone, and Go's HTTP_PROXY means http, too.
func proxyEnv() (all []policy.Var) {
	for _, name := range []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"} {
		all = append(all, policy.Var{Name: name, Value: "http://" + ProxyAddress})
	}
	for _, name := range []string{"all_proxy", "ALL_PROXY"} {
		all = append(all, policy.Var{Name: name, Value: "socks5h://" + ProxyAddress})
	}
	for _, name := range []string{"no_proxy", "NO_PROXY"} {
		all = append(all, policy.Var{Name: name, Value: "localhost,127.0.0.1,::1"})
	}
	return all
}

// The steps.
const (
	StepRedirect = "redirect" // nf_tables redirects every TCP connection: what is refused is reported, whatever its port
	StepPorts    = "ports"    // a listener for each port of the rules: connections to other ports are refused by the kernel, and not reported
)

// mostPorts bounds the ports of a protocol that are listened on one by one. All sockets go to the helper by one message, which holds 253 (SCM_MAX_FD).
const mostPorts = 100

// dnsPort is where questions about names are answered, by UDP and by TCP (RFC 7766).
const dnsPort = 53

// allow plans the network allow.
func (c *compiler) allow() error {
	if c.pol.Network.Mode() != policy.NetworkAllow {
		return nil
	}
	if c.plan.Backend != BackendNative {
		return c.noAllow("a network cut down to some hosts takes a network namespace of nsrun's own making", "use the backend native")
	}
	a := &Allow{Rules: []string{}, Step: StepRedirect, Proxy: c.pol.ProxyEnv}
	rules, err := netrule.ParseAll(c.pol.Allow)
	if err != nil {
		return err
	}
	for _, r := range rules {
		a.Rules = append(a.Rules, r.String())
		if r.Prefix.IsValid() && r.Prefix.Addr().IsLoopback() {
			c.note("network", "the rule "+r.String()+" counts for names that lead there: inside, that address is the sandbox's own", "")
		}
	}
	var tooMany bool
	if a.UDP, a.UDP6, tooMany = ports(rules, true); tooMany {
		return c.tooManyPorts("UDP")
	}
	if !c.facts.Can(facts.Nftables) {
		a.Step = StepPorts
		if a.TCP, a.TCP6, tooMany = ports(rules, false); tooMany {
			return c.tooManyPorts("TCP")
		}
		a.TCP = append(a.TCP, dnsPort)
		slices.Sort(a.TCP)
		a.TCP = slices.Compact(a.TCP)
		row, _ := facts.Lookup(facts.Nftables)
		c.plan.Notes = append(c.plan.Notes, Note{Feature: string(facts.Nftables), Loss: row.Loss, Found: c.facts.Answers[facts.Nftables].Detail, Fix: c.facts.Fix(facts.Nftables)})
	}
	c.plan.Allow = a
	return nil
}

// tooManyPorts refuses rules that would take more listeners than there should be.
func (c *compiler) tooManyPorts(protocol string) error {
	return c.noAllow(fmt.Sprintf("the rules name more than %d ports of %s, and each takes a socket here", mostPorts, protocol), "name fewer ports")
}

// noAllow refuses the network allow or, if the policy allows to degrade, leaves no network at all.
func (c *compiler) noAllow(loss, fix string) error {
	c.lose(Note{Feature: "network", Loss: "the backend " + c.plan.Backend + " cannot do this: " + loss, Fix: fix}, false)
	c.pol.Network, c.pol.Allow = policy.NetworkNone, nil
	c.plan.Network = string(policy.NetworkNone)
	return nil
}

// ports lists the ports of the rules of one protocol, sorted: those of rules for names and IPv4, and those of rules for IPv6.
func ports(rules netrule.Rules, udp bool) (four, six []uint16, tooMany bool) {
	for _, r := range rules {
		if r.UDP() != udp {
			continue
		}
		list := &four
		if r.Prefix.IsValid() && r.Prefix.Addr().Is6() {
			list = &six
		}
		for _, p := range r.Ports {
			if int(p.To)-int(p.From) >= mostPorts {
				return nil, nil, true
			}
			for port := int(p.From); port <= int(p.To); port++ {
				*list = append(*list, uint16(port))
			}
		}
	}
	slices.Sort(four)
	slices.Sort(six)
	four, six = slices.Compact(four), slices.Compact(six)
	return four, six, len(four)+len(six) > mostPorts
}

// Lacks returns a port of rules that no socket of the plan serves, and that it cannot get any more.
func (a *Allow) Lacks(rules netrule.Rules) (port string, ok bool) {
	udp, udp6, tooMany := ports(rules, true)
	tcp, tcp6, tooManyTCP := ports(rules, false)
	if a.Step == StepRedirect {
		tcp, tcp6, tooManyTCP = nil, nil, false
	}
	if tooMany || tooManyTCP {
		return fmt.Sprintf("(more than %d)", mostPorts), true
	}
	for _, x := range []struct {
		want, has []uint16
		kind      string
	}{{udp, a.UDP, "udp"}, {udp6, a.UDP6, "udp"}, {tcp, a.TCP, "tcp"}, {tcp6, a.TCP6, "tcp"}} {
		for _, p := range x.want {
			if !slices.Contains(x.has, p) {
				return fmt.Sprintf("%d/%s", p, x.kind), true
			}
		}
	}
	return "", false
}

// text is the plan's network line.
func (p *Plan) networkText() string {
	if p.Allow == nil {
		return p.Network
	}
	text := p.Network + ": nothing"
	if len(p.Allow.Rules) > 0 {
		text = p.Network + ": " + strings.Join(p.Allow.Rules, " ")
	}
	if p.Allow.Step == StepPorts {
		text += "; without nf_tables, by a listener for each port"
	}
	if p.Allow.Proxy {
		text += "; a proxy at " + ProxyAddress
	}
	return text
}
