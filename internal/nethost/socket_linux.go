package nethost

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/nsrun/nsrun/internal/netmessage"
	"golang.org/x/sys/unix"
)

// originalDst is SO_ORIGINAL_DST (include/uapi/linux/netfilter_ipv4.h) and IP6T_SO_ORIGINAL_DST, which have the same number.
const originalDst = 80

// listenTCP takes over a listening socket. It closes file.
func listenTCP(file *os.File) (*net.TCPListener, error) {
	defer file.Close()
	l, err := net.FileListener(file)
	if err != nil {
		return nil, err
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		l.Close()
		return nil, errors.New("it is no TCP socket")
	}
	return tcp, nil
}

// listenUDP takes over a bound UDP socket. It closes file.
func listenUDP(file *os.File) (*net.UDPConn, error) {
	defer file.Close()
	c, err := net.FilePacketConn(file)
	if err != nil {
		return nil, err
	}
	udp, ok := c.(*net.UDPConn)
	if !ok {
		c.Close()
		return nil, errors.New("it is no UDP socket")
	}
	raw, err := udp.SyscallConn()
	if err == nil {
		// The kernel lets an answer come from an address that no interface has only then (ip6_datagram_send_ctl in net/ipv6/datagram.c). For
		// IPv4 the route is enough, and a socket of IPv4 does not know the option.
		err = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_FREEBIND, 1) })
	}
	if err != nil {
		udp.Close()
		return nil, err
	}
	return udp, nil
}

// errLoopback refuses a client that has connected to the listener itself, by the sandbox's own loopback. A rule for an address of the loopback is for
// the host's, which only the proxy can mean.
var errLoopback = errors.New("the listener itself, on the sandbox's loopback")

// destination returns the address that the client of a connection asked for. kind is the listener's: [netmessage.Redirect] or [netmessage.Direct].
// A client that has connected to the redirect listener itself is an error: that is no destination.
func destination(c *net.TCPConn, kind string) (netip.AddrPort, error) {
	local := addrPort(c.LocalAddr())
	if kind != netmessage.Redirect {
		if local.Addr().IsLoopback() {
			return local, errLoopback
		}
		return local, nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, err
	}
	var to netip.AddrPort
	var failed error
	err = raw.Control(func(fd uintptr) { to, failed = getOriginal(int(fd), local.Addr().Is4()) })
	if err = errors.Join(err, failed); err != nil {
		return netip.AddrPort{}, fmt.Errorf("SO_ORIGINAL_DST: %w", err)
	}
	if to == local || to.Addr().IsLoopback() {
		return to, errLoopback
	}
	return to, nil
}

// getOriginal reads the destination before the redirection. The two structures of package unix are only large enough memory for the kernel's
// struct sockaddr_in and sockaddr_in6, of which the first is laid out as family, port and address.
func getOriginal(fd int, v4 bool) (netip.AddrPort, error) {
	if v4 {
		m, err := unix.GetsockoptIPv6Mreq(fd, unix.SOL_IP, originalDst)
		if err != nil {
			return netip.AddrPort{}, err
		}
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(m.Multiaddr[4:8])), binary.BigEndian.Uint16(m.Multiaddr[2:])), nil
	}
	m, err := unix.GetsockoptIPv6MTUInfo(fd, unix.SOL_IPV6, originalDst)
	if err != nil {
		return netip.AddrPort{}, err
	}
	port := binary.NativeEndian.AppendUint16(nil, m.Addr.Port)
	return netip.AddrPortFrom(netip.AddrFrom16(m.Addr.Addr).Unmap(), binary.BigEndian.Uint16(port)), nil
}

// addrPort returns the address of a TCP or UDP socket, IPv4 as IPv4.
func addrPort(a net.Addr) netip.AddrPort {
	var ap netip.AddrPort
	switch a := a.(type) {
	case *net.TCPAddr:
		ap = a.AddrPort()
	case *net.UDPAddr:
		ap = a.AddrPort()
	}
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
}

// packetSpace is room for the control message that has a packet's destination.
var packetSpace = unix.CmsgSpace(unix.SizeofInet6Pktinfo) + unix.CmsgSpace(unix.SizeofInet4Pktinfo)

// packetDestination finds the address that a packet was sent to among its control messages (IP_PKTINFO in ip(7), IPV6_PKTINFO in ipv6(7)).
func packetDestination(oob []byte) (netip.Addr, bool) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return netip.Addr{}, false
	}
	for _, m := range messages {
		switch {
		case m.Header.Level == unix.SOL_IP && m.Header.Type == unix.IP_PKTINFO && len(m.Data) >= unix.SizeofInet4Pktinfo:
			return netip.AddrFrom4([4]byte(m.Data[8:12])), true // ipi_ifindex, ipi_spec_dst, ipi_addr
		case m.Header.Level == unix.SOL_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= unix.SizeofInet6Pktinfo:
			return netip.AddrFrom16([16]byte(m.Data[:16])).Unmap(), true
		}
	}
	return netip.Addr{}, false
}

// packetSource is the control message that makes a packet come from an address. socket6 says that the socket is of IPv6, which knows an IPv4
// address by its mapped form.
func packetSource(from netip.Addr, socket6 bool) []byte {
	if from.Is4() && !socket6 {
		return unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: from.As4()})
	}
	return unix.PktInfo6(&unix.Inet6Pktinfo{Addr: from.As16()})
}

// inlineUrgent has what is sent as urgent (MSG_OOB, tcp(7)) read at its place among the other bytes. It would be lost otherwise.
func inlineUrgent(c *net.TCPConn) {
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_OOBINLINE, 1) })
	}
}

// tcpInfo is what the kernel tells of a connection (TCP_INFO, tcp(7)), or nil.
func tcpInfo(c *net.TCPConn) (info *unix.TCPInfo) {
	if raw, err := c.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { info, _ = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	}
	return info
}

// reset makes the close of a connection send a reset instead of an end.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}
