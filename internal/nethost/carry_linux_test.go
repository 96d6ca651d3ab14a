package nethost

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestASlowReaderIsNotIdle: a connection on which something moves lasts for longer than one may be idle.
func TestASlowReaderIsNotIdle(t *testing.T) {
	const size, part, pause = 4 << 20, 128 << 10, 200 * time.Millisecond
	got := make(chan int64, 1)
	h := newHost()
	h.put("slow.example.com", "93.184.216.34", 22, listen(t, func(c *net.TCPConn) {
		_ = c.SetReadBuffer(part)
		n := int64(0)
		for {
			one, err := io.CopyN(io.Discard, c, part)
			if n += one; err != nil {
				got <- n
				return
			}
			time.Sleep(pause)
		}
	}))
	b := newBoxWith(t, h, usual, netmessage.Start{Rules: []string{"slow.example.com:22"}, Caps: netmessage.Caps{Idle: 3}})
	c := b.dial(t, "slow.example.com:22")
	n, err := io.CopyN(c, zeros{}, size)
	require.NoError(t, err)
	require.NoError(t, c.CloseWrite())
	assert.Equal(t, n, testenv.Receive(t, got, "what the host has read"))
}

// TestUrgentBytes are passed on, at their place.
func TestUrgentBytes(t *testing.T) {
	got := make(chan string, 1)
	h := newHost()
	h.put("a.example.com", "93.184.216.34", 22, sink(t, got))
	b := newBox(t, h, "a.example.com:22")
	c := b.dial(t, "a.example.com:22")
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	for _, part := range []struct {
		text string
		how  int
	}{{"a", 0}, {"b", unix.MSG_OOB}, {"c", 0}} {
		require.NoError(t, raw.Control(func(fd uintptr) { err = unix.Send(int(fd), []byte(part.text), part.how) }))
		require.NoError(t, err)
		time.Sleep(50 * time.Millisecond) // also in packets of their own
	}
	require.NoError(t, c.CloseWrite())
	assert.Equal(t, "abc", testenv.Receive(t, got, "what was sent"))
}

// TestAnAddressThatLeadsHome is refused, though no interface has it.
func TestAnAddressThatLeadsHome(t *testing.T) {
	h := newHost()
	h.put("a.example.com", "93.184.216.34", 22, listen(t, echo))
	h.local = netip.MustParseAddr("93.184.216.34")
	b := newBox(t, h, "a.example.com:22")
	x := b.isRefused(t, "a.example.com:22", "a.example.com:22", netmessage.Guarded)
	assert.Contains(t, x.Detail, "one of the host's own addresses")
	assert.Zero(t, h.dials.Load())
}

// TestRoutedHere asks this host's routes.
func TestRoutedHere(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1": true, "127.1.2.3": true, "::1": true, "::ffff:127.0.0.1": true, "192.0.2.1": false, "2001:db8::1": false} {
		assert.Equal(t, want, routedHere(netip.MustParseAddr(addr)), addr)
	}
}

// TestTheProxyKnowsSyntheticAddresses: a client may look a name up itself, and ask the proxy for the address.
func TestTheProxyKnowsSyntheticAddresses(t *testing.T) {
	b, _ := webBox(t, "a.example.com")
	addrs, err := b.resolver().LookupHost(t.Context(), "a.example.com.")
	require.NoError(t, err)
	for host, status := range map[string]string{addrs[0]: "200", "198.18.77.77": "403"} {
		got := b.raw(t, proxyAddr, "CONNECT "+host+":80 HTTP/1.1\r\nHost: "+host+":80\r\n\r\n", "GET / HTTP/1.1\r\nHost: a.example.com\r\nConnection: close\r\n\r\n")
		assert.Contains(t, got, "HTTP/1.1 "+status+" ", host)
	}
	// What is asked for there is checked as ever.
	got := b.raw(t, proxyAddr, "CONNECT "+addrs[0]+":80 HTTP/1.1\r\nHost: "+addrs[0]+":80\r\n\r\n", "GET / HTTP/1.1\r\nHost: b.example.com\r\nConnection: close\r\n\r\n")
	assert.Contains(t, got, "HTTP/1.1 403 ")
}

// TestAnOfferOfHTTP2IsNotPassedOn, and the request is served as if there was none.
func TestAnOfferOfHTTP2IsNotPassedOn(t *testing.T) {
	const offer = "Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n"
	got := make(chan string, 1)
	h := newHost()
	h.put("a.example.com", "93.184.216.34", 80, sink(t, got))
	b := newBox(t, h, "a.example.com")
	for to, line := range map[string]string{"a.example.com:80": "GET / HTTP/1.1\r\n", proxyAddr: "GET http://a.example.com/ HTTP/1.1\r\n"} {
		c := b.dial(t, to)
		_, err := io.WriteString(c, line+"Host: a.example.com\r\n"+offer)
		require.NoError(t, err)
		require.NoError(t, c.CloseWrite())
		text := testenv.Receive(t, got, "the request")
		assert.Contains(t, text, "GET / HTTP/1.1\r\n")
		assert.NotContains(t, text, "\nUpgrade:")
		assert.NotContains(t, text, "HTTP2-Settings:")
	}
	assert.Empty(t, h.refused())
}

// TestAClientThatEndsBeforeTheAnswerToItsUpgrade: the server sees that end, and what came behind the request is read as HTTP.
func TestAClientThatEndsBeforeTheAnswerToItsUpgrade(t *testing.T) {
	got := make(chan string, 1)
	h := newHost()
	h.put("a.example.com", "93.184.216.34", 80, sink(t, got))
	b := newBox(t, h, "a.example.com")
	const request = "GET / HTTP/1.1\r\nHost: a.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	for behind, refusals := range map[string]int{"": 0, "GET / HTTP/1.1\r\nHost: b.example.com\r\n\r\n": 1} {
		before := len(h.refused())
		c := b.dial(t, "a.example.com:80")
		_, err := io.WriteString(c, request+behind)
		require.NoError(t, err)
		require.NoError(t, c.CloseWrite())
		assert.Equal(t, request, testenv.Receive(t, got, "what was sent"))
		_ = ends(c)
		assert.Len(t, h.refused(), before+refusals)
	}
}
