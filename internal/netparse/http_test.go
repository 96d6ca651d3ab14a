package netparse

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// read feeds a stream to Requests, step bytes more each time, and gives what was passed on and the heads.
func read(r *Requests, stream string, step int) (passed string, heads []Head, err error) {
	for have := 0; have < len(stream); {
		have = min(have+step, len(stream))
		for {
			n, head, err := r.Next([]byte(stream[len(passed):have]))
			if err != nil {
				return passed, heads, err
			}
			if head != nil {
				heads = append(heads, *head)
			}
			if n == 0 {
				break
			}
			passed += stream[len(passed) : len(passed)+n]
		}
	}
	return passed, heads, nil
}

const hostLine = "Host: example.com\r\n"

func TestRequests(t *testing.T) {
	for _, c := range []struct {
		stream string
		hosts  string
	}{
		{"GET / HTTP/1.1\r\n" + hostLine + "\r\n", "example.com"},
		{"GET / HTTP/1.0\r\nhost:\texample.com:8080 \r\n\r\n", "example.com:8080"},
		{"GET /%2e?%zz=é HTTP/1.1\r\nHOST: EXAMPLE.com.\r\nX:\r\nY: \t é\r\n\r\n", "EXAMPLE.com."},
		{"OPTIONS * HTTP/1.1\r\n" + hostLine + "\r\n", "example.com"},
		{"GET http://example.com HTTP/1.1\r\n" + hostLine + "\r\n", "example.com"},
		{"GET HTTP://Example.com:80?q HTTP/1.1\r\n" + hostLine + "\r\n", "Example.com:80"},
		{"GET http://[::1]/ HTTP/1.1\r\nHost: [0::1]:80\r\n\r\n", "[::1]"},
		{"POST / HTTP/1.1\r\n" + hostLine + "Content-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: other.org\r\n\r\n", "example.com other.org"}, // PX16
		{"POST / HTTP/1.1\r\n" + hostLine + "Transfer-Encoding: Chunked\r\n\r\n3;a=\"b\"\r\nabc\r\n00A\r\n0123456789\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n", "example.com b"},
		{"POST / HTTP/1.1\r\n" + hostLine + "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n0\r\nX-Sum: 1\r\nY: 2\r\n\r\nGET / HTTP/1.1\r\nHost: b\r\n\r\n", "example.com b"},
		{"PUT / HTTP/1.1\r\n" + hostLine + "Content-Length: 0\r\nExpect: 100-continue\r\n\r\n", "example.com"},
		{"GET / HTTP/1.1\r\nHost: 127.1\r\nConnection: close, X-Y\r\n\r\n", "127.1"},
	} {
		for _, step := range []int{1, 2, 7, 1 << 20} {
			passed, heads, err := read(&Requests{}, c.stream, step)
			require.NoError(t, err, "%q", c.stream)
			assert.Equal(t, c.stream, passed)
			var hosts []string
			for _, h := range heads {
				hosts = append(hosts, h.Host)
			}
			assert.Equal(t, c.hosts, strings.Join(hosts, " "))
		}
	}
	_, heads, err := read(&Requests{}, "GET / HTTP/1.1\r\nHost: EXAMPLE.com.:81\r\n\r\nGET / HTTP/1.1\r\nHost: 0x7f.1\r\n\r\n", 999)
	require.NoError(t, err)
	assert.Equal(t, Target{Name: "example.com", Port: 81}, heads[0].Target)
	assert.Equal(t, "127.0.0.1", heads[1].Target.Addr.String())
}

