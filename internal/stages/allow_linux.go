package stages

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/nsrun/nsrun/internal/netlink"
	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// NetSocket returns the kind of a socket that pid 1 has sent with this message: see package netmessage.
func NetSocket(message byte) (kind string, ok bool) {
	switch message {
	case verify.SentRedirect:
		return netmessage.Redirect, true
	case verify.SentDirect:
		return netmessage.Direct, true
	case verify.SentDNS:
		return netmessage.DNS, true
	case verify.SentProxy:
		return netmessage.Proxy, true
	case verify.SentUDP:
		return netmessage.UDP, true
	}
	return "", false
}

// allow makes the network of a plan with an allow-list. Whatever the command sends arrives at sockets of its own network namespace, which pid 1 opens
// here and sends to the caller, who has the helper serve them. The command cannot change that: the namespace belongs to pid 1's user namespace, in which
// it has no capabilities.
func (l *Lowering) allow() error {
	a := l.plan.Allow
	if a == nil {
		return nil
	}
	l.step("network", "routes")
	l.netlink(unix.NETLINK_ROUTE, "NETLINK_ROUTE", netlink.Routes4(), true)
	l.netlink(unix.NETLINK_ROUTE, "NETLINK_ROUTE", netlink.Routes6(), false) // a kernel without IPv6
	if a.Step == plan.StepRedirect {
		l.step("network", "redirect")
		l.netlink(unix.NETLINK_NETFILTER, "NETLINK_NETFILTER", netlink.Redirect(), true)
		l.tcp(verify.SentRedirect, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), netlink.Port))
		l.tcp(verify.SentRedirect, netip.AddrPortFrom(netip.IPv6Loopback(), netlink.Port))
	}
	for _, port := range a.TCP {
		l.tcp(verify.SentDirect, netip.AddrPortFrom(netip.IPv4Unspecified(), port))
	}
	if a.Proxy {
		l.tcp(verify.SentProxy, netip.MustParseAddrPort(plan.ProxyAddress))
	}
	for _, port := range a.TCP6 {
		l.tcp(verify.SentDirect, netip.AddrPortFrom(netip.IPv6Unspecified(), port))
	}
	for _, port := range a.UDP {
		l.udp(verify.SentUDP, netip.AddrPortFrom(netip.IPv4Unspecified(), port))
	}
	for _, port := range a.UDP6 {
		l.udp(verify.SentUDP, netip.AddrPortFrom(netip.IPv6Unspecified(), port))
	}
	l.udp(verify.SentDNS, netip.AddrPortFrom(netip.IPv4Unspecified(), 53)) // the last
	return nil
}

// netlink sends a message to the kernel, which has answered it before sendto returns: only by an error, as it asks for no acknowledgement.
func (l *Lowering) netlink(protocol int, name string, message []byte, must bool) {
	fd := l.Program.Slot()
	kernel := make([]byte, unix.SizeofSockaddrNetlink)
	binary.NativeEndian.PutUint16(kernel, unix.AF_NETLINK)
	l.Program.Add(unix.SYS_SOCKET, sys.Words(unix.AF_NETLINK, "AF_NETLINK"), sys.Words(unix.SOCK_RAW|unix.SOCK_CLOEXEC, "SOCK_RAW|SOCK_CLOEXEC"), sys.Words(protocol, name)).Keep(fd)
	l.Program.Add(unix.SYS_SENDTO, sys.Of(fd), sys.Bytes(message), sys.Int(len(message)), sys.Int(0), sys.Bytes(kernel), sys.Int(len(kernel))).Min(len(message))
	if must {
		answer := make([]byte, 1)
		l.Program.Add(unix.SYS_RECVFROM, sys.Of(fd), sys.Bytes(answer), sys.Int(len(answer)), sys.Words(unix.MSG_DONTWAIT, "MSG_DONTWAIT"), sys.Null(), sys.Null())
		l.Program.Then(func() { l.Program.Fail(unix.EOPNOTSUPP) }, unix.EAGAIN)
	}
	l.Program.Add(unix.SYS_CLOSE, sys.Of(fd))
}

