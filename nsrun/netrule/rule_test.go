package netrule

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestName(t *testing.T) {
	rules := mustParse(t, "example.com", "*.wild.org", "db.example:5432", "udp://time.example:123", "https://only.example", "10.0.0.0/8", "127.0.0.1")
	for _, c := range []struct {
		name string
		port uint16
		udp  bool
		want bool
	}{
		{"example.com", 443, false, true},
		{"example.com", 80, false, true},
		{"example.com", 22, false, false}, // PX13
		{"example.com", 443, true, false},
		{"evilexample.com", 443, false, false}, // PX09
		{"example.com.evil.com", 443, false, false},
		{"a.example.com", 443, false, false},
		{"wild.org", 443, false, false},
		{"a.wild.org", 443, false, true},
		{"a.b.wild.org", 443, false, true},
		{"evilwild.org", 443, false, false},
		{".wild.org", 443, false, false},
		{"a.wild.org.evil.org", 443, false, false},
		{"db.example", 5432, false, true},
		{"time.example", 123, true, true},
		{"time.example", 123, false, false},
		{"only.example", 443, false, true},
		{"10.0.0.1", 443, false, false}, // a block matches no name, PX10
		{"", 443, false, false},
		{"example.com", 0, false, false},
	} {
		r, ok := rules.Name(c.name, c.port, c.udp)
		assert.Equal(t, c.want, ok, "%+v", c)
		assert.Equal(t, c.want, r.Ports != nil)
		if ok {
			assert.True(t, rules.Lists(c.name))
		}
	}
	assert.True(t, rules.Lists("time.example"))
	assert.False(t, rules.Lists("wild.org"))
	assert.False(t, rules.Lists(""))

	_, ok := Rules{}.Name("example.com", 443, false) // PX12
	assert.False(t, ok)
	_, ok = Rules{}.Addr(netip.MustParseAddr("192.0.2.1"), 443, false)
	assert.False(t, ok)
}

func TestNameTakesTheWidestRule(t *testing.T) {
	for _, c := range [][2]string{
		{"https://x.com x.com", "x.com"},
		{"x.com https://x.com", "x.com"},
		{"https://*.com.x.com x.com:443", "x.com:443"},
		{"x.com x.com:443+force", "x.com:443+force"},
		{"https://x.com http://x.com:443", "https://x.com"},
	} {
		r, ok := mustParse(t, strings.Fields(c[0])...).Name("x.com", 443, false)
		assert.True(t, ok)
		assert.Equal(t, c[1], r.String())
	}
}

func TestAddr(t *testing.T) {
	rules := mustParse(t, "*.example.com", "10.0.0.0/8:1-100", "[2001:db8::]/32:22", "192.0.2.1", "udp://192.0.2.2:53", "0.0.0.0:1")
	for _, c := range []struct {
		addr string
		port uint16
		udp  bool
		want bool
	}{
		{"10.200.0.1", 100, false, true},
		{"10.200.0.1", 101, false, false},
		{"11.0.0.1", 100, false, false},
		{"::ffff:10.0.0.1", 1, false, true},
		{"::ffff:10.0.0.1%eth0", 1, false, false},
		{"64:ff9b::10.0.0.1", 1, false, false},
		{"2001:db8:ffff::1", 22, false, true},
		{"2001:db9::1", 22, false, false},
		{"2001:db8::1%eth0", 22, false, false},
		{"192.0.2.1", 443, false, true},
		{"192.0.2.1", 443, true, false},
		{"192.0.2.2", 53, true, true},
		{"0.0.0.0", 1, false, true}, // PX11: only as it is listed
		{"::", 1, false, false},
		{"::1", 1, false, false},
		{"127.0.0.1", 1, false, false},
		{"169.254.169.254", 80, false, false},
	} {
		_, ok := rules.Addr(netip.MustParseAddr(c.addr), c.port, c.udp)
		assert.Equal(t, c.want, ok, "%+v", c)
	}
	_, ok := rules.Addr(netip.Addr{}, 80, false)
	assert.False(t, ok)
}

func TestCut(t *testing.T) {
	for _, c := range [][4]string{ // rules, ceiling, kept, lost
		{"x.com y.com", "", "", "x.com y.com"},
		{"", "x.com", "", ""},
		{"x.com y.com", "y.com", "y.com", "x.com"},
		{"x.com", "x.com:443", "x.com:443", "x.com:80"},
		{"x.com", "x.com:443 x.com:80", "x.com", ""},
		{"x.com:1-100", "x.com", "x.com:80", "x.com:1-79 x.com:81-100"},
		{"x.com:1-100", "x.com:1-50 x.com:51-60 x.com:90-65535", "x.com:1-60 x.com:90-100", "x.com:61-89"},
		{"x.com:1-65535", "x.com:65535", "x.com:65535", "x.com:1-65534"},
		{"x.com:1-65535", "x.com", "x.com", "x.com:1-79 x.com:81-442 x.com:444-65535"},
		{"a.x.com *.a.x.com *.x.com x.com *.com.org", "*.x.com", "a.x.com *.a.x.com *.x.com", "x.com *.com.org"},
		{"*.x.com", "a.x.com", "", "*.x.com"},
		{"https://x.com http://x.com", "x.com", "https://x.com http://x.com", ""},
		{"x.com", "https://x.com", "", "x.com"},
		{"https://x.com http://x.com", "https://x.com", "https://x.com", "http://x.com"},
		{"udp://x.com:443", "x.com", "", "udp://x.com:443"},
		{"x.com:443", "udp://x.com:443", "", "x.com:443"},
		{"udp://x.com:443", "udp://*.com.x.com:443 udp://x.com:1-500", "udp://x.com:443", ""},
		{"10.1.0.0/16 10.0.0.0/8 11.0.0.1", "10.0.0.0/8", "10.1.0.0/16 10.0.0.0/8", "11.0.0.1"},
		{"10.0.0.0/8", "10.1.0.0/16", "", "10.0.0.0/8"},
		{"10.0.0.1 x.com", "*.x.com [2001:db8::]/32", "", "10.0.0.1 x.com"},
		{"169.254.169.254+force", "169.254.0.0/16+force", "169.254.169.254+force", ""},
		{"x.com+force", "x.com", "", "x.com+force"},
		{"x.com", "x.com+force", "x.com", ""},
	} {
		kept, lost := mustParse(t, strings.Fields(c[0])...).Cut(mustParse(t, strings.Fields(c[1])...))
		assert.Equal(t, c[2], text(kept), "kept of %q under %q", c[0], c[1])
		assert.Equal(t, c[3], text(lost), "lost of %q under %q", c[0], c[1])
	}
}

func text(rules Rules) string {
	var list []string
	for _, r := range rules {
		list = append(list, r.String())
	}
	return strings.Join(list, " ")
}