func TestRequestsRefused(t *testing.T) {
	long := strings.Repeat("x", maxHead)
	for status, list := range map[int][]string{
		400: {
			"GET / HTTP/1.1\r\n\r\n",
			"GET / HTTP/1.0\r\n\r\n",
			"GET / HTTP/1.1\r\n" + hostLine + hostLine + "\r\n", // PX15
			"GET / HTTP/1.1\r\n" + hostLine + "Host: evil.org\r\n\r\n",
			"GET / HTTP/1.1\r\nHost:\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: a,b\r\n\r\n",
			"GET http://evil.org/ HTTP/1.1\r\n" + hostLine + "\r\n", // PX14
			"GET http://example.com:81/ HTTP/1.1\r\n" + hostLine + "\r\n",
			"GET http://allowed@evil/ HTTP/1.1\r\nHost: evil\r\n\r\n", // PX20
			"GET http://allowed\\@evil/ HTTP/1.1\r\nHost: evil\r\n\r\n",
			"GET http:// HTTP/1.1\r\n" + hostLine + "\r\n",
			"GET https://example.com/ HTTP/1.1\r\n" + hostLine + "\r\n",
			"GET example.com HTTP/1.1\r\n" + hostLine + "\r\n",
			"GET * HTTP/1.1\r\n" + hostLine + "\r\n",
			"GET /#x HTTP/1.1\r\n" + hostLine + "\r\n",
			"GET /%zz HTTP/1.1\r\n" + hostLine + "\r\n",
			"GET /%4 HTTP/1.1\r\n" + hostLine + "\r\n",
			"GET / HTTP/1.1\r\nHost: evil\x00.allowed.com\r\n\r\n", // PX04
			"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",                  // PX05
			"GET / HTTP/1.1\r\nHost: a%2eb\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: [::ffff:127.0.0.1%x]\r\n\r\n", // PX06
			"GET / HTTP/1.1\r\nHost: ::1\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: a:0\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: a:\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: a:080\r\n\r\n",
			"GET / HTTP/1.1\r\n" + hostLine + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", // PX17
			"GET / HTTP/1.1\r\n" + hostLine + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
			"GET / HTTP/1.1\r\n" + hostLine + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
			"GET / HTTP/1.0\r\n" + hostLine + "Transfer-Encoding: chunked\r\n\r\n",
			"GET / HTTP/1.1\r\n" + hostLine + "Content-Length: 5, 5\r\n\r\n",
			"GET / HTTP/1.1\r\n" + hostLine + "Content-Length: +5\r\n\r\n",
			"GET / HTTP/1.1\r\n" + hostLine + "Content-Length: -5\r\n\r\n",
			"GET / HTTP/1.1\r\n" + hostLine + "Content-Length: 0x5\r\n\r\n",
			"GET / HTTP/1.1\r\n" + hostLine + "Content-Length:\r\n\r\n",
			"GET / HTTP/1.1\r\n" + hostLine + "Content-Length: 99999999999999999999\r\n\r\n",
			"GET / HTTP/1.1\r\n" + hostLine + "content_length: 5\r\n\r\n",
			"GET / HTTP/1.1\r\n" + hostLine + "Transfer_Encoding: chunked\r\n\r\n",
			"GET / HTTP/1.1\r\n" + hostLine + "Connection: close, Content-Length\r\n\r\n",
			"GET / HTTP/1.1\r\n" + hostLine + "Trailer: Host\r\n\r\n",
			"GET / HTTP/1.1\r\n" + hostLine + "X: a\r\n b\r\n\r\n", // obs-fold
			"GET / HTTP/1.1\r\n " + hostLine + "\r\n",
			"GET / HTTP/1.1\r\nHost : example.com\r\n\r\n",
			"GET / HTTP/1.1\r\n" + hostLine + "no colon\r\n\r\n",
			"GET / HTTP/1.1\r\n" + hostLine + ": x\r\n\r\n",
			"GET / HTTP/1.1\n" + hostLine + "\n", // bare LF
			"GET / HTTP/1.1\r\nHost: example.com\n\r\n",
			"GET / HTTP/1.1\r\n" + hostLine + "X: a\rb\r\n\r\n", // bare CR
			"GET / HTTP/1.1\r\n" + hostLine + "X: \x01\r\n\r\n",
			"GET / HTTP/1.1\r\n" + hostLine + "X: \x7f\r\n\r\n",
			"\r\nGET / HTTP/1.1\r\n" + hostLine + "\r\n",
			" GET / HTTP/1.1\r\n" + hostLine + "\r\n",
			"GET  / HTTP/1.1\r\n" + hostLine + "\r\n",
			"GET\t/ HTTP/1.1\r\n" + hostLine + "\r\n",
			"GET /a b HTTP/1.1\r\n" + hostLine + "\r\n",
			"GET /\r\n\r\n", // HTTP/0.9
			"G@T / HTTP/1.1\r\n" + hostLine + "\r\n",
			"GET / HTTP/1.1\r\n" + hostLine + "Upgrade: websocket\r\nContent-Length: 1\r\n\r\n",
			"GET / HTTP/1.1\r\n" + hostLine + "\r\nGET / HTTP/1.1\r\n" + hostLine + "Upgrade: websocket\r\n\r\n",
			"GET / HTTP/1.1\r\n" + hostLine + "Upgrade: TLS/1.2\r\n\r\n",
			"GET / HTTP/1.1\r\n" + hostLine + "Upgrade:\r\n\r\n",
		},
		405: {"CONNECT example.com:443 HTTP/1.1\r\n" + hostLine + "\r\n"}, // PX02
		431: {"GET /" + long, "GET / HTTP/1.1\r\n" + hostLine + "X: " + long + "\r\n\r\n"},
		501: {"GET / HTTP/1.1\r\n" + hostLine + "Transfer-Encoding: gzip, chunked\r\n\r\n", "GET / HTTP/1.1\r\n" + hostLine + "Transfer-Encoding: xchunked\r\n\r\n"},
		505: { // PX27
			"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
			"GET / HTTP/2.0\r\n" + hostLine + "\r\n",
			"GET / HTTP/1.2\r\n" + hostLine + "\r\n",
			"GET / http/1.1\r\n" + hostLine + "\r\n",
		},
	} {
		for _, stream := range list {
			for _, step := range []int{11, 1 << 20} {
				r := &Requests{}
				_, _, err := read(r, stream, step)
				var refused *HTTPError
				if !assert.ErrorAs(t, err, &refused, "%q", stream[:min(len(stream), 200)]) {
					continue
				}
				assert.ErrorIs(t, err, ErrMalformed)
				assert.Equal(t, status, refused.Status, "%q: %v", stream[:min(len(stream), 200)], err)
				n, head, again := r.Next([]byte("GET / HTTP/1.1\r\n" + hostLine + "\r\n"))
				assert.Zero(t, n)
				assert.Nil(t, head)
				assert.Equal(t, err, again, "an error stays")
			}
		}
	}
	_, _, err := read(&Requests{}, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 99)
	assert.ErrorIs(t, err, ErrHTTP2)
}

