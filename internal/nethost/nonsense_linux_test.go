package nethost

import (
	"io"
	"math/rand"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNonsenseDoesNoHarm sends what no client would: after it the server serves as before, and every connection has ended.
func TestNonsenseDoesNoHarm(t *testing.T) {
	h := newHost()
	h.readTime = 200 * time.Millisecond
	for _, port := range []uint16{22, 80, 443} {
		h.put("a.example.com", "93.184.216.34", port, listen(t, echo))
	}
	b := newBox(t, h, "a.example.com", "a.example.com:22")
	seeds := []string{
		"GET / HTTP/1.1\r\nHost: a.example.com\r\nContent-Length: 4\r\n\r\nbodyGET / HTTP/1.1\r\nHost: b.example.com\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.example.com\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x05hello",
		"\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x03\x03" + string(make([]byte, 32)) + "\x00\x00\x02\x13\x01\x01\x00",
		"CONNECT a.example.com:443 HTTP/1.1\r\nHost: a.example.com:443\r\n\r\n\x16\x03\x01",
		"GET http://a.example.com/ HTTP/1.1\r\nHost: a.example.com\r\n\r\n",
		"\x05\x01\x00\x05\x01\x00\x03\x0da.example.com\x00\x16SSH-2.0-x\r\n",
		"SSH-2.0-OpenSSH\r\n", "\x00", "",
	}
	random := rand.New(rand.NewSource(7))
	addrs := []string{"a.example.com:22", "a.example.com:80", "a.example.com:443", proxyAddr, "198.18.0.1:53", "8.8.8.8:80"}
	for i := range 240 {
		b.nonsense(t, addrs[i%len(addrs)], mutated(random, seeds[random.Intn(len(seeds))]), random)
	}
	testenv.Eventually(t, func() bool {
		b.record.mu.Lock()
		defer b.record.mu.Unlock()
		return b.record.open == 0
	}, "the end of the connections")
	c := b.dial(t, "a.example.com:22")
	_, err := c.Write([]byte("SSH-2.0-x\r\n"))
	require.NoError(t, err)
	got := make([]byte, 11)
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	assert.Equal(t, "SSH-2.0-x\r\n", string(got))
	for _, name := range h.looked() {
		assert.Equal(t, "a.example.com", name)
	}
}

// mutated changes, repeats and cuts bytes.
func mutated(random *rand.Rand, text string) []byte {
	b := []byte(text)
	for range random.Intn(4) {
		if len(b) == 0 {
			break
		}
		at := random.Intn(len(b))
		switch random.Intn(4) {
		case 0:
			b[at] = byte(random.Intn(256))
		case 1:
			b = append(b[:at:at], b[at+1:]...)
		case 2:
			b = append(b[:at:at], append([]byte{b[at]}, b[at:]...)...)
		case 3:
			b = b[:at]
		}
	}
	return b
}

// nonsense sends bytes in two parts, and ends the connection in one of three ways.
func (b *box) nonsense(t *testing.T, addr string, bytes []byte, random *rand.Rand) {
	t.Helper()
	c, err := b.try(t, addr)
	if err != nil {
		return
	}
	cut := random.Intn(len(bytes) + 1)
	_, _ = c.Write(bytes[:cut])
	_, _ = c.Write(bytes[cut:])
	switch random.Intn(3) {
	case 0:
		reset(c)
	case 1:
		_ = c.CloseWrite()
		go func() { _ = ends(c); c.Close() }()
	case 2:
		c.Close()
	}
}