// tcp opens a listener and sends it.
func (l *Lowering) tcp(kind byte, at netip.AddrPort) {
	l.step("network", fmt.Sprintf("listen on %s", at))
	l.socket(unix.SOCK_STREAM, "SOCK_STREAM", at, func(fd sys.Slot) {
		l.Program.Add(unix.SYS_LISTEN, sys.Of(fd), sys.Int(verify.Backlog))
		l.Program.Send(l.fds.Status, kind, fd)
	})
}

// udp opens a socket that learns what address a datagram was sent to, and sends it.
func (l *Lowering) udp(kind byte, at netip.AddrPort) {
	step := fmt.Sprintf("UDP port %d", at.Port())
	if at.Addr().Is6() {
		step += " of IPv6"
	}
	l.step("network", step)
	l.socket(unix.SOCK_DGRAM, "SOCK_DGRAM", at, func(fd sys.Slot) { l.Program.Send(l.fds.Status, kind, fd) })
}

// socket opens and binds a socket for use. There is none of IPv6 where the kernel, or the namespace, has no IPv6. One of IPv6 is for that alone, as
// there may be one of IPv4 with the same port (IPV6_V6ONLY, ipv6(7)).
func (l *Lowering) socket(kind int, name string, at netip.AddrPort, use func(fd sys.Slot)) {
	fd, one, where := l.Program.Slot(), []byte{1, 0, 0, 0}, sockaddr(at)
	option := func(level int, levelName string, number int, name string) {
		l.Program.Add(unix.SYS_SETSOCKOPT, sys.Of(fd), sys.Words(level, levelName), sys.Words(number, name), sys.Bytes(one), sys.Int(len(one)))
	}
	flags, flagNames := kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, name+"|SOCK_CLOEXEC|SOCK_NONBLOCK"
	if at.Addr().Is4() {
		l.Program.Add(unix.SYS_SOCKET, sys.Words(unix.AF_INET, "AF_INET"), sys.Words(flags, flagNames), sys.Int(0)).Keep(fd)
		if kind == unix.SOCK_DGRAM {
			option(unix.IPPROTO_IP, "IPPROTO_IP", unix.IP_PKTINFO, "IP_PKTINFO")
		}
		l.Program.Add(unix.SYS_BIND, sys.Of(fd), sys.Bytes(where), sys.Int(len(where)))
		use(fd)
		l.Program.Add(unix.SYS_CLOSE, sys.Of(fd))
		return
	}
	l.Program.Add(unix.SYS_SOCKET, sys.Words(unix.AF_INET6, "AF_INET6"), sys.Words(flags, flagNames), sys.Int(0)).Keep(fd)
	l.Program.Then(func() {
		option(unix.IPPROTO_IPV6, "IPPROTO_IPV6", unix.IPV6_V6ONLY, "IPV6_V6ONLY")
		if kind == unix.SOCK_DGRAM {
			option(unix.IPPROTO_IPV6, "IPPROTO_IPV6", unix.IPV6_RECVPKTINFO, "IPV6_RECVPKTINFO")
		}
		l.Program.Add(unix.SYS_BIND, sys.Of(fd), sys.Bytes(where), sys.Int(len(where)))
		l.Program.Then(func() { use(fd) }, unix.EADDRNOTAVAIL)
		l.Program.Add(unix.SYS_CLOSE, sys.Of(fd))
	}, unix.EAFNOSUPPORT)
}

// sockaddr is struct sockaddr_in of ip(7), or sockaddr_in6 of ipv6(7).
func sockaddr(at netip.AddrPort) []byte {
	family := uint16(unix.AF_INET)
	if at.Addr().Is6() {
		family = unix.AF_INET6
	}
	b := binary.BigEndian.AppendUint16(binary.NativeEndian.AppendUint16(nil, family), at.Port())
	if at.Addr().Is6() {
		b = append(b, 0, 0, 0, 0) // flow information
	}
	b = append(b, at.Addr().AsSlice()...)
	for len(b) < 16 || at.Addr().Is6() && len(b) < 28 { // padding; scope
		b = append(b, 0)
	}
	return b
}