// TestAnOfferOfHTTP2 (PX27) can be taken out of any request, and the rest offers nothing.
func TestAnOfferOfHTTP2(t *testing.T) {
	for _, fields := range []string{
		"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: \r\n", "Upgrade: websocket, H2C\r\n", "UPGRADE: HTTP/2.0\r\n",
		"HTTP2-Settings: x\r\n", "Upgrade: h2\r\nupgrade: websocket\r\n",
	} {
		const body = "upgrade: h2c\r\n\r\n"
		text := "POST / HTTP/1.1\r\n" + hostLine + fields + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body))
		r := &Requests{}
		for range 2 { // of any request
			b := []byte(text + body)
			n, head, err := r.Next(b)
			require.NoError(t, err, fields)
			require.Equal(t, len(text), n)
			assert.True(t, head.HTTP2, fields)
			assert.False(t, head.Upgrade, fields)
			Withdraw(b[:n])
			req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
			require.NoError(t, err, fields)
			assert.Empty(t, req.Header.Values("Upgrade"), fields)
			assert.Empty(t, req.Header.Values("Http2-Settings"), fields)
			got, err := io.ReadAll(req.Body)
			require.NoError(t, err)
			assert.Equal(t, body, string(got))
			n, _, err = r.Next(b[n:])
			require.NoError(t, err)
			require.Equal(t, len(body), n)
		}
	}
	b := []byte("GET / HTTP/1.1\r\n" + hostLine + "Upgrade: websocket\r\n\r\n")
	_, head, err := (&Requests{}).Next(b)
	require.NoError(t, err)
	assert.True(t, head.Upgrade && !head.HTTP2, "the control")
}

func TestChunksRefused(t *testing.T) {
	const head = "POST / HTTP/1.1\r\n" + hostLine + "Transfer-Encoding: chunked\r\n\r\n"
	for _, body := range []string{
		"x\r\n", "\r\n", "-1\r\n", "+1\r\n", "0x1\r\n", "1_0\r\n", "1 \r\na\r\n", " 1\r\n", "1 ;a\r\n", "ffffffffffffffff\r\n", "1000000000000000\r\n", "1\na\r\n",
		"1;\x00\r\n", "1;a\rb\r\n", "1\r\nab", "1\r\na\n", "1\r\na\rb", "1\r\na0\r\n", strings.Repeat("0", maxChunkLine) + "\r\n",
		"1;" + strings.Repeat("x", maxChunkLine) + "\r\n", strings.Repeat("1;"+strings.Repeat("x", 500)+"\r\na\r\n", 20),
		"0\r\nHost: evil\r\n\r\n", "0\r\nContent-Length: 1\r\n\r\n", "0\r\nTransfer-Encoding: chunked\r\n\r\n", "0\r\n a\r\n\r\n", "0\r\na\r\n\r\n", "0\r\nA: b\n\r\n",
		"0\r\nA: " + strings.Repeat("x", maxTrailer) + "\r\n\r\n", "0\r\n\rx",
	} {
		for _, step := range []int{1, 1 << 20} {
			_, _, err := read(&Requests{}, head+body, step)
			assert.ErrorIs(t, err, ErrMalformed, "%.80q", body)
		}
	}
}

