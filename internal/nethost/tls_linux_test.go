package nethost

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var quietLog = log.New(io.Discard, "", 0)

func tlsBox(t *testing.T, rules ...string) (*box, *web) {
	h := newHost()
	w := newWeb(t, (*httptest.Server).StartTLS)
	for _, port := range []uint16{443, 8443} {
		h.put("", "93.184.216.34", port, w.addr())
	}
	for _, name := range []string{"a.example.com", "b.example.com"} {
		h.put(name, "93.184.216.34", 443, "")
	}
	return newBox(t, h, rules...), w
}

// handshake makes a TLS handshake inside with a server name, after a wait, with the client's bytes in small parts.
func (b *box) handshake(t testing.TB, addr, server string, wait time.Duration) error {
	t.Helper()
	c := b.dial(t, addr)
	time.Sleep(wait)
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return tls.Client(slowWriter{c}, &tls.Config{ServerName: server, InsecureSkipVerify: true}).HandshakeContext(t.Context())
}

// slowWriter writes the beginning of what it gets byte by byte.
type slowWriter struct{ *net.TCPConn }

func (c slowWriter) Write(b []byte) (int, error) {
	for i := range min(7, len(b)) {
		if n, err := c.TCPConn.Write(b[i : i+1]); err != nil {
			return i + n, err
		}
	}
	n, err := c.TCPConn.Write(b[min(7, len(b)):])
	return n + min(7, len(b)), err
}

func TestTLSReachesAListedName(t *testing.T) {
	b, w := tlsBox(t, "a.example.com", "https://*.example.com:8443")
	transport := &http.Transport{DialContext: b.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	for _, url := range []string{"https://a.example.com/", "https://b.example.com:8443/"} {
		r, err := (&http.Client{Transport: transport}).Get(url)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, r.Body)
		require.NoError(t, err)
		r.Body.Close()
		assert.Equal(t, 200, r.StatusCode)
	}
	assert.NoError(t, b.handshake(t, "a.example.com:443", "a.example.com", 0))
	assert.NoError(t, b.handshake(t, "a.example.com:443", "A.EXAMPLE.com", 2*silence), "a client that waits is checked, and allowed")
	assert.Len(t, w.seen(), 2)
	assert.Empty(t, b.host.refused())
}

func TestTheServerNameIsTheNameThatWasLookedUp(t *testing.T) {
	b, _ := tlsBox(t, "a.example.com", "b.example.com", "a.example.com:8443")
	require.NoError(t, b.handshake(t, "a.example.com:443", "a.example.com", 0))
	dials := b.host.dials.Load()
	const denied = "tls: access denied"
	inTime := true // the client has spoken before the host may be dialled for want of that
	begin := time.Now()
	for _, port := range []string{":443", ":8443"} {
		for _, server := range []string{"b.example.com", "evil.example.org", "a.example.com.evil.org"} {
			assert.ErrorContains(t, b.handshake(t, "a.example.com"+port, server, 0), denied, server)
			inTime, begin = inTime && time.Since(begin) < shortSilence, time.Now()
		}
		assert.ErrorContains(t, b.handshake(t, "a.example.com"+port, "", 0), denied, "a name without SNI")
		inTime, begin = inTime && time.Since(begin) < shortSilence, time.Now()
	}
	if inTime {
		assert.Equal(t, dials, b.host.dials.Load(), "nothing is dialled before the name is checked")
	}
	assert.ErrorContains(t, b.handshake(t, "a.example.com:443", "b.example.com", 2*silence), denied, "waiting does not help")
	assert.ErrorContains(t, b.handshake(t, "8.8.8.8:443", "a.example.com", 0), denied, "an address that is not listed")
	_, err := find(b.host.refused(), opConnect, "a.example.com:443", netmessage.Mismatch)
	assert.NoError(t, err)
	c := b.dial(t, "a.example.com:443")
	_, err = c.Write([]byte("\x16\x03\x01\x40\x01" + string(make([]byte, 100))))
	require.NoError(t, err)
	got, _ := io.ReadAll(c)
	assert.Equal(t, []byte{21, 3, 3, 0, 2, 2, alertDecodeError}, got)
}

func TestTLSToAListedAddress(t *testing.T) {
	b, _ := tlsBox(t, "93.184.216.34:443", "a.example.com")
	assert.NoError(t, b.handshake(t, "93.184.216.34:443", "", 0))
	assert.NoError(t, b.handshake(t, "93.184.216.34:443", "a.example.com", 0), "a name that is listed itself")
	assert.Error(t, b.handshake(t, "93.184.216.34:443", "b.example.com", 0))
}

