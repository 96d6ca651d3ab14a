package nethost

import (
	"crypto/sha256"
	"io"
	"math/rand"
	"net"
	"testing"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// echo sends back what it gets.
func echo(c *net.TCPConn) { _, _ = io.Copy(c, c) }

func TestATCPConnectionReachesAListedName(t *testing.T) {
	h := newHost()
	h.put("db.example.com", "93.184.216.34", 5432, listen(t, echo))
	b := newBox(t, h, "db.example.com:5432")
	c := b.dial(t, "db.example.com:5432")
	_, err := c.Write([]byte("\x00\x01hello"))
	require.NoError(t, err)
	require.NoError(t, c.CloseWrite())
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.Equal(t, "\x00\x01hello", string(got))
	assert.Equal(t, []string{"db.example.com"}, h.looked(), "one lookup")
	assert.Empty(t, h.refused())
	s := b.Close()
	assert.Equal(t, []netmessage.Name{{Name: "db.example.com", Connections: 1, Sent: 7, Received: 7}}, s.Names)
}

func TestAServerMaySpeakFirst(t *testing.T) {
	h := newHost()
	server := listen(t, func(c *net.TCPConn) {
		_, _ = c.Write([]byte("220 ready\r\n"))
		echo(c)
	})
	for _, port := range []string{"22", "25", "443", "80"} {
		h.put("mail.example.com", "93.184.216.34", mustPort(port), server)
		b := newBox(t, h, "mail.example.com:"+port)
		c := b.dial(t, "mail.example.com:"+port)
		line := make([]byte, 11)
		_, err := io.ReadFull(c, line)
		require.NoError(t, err)
		assert.Equal(t, "220 ready\r\n", string(line))
		_, err = c.Write([]byte("EHLO x\r\n"))
		require.NoError(t, err)
		_, err = io.ReadFull(c, line[:8])
		require.NoError(t, err)
		assert.Equal(t, "EHLO x\r\n", string(line[:8]))
	}
}

func TestAnUploadIsTheSameAtTheOtherEnd(t *testing.T) {
	h := newHost()
	sum := make(chan [32]byte, 1)
	h.put("up.example.com", "93.184.216.34", 9000, listen(t, func(c *net.TCPConn) {
		x := sha256.New()
		_, _ = io.Copy(x, c) // until the client ends its side
		sum <- [32]byte(x.Sum(nil))
		_, _ = c.Write([]byte("received"))
	}))
	b := newBox(t, h, "up.example.com:9000")
	upload(t, b.dial(t, "up.example.com:9000"), sum)
	c := b.dial(t, proxyAddr)
	_, err := c.Write([]byte("CONNECT up.example.com:9000 HTTP/1.1\r\n\r\n"))
	require.NoError(t, err)
	established := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
	_, err = io.ReadFull(c, established)
	require.NoError(t, err)
	upload(t, c, sum)
	assert.Equal(t, netmessage.Name{Name: "up.example.com", Connections: 2, Sent: 2 * uploadSize, Received: 2 * 8}, b.Close().Names[0])
}

const uploadSize = 64 << 20

// upload sends 64 MiB, ends its side, and waits for the server's answer.
func upload(t *testing.T, c *net.TCPConn, sum <-chan [32]byte) {
	t.Helper()
	x := sha256.New()
	n, err := io.Copy(io.MultiWriter(c, x), io.LimitReader(rand.New(rand.NewSource(1)), uploadSize))
	require.NoError(t, err)
	require.EqualValues(t, uploadSize, n)
	require.NoError(t, c.CloseWrite())
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.Equal(t, "received", string(got), "the other direction is open after the first has ended")
	assert.Equal(t, [32]byte(x.Sum(nil)), <-sum)
}

// TestWithoutARedirection: a listener for each port, on the route for all addresses.
func TestWithoutARedirection(t *testing.T) {
	h := newHost()
	h.put("db.example.com", "93.184.216.34", 5432, listen(t, echo))
	b := newBoxWith(t, h, "direct:5432 direct:5432/6 dns:53 dns:53/6", netmessage.Start{Rules: []string{"db.example.com:5432", "127.0.0.1:5432"}})
	c := b.dial(t, "db.example.com:5432")
	_, err := c.Write([]byte{0})
	require.NoError(t, err)
	_, err = io.ReadFull(c, make([]byte, 1))
	require.NoError(t, err)
	b.isRefused(t, "8.8.8.8:5432", "8.8.8.8:5432", netmessage.Unlisted)
	b.isRefused(t, "[2001:db8::1]:5432", "[2001:db8::1]:5432", netmessage.Unlisted)
	for _, addr := range []string{"127.0.0.1:5432", "[::1]:5432"} {
		b.isReset(t, addr)
	}
	assert.EqualValues(t, 1, h.dials.Load(), "the sandbox's loopback is not the host's")
	six, err := b.open("udp6", "[2001:db8::53]:53")
	require.NoError(t, err)
	defer six.Close()
	got, err := say(t, six, string(query(t, "db.example.com", dnsmessage.TypeA)))
	require.NoError(t, err)
	var m dnsmessage.Message
	require.NoError(t, m.Unpack([]byte(got)))
	assert.Len(t, m.Answers, 1)
}

func TestAMetadataServiceTakesForce(t *testing.T) {
	h := newHost()
	server := listen(t, echo)
	h.put("meta.example.com", "169.254.169.254", 9000, server)
	h.put("other.example.com", "169.254.169.254", 9000, server)
	b := newBox(t, h, "meta.example.com:9000+force", "other.example.com:9000", "169.254.169.254:9000+force", "169.254.0.0/24:9000")
	for _, addr := range []string{"meta.example.com:9000", "169.254.169.254:9000"} {
		c := b.dial(t, addr)
		_, err := c.Write([]byte{0})
		require.NoError(t, err)
		_, err = io.ReadFull(c, make([]byte, 1))
		require.NoError(t, err, addr)
	}
	b = newBox(t, h, "other.example.com:9000", "169.254.0.0/24:9000")
	b.isRefused(t, "other.example.com:9000", "other.example.com:9000", netmessage.Guarded)
}

func mustPort(text string) uint16 {
	p, err := net.LookupPort("tcp", text)
	if err != nil {
		panic(err)
	}
	return uint16(p)
}
