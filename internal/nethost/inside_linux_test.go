package nethost

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/wire"
	"golang.org/x/sys/unix"
)

// insideVar says that this process is the one in the network namespace of a test. Its value is the list of sockets that it opens.
const insideVar = "NSRUN_TEST_NETWORK_INSIDE"

const redirectPort = 15000

// request is what a test asks of the process inside.
type request struct {
	Dial    string   // address to connect to; the connected socket comes back
	Network string   // tcp4, tcp6, udp4 or udp6
	Exec    []string // program to run inside
	Times   int      // how often to connect to Dial and exchange one byte; the reply has the median time
}

type reply struct {
	Err    string
	Output string
	Median time.Duration
}

// inside is the process in the namespace: it sets the namespace up as a sandbox's pid 1 does, sends the sockets, and then opens connections for the
// test, which gets their descriptors: a socket stays in the namespace that it was made in.
func inside() {
	const socket = 3
	kinds := strings.Fields(os.Getenv(insideVar))
	must(os.Unsetenv(insideVar), "environment")
	must(loopbackUp(), "loopback up")
	must(anyIP(unix.AF_INET), "AnyIP route for IPv4")
	must(anyIP(unix.AF_INET6), "AnyIP route for IPv6")
	must(useResolver(), "resolv.conf")
	must(os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0), "low ports")
	var names []string
	var fds []int
	for _, kind := range kinds {
		name, arg, _ := strings.Cut(kind, ":")
		fd, err := openSocket(name, arg)
		must(err, "socket "+kind)
		names, fds = append(names, name), append(fds, fd)
	}
	must(wire.Send(socket, names, fds...), "send the sockets")
	wire.CloseAll(fds)
	for {
		var r request
		if _, err := wire.Receive(socket, &r); err != nil {
			return
		}
		answer(socket, r)
	}
}

func must(err error, what string) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "inside:", what+":", err)
		os.Exit(1)
	}
}

func answer(socket int, r request) {
	if r.Exec != nil {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			out, err := exec.CommandContext(ctx, r.Exec[0], r.Exec[1:]...).CombinedOutput()
			a := reply{Output: string(out)}
			if err != nil {
				a.Err = err.Error()
			}
			must(wire.Send(socket, a), "reply")
		}()
		return
	}
	if r.Times > 0 {
		median, err := roundTrips(r.Network, r.Dial, r.Times)
		must(err, "round trips")
		must(wire.Send(socket, reply{Median: median}), "reply")
		return
	}
	d := net.Dialer{Timeout: 5 * time.Second, KeepAlive: -1}
	d.SetMultipathTCP(false)
	conn, err := d.Dial(r.Network, r.Dial)
	if err != nil {
		must(wire.Send(socket, reply{Err: err.Error()}), "reply")
		return
	}
	file, err := conn.(interface{ File() (*os.File, error) }).File()
	must(err, "descriptor")
	must(wire.Send(socket, reply{}, int(file.Fd())), "reply")
	file.Close()
	conn.Close()
}

// roundTrips connects n times, exchanges a byte with a server that echoes, and returns the median time.
func roundTrips(network, addr string, n int) (time.Duration, error) {
	times := make([]time.Duration, n)
	for i := range times {
		begin := time.Now()
		c, err := net.Dial(network, addr)
		if err != nil {
			return 0, err
		}
		b := []byte{0}
		if _, err = c.Write(b); err == nil {
			_, err = c.Read(b)
		}
		times[i] = time.Since(begin)
		c.Close()
		if err != nil {
			return 0, err
		}
	}
	slices.Sort(times)
	return times[n/2], nil
}

// openSocket opens a socket of a kind of netmessage. "redirect" also makes the rule that redirects.
func openSocket(kind, arg string) (int, error) {
	port, _ := strconv.Atoi(arg)
	family := unix.AF_INET
	if strings.HasSuffix(arg, "/6") {
		family = unix.AF_INET6
		port, _ = strconv.Atoi(strings.TrimSuffix(arg, "/6"))
	}
	typ := unix.SOCK_STREAM
	switch kind {
	case netmessage.Redirect:
		port = redirectPort
		if err := redirect(family); err != nil {
			return -1, err
		}
	case netmessage.DNS, netmessage.UDP:
		typ = unix.SOCK_DGRAM
	}
	fd, err := unix.Socket(family, typ|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	var addr unix.Sockaddr = &unix.SockaddrInet4{Port: port}
	if family == unix.AF_INET6 {
		addr = &unix.SockaddrInet6{Port: port}
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
	} else if kind == netmessage.Proxy {
		addr = &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
	}
	err = errors.Join(err, unix.Bind(fd, addr))
	switch {
	case typ == unix.SOCK_STREAM:
		err = errors.Join(err, unix.Listen(fd, 4096))
	case family == unix.AF_INET:
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1))
	default:
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1))
	}
	return fd, err
}

// redirect makes the table that sends every TCP connection but those to the loopback to one port.
func redirect(family int) error {
	c, err := nftables.New()
	if err != nil {
		return err
	}
	table := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: "nsrun"}
	at, loopback := uint32(16), []byte{127}
	if family == unix.AF_INET6 {
		table.Family, at, loopback = nftables.TableFamilyIPv6, 24, net.IPv6loopback
	}
	c.AddTable(table)
	chain := c.AddChain(&nftables.Chain{Name: "output", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityNATDest})
	c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: at, Len: uint32(len(loopback))},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: loopback},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Immediate{Register: 1, Data: binary.BigEndian.AppendUint16(nil, redirectPort)},
		&expr.Redir{RegisterProtoMin: 1},
	}})
	return c.Flush()
}

func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r)
}

// anyIP adds the route "local default dev lo": every address is this host.
func anyIP(family uint8) error {
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return err
	}
	scope := uint8(unix.RT_SCOPE_HOST)
	if family == unix.AF_INET6 {
		scope = unix.RT_SCOPE_UNIVERSE
	}
	order := binary.NativeEndian
	b := order.AppendUint32(nil, unix.SizeofNlMsghdr+unix.SizeofRtMsg+8)
	b = order.AppendUint16(b, unix.RTM_NEWROUTE)
	b = order.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE)
	b = order.AppendUint32(order.AppendUint32(b, 1), 0)
	b = append(b, family, 0, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_STATIC, scope, unix.RTN_LOCAL)
	b = order.AppendUint32(b, 0)
	b = order.AppendUint16(order.AppendUint16(b, 8), unix.RTA_OIF)
	b = order.AppendUint32(b, uint32(lo.Index))
	if err := unix.Sendto(s, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	got := make([]byte, 4096)
	n, _, err := unix.Recvfrom(s, got, 0)
	if err != nil || n < unix.SizeofNlMsghdr+4 {
		return errors.Join(err, errors.New("no answer"))
	}
	if e := int32(order.Uint32(got[unix.SizeofNlMsghdr:])); e != 0 {
		return syscall.Errno(-e)
	}
	return nil
}

// useResolver makes 198.18.0.1 the name server, in a mount namespace of this process.
func useResolver() error {
	f, err := os.CreateTemp("", "nsrun-resolv-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.WriteString("nameserver 198.18.0.1\n"); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	err = unix.Mount(f.Name(), "/etc/resolv.conf", "", unix.MS_BIND, "")
	if errors.Is(err, fs.ErrNotExist) { // a small machine without the file: resolvers ask 127.0.0.1 then (resolv.conf(5)), where the same socket answers
		return nil
	}
	return err
}
