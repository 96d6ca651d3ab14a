package verify

import (
	"encoding/binary"
	"net/netip"

	"github.com/nsrun/nsrun/internal/netlink"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// The messages by which pid 1 sends the sockets of a plan with an allow-list.
const (
	SentRedirect = 'R'
	SentDirect   = 'C'
	SentProxy    = 'X'
	SentUDP      = 'U'
	SentDNS      = 'D' // the last one
)

// Backlog is how many connections wait for the helper, or 4096 where the namespace's somaxconn is less.
const Backlog = 4096

// allow requires the network of a plan with an allow-list. Claim Network: all addresses belong to the loopback device, so nothing has another way, and each
// socket that answers there is sent to the caller and closed here.
func (c *checker) allow() {
	a := c.Plan.Allow
	if a == nil {
		return
	}
	if !c.owns(plan.Net) {
		c.failFor(Network, "there is no network namespace to make it in")
	}
	c.netlink(unix.NETLINK_ROUTE, netlink.Routes4(), true)
	c.netlink(unix.NETLINK_ROUTE, netlink.Routes6(), false)
	if a.Step == plan.StepRedirect {
		c.netlink(unix.NETLINK_NETFILTER, netlink.Redirect(), true)
		c.tcp(SentRedirect, netip.MustParseAddrPort("127.0.0.1:15001"))
		c.tcp(SentRedirect, netip.MustParseAddrPort("[::1]:15001"))
	}
	for _, port := range a.TCP {
		c.tcp(SentDirect, netip.AddrPortFrom(netip.IPv4Unspecified(), port))
	}
	if a.Proxy {
		c.tcp(SentProxy, netip.MustParseAddrPort("127.0.0.1:15002"))
	}
	for _, port := range a.TCP6 {
		c.tcp(SentDirect, netip.AddrPortFrom(netip.IPv6Unspecified(), port))
	}
	for _, port := range a.UDP {
		c.udp(SentUDP, netip.AddrPortFrom(netip.IPv4Unspecified(), port))
	}
	for _, port := range a.UDP6 {
		c.udp(SentUDP, netip.AddrPortFrom(netip.IPv6Unspecified(), port))
	}
	c.udp(SentDNS, netip.AddrPortFrom(netip.IPv4Unspecified(), 53))
}

// netlink requires that a message is sent to the kernel and, if it must be obeyed, that the kernel has nothing against it.
func (c *checker) netlink(protocol int, message []byte, must bool) {
	kernel := make([]byte, unix.SizeofSockaddrNetlink)
	binary.NativeEndian.PutUint16(kernel, unix.AF_NETLINK)
	s := c.call(Network, unix.SYS_SOCKET).num(unix.AF_NETLINK).num(unix.SOCK_RAW | unix.SOCK_CLOEXEC).num(protocol).opens()
	c.call(Network, unix.SYS_SENDTO).slot(s).mem(message).num(len(message)).num(0).mem(kernel).num(len(kernel)).atLeast(len(message))
	if must {
		c.call(Network, unix.SYS_RECVFROM).slot(s).buffer(1).num(1).num(unix.MSG_DONTWAIT).null().null().orSkip(kernelContent, 1)
		c.failure(Network, unix.EOPNOTSUPP)
	}
	c.close(Network, s)
}

// tcp requires a listener that is sent to the caller. IPv6 may be missing.
func (c *checker) tcp(kind byte, at netip.AddrPort) {
	s := c.socket(unix.SOCK_STREAM, at, 5)
	c.bound(s, at, 2)
	c.call(Network, unix.SYS_LISTEN).slot(s).num(Backlog)
	c.sent(kind, s)
}

// udp requires a socket that learns where a datagram was sent to, and that is sent to the caller. IPv6 may be missing.
func (c *checker) udp(kind byte, at netip.AddrPort) {
	s := c.socket(unix.SOCK_DGRAM, at, 5)
	if at.Addr().Is6() {
		c.option(s, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO)
	} else {
		c.option(s, unix.IPPROTO_IP, unix.IP_PKTINFO)
	}
	c.bound(s, at, 1)
	c.sent(kind, s)
}

// socket requires a socket for one address. Without IPv6, it and rest calls for it are left out. One of IPv6 has to be for that alone.
func (c *checker) socket(kind int, at netip.AddrPort, rest int) sys.Slot {
	family := unix.AF_INET
	if at.Addr().Is6() {
		family = unix.AF_INET6
	}
	m := c.call(Network, unix.SYS_SOCKET).num(family).num(kind | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK).num(0)
	if at.Addr().Is4() {
		return m.opens()
	}
	m.orSkip(noIPv6, rest)
	s := m.opens()
	c.option(s, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY)
	return s
}

// option requires that an option of a socket is set.
func (c *checker) option(s sys.Slot, level, number int) {
	c.call(Network, unix.SYS_SETSOCKOPT).slot(s).num(level).num(number).mem([]byte{1, 0, 0, 0}).num(4)
}

// bound requires that a socket is bound to an address. If the namespace has no IPv6, rest calls are left out.
func (c *checker) bound(s sys.Slot, at netip.AddrPort, rest int) {
	where := socketAddress(at)
	m := c.call(Network, unix.SYS_BIND).slot(s).mem(where).num(len(where))
	if at.Addr().Is6() {
		m.orSkip(noIPv6Address, rest)
	}
}

// sent requires that a socket goes to the caller and nowhere else, and that this process keeps none.
func (c *checker) sent(kind byte, s sys.Slot) {
	c.take(Network, sys.KindSend)
	if from, to := c.v.Range(); c.v.Keep() != s || from != c.Status || to != int(kind) {
		c.fail("it does not send the socket to the caller")
	}
	c.kept, c.ranged = true, true
	c.close(Network, s)
}

// socketAddress is struct sockaddr_in of ip(7), or sockaddr_in6 of ipv6(7).
func socketAddress(at netip.AddrPort) []byte {
	if at.Addr().Is6() {
		b := make([]byte, 28)
		binary.NativeEndian.PutUint16(b, unix.AF_INET6)
		binary.BigEndian.PutUint16(b[2:], at.Port())
		copy(b[8:], at.Addr().AsSlice())
		return b
	}
	b := make([]byte, 16)
	binary.NativeEndian.PutUint16(b, unix.AF_INET)
	binary.BigEndian.PutUint16(b[2:], at.Port())
	copy(b[4:], at.Addr().AsSlice())
	return b
}
