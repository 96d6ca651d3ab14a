package nethost

import (
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}

func TestCloseLeavesNothing(t *testing.T) {
	h := newHost()
	h.put("a.example.com", "93.184.216.34", 22, listen(t, echo))
	h.put("b.example.com", "93.184.216.35", 22, listen(t, func(c *net.TCPConn) { _, _ = c.Read(make([]byte, 1)) }))
	socket, kinds, files := enter(t, usual+" udp:99")
	fds, routines := descriptors(t), runtime.NumGoroutine()
	server, err := Serve(netmessage.Start{Rules: []string{"*.example.com:22", "*.example.com:80", "udp://a.example.com:99"}, Sockets: kinds}, files, h.options())
	require.NoError(t, err)
	b := &box{t: t, host: h, socket: socket, Server: server}
	var conns []net.Conn
	for _, to := range []string{"a.example.com:22", "b.example.com:22", "a.example.com:80", "127.0.0.1:15001", "198.18.0.1:53"} {
		c, err := b.DialContext(t.Context(), "", to)
		require.NoError(t, err)
		conns = append(conns, c)
	}
	_, err = conns[0].Write([]byte("x"))
	require.NoError(t, err)
	_, err = io.ReadFull(conns[0], make([]byte, 1))
	require.NoError(t, err)
	testenv.Returns(t, "Close", func() { server.Close() })
	for i, c := range conns {
		assert.ErrorIs(t, ends(c), unix.ECONNRESET, "connection %d", i)
		c.Close()
	}
	testenv.Eventually(t, func() bool { return runtime.NumGoroutine() <= routines+1 }, "the goroutines")
	testenv.Eventually(t, func() bool { return descriptors(t) <= fds-len(kinds)+1 }, "the descriptors")
}

// TestManyConnections: two thousand connections that are open at once, most of which say nothing, do not keep another one waiting.
func TestManyConnections(t *testing.T) {
	const many = 2000
	h := newHost()
	h.put("a.example.com", "93.184.216.34", 22, listen(t, echo))
	h.put("", "93.184.216.34", 443, listen(t, echo))
	b := newBoxWith(t, h, usual, netmessage.Start{Rules: []string{"a.example.com:22", "a.example.com:443"}, Caps: netmessage.Caps{PerName: many + 10}})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	addrs, err := b.resolver().LookupHost(t.Context(), "a.example.com.")
	require.NoError(t, err)
	var conns []net.Conn
	for i := range many {
		port := []string{":22", ":443"}[i%2]
		c, err := b.open("tcp4", addrs[0]+port)
		require.NoError(t, err)
		conns = append(conns, c)
		defer c.Close()
	}
	for _, c := range conns[:many/2] {
		_, err := c.Write([]byte("\x16")) // on either port it could be TLS
		require.NoError(t, err)
	}
	begin := time.Now()
	c := b.dial(t, "a.example.com:22")
	_, err = c.Write([]byte("\x00ping"))
	require.NoError(t, err)
	_, err = io.ReadFull(c, make([]byte, 5))
	require.NoError(t, err)
	took := time.Since(begin)
	runtime.GC()
	runtime.ReadMemStats(&after)
	used := int64(after.HeapAlloc+after.StackInuse) - int64(before.HeapAlloc+before.StackInuse)
	t.Logf("%d connections take %d KiB, of both ends and the test's; another one took %v", many, used>>10, took)
	assert.Less(t, used, int64(80<<20))
	assert.Less(t, took, testenv.Scale(readTime/2))
}

