package nethost

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/quic"
	"golang.org/x/sys/unix"
)

// disguised changes the first thing that a TLS client sends.
type disguised struct {
	net.Conn
	change func(first []byte) []byte
	done   bool
}

func (d *disguised) Write(b []byte) (int, error) {
	if d.done {
		return d.Conn.Write(b)
	}
	d.done = true
	_, err := d.Conn.Write(d.change(bytes.Clone(b)))
	return len(b), err
}

// TestTLSInDisguise: servers ignore the version of a record (RFC 8446, 5.1) and skip alerts that are warnings, so a ClientHello behind either is read too.
func TestTLSInDisguise(t *testing.T) {
	version := func(major, minor byte) func([]byte) []byte {
		return func(b []byte) []byte { b[1], b[2] = major, minor; return b }
	}
	prefix := func(text string) func([]byte) []byte {
		return func(b []byte) []byte { return append([]byte(text), b...) }
	}
	for name, change := range map[string]func([]byte) []byte{
		"minor version": version(3, 5), "another minor version": version(3, 0xff), "major version": version(4, 1), "old major version": version(2, 1), "version 0": version(0, 0),
		"an alert": prefix("\x15\x03\x01\x00\x02\x01\x5a"), "an alert of another version": prefix("\x15\x02\x01\x00\x02\x01\x5a"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWeb(t, (*httptest.Server).StartTLS)
			direct, err := net.Dial("tcp4", w.addr())
			require.NoError(t, err)
			defer direct.Close()
			client := func(c net.Conn) error {
				_ = c.SetDeadline(time.Now().Add(testenv.Limit(5 * time.Second)))
				return tls.Client(&disguised{Conn: c, change: change}, &tls.Config{ServerName: "b.example.com", InsecureSkipVerify: true}).Handshake()
			}
			require.NoError(t, client(direct), "the control: the server reads it as TLS")

			h := newHost()
			h.put("a.example.com", "93.184.216.34", 443, w.addr())
			b := newBox(t, h, "a.example.com:443")
			assert.Error(t, client(b.dial(t, "a.example.com:443")))
			assert.Len(t, h.refused(), 1)
		})
	}
}

// TestHTTPInDisguise: RFC 9112, 3 lets servers take other blanks for the space of a request line, and Python's splits at still more. The PROXY protocol
// comes before the one that is compared.
func TestHTTPInDisguise(t *testing.T) {
	firsts := []string{"PROXY TCP4 1.2.3.4 5.6.7.8 1 80\r\nGET /hello HTTP/1.1", "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00GET /hello HTTP/1.1"}
	for _, blank := range []string{"\v", "\f", "\r", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\xa0"} {
		firsts = append(firsts, "GET"+blank+"/hello"+blank+"HTTP/1.1", blank+"GET /hello HTTP/1.1")
	}
	for _, first := range firsts {
		h := newHost()
		got := make(chan string, 1)
		h.put("a.example.com", "93.184.216.34", 80, listen(t, func(c *net.TCPConn) {
			b := make([]byte, 1000)
			n, _ := c.Read(b)
			got <- string(b[:n])
		}))
		b := newBox(t, h, "a.example.com:80")
		c := b.dial(t, "a.example.com:80")
		_, err := c.Write([]byte(first + "\r\nHost: b.example.com\r\n\r\n"))
		require.NoError(t, err)
		_ = c.SetReadDeadline(time.Now().Add(testenv.Limit(5 * time.Second)))
		answer := make([]byte, 1000)
		n, _ := c.Read(answer)
		assert.True(t, strings.HasPrefix(string(answer[:n]), "HTTP/1.1 400"), "%q: %q", first, answer[:n])
		select {
		case text := <-got:
			assert.Failf(t, "it has arrived", "%q", text)
		default:
		}
		_, err = find(h.refused(), opRequest, "a.example.com:80", netmessage.Malformed)
		assert.NoError(t, err)
	}
}