func TestAServerThatCannotBeReachedEndsTLSWithAnAlert(t *testing.T) {
	h := newHost()
	h.put("down.example.com", "93.184.216.34", 443, "")
	b := newBox(t, h, "down.example.com", "none.example.com")
	for _, name := range []string{"down.example.com", "none.example.com"} {
		assert.ErrorContains(t, b.handshake(t, name+":443", name, 0), "tls: internal error")
		assert.Contains(t, b.raw(t, name+":80", "GET / HTTP/1.1\r\nHost: "+name+"\r\n\r\n"), "502 Bad Gateway")
	}
}

func TestASlowLookupKeepsNobodyWaiting(t *testing.T) {
	h := newHost()
	h.put("a.example.com", "93.184.216.34", 443, "")
	slow := h.options().Lookup
	stop := make(chan struct{})
	options := h.options()
	options.Lookup = func(ctx context.Context, name string) ([]netip.Addr, error) {
		if name == "slow.example.com" {
			select {
			case <-stop:
			case <-ctx.Done():
			}
		}
		return slow(ctx, name)
	}
	b := newBox(t, h, "*.example.com")
	b.options.Lookup = options.Lookup
	for range 20 {
		c := b.dial(t, "slow.example.com:80")
		_, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: slow.example.com\r\n\r\n"))
		require.NoError(t, err)
	}
	begin := time.Now()
	assert.Contains(t, b.raw(t, "none.example.com:80", "GET / HTTP/1.1\r\nHost: none.example.com\r\n\r\n"), "502")
	assert.Less(t, time.Since(begin), 3*time.Second)
	close(stop)
}

// echConfig is a list of one ECHConfig (RFC 9849, 4) with a public name.
func echConfig(t *testing.T, public string) []byte {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	require.NoError(t, err)
	u16 := func(b []byte, n int) []byte { return binary.BigEndian.AppendUint16(b, uint16(n)) }
	pub := key.PublicKey().Bytes()
	c := append(u16(u16([]byte{1}, 0x20), len(pub)), pub...) // X25519
	c = u16(u16(u16(c, 4), 1), 1)                            // HKDF-SHA256, AES-128-GCM
	c = append(append(c, 0, byte(len(public))), public...)   // no longest name
	c = u16(c, 0)                                            // no extensions
	one := append(u16(u16(nil, 0xfe0d), len(c)), c...)
	return append(u16(nil, len(one)), one...)
}

// TestEncryptedClientHello: the outer name decides, as the inner one cannot be read.
func TestEncryptedClientHello(t *testing.T) {
	b, _ := tlsBox(t, "a.example.com")
	try := func(public, inner string) error {
		c := b.dial(t, "a.example.com:443")
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		return tls.Client(c, &tls.Config{ServerName: inner, InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, EncryptedClientHelloConfigList: echConfig(t, public)}).HandshakeContext(t.Context())
	}
	var answered *tls.CertificateVerificationError
	assert.ErrorAs(t, try("a.example.com", "a.example.com"), &answered, "the server has answered, which knows no such key")
	dials := b.host.dials.Load()
	assert.ErrorContains(t, try("public.example.org", "a.example.com"), "access denied")
	assert.Equal(t, dials, b.host.dials.Load())
}

// TestAFloodOfRefusedConnectionsKeepsNobodyWaiting: each of them waits for the client's first bytes.
func TestAFloodOfRefusedConnectionsKeepsNobodyWaiting(t *testing.T) {
	h := newHost()
	h.put("a.example.com", "93.184.216.34", 22, listen(t, echo))
	b := newBox(t, h, "a.example.com:22")
	for range 500 {
		c := b.dial(t, "8.8.8.8:443")
		_ = c
	}
	begin := time.Now()
	c := b.dial(t, "a.example.com:22")
	_, err := c.Write([]byte{0})
	require.NoError(t, err)
	_, err = io.ReadFull(c, make([]byte, 1))
	require.NoError(t, err)
	assert.Less(t, time.Since(begin), testenv.Scale(2*time.Second))
	testenv.Eventually(t, func() bool {
		b.record.mu.Lock()
		defer b.record.mu.Unlock()
		return b.record.open == 1
	}, "the end of the others")
	assert.Equal(t, 500, b.Close().Refusals[0].Count)
}