func TestTheCapOnConnections(t *testing.T) {
	h := newHost()
	h.put("a.example.com", "93.184.216.34", 22, listen(t, echo))
	h.put("b.example.com", "93.184.216.35", 22, listen(t, echo))
	b := newBoxWith(t, h, usual, netmessage.Start{Rules: []string{"*.example.com:22"}, Caps: netmessage.Caps{Connections: 5, PerName: 3}})
	talk := func(name string) (*net.TCPConn, error) {
		c, err := b.try(t, name+":22")
		if err != nil {
			return nil, err
		}
		if _, err := c.Write([]byte{0}); err != nil {
			return nil, err
		}
		_, err = io.ReadFull(c, make([]byte, 1))
		return c, err
	}
	var open []*net.TCPConn
	for range 3 {
		c, err := talk("a.example.com")
		require.NoError(t, err)
		open = append(open, c)
	}
	_, err := talk("a.example.com")
	assert.ErrorIs(t, err, unix.ECONNRESET, "the cap of the name")
	testenv.Eventually(t, func() bool { return b.record.left() == len(open) }, "the refused one counts until the host has closed it")
	for range 2 {
		c, err := talk("b.example.com")
		require.NoError(t, err, "another name has room")
		open = append(open, c)
	}
	_, err = talk("b.example.com")
	assert.ErrorIs(t, err, unix.ECONNRESET, "the cap of all")
	_, err = find(h.refused(), opConnect, "a.example.com:22", netmessage.TooMany)
	assert.NoError(t, err)
	_, err = find(h.refused(), opConnect, "b.example.com:22", netmessage.TooMany)
	assert.NoError(t, err)
	open[0].Close()
	testenv.Eventually(t, func() bool {
		c, err := talk("b.example.com")
		if err == nil {
			c.Close()
		}
		return err == nil
	}, "room after an end")
}

func TestTheCapOnBytes(t *testing.T) {
	const limit = 1 << 20
	h := newHost()
	h.put("a.example.com", "93.184.216.34", 22, listen(t, func(c *net.TCPConn) {
		for b := make([]byte, 64<<10); ; {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	}))
	b := newBoxWith(t, h, usual, netmessage.Start{Rules: []string{"*.example.com:22"}, Caps: netmessage.Caps{Bytes: limit}})
	c := b.dial(t, "a.example.com:22")
	n, err := io.Copy(io.Discard, c)
	assert.ErrorIs(t, err, unix.ECONNRESET)
	assert.LessOrEqual(t, n, int64(limit))
	testenv.Eventually(t, func() bool { return len(h.refused()) > 0 }, "the refusal")
	x, err := find(h.refused(), opConnect, "a.example.com:22", netmessage.TooMany)
	require.NoError(t, err)
	assert.Contains(t, x.Detail, "bytes")
	b.isRefused(t, "a.example.com:22", "a.example.com:22", netmessage.TooMany)
}

func TestAnIdleConnectionEnds(t *testing.T) {
	const idle = time.Second
	h := newHost()
	h.put("a.example.com", "93.184.216.34", 22, listen(t, echo))
	b := newBoxWith(t, h, usual, netmessage.Start{Rules: []string{"*.example.com:22"}, Caps: netmessage.Caps{Idle: int(idle.Seconds())}})
	used := func() (c *net.TCPConn, paused time.Duration, err error) {
		last := time.Now()
		c = b.dial(t, "a.example.com:22")
		for range 6 {
			time.Sleep(idle * 3 / 10)
			now := time.Now()
			if _, err = c.Write([]byte{0}); err == nil {
				_, err = io.ReadFull(c, make([]byte, 1))
			}
			if paused, last = time.Since(last), now; err != nil {
				break
			}
		}
		return c, paused, err
	}
	c, paused, err := used()
	for err != nil && paused >= idle { // this machine has stood still, and the connection was idle
		c, paused, err = used()
	}
	require.NoError(t, err, "one that is used does not")
	assert.ErrorIs(t, ends(c), unix.ECONNRESET)
}

// TestALookAtTheClockLosesNothing: bytes that come while an idle connection is looked at are carried.
func TestALookAtTheClockLosesNothing(t *testing.T) {
	h := newHost()
	h.tick = 200 * time.Microsecond
	h.put("a.example.com", "93.184.216.34", 22, listen(t, echo))
	b := newBox(t, h, "a.example.com:22")
	c := b.dial(t, "a.example.com:22")
	for i := range testenv.Times(3000) {
		time.Sleep(time.Duration(i%300) * time.Microsecond)
		_, err := c.Write([]byte{0})
		require.NoError(t, err)
		_, err = io.ReadFull(c, make([]byte, 1))
		require.NoError(t, err, "round %d", i)
	}
}

func TestAResetIsPassedOn(t *testing.T) {
	h := newHost()
	end := make(chan error, 1)
	h.put("a.example.com", "93.184.216.34", 22, listen(t, func(c *net.TCPConn) { end <- ends(c) }))
	h.put("b.example.com", "93.184.216.34", 23, listen(t, func(c *net.TCPConn) { _, _ = c.Read(make([]byte, 1)); reset(c) }))
	b := newBox(t, h, "a.example.com:22", "b.example.com:23")
	c := b.dial(t, "a.example.com:22")
	_, err := c.Write([]byte{0})
	require.NoError(t, err)
	testenv.Eventually(t, func() bool { return h.dials.Load() == 1 }, "the connection")
	time.Sleep(20 * time.Millisecond)
	reset(c)
	assert.ErrorIs(t, testenv.Receive(t, end, "the end at the server"), unix.ECONNRESET)
	c = b.dial(t, "b.example.com:23")
	_, err = c.Write([]byte{0})
	require.NoError(t, err)
	assert.ErrorIs(t, ends(c), unix.ECONNRESET)
}

// TestSlowClients: what has to be read before a client is connected comes in time, or the connection ends.
func TestSlowClients(t *testing.T) {
	h := newHost()
	h.readTime = 500 * time.Millisecond
	h.put("a.example.com", "93.184.216.34", 443, listen(t, echo))
	b := newBox(t, h, "a.example.com:443", "https://a.example.com:8443", "http://a.example.com:80")
	for addr, first := range map[string]string{
		"a.example.com:443":  "\x16\x03\x01\x02\x00\x01",
		"a.example.com:8443": "\x16\x03\x01\x02\x00\x01",
		"a.example.com:80":   "GET / HTTP/1.1\r\nHost: a.exa",
		proxyAddr:            "CONNECT a.exa",
		"198.18.0.1:53":      "\x00",
	} {
		begin := time.Now()
		c := b.dial(t, addr)
		_, err := c.Write([]byte(first))
		require.NoError(t, err)
		stop := make(chan struct{})
		go func() { // one byte now and then
			for {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond):
					_, _ = c.Write([]byte("x"))
				}
			}
		}()
		_ = ends(c)
		close(stop)
		assert.Less(t, time.Since(begin), testenv.Scale(readTime/2), addr)
	}
	assert.Zero(t, h.dials.Load())
}

