package netrule

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCanonical(t *testing.T) {
	for _, c := range [][2]string{
		{"example.com", "example.com"},
		{"EXAMPLE.com.", "example.com"}, // PX08
		{"_dmarc.example.com", "_dmarc.example.com"},
		{"localhost", "localhost"},
		{"1.2.3.4.example", "1.2.3.4.example"},
		{"0x7f.example", "0x7f.example"},
		{"xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"1a", "1a"},
		{"192.0.2.1", "192.0.2.1"},
		{"2130706433", "127.0.0.1"}, // PX07
		{"127.1", "127.0.0.1"},
		{"127.0.1", "127.0.0.1"},
		{"0x7f.1", "127.0.0.1"},
		{"0X7F.1", "127.0.0.1"},
		{"0177.0.0.1", "127.0.0.1"},
		{"2852039166", "169.254.169.254"},
		{"0xa9fea9fe", "169.254.169.254"},
		{"010.8.8.8", "8.8.8.8"},
		{"0", "0.0.0.0"},
		{"0.65535", "0.0.255.255"},
		{"4294967295", "255.255.255.255"},
		{"127.0.0.1.", "127.0.0.1"},
		{"::1", "::1"},
		{"[::1]", "::1"},
		{"[2001:DB8:0:0::1]", "2001:db8::1"},
		{"::ffff:169.254.169.254", "169.254.169.254"},
		{"[::ffff:a9fe:a9fe]", "169.254.169.254"},
		{strings.Repeat("a", 63) + ".com", strings.Repeat("a", 63) + ".com"},
	} {
		name, addr, err := Canonical(c[0])
		if !assert.NoError(t, err, c[0]) {
			continue
		}
		assert.NotEqual(t, addr.IsValid(), name != "", c[0])
		if addr.IsValid() {
			name = addr.String()
		}
		assert.Equal(t, c[1], name)
	}
}

func TestCanonicalRefuses(t *testing.T) {
	for _, host := range []string{
		"", ".", "..", "a..b", ".a", "a..", "-a.com", "a-.com", "a.-",
		"evil\x00.allowed.com", "a\r\nb", "a b", "a\tb", "a\x7fb", "a%00b", "%61.com", // PX04, PX05
		"::ffff:127.0.0.1%x.allowed.com", "fe80::1%eth0", "[fe80::1%25eth0]", // PX06
		"user@a.com", `a\b`, "a/b", "a?b", "a#b", "*.a.com", "a,b", "a.com:443", // PX20
		"example。com", "ｅxample.com", "bücher.example", "a\xffb", // PX21
		"256.1", "1.2.3.4.5", "1.2.3.256", "4294967296", "08", "0x", "0xg.1", "1.2.3.09", "foo.1", "foo.0x1", "1..2", "+1", "1_0.1", "0x_1.1",
		"[", "]", "[]", "[a]", "[127.0.0.1]", "[::1", "::1]", "[::1]:80", "[[::1]]", "a[b", ":", ":::", "1:2", "[::1].",
		strings.Repeat("a", 64), strings.Repeat("a.", 128), strings.Repeat("a.", 127) + "b", strings.Repeat("abcdefg.", 32) + "com",
	} {
		name, addr, err := Canonical(host)
		assert.Error(t, err, "%q is read as %q %s", host, name, addr)
		if err != nil {
			assert.Equal(t, "", strings.Trim(err.Error(), printable), "%q", err)
		}
	}
}

// printable are the characters that errors have: no control characters and no bytes above 0x7e.
var printable = func() string {
	var b []byte
	for c := byte(' '); c < 0x7f; c++ {
		b = append(b, c)
	}
	return string(b)
}()

func TestGuard(t *testing.T) {
	for _, c := range [][2]string{
		{"192.0.2.1", ""}, {"8.8.8.8", ""}, {"2606:4700::1111", ""}, {"198.18.0.1", ""}, {"172.32.0.1", ""}, {"11.0.0.1", ""},
		{"0.0.0.0", hereAddress}, {"0.1.2.3", hereAddress}, {"::", hereAddress},
		{"127.0.0.1", loopback}, {"127.255.255.255", loopback}, {"::1", loopback},
		{"10.0.0.1", private}, {"172.16.0.1", private}, {"172.31.255.255", private}, {"192.168.1.1", private}, {"100.64.0.1", private},
		{"fc00::1", private}, {"fd12::1", private}, {"fec0::1", private},
		{"169.254.1.1", linkLocal}, {"fe80::1", linkLocal}, {"fe80::1%eth0", linkLocal},
		{"169.254.169.254", metadata}, {"169.254.170.2", metadata}, {"100.100.100.200", metadata}, {"168.63.129.16", metadata}, {"192.0.0.192", metadata},
		{"fd00:ec2::254", metadata}, {"fd20:ce::254", metadata},
		{"224.0.0.1", multicast}, {"ff02::1", multicast}, {"255.255.255.255", broadcast}, {"240.0.0.1", reserved},
		{"::ffff:127.0.0.1", loopback}, {"::ffff:169.254.169.254", metadata}, {"::ffff:8.8.8.8", ""},
		{"64:ff9b:1::1", localNAT64}, {"64:ff9b::8.8.8.8", ""}, {"2002:808:808::1", ""},
		{"64:ff9b::127.0.0.1", loopback + embeds}, {"64:ff9b::a9fe:a9fe", metadata + embeds}, {"::127.0.0.1", loopback + embeds},
		{"::ffff:0:10.0.0.1", private + embeds}, {"2002:7f00:1::", loopback + embeds}, {"2002:a9fe:a9fe:1::1", metadata + embeds},
		{"2001:0:a00:1::f7f7:f7f7", private + embeds},    // Teredo: server 10.0.0.1, client 8.8.8.8
		{"2001:0:808:808::80ff:fffe", loopback + embeds}, // server 8.8.8.8, client 127.0.0.1
		{"2001:0:808:808::f7f7:f7f7", ""},
	} {
		a := netip.MustParseAddr(c[0])
		assert.Equal(t, c[1], Guard(a), c[0])
	}
	assert.NotEmpty(t, Guard(netip.Addr{}))
}

const embeds = ", written as an IPv6 address"

func TestMetadata(t *testing.T) {
	for _, row := range guarded {
		p := netip.MustParsePrefix(row.prefix)
		assert.Equal(t, p.Masked(), p)
		assert.Equal(t, row.why == metadata, Metadata(p.Addr()), row.prefix)
		if p.IsSingleIP() {
			assert.Equal(t, row.why, Guard(p.Addr()))
		}
	}
	for _, text := range []string{
		"::ffff:169.254.169.254", "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::", "2001:0:808:808::5601:5601",
		"64:ff9b:1:a9fe:a9:fe00::", "64:ff9b:1:a9:fe:a9fe::", "64:ff9b:1:0:a9:fea9:fe00::", "64:ff9b:1::169.254.169.254", // RFC 6052, 2.2
	} {
		assert.True(t, Metadata(netip.MustParseAddr(text)), text)
	}
	assert.False(t, Metadata(netip.Addr{}))
	assert.False(t, Metadata(netip.MustParseAddr("169.254.169.253")))
}
