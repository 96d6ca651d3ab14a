package nethost

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// routes is a socket that the kernel is asked by for routes. It is kept, as this process may have no descriptor left later.
var routes struct {
	sync.Mutex
	open   bool
	socket int
}

// routedHere reports whether the host's route to an address leads to the host itself, which may be so without an interface that has it (ip route add
// local). If the kernel gives no answer that can be used, it is true.
func routedHere(a netip.Addr) bool {
	routes.Lock()
	defer routes.Unlock()
	if !routes.open {
		socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
		if err != nil {
			return true
		}
		routes.open, routes.socket = true, socket
	}
	here, known := askRoute(routes.socket, a.Unmap())
	if !known { // an answer may come later
		unix.Close(routes.socket)
		routes.open = false
	}
	return here || !known
}

// noRoute are the errors by which the kernel says that it would send nothing to an address: there is no route, or one that says so.
var noRoute = []unix.Errno{unix.ENETUNREACH, unix.EHOSTUNREACH, unix.EACCES, unix.EINVAL}

// askRoute sends an RTM_GETROUTE of rtnetlink(7). The kernel has answered before sendto(2) returns.
func askRoute(socket int, a netip.Addr) (here, known bool) {
	if err := unix.Sendto(socket, routeQuestion(a), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return false, false
	}
	const rest = unix.SizeofNlMsghdr // of an answer: struct rtmsg, or an error
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(socket, answer, unix.MSG_DONTWAIT)
	if err != nil || n < rest+unix.SizeofRtMsg {
		return false, false
	}
	switch binary.NativeEndian.Uint16(answer[4:]) {
	case unix.RTM_NEWROUTE:
		return answer[rest+7] != unix.RTN_UNICAST, true // rtm_type
	case unix.NLMSG_ERROR:
		return false, slices.Contains(noRoute, unix.Errno(-int32(binary.NativeEndian.Uint32(answer[rest:]))))
	}
	return false, false
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