func TestUpgrade(t *testing.T) {
	const request = "GET /chat HTTP/1.1\r\n" + hostLine + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	const frame = "\x81\x05hello"
	r := &Requests{}
	passed, heads, err := read(r, request+frame, 5)
	require.NoError(t, err)
	assert.Equal(t, request, passed, "what follows waits for the answer")
	assert.True(t, heads[0].Upgrade)
	r.Upgraded(true)
	n, _, err := r.Next([]byte(frame))
	assert.NoError(t, err)
	assert.Equal(t, len(frame), n)

	r = &Requests{}
	_, _, err = read(r, request, 99)
	require.NoError(t, err)
	r.Upgraded(false)
	_, heads, err = read(r, "GET / HTTP/1.1\r\nHost: other.org\r\n\r\n", 99)
	require.NoError(t, err)
	assert.Equal(t, "other.org", heads[0].Host)
	r.Upgraded(true) // nobody has asked
	_, _, err = read(r, frame+"\r\n\r\n", 99)
	assert.Error(t, err)
}

func TestSwitched(t *testing.T) {
	for response, want := range map[string]string{
		"": "more", "HTTP/1.1 ": "more", "HTTP/1.1 10": "more", "HTTP/1.1 101": "true", "HTTP/1.1 101 Switching Protocols\r\n": "true",
		"HTTP/1.1 2": "false", "HTTP/1.1 200 OK": "false", "HTTP/1.0 101": "false", "SSH": "false", "HTTP/1.1 100 Continue\r\n": "more",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 x": "true", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 403 x": "false",
	} {
		switched, done := Switched([]byte(response))
		got := "more"
		if done {
			got = fmt.Sprint(switched)
		}
		assert.Equal(t, want, got, response)
	}
}

func TestLooks(t *testing.T) {
	for stream, want := range map[string]string{
		"": "more", "GET": "more", "GET ": "more", "GET /": "true", "get /x": "true", "M-SEARCH * HTTP/1.1\r\n": "true", "PRI * HTTP/2.0\r\n": "true",
		"GET http://x": "true", "OPTIONS *": "more", "GET x HTTP/1.1\r\n": "true", "GET\t/": "true", "\r\nGET /": "true", " \r\n": "more",
		"SSH-2.0-OpenSSH_9.6p1 Ubuntu": "more", "SSH-2.0-OpenSSH_9.6p1 Ubuntu-3\r\n": "false", "SSH-2.0-Go\r\n": "false",
		"EHLO a.example\r\n": "false", "QUIT\r\n": "false", "*1\r\n$4\r\nPING\r\n": "false", "\x00\x00\x00\x08\x04\xd2\x16\x2f": "false", "\x16\x03\x01": "false",
		"G@T /a": "true", "\x01GET /a": "false", "\xc3\xa9 x HTTP/1.1\r\n": "true", "GET x\r\n": "true", "GET x": "more", "GET \r\n": "false", "get x\r\n": "false",
		"get http_session_1\r\n": "false", "get https://x": "true", "\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00": "false",
		"CONNECT x:443 HTTP/1.1\r\n": "true", "CONNECT {\"verbose\":false}\r\n": "false", strings.Repeat("A", 4096): "true", "A " + strings.Repeat("b", 4096): "true",
	} {
		is, done := Looks([]byte(stream))
		got := "more"
		if done {
			got = fmt.Sprint(is)
		}
		assert.Equal(t, want, got, "%.40q", stream)
	}
}

func TestResponse(t *testing.T) {
	res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(Response(403, "no rule\r\nX: y names it"))), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Equal(t, "no rule  X: y names it\n", string(body))
	assert.Equal(t, "403 Forbidden", res.Status)
	assert.True(t, res.Close)
	assert.Empty(t, res.Header.Get("X"))
}

