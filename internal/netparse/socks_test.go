package netparse

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSocksGreeting(t *testing.T) {
	for _, c := range []struct {
		in, answer string
		n          int
		fails      bool
	}{
		{"", "", 0, false},
		{"\x05", "", 0, false},
		{"\x05\x02\x02", "", 0, false},
		{"\x05\x01\x00", "\x05\x00", 3, false},
		{"\x05\x02\x02\x00\x05", "\x05\x00", 4, false},
		{"\x05\x00", "\x05\xff", 0, true},
		{"\x05\x01\x02", "\x05\xff", 0, true},
		{"\x04\x01", "", 0, true}, // SOCKS4
		{"G", "", 0, true},
	} {
		n, answer, err := SocksGreeting([]byte(c.in))
		assert.Equal(t, c.n, n, "%q", c.in)
		assert.Equal(t, c.answer, string(answer))
		assert.Equal(t, c.fails, errors.Is(err, ErrMalformed))
	}
}

func TestSocksRequest(t *testing.T) {
	for in, want := range map[string]Target{
		"\x05\x01\x00\x01\xc0\x00\x02\x01\x01\xbb":                                           {Addr: netip.MustParseAddr("192.0.2.1"), Port: 443},
		"\x05\x01\x00\x04\x20\x01\x0d\xb8" + strings.Repeat("\x00", 11) + "\x01\x00\x50":     {Addr: netip.MustParseAddr("2001:db8::1"), Port: 80},
		"\x05\x01\x00\x04" + strings.Repeat("\x00", 10) + "\xff\xff\x7f\x00\x00\x01\x00\x50": {Addr: netip.MustParseAddr("127.0.0.1"), Port: 80},
		"\x05\x01\x00\x03\x0bEXAMPLE.com\x01\xbb":                                            {Name: "example.com", Port: 443},
		"\x05\x01\x00\x03\x05127.1\x01\xbb":                                                  {Addr: netip.MustParseAddr("127.0.0.1"), Port: 443}, // PX07
	} {
		for n := range in {
			got, _, err := SocksRequest([]byte(in[:n]))
			assert.NoError(t, err)
			assert.Zero(t, got)
		}
		n, target, err := SocksRequest([]byte(in + "rest"))
		assert.NoError(t, err)
		assert.Equal(t, len(in), n)
		assert.Equal(t, want, target)
	}
}

func TestSocksRequestRefused(t *testing.T) { // PX22
	for in, reply := range map[string]byte{
		"\x04":                          SocksGeneralFailure,
		"\x05\x02":                      7, // BIND
		"\x05\x03":                      7, // UDP ASSOCIATE
		"\x05\x00":                      7,
		"\x05\x01\x01":                  SocksGeneralFailure,
		"\x05\x01\x00\x02\x00":          8,
		"\x05\x01\x00\xff\x00":          8,
		"\x05\x01\x00\x03\x00\x01\xbb":  SocksGeneralFailure, // no name
		"\x05\x01\x00\x03\x01a\x00\x00": SocksGeneralFailure, // port 0
		"\x05\x01\x00\x03\x12evil\x00.allowed.com.\x01\xbb":              SocksGeneralFailure, // PX04
		"\x05\x01\x00\x03\x05a\r\nb \x01\xbb":                            SocksGeneralFailure, // PX05
		"\x05\x01\x00\x03\x22::ffff:127.0.0.1%x.allowed.com....\x01\xbb": SocksGeneralFailure, // PX06
		"\x05\x01\x00\x03\x03a:b\x01\xbb":                                SocksGeneralFailure,
		"\x05\x01\x00\x03\xff" + strings.Repeat("a.", 127) + "a\x01\xbb": SocksGeneralFailure,
	} {
		n, target, err := SocksRequest([]byte(in + strings.Repeat("\x00", 40)))
		var refused *SocksError
		if assert.ErrorAs(t, err, &refused, "%q", in) {
			assert.Equal(t, reply, refused.Reply, "%q", in)
			assert.ErrorIs(t, err, ErrMalformed)
		}
		assert.Zero(t, n)
		assert.Zero(t, target)
	}
	assert.Equal(t, "\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00", string(SocksReply(SocksNotAllowed)))
}

