package nethost

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// usual are the sockets of a sandbox.
const usual = "redirect:/4 redirect:/6 dns:53 proxy:15001"

// box is a network namespace with a process in it, and the server of its sockets.
type box struct {
	t      testing.TB
	socket int
	mu     sync.Mutex
	*Server
	host *host
}

// host stands for the Internet: names with addresses, and addresses with servers of the test on 127.0.0.1.
type host struct {
	mu      sync.Mutex
	names   map[string][]netip.Addr
	servers map[netip.AddrPort]string // where a connection to an address really goes
	own     []netip.Addr
	local   netip.Addr // that a route leads to the host for
	events  []netmessage.Event
	lookups []string
	dials   atomic.Int64

	readTime, tick time.Duration // of the server, if they are not the usual ones
	delay          time.Duration // of lookups
}

func newHost() *host {
	return &host{names: map[string][]netip.Addr{}, servers: map[netip.AddrPort]string{}}
}

// put gives a name an address, with a server at a port.
func (h *host) put(name, addr string, port uint16, server string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := netip.MustParseAddr(addr)
	if name != "" {
		h.names[name] = append(h.names[name], a)
	}
	if server != "" {
		h.servers[netip.AddrPortFrom(a, port)] = server
	}
}

func (h *host) options() Options {
	return Options{
		readTime: h.readTime, tick: h.tick,
		Lookup: func(ctx context.Context, name string) ([]netip.Addr, error) {
			time.Sleep(h.delay)
			h.mu.Lock()
			defer h.mu.Unlock()
			h.lookups = append(h.lookups, name)
			if addrs := h.names[name]; addrs != nil {
				return addrs, nil
			}
			return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
		},
		Dial: func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
			h.dials.Add(1)
			h.mu.Lock()
			server := h.servers[to]
			h.mu.Unlock()
			if server == "" {
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			var d net.Dialer
			d.SetMultipathTCP(false)
			return d.DialContext(ctx, network, server)
		},
		Own:   func() ([]netip.Addr, error) { return h.own, nil },
		Local: func(a netip.Addr) bool { return a == h.local },
		Event: func(e netmessage.Event) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.events = append(h.events, e)
		},
	}
}

// looked returns the names that were looked up.
func (h *host) looked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.lookups...)
}

// refused returns the refusals that were reported.
func (h *host) refused() (list []netmessage.Refusal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if e.Refusal != nil {
			list = append(list, *e.Refusal)
		}
	}
	return list
}

// questions waits until so many questions were asked, and returns them.
func (h *host) questions(t testing.TB, n int) (list []netmessage.Question) {
	t.Helper()
	testenv.Eventually(t, func() bool {
		list = h.asked()
		return len(list) >= n
	}, "questions")
	require.Len(t, list, n)
	return list
}

// asked returns the questions so far.
func (h *host) asked() (list []netmessage.Question) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if e.Question != nil {
			list = append(list, *e.Question)
		}
	}
	return list
}

// enter starts a process in a new network namespace, and returns the socket to it and the sockets that it has opened.
func enter(t testing.TB, sockets string) (socket int, kinds []string, files []*os.File) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	theirs := os.NewFile(uintptr(pair[1]), "socket")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), insideVar+"="+sockets)
	cmd.Stderr, cmd.ExtraFiles = os.Stderr, []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	require.NoError(t, cmd.Start())
	theirs.Close()
	t.Cleanup(func() {
		unix.Close(pair[0])
		if err := cmd.Wait(); err != nil {
			t.Errorf("the process inside: %v", err)
		}
	})
	fds, err := wire.Receive(pair[0], &kinds)
	require.NoError(t, err, "the process inside has ended")
	for _, fd := range fds {
		files = append(files, os.NewFile(uintptr(fd), "socket of the namespace"))
	}
	return pair[0], kinds, files
}