// FuzzRequests: what the filter accepts, net/http reads as the same requests, with the same hosts and bodies, whatever the pieces are in which
// the bytes come.
func FuzzRequests(f *testing.F) {
	f.Add("GET / HTTP/1.1\r\n"+hostLine+"\r\nPOST /a?b HTTP/1.1\r\nHost: b:81\r\nContent-Length: 3\r\n\r\nabc", 3)
	f.Add("POST http://[::1]:80/ HTTP/1.1\r\nHost: [::1]\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3;x=y\r\nabc\r\n0\r\nX: 1\r\n\r\n", 1)
	f.Add("OPTIONS * HTTP/1.0\r\nHost: 127.1\r\nConnection: close\r\n\r\n", 99)
	f.Add("GET / HTTP/1.1\r\n"+hostLine+"Upgrade: websocket\r\n\r\nrest", 7)
	f.Add("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 2)
	f.Fuzz(func(t *testing.T, stream string, step int) {
		r := &Requests{}
		passed, heads, err := read(r, stream, 1+max(step, -step, 0)%1000)
		require.True(t, strings.HasPrefix(stream, passed))
		whole, again, errWhole := read(&Requests{}, stream, len(stream)+1)
		require.Equal(t, whole, passed)
		require.Equal(t, again, heads)
		require.Equal(t, errWhole == nil, err == nil)
		if len(heads) > 0 {
			is, done := Looks([]byte(passed))
			require.True(t, is && done)
		}
		compare(t, passed, heads, r.state != inHead)
	})
}

// compare has net/http read what was passed on, of which the last body may be cut.
func compare(t *testing.T, passed string, heads []Head, cut bool) {
	t.Helper()
	in := bufio.NewReaderSize(strings.NewReader(passed), 64<<10)
	for i, h := range heads {
		req, err := http.ReadRequest(in)
		require.NoError(t, err, "%q", passed)
		require.Equal(t, h.Host, req.Host)
		require.Equal(t, h.Method, req.Method)
		if cut && i == len(heads)-1 || h.Upgrade {
			return
		}
		_, err = io.Copy(io.Discard, req.Body)
		require.NoError(t, err, "%q", passed)
	}
	rest, err := io.ReadAll(in)
	require.NoError(t, err)
	require.Empty(t, rest, "net/http ends the last body earlier")
}

// TestRequestsAgreeWithNetHTTP makes requests of parts that are right or nearly so, which a fuzzer seldom does.
func TestRequestsAgreeWithNetHTTP(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	pick := func(list ...string) string {
		if i := random.IntN(8 * len(list)); i < len(list) {
			return list[i]
		}
		return list[0]
	}
	accepted := 0
	for range 5000 {
		stream := ""
		for range 1 + random.IntN(3) {
			stream += pick("GET", "POST", "OPTIONS", "get", "G/T") + pick(" ", "  ", "\t") + pick("/", "http://a", "*", "/%2f", "/%2", "http://b/", "http://A.:80?x", "//b") +
				pick(" HTTP/1.1", " HTTP/1.0", " HTTP/1.1 ", " HTTP/2.0", "") + pick("\r\n", "\n", "\r")
			for _, name := range []string{"Host", "Content-Length", "Transfer-Encoding", "Trailer"}[:1+random.IntN(4)] {
				if name != "Host" && random.IntN(2) == 0 {
					continue
				}
				value := map[string]string{
					"Host":              pick("a", "a:80", "A.", "b", "a b", "", "a,b", "[::1]"),
					"Content-Length":    pick("3", "0", "03", "+3", "3,3", "3 3", "3;", "-0"),
					"Transfer-Encoding": pick("chunked", "Chunked", "chunked,chunked", "identity", "\x0bchunked", ""),
					"Trailer":           pick("X", "Content-Length", ""),
				}[name]
				stream += pick(name, strings.ToLower(name), name+" ", " "+name, strings.ReplaceAll(name, "-", "_")) + pick(": ", ":", ":\t", "") + value + pick("\r\n", "\r\n", "\n", "\r\n ", " \r\n")
			}
			stream += pick("\r\n", "\n") + pick("", "abc", "3\r\nabc\r\n0\r\n\r\n", "03;x\r\nabc\r\n0\r\nX: y\r\n\r\n", "0\r\n\r\n", "3\nabc\n0\n\n", "-1\r\n", "1 \r\na\r\n0\r\n\r\n")
		}
		r := &Requests{}
		passed, heads, _ := read(r, stream, len(stream))
		compare(t, passed, heads, r.state != inHead)
		accepted += len(heads)
	}
	assert.Greater(t, accepted, 1000)
}