// firstDatagrams are the two that a QUIC client begins with: a ClientHello with keys against quantum computers does not fit into one.
func firstDatagrams(t *testing.T, server string) (list [][]byte) {
	t.Helper()
	to, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer to.Close()
	config := &quic.Config{TLSConfig: &tls.Config{ServerName: server, NextProtos: []string{"x"}, MinVersion: tls.VersionTLS13}}
	e, err := quic.Listen("udp4", "127.0.0.1:0", nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer func() { _ = e.Close(ctx) }()
	defer cancel()
	go func() { _, _ = e.Dial(ctx, "udp4", to.LocalAddr().String(), config) }()
	_ = to.SetReadDeadline(time.Now().Add(testenv.Limit(0)))
	for range 2 {
		b := make([]byte, 2048)
		n, _, err := to.ReadFrom(b)
		require.NoError(t, err)
		list = append(list, b[:n])
	}
	return list
}

// TestQUICHeldOfAnotherConnection: a ClientHello that is good lets nothing of another one through, of which a part has come. The rest might reach the
// server from another port.
func TestQUICHeldOfAnotherConnection(t *testing.T) {
	s, err := newServer(netmessage.Start{Rules: []string{"udp://a.example.com:443"}}, newHost().options())
	require.NoError(t, err)
	f := &flow{to: target{name: "a.example.com", port: 443, udp: true}}
	evil, good := firstDatagrams(t, "b.example.com"), firstDatagrams(t, "a.example.com")
	for _, b := range [][]byte{evil[0], good[0]} {
		pass, refused := f.checkQUIC(s, b)
		require.Nil(t, refused)
		require.Empty(t, pass)
	}
	pass, refused := f.checkQUIC(s, good[1])
	require.Nil(t, refused)
	assert.Equal(t, good, pass)
	_, refused = f.checkQUIC(s, evil[1])
	require.NotNil(t, refused)
	assert.Equal(t, netmessage.Mismatch, refused.Reason)
}

// TestQUICIDs: the ID of a connection that was passed on begins no other one, from whatever port: the server might take the two for one.
func TestQUICIDs(t *testing.T) {
	s, err := newServer(netmessage.Start{Rules: []string{"udp://a.example.com:443"}}, newHost().options())
	require.NoError(t, err)
	pass := func(f *flow, list [][]byte) (refused *netmessage.Refusal) {
		for _, b := range list {
			_, refused = f.checkQUIC(s, b)
		}
		return refused
	}
	newFlow := func() *flow { return &flow{to: target{name: "a.example.com", port: 443, udp: true}} }
	first := newFlow()
	again := firstDatagrams(t, "a.example.com")
	require.Nil(t, pass(first, again))
	require.Nil(t, pass(first, again), "the client sends them again")
	for range 8 { // so many that the first one is forgotten
		require.Nil(t, pass(first, firstDatagrams(t, "a.example.com")))
	}
	for _, f := range []*flow{first, newFlow()} {
		refused := pass(f, again)
		require.NotNil(t, refused)
		assert.Contains(t, refused.Detail, "the ID of another one")
	}
	var u usedIDs
	for i := range mostIDs {
		require.True(t, u.first(fmt.Sprint(i)))
	}
	assert.False(t, u.first("more in a minute"))
	u.since = u.since.Add(-idTime)
	assert.True(t, u.first("more"))
	assert.False(t, u.first("0"), "of the minute before")
}

// TestUDPHoldsLittle of what waits, as there can be a thousand flows that do.
func TestUDPHoldsLittle(t *testing.T) {
	f := &flow{to: target{name: "a.example.com", port: 443, udp: true}}
	for range 100 {
		f.send(nil, make([]byte, 60000))
		f.quic.hold(make([]byte, 9000))
	}
	assert.Len(t, f.pending, 1)
	assert.Len(t, f.quic.held[0], 1)
}

// TestAddressesOfTheHostUnknown are refused: a sandbox could have used up the descriptors that it takes to list them.
func TestAddressesOfTheHostUnknown(t *testing.T) {
	h := newHost()
	h.put("a.example.com", "93.184.216.34", 7000, listen(t, func(c *net.TCPConn) { _, _ = c.Write([]byte("reached")) }))
	options := h.options()
	fails := true
	options.Own = func() ([]netip.Addr, error) {
		if fails {
			return nil, unix.EMFILE
		}
		return nil, nil
	}
	s, err := newServer(netmessage.Start{Rules: []string{"a.example.com:7000"}}, options)
	require.NoError(t, err)
	to := target{name: "a.example.com", port: 7000}
	rule, refused := s.decide(opConnect, to)
	require.Nil(t, refused)
	_, _, refused = s.reach(t.Context(), to, rule)
	require.NotNil(t, refused)
	assert.Equal(t, netmessage.Guarded, refused.Reason)
	fails = false
	c, _, refused := s.reach(t.Context(), to, rule)
	require.Nil(t, refused)
	c.Close()
}

// TestLongDNSQueryByTCP gets no memory.
func TestLongDNSQueryByTCP(t *testing.T) {
	b := newBox(t, newHost(), "a.example.com")
	c := b.dial(t, "198.18.0.1:53")
	_, err := c.Write([]byte{0xff, 0xff})
	require.NoError(t, err)
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second)) // of the 10 that a query may take
	_, err = c.Read(make([]byte, 1))
	assert.False(t, isTimeout(err), "%v", err)
}