// newBox makes a namespace with the usual sockets and serves it by rules.
func newBox(t testing.TB, h *host, rules ...string) *box {
	t.Helper()
	return newBoxWith(t, h, usual, netmessage.Start{Rules: rules})
}

func newBoxWith(t testing.TB, h *host, sockets string, start netmessage.Start) *box {
	t.Helper()
	b := &box{t: t, host: h}
	socket, kinds, files := enter(t, sockets)
	b.socket, start.Sockets = socket, kinds
	server, err := Serve(start, files, h.options())
	require.NoError(t, err)
	b.Server = server
	t.Cleanup(func() { server.Close() })
	return b
}

// open connects inside of the namespace. network is tcp4, tcp6, udp4 or udp6.
func (b *box) open(network, addr string) (net.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := wire.Send(b.socket, request{Dial: addr, Network: network}); err != nil {
		return nil, err
	}
	var r reply
	fds, err := wire.Receive(b.socket, &r)
	if err != nil {
		return nil, err
	}
	if r.Err != "" {
		return nil, errors.New(r.Err)
	}
	f := os.NewFile(uintptr(fds[0]), "connection")
	defer f.Close()
	return net.FileConn(f)
}

// exec runs a program inside, and returns what it prints.
func (b *box) exec(args ...string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := wire.Send(b.socket, request{Exec: args}); err != nil {
		return "", err
	}
	var r reply
	if _, err := wire.Receive(b.socket, &r); err != nil {
		return "", err
	}
	if r.Err != "" {
		return r.Output, errors.New(r.Err)
	}
	return r.Output, nil
}

// dial connects inside, by a name or an address, as a program does.
func (b *box) dial(t testing.TB, addr string) *net.TCPConn {
	t.Helper()
	conn, err := b.DialContext(context.Background(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

// try is dial where the connection may be reset at once.
func (b *box) try(t testing.TB, addr string) (*net.TCPConn, error) {
	t.Helper()
	conn, err := b.DialContext(context.Background(), "tcp", addr)
	if err != nil {
		if strings.HasSuffix(err.Error(), "connection reset by peer") {
			err = unix.ECONNRESET
		}
		return nil, err
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn), nil
}

// isReset checks that a connection is reset, at once or after the first byte.
func (b *box) isReset(t testing.TB, addr string) {
	t.Helper()
	c, err := b.try(t, addr)
	if err == nil {
		if _, err = c.Write([]byte{0}); err == nil { // the kernel reports a reset once
			err = ends(c)
		}
	}
	assert.ErrorIs(t, err, unix.ECONNRESET, addr)
}

// DialContext is for clients of package net/http.
func (b *box) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	name, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	a, err := netip.ParseAddr(name)
	if err != nil {
		addrs, err := b.resolver().LookupNetIP(ctx, "ip4", strings.TrimSuffix(name, ".")+".")
		if err != nil {
			return nil, err
		}
		a = addrs[0].Unmap()
	}
	network := "tcp4"
	if a.Is6() {
		network = "tcp6"
	}
	return b.open(network, net.JoinHostPort(a.String(), port))
}

// resolver asks the server of the namespace.
func (b *box) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(_ context.Context, network, _ string) (net.Conn, error) {
		return b.open(network[:3]+"4", "198.18.0.1:53")
	}}
}

// listen serves connections on the host, by f, and returns the address.
func listen(t testing.TB, f func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				f(c.(*net.TCPConn))
			}()
		}
	}()
	return l.Addr().String()
}

// find returns the refusal of a reason for a target that a test expects.
func find(list []netmessage.Refusal, op, target, reason string) (netmessage.Refusal, error) {
	for _, x := range list {
		name := x.Name
		if name == "" {
			name = x.Address
		}
		if x.Op == op && x.Reason == reason && (op == opResolve && name == target || net.JoinHostPort(name, fmt.Sprint(x.Port)) == target) {
			return x, nil
		}
	}
	return netmessage.Refusal{}, fmt.Errorf("no refusal %s %s %s in %+v", op, target, reason, list)
}
