package nethost

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// web is an HTTP server on the host, which remembers the hosts of the requests that reach it.
type web struct {
	*httptest.Server
	mu    sync.Mutex
	hosts []string
}

func newWeb(t testing.TB, start func(*httptest.Server)) *web {
	w := &web{}
	w.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.hosts = append(w.hosts, r.Host)
		w.mu.Unlock()
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(rw, "%s %s %s %d", r.Method, r.Host, r.URL.Path, n)
	}))
	w.Config.ErrorLog = quietLog
	start(w.Server)
	t.Cleanup(w.Close)
	return w
}

func (w *web) addr() string { return w.Listener.Addr().String() }

func (w *web) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.hosts...)
}

// raw sends text to an address inside and returns all that comes back, until the end or until nothing has come for a second.
func (b *box) raw(t testing.TB, addr string, parts ...string) string {
	t.Helper()
	c := b.dial(t, addr)
	for i, part := range parts {
		if i > 0 {
			time.Sleep(silence + 100*time.Millisecond)
		}
		_, _ = c.Write([]byte(part))
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	got, _ := io.ReadAll(c)
	return string(got)
}

func webBox(t *testing.T, rules ...string) (*box, *web) {
	h := newHost()
	w := newWeb(t, (*httptest.Server).Start)
	for _, name := range []string{"a.example.com", "b.example.com"} {
		h.put(name, "93.184.216.34", 80, w.addr())
	}
	h.put("", "93.184.216.34", 8080, w.addr())
	return newBox(t, h, rules...), w
}

func TestHTTPReachesAListedName(t *testing.T) {
	b, w := webBox(t, "a.example.com", "http://*.example.com:8080")
	client := &http.Client{Transport: &http.Transport{DialContext: b.DialContext}}
	for _, url := range []string{"http://a.example.com/x", "http://A.Example.COM./x", "http://b.example.com:8080/x", "http://a.example.com/y"} {
		r, err := client.Get(url)
		require.NoError(t, err)
		body, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		r.Body.Close()
		assert.Equal(t, 200, r.StatusCode, "%s: %s", url, body)
	}
	r, err := client.Post("http://a.example.com/up", "text/plain", io.LimitReader(zeros{}, 8<<20)) // in chunks
	require.NoError(t, err)
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	r.Body.Close()
	assert.Equal(t, fmt.Sprint("POST a.example.com /up ", 8<<20), string(body))
	assert.Len(t, w.seen(), 5)
	assert.Empty(t, b.host.refused())
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestAnUnlistedAddressGetsAnAnswerOfHTTP(t *testing.T) {
	b, w := webBox(t, "a.example.com")
	for addr, host := range map[string]string{"8.8.8.8:80": "8.8.8.8", "8.8.8.8:8080": "8.8.8.8:8080", "10.0.0.1:80": "10.0.0.1"} {
		got := b.raw(t, addr, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		assert.True(t, strings.HasPrefix(got, "HTTP/1.1 403 Forbidden\r\n"), got)
		assert.Contains(t, got, "--net allow:"+strings.TrimSuffix(addr, ":80"))
		assert.Equal(t, 1, strings.Count(got[strings.Index(got, "\r\n\r\n"):], "nsrun: "))
	}
	addrs, err := b.resolver().LookupHost(t.Context(), "a.example.com.")
	require.NoError(t, err)
	got := b.raw(t, addrs[0]+":8080", "GET / HTTP/1.1\r\nHost: a.example.com:8080\r\n\r\n")
	assert.Contains(t, got, "nsrun: a.example.com:8080 is not in the network's allow-list; add --net allow:a.example.com:8080")
	assert.Empty(t, w.seen())
	assert.Zero(t, b.host.dials.Load())
}

func TestTheHostOfARequestIsTheNameThatWasLookedUp(t *testing.T) {
	b, w := webBox(t, "a.example.com", "b.example.com:80", "a.example.com:8080")
	const mine = "GET / HTTP/1.1\r\nHost: a.example.com\r\n"
	good := b.raw(t, "a.example.com:80", mine+"Connection: close\r\n\r\n")
	require.Contains(t, good, "200 OK")
	require.Len(t, w.seen(), 1)
	dials := b.host.dials.Load()
	for _, x := range []struct{ status, request string }{
		{"403", "GET / HTTP/1.1\r\nHost: b.example.com\r\n\r\n"},
		{"403", "GET / HTTP/1.1\r\nHost: evil.example.org\r\n\r\n"},
		{"403", "GET / HTTP/1.1\r\nHost: a.example.com:81\r\n\r\n"},
		{"403", "GET http://evil.example.org/ HTTP/1.1\r\nHost: evil.example.org\r\n\r\n"},
		{"403", "GET / HTTP/1.1\r\nHost: 2130706433\r\n\r\n"},
		{"400", "GET http://evil.example.org/ HTTP/1.1\r\nHost: a.example.com\r\n\r\n"},
		{"400", mine + "Host: b.example.com\r\n\r\n"},
		{"400", "GET / HTTP/1.1\r\n\r\n"},
		{"400", "\r\n" + mine + "\r\n"},
		{"400", mine + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{"400", mine + "X: 1\r\n folded\r\n\r\n"},
		{"400", "GET / HTTP/1.1\nHost: a.example.com\n\n"},
		{"400", "GET / HTTP/1.1\r\nHost: a.example.com\x00.evil.org\r\n\r\n"},
		{"400", "GET / HTTP/1.1\r\nHost: a%2eexample.com\r\n\r\n"},
		{"400", "GET http://a.example.com@evil.org/ HTTP/1.1\r\nHost: a.example.com\r\n\r\n"},
		{"400", "GET http://a.example.com\\@evil.org/ HTTP/1.1\r\nHost: a.example.com\r\n\r\n"},
		{"505", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
		{"431", mine + "X: " + strings.Repeat("x", 64<<10) + "\r\n\r\n"},
	} {
		got := b.raw(t, "a.example.com:80", x.request)
		assert.True(t, strings.HasPrefix(got, "HTTP/1.1 "+x.status), "%.90q: %.200s", x.request, got)
	}
	assert.Len(t, w.seen(), 1)
	assert.Equal(t, dials, b.host.dials.Load(), "nothing is dialled before the request is checked")
	_, err := find(b.host.refused(), opRequest, "a.example.com:80", netmessage.Mismatch)
	assert.NoError(t, err)
}

// TestASlowRequestIsChecked: a client that waits is connected, as the server may speak first, and its request is checked all the same.
func TestASlowRequestIsChecked(t *testing.T) {
	b, w := webBox(t, "a.example.com")
	const rest = " / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"
	for _, parts := range [][]string{{"", "GET%s"}, {"G", "ET%s"}, {"GE", "T%s"}, {"", "G", "ET%s"}} {
		send := func(host string) string {
			parts := append([]string(nil), parts...)
			parts[len(parts)-1] = fmt.Sprintf(parts[len(parts)-1], fmt.Sprintf(rest, host))
			return b.raw(t, "a.example.com:80", parts...)
		}
		assert.Contains(t, send("a.example.com"), "200 OK", "%q", parts)
		n := len(w.seen())
		assert.Contains(t, send("b.example.com"), "403 Forbidden", "%q", parts)
		assert.Len(t, w.seen(), n)
	}
}

func TestLaterRequestsAreChecked(t *testing.T) {
	b, w := webBox(t, "a.example.com")
	c := b.dial(t, "a.example.com:80")
	in := bufio.NewReader(c)
	ask := func(host string) *http.Response {
		_, err := fmt.Fprintf(c, "POST /x HTTP/1.1\r\nHost: %s\r\nContent-Length: 4\r\n\r\nbody", host)
		require.NoError(t, err)
		r, err := http.ReadResponse(in, nil)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, r.Body)
		require.NoError(t, err)
		return r
	}
	for range 3 {
		assert.Equal(t, 200, ask("a.example.com").StatusCode)
	}
	assert.Equal(t, 403, ask("b.example.com").StatusCode)
	_, err := in.ReadByte()
	assert.ErrorIs(t, err, io.EOF, "the connection ends")
	assert.Equal(t, []string{"a.example.com", "a.example.com", "a.example.com"}, w.seen())
	// Both at once: the answer to the first comes before the refusal.
	const two = "GET /1 HTTP/1.1\r\nHost: a.example.com\r\n\r\nGET /2 HTTP/1.1\r\nHost: b.example.com\r\n\r\n"
	got := b.raw(t, "a.example.com:80", two)
	assert.Contains(t, got, "200 OK")
	assert.Contains(t, got, "403 Forbidden")
	assert.Len(t, w.seen(), 4)
}

func TestAnUpgradeEndsTheChecksOnlyIfTheServerAcceptsIt(t *testing.T) {
	h := newHost()
	h.put("ws.example.com", "93.184.216.34", 80, listen(t, func(c *net.TCPConn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		if r.URL.Path == "/no" {
			_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno"))
		} else {
			_, _ = c.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"))
		}
		_, _ = io.Copy(c, c)
	}))
	b := newBox(t, h, "ws.example.com")
	const upgrade = " HTTP/1.1\r\nHost: ws.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	const other = "GET /secret HTTP/1.1\r\nHost: evil.example.org\r\n\r\n"
	got := b.raw(t, "ws.example.com:80", "GET /yes"+upgrade, other)
	assert.Contains(t, got, "101 Switching")
	assert.Contains(t, got, "/secret", "after the server has accepted, anything goes")
	got = b.raw(t, "ws.example.com:80", "GET /no"+upgrade, other)
	assert.Contains(t, got, "200 OK")
	assert.NotContains(t, got, "/secret")
	assert.Contains(t, got, "403 Forbidden")
	got = b.raw(t, "ws.example.com:80", "GET /no"+upgrade+other)
	assert.NotContains(t, got, "/secret", "what comes with the offer waits for the answer")
}

func TestARuleWithASchemeRequiresIt(t *testing.T) {
	b, w := webBox(t, "http://a.example.com", "https://b.example.com:80")
	assert.Contains(t, b.raw(t, "a.example.com:80", "GET / HTTP/1.1\r\nHost: a.example.com\r\nConnection: close\r\n\r\n"), "200 OK")
	dials := b.host.dials.Load()
	for _, first := range []string{"SSH-2.0-x\r\n", "\x16\x03\x01\x00\x05hello", "\x00\x01"} {
		b.raw(t, "a.example.com:80", first)
	}
	assert.Contains(t, b.raw(t, "b.example.com:80", "GET / HTTP/1.1\r\nHost: b.example.com\r\n\r\n"), "403 Forbidden")
	assert.Equal(t, dials, b.host.dials.Load())
	assert.Len(t, w.seen(), 1)
	for _, name := range []string{"a", "b"} {
		_, err := find(b.host.refused(), opConnect, name+".example.com:80", netmessage.Mismatch)
		assert.NoError(t, err)
	}
}