// retryRequest is a ServerHello that asks for another ClientHello, as far as it is looked at.
const retryRequest = "\x16\x03\x03\x00\x38\x02\x00\x00\x34\x03\x03" +
	"\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c" +
	"\x00\x13\x01\x00\x00\x0c\x00\x2b\x00\x02\x03\x04\x00\x33\x00\x02\x00\x17"

// helloFor is what crypto/tls sends first.
func helloFor(t testing.TB, server string) string {
	t.Helper()
	client, other := net.Pipe()
	defer other.Close()
	go func() { _ = tls.Client(client, &tls.Config{ServerName: server}).Handshake() }()
	b := make([]byte, 8192)
	n, err := other.Read(b)
	require.NoError(t, err)
	return string(b[:n])
}

// TestSecondClientHello: after a HelloRetryRequest a server may look for the name again, as OpenSSL does.
func TestSecondClientHello(t *testing.T) {
	const change, early = "\x14\x03\x03\x00\x01\x01", "\x17\x03\x03\x00\x05early"
	good, evil := helloFor(t, "a.example.com"), helloFor(t, "b.example.com")
	long := strings.Replace(good, good[3:5], string([]byte{byte((len(good) - 5 + len(evil) - 5) >> 8), byte(len(good) - 5 + len(evil) - 5)}), 1) + evil[5:] // two in one record
	for name, c := range map[string]struct {
		parts   []string
		arrives bool
	}{
		"the same name":      {[]string{good, good}, true},
		"after a change":     {[]string{good, change + good}, true},
		"another name":       {[]string{good, evil}, false},
		"at once":            {[]string{good + evil}, false},
		"after skipped ones": {[]string{good, change + early + early[:7], early[7:] + evil}, false},
		"in one record":      {[]string{long}, false},
		"in pieces":          {[]string{good, evil[:1], evil[1:70], evil[70:]}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost()
			got := make(chan string, 1)
			h.put("a.example.com", "93.184.216.34", 443, listen(t, func(c *net.TCPConn) {
				b := make([]byte, len(good))
				if _, err := io.ReadFull(c, b); err == nil {
					_, _ = c.Write([]byte(retryRequest))
				}
				more, _ := io.ReadAll(c)
				got <- string(b) + string(more)
			}))
			b := newBox(t, h, "a.example.com:443")
			conn := b.dial(t, "a.example.com:443")
			for i, part := range c.parts {
				if i == 1 {
					_, err := io.ReadFull(conn, make([]byte, len(retryRequest)))
					require.NoError(t, err)
				}
				_, err := conn.Write([]byte(part))
				require.NoError(t, err)
				time.Sleep(20 * time.Millisecond)
			}
			if c.arrives {
				require.NoError(t, conn.CloseWrite())
				assert.Equal(t, strings.Join(c.parts, ""), <-got)
				assert.Empty(t, h.refused())
				return
			}
			testenv.Eventually(t, func() bool { return len(h.refused()) == 1 }, "the refusal")
			if name != "in one record" { // nothing of that one leads anywhere
				assert.NotContains(t, <-got, evil[len(evil)-20:])
			}
		})
	}
}

// TestRealRetry of a server that insists on a curve.
func TestRealRetry(t *testing.T) {
	h := newHost()
	w := newWeb(t, func(s *httptest.Server) {
		s.TLS = &tls.Config{CurvePreferences: []tls.CurveID{tls.CurveP521}}
		s.StartTLS()
	})
	h.put("a.example.com", "93.184.216.34", 443, w.addr())
	b := newBox(t, h, "a.example.com:443")
	c := tls.Client(b.dial(t, "a.example.com:443"), &tls.Config{ServerName: "a.example.com", InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP521}})
	require.NoError(t, c.HandshakeContext(t.Context()))
	assert.True(t, c.ConnectionState().HelloRetryRequest)
}

// TestOwnBroadcast: a name cannot lead to the broadcast address of the host's network either.
func TestOwnBroadcast(t *testing.T) {
	for text, want := range map[string]string{"203.0.113.10/24": "203.0.113.10 203.0.113.0 203.0.113.255", "203.0.113.10/29": "203.0.113.10 203.0.113.8 203.0.113.15",
		"203.0.113.10/32": "203.0.113.10", "203.0.113.10/31": "203.0.113.10", "2001:db8::1/64": "2001:db8::1"} {
		ip, network, err := net.ParseCIDR(text)
		require.NoError(t, err)
		var got []string
		for _, a := range ownOf(&net.IPNet{IP: ip, Mask: network.Mask}) {
			got = append(got, a.String())
		}
		assert.Equal(t, want, strings.Join(got, " "))
	}
}