// TestAConnectionInStore: a client may connect before it has anything to say, as browsers do, and may go without a word, as those do that look whether
// somebody listens. No denial tells of that.
func TestAConnectionInStore(t *testing.T) {
	h := newHost()
	h.readTime = 100 * time.Millisecond
	h.put("a.example.com", "93.184.216.34", 443, listen(t, echo))
	rules := []string{"https://a.example.com", "http://a.example.com:22", "b.example.com:22"}
	b := newBox(t, h, rules...)
	hello := helloFor(t, "a.example.com")
	stored := b.dial(t, "a.example.com:443")
	time.Sleep(5 * h.readTime)
	_, err := io.WriteString(stored, hello)
	require.NoError(t, err)
	got := make([]byte, len(hello))
	_, err = io.ReadFull(stored, got)
	require.NoError(t, err)
	assert.Equal(t, hello, string(got))

	b = newBoxWith(t, h, usual, netmessage.Start{Rules: rules, Caps: netmessage.Caps{Idle: 1}})
	for _, port := range []string{":443", ":22"} {
		silent, ended, failed := b.dial(t, "a.example.com"+port), b.dial(t, "a.example.com"+port), b.dial(t, "a.example.com"+port)
		require.NoError(t, ended.CloseWrite())
		_ = ends(ended)
		reset(failed)
		assert.ErrorIs(t, ends(silent), unix.ECONNRESET, "after a second")
	}
	b.Close()
	h.put("b.example.com", "93.184.216.35", 22, listen(t, echo)) // that is dialled if this machine is slow
	b = newBox(t, h, rules...)
	reset(b.dial(t, "b.example.com:22")) // of which the rule names no protocol
	b.Close()
	assert.Empty(t, h.refused())
}

// A connection may be accepted while the server closes: that it has no destination any more is no refusal.
func TestAConnectionThatCloseEndsIsNoRefusal(t *testing.T) {
	h := newHost()
	b := newBox(t, h, "a.example.com:22")
	c, err := net.Dial("tcp4", listen(t, echo))
	require.NoError(t, err)
	conn := c.(*net.TCPConn)
	b.serve(conn, netmessage.Redirect)
	refused := b.Counts().Refusals
	require.Len(t, refused, 1, "an open connection without a destination is refused")
	assert.Equal(t, netmessage.Malformed, refused[0].Reason)

	conn.Close()
	b.serve(conn, netmessage.Redirect)
	assert.Equal(t, refused, b.Counts().Refusals)
}
