package nethost

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const proxyAddr = "127.0.0.1:15001"

func TestTheProxyDecidesAsTheRulesSay(t *testing.T) {
	b, w := webBox(t, "a.example.com", "b.example.com:8080")
	b.host.put("", "10.0.0.5", 80, w.addr())
	client := &http.Client{Transport: &http.Transport{DialContext: b.DialContext, Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: proxyAddr})}}
	for to, status := range map[string]int{
		"http://a.example.com/x?y":         200,
		"http://A.EXAMPLE.com.:80":         200,
		"http://b.example.com:8080/":       200,
		"http://b.example.com/":            403,
		"http://a.example.com:8080/":       403,
		"http://evil.example.org/":         403,
		"http://a.example.com.evil.org/":   403,
		"http://example.com/":              403,
		"http://2130706433/":               403,
		"http://127.1/":                    403,
		"http://0x7f.1/":                   403,
		"http://0177.0.0.1/":               403,
		"http://[::ffff:169.254.169.254]/": 403,
		"http://[::1]/":                    403,
		"http://0.0.0.0/":                  403,
		"http://localhost/":                403,
		"http://10.0.0.5/":                 403,
	} {
		for range 2 { // the second time on whatever connection the client has kept
			r, err := client.Get(to)
			require.NoError(t, err, to)
			body, err := io.ReadAll(r.Body)
			require.NoError(t, err, to)
			r.Body.Close()
			assert.Equal(t, status, r.StatusCode, "%s: %s", to, body)
		}
	}
	for _, host := range b.host.looked() {
		assert.Contains(t, []string{"a.example.com", "b.example.com"}, host, "what is refused is not looked up")
	}
	assert.Len(t, w.seen(), 6)
	r, err := client.Post("http://a.example.com/up", "text/plain", io.LimitReader(zeros{}, 1<<20))
	require.NoError(t, err)
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	r.Body.Close()
	assert.Equal(t, fmt.Sprint("POST a.example.com /up ", 1<<20), string(body))
}

func TestConnect(t *testing.T) {
	b, w := webBox(t, "a.example.com", "b.example.com:8080")
	const get = "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"
	got := b.raw(t, proxyAddr, "CONNECT a.example.com:80 HTTP/1.1\r\nHost: a.example.com:80\r\n\r\n", fmt.Sprintf(get, "a.example.com"))
	assert.Contains(t, got, "HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK")
	got = b.raw(t, proxyAddr, "CONNECT a.example.com:80 HTTP/1.1\r\n\r\n"+fmt.Sprintf(get, "a.example.com"))
	assert.Contains(t, got, "200 OK", "what comes with the request goes on")
	n := len(w.seen())
	got = b.raw(t, proxyAddr, "CONNECT a.example.com:80 HTTP/1.1\r\n\r\n", fmt.Sprintf(get, "evil.example.org"))
	assert.Contains(t, got, "403 Forbidden", "inside of the tunnel the name is checked too")
	dials := b.host.dials.Load()
	for _, x := range []struct{ status, to string }{
		{"403", "evil.example.org:443"}, {"403", "a.example.com:22"}, {"403", "evila.example.com:80"}, {"403", "10.0.0.1:80"}, {"403", "[::1]:80"}, {"403", "2130706433:80"},
		{"400", "a.example.com"}, {"400", "a.example.com:0"}, {"400", "a.example.com\x00:80"}, {"400", "a.example.com%00.evil.org:80"}, {"400", "evil.org\x00.a.example.com:80"},
		{"400", "[::ffff:127.0.0.1%x.a.example.com]:80"}, {"400", "a.example.com :80"}, {"400", "a\u3002example.com:80"}, {"400", "x@a.example.com:80"}, {"400", "a..example.com:80"},
	} {
		got := b.raw(t, proxyAddr, "CONNECT "+x.to+" HTTP/1.1\r\n\r\n")
		assert.True(t, strings.HasPrefix(got, "HTTP/1.1 "+x.status), "%q: %s", x.to, got)
	}
	for _, request := range []string{"GET / HTTP/1.1\r\nHost: a.example.com\r\n\r\n", "GET http://a.example.com/ HTTP/1.1\r\nHost: b.example.com\r\n\r\n", "GET ftp://a.example.com/ HTTP/1.1\r\nHost: a.example.com\r\n\r\n", "nonsense\r\n\r\n"} {
		assert.Contains(t, b.raw(t, proxyAddr, request), "HTTP/1.1 400")
	}
	assert.Len(t, w.seen(), n)
	assert.Equal(t, dials, b.host.dials.Load())
}

// socks asks for a connection, and returns it and the reply.
func socks(t *testing.T, b *box, request string) (io.ReadWriter, byte) {
	t.Helper()
	c := b.dial(t, proxyAddr)
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, err := c.Write([]byte("\x05\x01\x00"))
	require.NoError(t, err)
	greeting := make([]byte, 2)
	_, err = io.ReadFull(c, greeting)
	require.NoError(t, err)
	require.Equal(t, []byte{5, 0}, greeting)
	_, err = c.Write([]byte(request))
	require.NoError(t, err)
	got := make([]byte, 10)
	_, err = io.ReadFull(c, got)
	require.NoError(t, err)
	return c, got[1]
}

func socksName(name string, port uint16) string {
	return "\x05\x01\x00\x03" + string([]byte{byte(len(name))}) + name + string([]byte{byte(port >> 8), byte(port)})
}

func TestSocks(t *testing.T) {
	h := newHost()
	h.put("db.example.com", "93.184.216.34", 5432, listen(t, echo))
	h.put("in.example.com", "10.0.0.1", 5432, listen(t, echo))
	b := newBox(t, h, "*.example.com:5432", "93.184.216.34:5432")
	four := netip.MustParseAddr("93.184.216.34").As4()
	for _, request := range []string{socksName("db.example.com", 5432), socksName("DB.example.com.", 5432), "\x05\x01\x00\x01" + string(four[:]) + "\x15\x38"} {
		c, reply := socks(t, b, request)
		require.Zero(t, reply)
		_, err := c.Write([]byte("\x00ping"))
		require.NoError(t, err)
		_, err = io.ReadFull(c, make([]byte, 5))
		require.NoError(t, err)
	}
	for request, want := range map[string]byte{
		socksName("db.example.com", 5433):              2,
		socksName("example.com", 5432):                 2,
		socksName("evil.org", 5432):                    2,
		socksName("in.example.com", 5432):              2,
		socksName("none.example.com", 5432):            4,
		socksName("evil.org\x00.db.example.com", 5432): 1,
		socksName("127.1", 5432):                       2,
		"\x05\x01\x00\x01\x7f\x00\x00\x01\x15\x38":     2,
		"\x05\x02\x00\x01\x7f\x00\x00\x01\x15\x38":     7,
		"\x05\x03\x00\x01\x7f\x00\x00\x01\x15\x38":     7,
		"\x05\x01\x00\x09\x7f\x00\x00\x01\x15\x38":     8,
		"\x05\x01\x00\x03\x00\x15\x38":                 1,
	} {
		_, reply := socks(t, b, request)
		assert.Equal(t, want, reply, "%q", request)
	}
	_, err := find(h.refused(), opConnect, "in.example.com:5432", netmessage.Guarded)
	assert.NoError(t, err)
}
