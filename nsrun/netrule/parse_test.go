package netrule

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

func ports(list ...uint16) (p []Ports) {
	for i := 0; i < len(list); i += 2 {
		p = append(p, Ports{list[i], list[i+1]})
	}
	return p
}

func mustParse(t *testing.T, list ...string) (rules Rules) {
	t.Helper()
	for _, text := range list {
		r, _, err := Parse(text)
		require.NoError(t, err)
		rules = append(rules, r)
	}
	return rules
}

func TestParse(t *testing.T) {
	web := ports(80, 80, 443, 443)
	for _, c := range []struct {
		text, canonical string // canonical is text if it is empty
		want            Rule
		notes           int
	}{
		{"example.com", "", Rule{Host: "example.com", Ports: web}, 0},
		{"db", "", Rule{Host: "db", Ports: web}, 0},
		{"my_host.example.com:22", "", Rule{Host: "my_host.example.com", Ports: ports(22, 22)}, 0},
		{"tcp://example.com:22", "example.com:22", Rule{Host: "example.com", Ports: ports(22, 22)}, 0},
		{"example.com:80", "", Rule{Host: "example.com", Ports: ports(80, 80)}, 0},
		{"example.com:8000-8999", "", Rule{Host: "example.com", Ports: ports(8000, 8999)}, 0},
		{"example.com:80-80", "example.com:80", Rule{Host: "example.com", Ports: ports(80, 80)}, 0},
		{"example.com:1-65535", "", Rule{Host: "example.com", Ports: ports(1, 65535)}, 0},
		{"https://example.com", "", Rule{Host: "example.com", Ports: ports(443, 443), Scheme: "https"}, 0},
		{"https://example.com:443", "https://example.com", Rule{Host: "example.com", Ports: ports(443, 443), Scheme: "https"}, 0},
		{"https://example.com:8443", "", Rule{Host: "example.com", Ports: ports(8443, 8443), Scheme: "https"}, 0},
		{"http://example.com", "", Rule{Host: "example.com", Ports: ports(80, 80), Scheme: "http"}, 0},
		{"udp://example.com:123", "", Rule{Host: "example.com", Ports: ports(123, 123), Scheme: "udp"}, 0},
		{"*.pypi.org", "", Rule{Host: "*.pypi.org", Ports: web}, 0},
		{"https://*.pypi.org", "", Rule{Host: "*.pypi.org", Ports: ports(443, 443), Scheme: "https"}, 0},
		{"xn--bcher-kva.example", "", Rule{Host: "xn--bcher-kva.example", Ports: web}, 0},
		{"10.0.0.0/8:5432", "", Rule{Prefix: prefix("10.0.0.0/8"), Ports: ports(5432, 5432)}, 0},
		{"10.0.0.1/32", "10.0.0.1", Rule{Prefix: prefix("10.0.0.1/32"), Ports: web}, 0},
		{"127.0.0.1:5432", "", Rule{Prefix: prefix("127.0.0.1/32"), Ports: ports(5432, 5432)}, 0},
		{"0.0.0.0:80", "", Rule{Prefix: prefix("0.0.0.0/32"), Ports: ports(80, 80)}, 0},
		{"[2001:db8::1]:22", "", Rule{Prefix: prefix("2001:db8::1/128"), Ports: ports(22, 22)}, 0},
		{"[2001:db8::1]", "", Rule{Prefix: prefix("2001:db8::1/128"), Ports: web}, 0},
		{"[2001:db8::]/32", "", Rule{Prefix: prefix("2001:db8::/32"), Ports: web}, 0},
		{"[2001:db8::]/32:443", "", Rule{Prefix: prefix("2001:db8::/32"), Ports: ports(443, 443)}, 0},
		{"169.254.169.254:80+force", "", Rule{Prefix: prefix("169.254.169.254/32"), Ports: ports(80, 80), Force: true}, 0},
		{"https://example.com+force", "", Rule{Host: "example.com", Ports: ports(443, 443), Scheme: "https", Force: true}, 0},
		{"128.0.0.0/1+force", "", Rule{Prefix: prefix("128.0.0.0/1"), Ports: web, Force: true}, 0},
		{"[fc00::]/7+force", "", Rule{Prefix: prefix("fc00::/7"), Ports: web, Force: true}, 0},

		{"EXAMPLE.com.", "example.com", Rule{Host: "example.com", Ports: web}, 1},
		{"HTTPS://Example.com", "https://example.com", Rule{Host: "example.com", Ports: ports(443, 443), Scheme: "https"}, 2},
		{"*.PyPI.org.:443", "*.pypi.org:443", Rule{Host: "*.pypi.org", Ports: ports(443, 443)}, 1},
		{"2001:db8::1", "[2001:db8::1]", Rule{Prefix: prefix("2001:db8::1/128"), Ports: web}, 1},
		{"2001:db8::1:443", "[2001:db8::1:443]", Rule{Prefix: prefix("2001:db8::1:443/128"), Ports: web}, 1},
		{"2001:db8::/32", "[2001:db8::]/32", Rule{Prefix: prefix("2001:db8::/32"), Ports: web}, 1},
		{"[2001:DB8:0::1]:1", "[2001:db8::1]:1", Rule{Prefix: prefix("2001:db8::1/128"), Ports: ports(1, 1)}, 1},
	} {
		r, notes, err := Parse(c.text)
		if !assert.NoError(t, err, c.text) {
			continue
		}
		assert.Equal(t, c.want, r, c.text)
		assert.Len(t, notes, c.notes, c.text)
		if c.canonical == "" {
			c.canonical = c.text
		}
		assert.Equal(t, c.canonical, r.String())
	}
	_, notes, _ := Parse("EXAMPLE.com.")
	assert.Equal(t, []string{"EXAMPLE.com. is read as example.com"}, notes)
}

