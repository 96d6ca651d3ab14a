package nethost

import (
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// sink is a server that sends got what each connection has brought by its end.
func sink(t *testing.T, got chan<- string) (addr string) {
	t.Helper()
	return listen(t, func(c *net.TCPConn) {
		data, _ := io.ReadAll(c)
		got <- string(data)
	})
}

// TestWhatWasSentLast arrives, though the programs that have sent it have ended before anything was read of it.
func TestWhatWasSentLast(t *testing.T) {
	sent := map[string]string{
		":22":  strings.Repeat("\x00", 100_000),
		":80":  "POST / HTTP/1.1\r\nHost: a.example.com\r\nContent-Length: 3\r\n\r\nend",
		":443": helloFor(t, "a.example.com"),
	}
	got := make(chan string, len(sent))
	server := sink(t, got)
	h := newHost()
	h.delay = 20 * time.Millisecond
	h.put("a.example.com", "93.184.216.34", 22, server)
	h.put("", "93.184.216.34", 80, server)
	h.put("", "93.184.216.34", 443, server)
	b := newBox(t, h, "a.example.com:22", "a.example.com:80", "https://a.example.com:443")
	addrs, err := b.resolver().LookupHost(t.Context(), "a.example.com.")
	require.NoError(t, err)
	var want []string
	for port, text := range sent {
		c, err := b.open("tcp4", addrs[0]+port)
		require.NoError(t, err)
		_, err = io.WriteString(c, text)
		require.NoError(t, err)
		c.Close()
		want = append(want, text)
	}
	assert.Zero(t, b.Finish(testenv.Limit(0)))
	b.Close()
	var came []string
	for range sent {
		came = append(came, testenv.Receive(t, got, "what was sent last"))
	}
	assert.ElementsMatch(t, want, came)
}

// TestWhatWasSentLastThroughTheProxy arrives as well: of a tunnel, too, whose program has waited for no answer to its CONNECT.
func TestWhatWasSentLastThroughTheProxy(t *testing.T) {
	got := make(chan string, 2)
	h := newHost()
	h.delay = 20 * time.Millisecond
	h.put("a.example.com", "93.184.216.34", 80, sink(t, got))
	h.put("", "93.184.216.34", 443, sink(t, got))
	b := newBox(t, h, "a.example.com")
	hello := helloFor(t, "a.example.com")
	for _, text := range []string{
		"POST http://a.example.com/last HTTP/1.1\r\nHost: a.example.com\r\nContent-Length: 3\r\n\r\nend",
		"CONNECT a.example.com:443 HTTP/1.1\r\nHost: a.example.com:443\r\n\r\n" + hello,
	} {
		c, err := b.open("tcp4", proxyAddr)
		require.NoError(t, err)
		_, err = io.WriteString(c, text)
		require.NoError(t, err)
		c.Close()
	}
	assert.Zero(t, b.Finish(testenv.Limit(0)))
	b.Close()
	came := []string{testenv.Receive(t, got, "a request"), testenv.Receive(t, got, "a tunnel")}
	if came[0] == hello {
		slices.Reverse(came)
	}
	assert.Regexp(t, `^POST /last HTTP/1\.1\r\n(?s:.*)\r\n\r\nend$`, came[0])
	assert.Equal(t, hello, came[1])
}

// TestASlowHostGetsWhatWasSentLast: all of it, while it reads for longer than there is room in any buffer.
func TestASlowHostGetsWhatWasSentLast(t *testing.T) {
	const size, parts, pause = 4 << 20, 8, 20 * time.Millisecond
	got := make(chan int64, 1)
	server := listen(t, func(c *net.TCPConn) {
		_ = c.SetReadBuffer(1 << 16)
		n := int64(0)
		for {
			one, err := io.CopyN(io.Discard, c, size/parts)
			if n += one; err != nil {
				got <- n
				return
			}
			time.Sleep(pause)
		}
	})
	h := newHost()
	h.put("slow.example.com", "93.184.216.34", 22, server)
	b := newBox(t, h, "slow.example.com:22")
	c := b.dial(t, "slow.example.com:22")
	n, err := io.CopyN(c, zeros{}, size)
	require.NoError(t, err)
	c.Close()
	assert.Zero(t, b.Finish(testenv.Limit(0)))
	b.Close()
	assert.Equal(t, n, testenv.Receive(t, got, "what the host has read"))
}

// TestPacketsThatWereSentLast arrive, too.
func TestPacketsThatWereSentLast(t *testing.T) {
	server, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	defer server.Close()
	h := newHost()
	h.delay = 20 * time.Millisecond
	h.put("log.example.com", "93.184.216.34", 514, server.LocalAddr().String())
	b := newBoxWith(t, h, usual+" udp:514", netmessage.Start{Rules: []string{"udp://log.example.com:514"}})
	c := b.dialUDP(t, "log.example.com", 514)
	for _, text := range []string{"one", "two", "three"} {
		_, err = io.WriteString(c, text)
		require.NoError(t, err)
	}
	c.Close()
	assert.Zero(t, b.Finish(testenv.Limit(0)))
	b.Close()
	_ = server.SetReadDeadline(time.Now().Add(testenv.Limit(0)))
	for _, want := range []string{"one", "two", "three"} {
		room := make([]byte, 100)
		n, _, err := server.ReadFrom(room)
		require.NoError(t, err)
		assert.Equal(t, want, string(room[:n]))
	}
}

// TestConnectionsAtTheEnd: none that has nothing to pass on keeps the end waiting, whatever its server does, and one that has is cut in the end.
func TestConnectionsAtTheEnd(t *testing.T) {
	h := newHost()
	h.put("talks.example.com", "93.184.216.34", 22, listen(t, func(c *net.TCPConn) {
		for {
			if _, err := c.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}))
	hold := make(chan struct{})
	silent := listen(t, func(*net.TCPConn) { <-hold })
	h.put("silent.example.com", "93.184.216.35", 22, silent)
	h.put("deaf.example.com", "93.184.216.36", 22, silent)
	b := newBox(t, h, "*.example.com:22")
	dial := func(name string) *net.TCPConn {
		c := b.dial(t, name+".example.com:22")
		_, err := c.Write([]byte("\x00"))
		require.NoError(t, err)
		return c
	}
	talks, silence, half := dial("talks"), dial("silent"), dial("silent")
	testenv.Eventually(t, func() bool { return h.dials.Load() == 3 }, "the connections")
	_, err := talks.Read(make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, half.CloseWrite())
	deaf := dial("deaf")
	go func() { _, _ = io.Copy(deaf, zeros{}) }()
	testenv.Eventually(t, func() bool { return b.record.left() == 4 && h.dials.Load() == 4 }, "the last connection")
	for _, c := range []net.Conn{talks, silence, half} {
		c.Close()
	}
	const within = 300 * time.Millisecond
	begin := time.Now()
	assert.Equal(t, 1, b.Finish(within))
	assert.GreaterOrEqual(t, time.Since(begin), within)
	b.Close()
	close(hold)
	deaf.Close()
}

// TestAQuestionAtTheEnd is not waited for.
func TestAQuestionAtTheEnd(t *testing.T) {
	b := askingBox(t, time.Minute, nil)
	c := b.dial(t, "192.0.2.10:7")
	b.host.questions(t, 1)
	c.Close()
	testenv.Returns(t, "Finish", func() { assert.Zero(t, b.Finish(time.Hour)) })
	summary := b.Close()
	require.Len(t, summary.Refusals, 1)
	assert.Contains(t, summary.Refusals[0].Detail, "the sandbox has ended")
}

// TestAConnectionThatComesAfterTheEnd is reset as those before it were: its program must not take that for an end of what it receives.
func TestAConnectionThatComesAfterTheEnd(t *testing.T) {
	came := make(chan *net.TCPConn, 1)
	hold := make(chan struct{})
	defer close(hold)
	c, err := net.Dial("tcp4", listen(t, func(c *net.TCPConn) { came <- c; <-hold }))
	require.NoError(t, err)
	defer c.Close()
	b := newBox(t, newHost())
	b.Close()
	assert.False(t, b.keep(testenv.Receive(t, came, "the connection")))
	assert.ErrorIs(t, ends(c), unix.ECONNRESET)
}
