package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nsrun/nsrun/internal/testenv"
)

// from makes a file a command's input.
func from(f *os.File) func(*exec.Cmd) { return func(c *exec.Cmd) { c.Stdin = f } }

// netCases are attempts to reach anything by a socket, with the network that is the default: none.
func netCases() []attackCase {
	route := "this host may have no route"
	family := "the kernel may lack it"
	netlink := func(protocol int64) try {
		return try{act: sys(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, protocol), want: "EAFNOSUPPORT EPERM", lone: family}
	}
	return []attackCase{
		{id: "NE01", what: "connect to the host's loopback", tries: []try{{act: "tcp {tcp}", want: "ECONNREFUSED"}}},
		{id: "NE02", what: "connect to the Internet", tries: []try{{act: "tcp 192.0.2.1:80", want: "ENETUNREACH", lone: route}}},
		{id: "NE03", what: "connect to a cloud's metadata", tries: []try{
			{act: "tcp 169.254.169.254:80", want: "ENETUNREACH", lone: route}, {act: "tcp 100.100.100.200:80", want: "ENETUNREACH", lone: route},
			{act: "tcp 100.96.0.96:80", want: "ENETUNREACH", lone: route}, {act: "tcp [fd00:ec2::254]:80", want: "ENETUNREACH EADDRNOTAVAIL EAFNOSUPPORT", lone: route}}},
		{id: "NE04", what: "send datagrams, and look up a name", tries: []try{
			{act: "udp {udp}", want: "ECONNREFUSED"}, {act: "udp 192.0.2.53:53", want: "ENETUNREACH", lone: route}, {act: "lookup example.org", want: "ENOENT", lone: route}}},
		{id: "NE05", what: "connect to an abstract socket of the host", tries: []try{{act: "unix {abstract}", want: "ECONNREFUSED EPERM"}}},
		{id: "NE06", what: "connect to a socket in a directory of the host", tries: []try{{act: "unix {socket}", want: "ENOENT"},
			{act: "stat /run/docker.sock", want: "ENOENT", lone: family}, {act: "stat /run/dbus", want: "ENOENT", lone: family}}},
		{id: "NE07", what: "find an interface beside the loopback", tries: []try{{act: "interfaces", want: "ENODEV", lone: "this host may have none"}}},
		{id: "NE08", what: "open netlink beside routes", tries: []try{netlink(unix.NETLINK_NETFILTER), netlink(unix.NETLINK_KOBJECT_UEVENT),
			netlink(unix.NETLINK_AUDIT), netlink(unix.NETLINK_XFRM)}},
		{id: "NE09", what: "open a raw socket", tries: []try{{act: sys(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP), want: "EPERM", user: refused}}},
		{id: "NE10", what: "open a packet socket", tries: []try{{act: sys(unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW, 0), want: "EAFNOSUPPORT", lone: family}}},
		{id: "NE11", what: "open a socket to the hypervisor", tries: []try{{act: sys(unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM, 0), want: "EAFNOSUPPORT", lone: family}}},
		{id: "NE12", what: "open a socket to the kernel's ciphers", tries: []try{{act: sys(unix.SYS_SOCKET, unix.AF_ALG, unix.SOCK_SEQPACKET, 0), want: "EAFNOSUPPORT", lone: family}}},
		{id: "NE13", what: "open a socket of any other family", tries: []try{{act: "families", want: "EAFNOSUPPORT", lone: family}}},
		{id: "NE14", what: "the 32-bit ABI's way to sockets", tries: []try{{act: "int80 102", want: "SIGSYS NA", lone: "the kernel may have no 32-bit ABI"}}},
		{id: "NE15", what: "be reached from the host", test: listenInside},
		{id: "NE17", what: "go around or through the caller's proxy", test: callersProxy},
	}
}

// listenInside listens on all addresses, and has the host connect to its own loopback.
func listenInside(t *testing.T, w *world) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	l.Close()
	for _, c := range []struct {
		argv  []string
		reach bool
	}{{w.nsrun(nil, built.probe, "listen", "0.0.0.0:"+port, testenv.Scale(time.Second).String()), false}, {[]string{built.probe, "listen", "127.0.0.1:" + port, testenv.Limit(0).String()}, true}} {
		s := w.start(t, nil, c.argv...)
		s.wait(t, "listening")
		conn, err := net.DialTimeout("tcp", addr, testenv.Limit(0))
		if c.reach {
			assert.NoError(t, err, "the control")
		} else {
			assert.ErrorIs(t, err, unix.ECONNREFUSED, "the host does not reach it")
		}
		if err == nil {
			conn.Close()
		}
		s.end(t)
		assert.Equal(t, c.reach, s.stdout.String() == "listening\nREACHED\n", s.stdout.String())
	}
}

// callersProxy: the network is not there, whatever variables say.
func callersProxy(t *testing.T, w *world) {
	proxy := func(c *exec.Cmd) { c.Env = append(c.Env, "HTTP_PROXY=http://"+w.tcp, "ALL_PROXY=http://"+w.tcp) }
	before := testenv.Settled(&w.accepted)
	for _, flags := range [][]string{nil, {"--env", "HTTP_PROXY", "--env", "ALL_PROXY"}} {
		e := w.do(t, proxy, w.nsrun(flags, built.probe, "env-has", "HTTP_PROXY")...)
		assert.Equal(t, flags != nil, try{want: "REACHED"}.stopped(e), "%q: passed only if named\n%v", flags, e)
		e = w.do(t, proxy, w.nsrun(flags, built.probe, "tcp", w.tcp)...)
		assert.True(t, try{want: "ECONNREFUSED"}.stopped(e), "%q\n%v", flags, e)
	}
	assert.Equal(t, before, testenv.Settled(&w.accepted), fmt.Sprintf("%s has accepted nothing", w.tcp))
}
