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
	const size = 64 << 20
	h := newHost()
	sum := make(chan [32]byte, 1)
	h.put("up.example.com", "93.184.216.34", 9000, listen(t, func(c *net.TCPConn) {
		x := sha256.New()
		_, _ = io.Copy(x, c) // until the client ends its side
		sum <- [32]byte(x.Sum(nil))
		_, _ = c.Write([]byte("received"))
	}))
	b := newBox(t, h, "up.example.com:9000")
	c := b.dial(t, "up.example.com:9000")
	x := sha256.New()
	n, err := io.Copy(io.MultiWriter(c, x), io.LimitReader(rand.New(rand.NewSource(1)), size))
	require.NoError(t, err)
	require.EqualValues(t, size, n)
	require.NoError(t, c.CloseWrite())
	got, err := io.ReadAll(c)
	require.NoError(t, err)
	assert.Equal(t, "received", string(got), "the other direction is open after the first has ended")
	assert.Equal(t, [32]byte(x.Sum(nil)), <-sum)
	assert.Equal(t, netmessage.Name{Name: "up.example.com", Connections: 1, Sent: size, Received: 8}, b.Close().Names[0])
}

func mustPort(text string) uint16 {
	p, err := net.LookupPort("tcp", text)
	if err != nil {
		panic(err)
	}
	return uint16(p)
}