// TestParseRefuses has a word of the text and of the fix of each fault.
func TestParseRefuses(t *testing.T) {
	for _, c := range [][3]string{
		{"", "empty", "example.com:443"},
		{":443", "no host", "name a host"},
		{"https://", "no host", "name a host"},
		{"://x", "no scheme", "https, http, udp or tcp"},
		{"*", "every host", "name the hosts"},
		{"*:443", "every host", "name the hosts"},
		{"*.", "every host", "name the hosts"},
		{"*.*", "every host", "name the hosts"},
		{"*.com", "everything below com by accident", "*.example.com"},
		{"*.com.", "everything below com by accident", "*.example.com"},
		{"*x.com", "whole first label", "*.name"},
		{"a.*.com", "whole first label", "*.name"},
		{"*.*.com", "whole first label", "*.name"},
		{"example.*", "whole first label", "*.name"},
		{"*.0.0.1", "wildcard of an address", "10.0.0.0/8"}, // PX10
		{"*.10.0.0.1", "wildcard of an address", "10.0.0.0/8"},
		{"*.localhost", "sandbox's own loopback", "leave"},
		{"*..com", "empty label", "*.name"},
		{"localhost:5432", "sandbox's own loopback", "127.0.0.1"},
		{"a.localhost", "sandbox's own loopback", "127.0.0.1"},
		{"0.0.0.0/0", "every address", "name the hosts"},
		{"0.0.0.0/0+force", "every address", "name the hosts"},
		{"[::]/0", "every address", "name the hosts"},
		{"::/0", "every address", "name the hosts"},
		{"128.0.0.0/1", "very large", "at least 8 bits"},
		{"[fc00::]/7", "very large", "at least 16 bits"},
		{"ftp://x.com", `no scheme "ftp"`, "https, http, udp or tcp"},
		{"x.com:0", "not a port", "1 to 65535"},
		{"x.com:65536", "not a port", "1 to 65535"},
		{"x.com:", "not a port", "1 to 65535"},
		{"x.com:https", `"https" is not a port`, "1 to 65535"},
		{"x.com:0443", "not a port", "1 to 65535"},
		{"x.com:-1", "not a port", "1 to 65535"},
		{"x.com:1-", "not a port", "1 to 65535"},
		{"x.com:1-2-3", "not a port", "1 to 65535"},
		{"x.com:9-8", "reversed", "8-9"},
		{"x.com:*", "* is not a port", "1-65535"},
		{"x.com:80,443", "a rule is one host", "one rule for each"},
		{"udp://x.com", "takes a port", "udp://x.com:PORT"},
		{"fe80::1%eth0", "scope", "without the %"},
		{"[fe80::1%eth0]:443", "scope", "without the %"},
		{"https://[fe80::1%eth0]:443", "scope", "without the %"},
		{"::ffff:127.0.0.1%x.allowed.com", "scope", "without the %"}, // PX06
		{"a..com", "empty label", "name a host"},
		{".example.com", "empty label", "name a host"},
		{"example.com..", "empty label", "name a host"},
		{"-x.com", "hyphen", "name a host"},
		{"https://user@x.com", "user name", "before the @"}, // PX20
		{`http://allowed\@evil`, `'\\'`, "example.com:443"},
		{"allowed%2eevil.com", "'%'", "example.com:443"},
		{"https://x.com/", "path", "end the rule"},
		{"x.com/path", "path", "end the rule"},
		{"https://x.com:443/path", "path", "end the rule"},
		{"x.com?q", "query", "end the rule"},
		{"x.com#f", "fragment", "end the rule"},
		{"x.com ", "' '", "example.com:443"},
		{"evil\x00.allowed.com", `\x00`, "example.com:443"}, // PX04
		{"x.com\r\n", `\r`, "example.com:443"},              // PX05
		{"10.1.2.3/8", "bits outside", "10.0.0.0/8 for the block, or 10.1.2.3 for the address"},
		{"[2001:db8::1]/32", "bits outside", "[2001:db8::]/32 for the block, or [2001:db8::1]"},
		{"10.0.0.0/33", "length", "1 to 32"},
		{"10.0.0.0/08", "length", "1 to 32"},
		{"10.0.0.0/", "length", "1 to 32"},
		{"2001:db8::/32:443", "length", "1 to 128"},
		{"[2001:db8::1", "not closed", "[address]:port"},
		{"[2001:db8::1]443", "follows the bracket", "[address]:port"},
		{"[10.0.0.1]:443", "IPv6 addresses only", "without brackets"},
		{"[x.com]:443", "IPv6 addresses only", "without brackets"},
		{"a:b:c", "not an IPv6 address", "[2001:db8::1]:443"},
		{"169.254.169.254", "metadata service", "+force"},
		{"169.254.0.0/16", "has the address of a metadata service", "+force"},
		{"168.63.129.16:80", "metadata service", "+force"},
		{"[fd00:ec2::254]", "metadata service", "+force"},
		{"[64:ff9b::a9fe:a9fe]", "metadata service", "+force"},
		{"[64:ff9b::]/96", "has the address of a metadata service", "+force"},
		{"[2002:a9fe:a9fe::1]", "metadata service", "+force"},
		{"x.com+", "nothing but +force", "+force"},
		{"x.com+forced", "nothing but +force", "+force"},
		{"x.com+force:443", "nothing but +force", "+force"},
		{"2130706433", "unusual form of the address 127.0.0.1", "write 127.0.0.1"}, // PX07
		{"127.1", "unusual form", "write 127.0.0.1"},
		{"0x7f.1:80", "unusual form", "write 127.0.0.1"},
		{"0177.0.0.1", "unusual form", "write 127.0.0.1"},
		{"10.0.0.1.", "unusual form", "write 10.0.0.1"},
		{"[::ffff:10.0.0.1]:80", "unusual form", "write 10.0.0.1"},
		{"1.2.3.256", "not an IPv4 address", "name a host"},
		{"example。com", "not ASCII", "xn--"}, // PX21
		{"bücher.example", "not ASCII", "xn--"},
		{strings.Repeat("a", 64) + ".com", "63 bytes", "name a host"},
		{strings.Repeat("a.", 200) + "com", "more than 320", "one host"},
	} {
		_, _, err := Parse(c[0])
		var fault *Fault
		if !assert.ErrorAs(t, err, &fault, c[0]) {
			continue
		}
		assert.Contains(t, fault.Text, c[1], c[0])
		assert.Contains(t, fault.Fix, c[2], c[0])
		assert.Equal(t, c[0], fault.Rule)
		assert.NotContains(t, err.Error(), "\x00")
		assert.NotContains(t, err.Error(), "\n")
	}
}