func TestConnect(t *testing.T) {
	for in, want := range map[string]Target{
		"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n":             {Name: "example.com", Port: 443},
		"CONNECT EXAMPLE.com.:443 HTTP/1.1\r\nHost: example.com\r\nX: y\r\n\r\n":        {Name: "example.com", Port: 443},
		"CONNECT example.com:443 HTTP/1.0\r\n\r\n":                                      {Name: "example.com", Port: 443},
		"CONNECT [2001:db8::1]:22 HTTP/1.1\r\nContent-Length: 0\r\n\r\n":                {Addr: netip.MustParseAddr("2001:db8::1"), Port: 22},
		"CONNECT 2130706433:80 HTTP/1.1\r\nProxy-Connection: keep-alive\r\n\r\n":        {Addr: netip.MustParseAddr("127.0.0.1"), Port: 80},
		"CONNECT [::ffff:169.254.169.254]:80 HTTP/1.1\r\nHost: 169.254.169.254\r\n\r\n": {Addr: netip.MustParseAddr("169.254.169.254"), Port: 80}, // PX11
	} {
		for n := range in {
			got, _, err := Connect([]byte(in[:n]))
			assert.NoError(t, err)
			assert.Zero(t, got)
		}
		n, target, err := Connect([]byte(in + "\x16\x03\x01"))
		assert.NoError(t, err, in)
		assert.Equal(t, len(in), n)
		assert.Equal(t, want, target)
	}
	for _, in := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "CONNECT a HTTP/1.1\r\n\r\n", "CONNECT a: HTTP/1.1\r\n\r\n", "CONNECT a:0 HTTP/1.1\r\n\r\n", "CONNECT a:443\r\n\r\n",
		"CONNECT a:443 HTTP/2.0\r\n\r\n", "CONNECT http://a:443 HTTP/1.1\r\n\r\n", "CONNECT u@a:443 HTTP/1.1\r\n\r\n", "CONNECT ::1:443 HTTP/1.1\r\n\r\n",
		"CONNECT evil\x00.allowed.com:443 HTTP/1.1\r\n\r\n", "CONNECT a%2e:443 HTTP/1.1\r\n\r\n", "CONNECT a:443 HTTP/1.1\n\n", // PX04, PX05
		"CONNECT [::ffff:127.0.0.1%x.allowed.com]:443 HTTP/1.1\r\n\r\n", // PX06
		"CONNECT a:443 HTTP/1.1\r\nHost: b:443\r\n\r\n", "CONNECT a:443 HTTP/1.1\r\nHost: a:444\r\n\r\n", "CONNECT a:443 HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
		"CONNECT a:443 HTTP/1.1\r\nContent-Length: 1\r\n\r\n", "CONNECT a:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "CONNECT a:443 HTTP/1.1\r\nX: " + strings.Repeat("x", maxHead),
	} {
		n, _, err := Connect([]byte(in))
		assert.Zero(t, n)
		assert.ErrorIs(t, err, ErrMalformed, "%.80q", in)
	}
}

func FuzzSocks(f *testing.F) {
	f.Add([]byte("\x05\x01\x00"))
	f.Add([]byte("\x05\x01\x00\x01\xc0\x00\x02\x01\x01\xbb"))
	f.Add([]byte("\x05\x01\x00\x03\x0bEXAMPLE.com\x01\xbb"))
	f.Add([]byte("\x05\x01\x00\x04" + strings.Repeat("\x01", 18)))
	f.Add([]byte("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, answer, err := SocksGreeting(b)
		require.LessOrEqual(t, n, len(b))
		require.Equal(t, n > 0, len(answer) == 2 && err == nil)
		for _, parse := range []func([]byte) (int, Target, error){SocksRequest, Connect} {
			n, target, err := parse(b)
			require.LessOrEqual(t, n, len(b))
			require.False(t, n > 0 && err != nil)
			if n == 0 {
				require.Zero(t, target)
				continue
			}
			require.NotEqual(t, target.Name != "", target.Addr.IsValid())
			require.NotZero(t, target.Port)
			require.False(t, target.Addr.Is4In6())
			again, same, err := parse(b[:n])
			require.NoError(t, err)
			require.Equal(t, n, again)
			require.Equal(t, target, same)
		}
	})
}
