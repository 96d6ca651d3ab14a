package nethost

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// routedHere reports whether the host's route to an address leads to the host itself, which may be so without an interface that has it (ip route add
// local). It asks the kernel: an RTM_GETROUTE of rtnetlink(7), which is answered before it has been sent. Without an answer there is no route.
func routedHere(a netip.Addr) bool {
	a = a.Unmap()
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return true // as when the process has no descriptor left: nothing is known
	}
	defer unix.Close(socket)
	if err := unix.Sendto(socket, routeQuestion(a), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return true
	}
	const kind = unix.SizeofNlMsghdr + 7 // rtm_type
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(socket, answer, unix.MSG_DONTWAIT)
	if err != nil || n <= kind {
		return true
	}
	return binary.NativeEndian.Uint16(answer[4:]) == unix.RTM_NEWROUTE && answer[kind] != unix.RTN_UNICAST
}

// routeQuestion is a message with struct rtmsg and the attribute RTA_DST.
func routeQuestion(to netip.Addr) []byte {
	address := to.AsSlice()
	size := unix.SizeofNlMsghdr + unix.SizeofRtMsg + unix.SizeofRtAttr + len(address)
	family := byte(unix.AF_INET)
	if to.Is6() {
		family = unix.AF_INET6
	}
	b := binary.NativeEndian.AppendUint32(nil, uint32(size))
	b = binary.NativeEndian.AppendUint16(b, unix.RTM_GETROUTE)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST)
	b = append(b, make([]byte, 8)...) // sequence number and port
	b = append(b, family, byte(to.BitLen()), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(address)))
	b = binary.NativeEndian.AppendUint16(b, unix.RTA_DST)
	return append(b, address...)
}