func TestSuggest(t *testing.T) {
	for _, c := range []struct {
		name, addr string
		port       uint16
		udp        bool
		want       string
	}{
		{"example.com", "", 443, false, "example.com:443"},
		{"example.com", "", 123, true, "udp://example.com:123"},
		{"", "192.0.2.1", 443, false, "192.0.2.1:443"},
		{"", "::ffff:192.0.2.1", 443, false, "192.0.2.1:443"},
		{"", "2001:db8::1", 53, true, "udp://[2001:db8::1]:53"},
		{"intranet.example", "10.0.0.1", 443, false, "10.0.0.1:443"},
		{"", "169.254.169.254", 80, false, "169.254.169.254:80+force"},
		{"", "fe80::1%eth0", 80, false, "[fe80::1]:80"},
		{"", "", 443, false, ""},
		{"example.com", "", 0, false, ""},
		{"localhost", "", 80, false, ""},
		{"*.example.com", "", 80, false, ""},
		{"x.com:1-65535", "", 80, false, ""},
		{"https://x.com", "", 80, false, ""},
		{"x y", "", 80, false, ""},
	} {
		var a netip.Addr
		if c.addr != "" {
			a = netip.MustParseAddr(c.addr)
		}
		got := Suggest(c.name, a, c.port, c.udp)
		assert.Equal(t, c.want, got)
		if got == "" {
			continue
		}
		rules := mustParse(t, got)
		_, ok := rules.Addr(a.WithZone(""), c.port, c.udp)
		if !a.IsValid() {
			_, ok = rules.Name(c.name, c.port, c.udp)
		}
		assert.True(t, ok, got)
	}
}
