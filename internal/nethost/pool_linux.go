package nethost

import (
	"net/netip"
	"sync"
)

// Synthetic addresses: RFC 2544 reserves 198.18.0.0/15 for benchmarks, so no host of the Internet has one.
var (
	synthetic = netip.MustParsePrefix("198.18.0.0/15")
	firstName = [4]byte{198, 18, 0, 2} // .0 is the network, .1 the resolver
)

// maxSynthetic is the number of addresses that names can have: all but the first two and the last, which looks like a broadcast.
const maxSynthetic = 1<<17 - 3

// kept is how many addresses only names get that a rule names itself: a wildcard stands for more names than there are addresses.
const kept = 1 << 12

// pool gives every name an address of its own, for ever: programs keep answers longer than they live.
type pool struct {
	mu    sync.Mutex
	next  netip.Addr
	addrs map[string]netip.Addr
	names map[netip.Addr]string
}

func newPool() *pool {
	return &pool{next: netip.AddrFrom4(firstName), addrs: map[string]netip.Addr{}, names: map[netip.Addr]string{}}
}

// address returns the name's address, or reports that there are none left. The name is in canonical form. itself says that a rule names it.
func (p *pool) address(name string, itself bool) (netip.Addr, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, ok := p.addrs[name]; ok {
		return a, true
	}
	if free := maxSynthetic - len(p.addrs); free == 0 || !itself && free <= kept {
		return netip.Addr{}, false
	}
	a := p.next
	p.next = a.Next()
	p.addrs[name], p.names[a] = a, name
	return a, true
}

// name returns the name of a synthetic address.
func (p *pool) name(a netip.Addr) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name, ok := p.names[a]
	return name, ok
}
