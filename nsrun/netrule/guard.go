package netrule

import "net/netip"

// The kinds of addresses that Guard refuses.
const (
	hereAddress = "the host itself"
	loopback    = "the host's loopback"
	private     = "a private network"
	linkLocal   = "link-local"
	metadata    = "a metadata service"
	multicast   = "multicast"
	broadcast   = "broadcast"
	reserved    = "a reserved block"
	localNAT64  = "a network's own NAT64 block"
)

// guarded is the address guard. The first row that has an address counts, so single addresses come before the blocks they are in. The
// table is text, since a prefix would be made at the start of every program that links the package.
//
// Sources: the IANA special-purpose address registries (RFC 6890), and the documentation of the clouds. Not in it: blocks that lead nowhere, such as
// those for documentation; and 198.18.0.0/15, from which resolvers like nsrun's own answer, so an nsrun inside of a sandbox has to reach it.
var guarded = [...]struct{ prefix, why string }{
	{"169.254.169.254/32", metadata}, // AWS, Azure, GCP, OpenStack, DigitalOcean, Hetzner and most others
	{"169.254.170.2/32", metadata},   // AWS ECS: credentials of a task
	{"169.254.170.23/32", metadata},  // AWS EKS: credentials of a pod
	{"169.254.42.42/32", metadata},   // Scaleway
	{"100.100.100.200/32", metadata}, // Alibaba
	{"168.63.129.16/32", metadata},   // Azure's WireServer
	{"192.0.0.192/32", metadata},     // Oracle
	{"fd00:ec2::254/128", metadata},  // AWS
	{"fd00:ec2::23/128", metadata},   // AWS EKS
	{"fd20:ce::254/128", metadata},   // GCP
	{"fd00:42::42/128", metadata},    // Scaleway

	{"0.0.0.0/8", hereAddress}, // Linux connects 0.0.0.0 to the loopback
	{"127.0.0.0/8", loopback},
	{"10.0.0.0/8", private},
	{"172.16.0.0/12", private},
	{"192.168.0.0/16", private},
	{"100.64.0.0/10", private}, // RFC 6598; overlay networks use it too
	{"169.254.0.0/16", linkLocal},
	{"192.0.0.0/24", reserved},
	{"224.0.0.0/4", multicast},
	{"255.255.255.255/32", broadcast},
	{"240.0.0.0/4", reserved},

	{"::/128", hereAddress},
	{"::1/128", loopback},
	{"fc00::/7", private},
	{"fec0::/10", private}, // site-local, RFC 3879
	{"fe80::/10", linkLocal},
	{"ff00::/8", multicast},
	{"64:ff9b:1::/48", localNAT64}, // RFC 8215: where the IPv4 address is depends on the network
}

// embeddings are the blocks of IPv6 addresses that have an IPv4 address in them, and at which bytes it can be.
var embeddings = [...]struct {
	prefix string
	at     []at
}{
	{"::ffff:0:0/96", []at{{12, 13, 14, 15}}},                                                  // mapped, RFC 4291, 2.5.5.2
	{"::/96", []at{{12, 13, 14, 15}}},                                                          // IPv4-compatible, RFC 4291, 2.5.5.1
	{"::ffff:0:0:0/96", []at{{12, 13, 14, 15}}},                                                // IPv4-translated, RFC 2765
	{"64:ff9b::/96", []at{{12, 13, 14, 15}}},                                                   // NAT64, RFC 6052
	{"64:ff9b:1::/48", []at{{6, 7, 9, 10}, {7, 9, 10, 11}, {9, 10, 11, 12}, {12, 13, 14, 15}}}, // its local form, RFC 8215: /48, /56, /64, /96 of RFC 6052, 2.2
	{"2002::/16", []at{{2, 3, 4, 5}}},                                                          // 6to4, RFC 3056
	{"2001::/32", []at{{4, 5, 6, 7}, {^12, ^13, ^14, ^15}}},                                    // Teredo, RFC 4380, 4: the server, and the client inverted
}

// at are the bytes of an IPv4 address in an IPv6 address. A byte that is complemented is inverted.
type at [4]int

func (p at) addr(b [16]byte) netip.Addr {
	var v4 [4]byte
	for i, n := range p {
		if n >= 0 {
			v4[i] = b[n]
		} else {
			v4[i] = ^b[^n]
		}
	}
	return netip.AddrFrom4(v4)
}

// Guard returns why an address may not be dialled for a name, although a rule lists the name: "the host's loopback", "a private network", "a
// metadata service" and so on. It is empty for an address that may be. An IPv6 address that has an IPv4 address in it is checked as that one too: mapped,
// IPv4-compatible, NAT64, 6to4 and Teredo. The host's own addresses are the caller's to check.
func Guard(a netip.Addr) string {
	if !a.IsValid() {
		return "no address"
	}
	a = a.WithZone("").Unmap()
	if why := lookup(a); why != "" {
		return why
	}
	for _, v4 := range embedded(a) {
		if why := lookup(v4); why != "" {
			return why + ", written as an IPv6 address"
		}
	}
	return ""
}

// Metadata reports whether an address is a cloud's metadata service, in IPv4, IPv6, or IPv4 inside of IPv6. A rule needs force for it.
func Metadata(a netip.Addr) bool {
	a = a.WithZone("").Unmap()
	if lookup(a) == metadata {
		return true
	}
	for _, v4 := range embedded(a) {
		if lookup(v4) == metadata {
			return true
		}
	}
	return false
}

func lookup(a netip.Addr) string {
	for _, row := range guarded {
		if netip.MustParsePrefix(row.prefix).Contains(a) {
			return row.why
		}
	}
	return ""
}

// embedded lists the IPv4 addresses that an IPv6 address has in it.
func embedded(a netip.Addr) (list []netip.Addr) {
	if !a.Is6() {
		return nil
	}
	for _, row := range embeddings {
		if netip.MustParsePrefix(row.prefix).Contains(a) {
			for _, p := range row.at {
				list = append(list, p.addr(a.As16()))
			}
		}
	}
	return list
}

// hasMetadata reports whether a block has a metadata address in it. A block of IPv6 that has many IPv4 addresses in it is taken to have one.
func hasMetadata(block netip.Prefix) bool {
	if block.IsSingleIP() {
		return Metadata(block.Addr())
	}
	for _, row := range guarded {
		if row.why == metadata && block.Overlaps(netip.MustParsePrefix(row.prefix)) {
			return true
		}
	}
	for _, row := range embeddings {
		if block.Overlaps(netip.MustParsePrefix(row.prefix)) {
			return true
		}
	}
	return false
}
