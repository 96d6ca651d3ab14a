package netrule

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzParse: the canonical form of every rule is read as the same rule without notes, and the rule is as its documentation says.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"example.com", "*.pypi.org:443", "https://x.com", "udp://x.com:53", "10.0.0.0/8:1-2", "[2001:db8::]/32:443+force",
		"2001:db8::1", "EXAMPLE.com.", "tcp://0x7f.1", "169.254.169.254+force", "*.com", "0.0.0.0/0", "a:0", "fe80::1%eth0", "http://u@x/p?q#f"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, _, err := Parse(text)
		if err != nil {
			var fault *Fault
			require.ErrorAs(t, err, &fault)
			require.NotEmpty(t, fault.Text)
			require.NotEmpty(t, fault.Fix)
			return
		}
		again, notes, err := Parse(r.String())
		require.NoError(t, err)
		require.Equal(t, r, again)
		require.Empty(t, notes)
		checkRule(t, r)
	})
}

func checkRule(t *testing.T, r Rule) {
	t.Helper()
	require.NotEqual(t, r.Host != "", r.Prefix.IsValid())
	require.NotEmpty(t, r.Ports)
	require.Equal(t, merge(r.Ports), r.Ports)
	require.NotZero(t, r.Ports[0].From)
	require.Contains(t, []string{"", "https", "http", "udp"}, r.Scheme)
	if r.Host != "" {
		name, _, err := Canonical(strings.TrimPrefix(r.Host, "*."))
		require.NoError(t, err)
		require.Equal(t, strings.TrimPrefix(r.Host, "*."), name)
		return
	}
	require.Equal(t, r.Prefix.Masked(), r.Prefix)
	require.NotZero(t, r.Prefix.Bits())
	require.False(t, r.Prefix.Addr().Is4In6())
	require.True(t, r.Force || !Metadata(r.Prefix.Addr()))
}

// FuzzCanonical: the result is stable, and it agrees with netip and with a second implementation of inet_aton(3).
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{"example.com", "EXAMPLE.com.", "127.1", "0x7f.1", "0177.0.0.1", "2852039166", "::ffff:1.2.3.4", "[::1]", "fe80::1%x",
		"a\x00.b", "0x", "1.2.3.4.5", "08.1", "0.0xffffff", "1.2.65536", "xn--a", "a_b.c", "00000000000000000001"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, host string) {
		name, addr, err := Canonical(host)
		if parsed, perr := netip.ParseAddr(host); perr == nil && parsed.Zone() == "" {
			require.NoError(t, err)
			require.Equal(t, parsed.Unmap(), addr)
		}
		if want, ok := referenceAton(strings.TrimSuffix(host, ".")); ok && len(host) <= maxName {
			require.NoError(t, err)
			require.Equal(t, netip.AddrFrom4(want), addr)
		} else if !ok && err == nil && addr.Is4() {
			require.Contains(t, host, ":") // mapped: all other forms are the reference's
		}
		if err != nil {
			require.Empty(t, name)
			require.False(t, addr.IsValid())
			return
		}
		require.NotEqual(t, name != "", addr.IsValid())
		text := name
		if addr.IsValid() {
			text = addr.String()
		}
		name2, addr2, err := Canonical(text)
		require.NoError(t, err)
		require.Equal(t, name, name2)
		require.Equal(t, addr, addr2)
	})
}

// referenceAton is inet_aton(3) as musl has it: strtoul with base 0 of each part.
func referenceAton(s string) (out [4]byte, ok bool) {
	var a [4]uint64
	n := 0
	for ; n < 4; n++ {
		v, rest, ok := strtoul(s)
		if !ok {
			return out, false
		}
		a[n] = v
		if rest == "" {
			break
		}
		if rest[0] != '.' {
			return out, false
		}
		s = rest[1:]
	}
	switch n {
	case 4:
		return out, false
	case 0:
		a[1] = a[0] & 0xffffff
		a[0] >>= 24
		fallthrough
	case 1:
		a[2] = a[1] & 0xffff
		a[1] >>= 16
		fallthrough
	case 2:
		a[3] = a[2] & 0xff
		a[2] >>= 8
	}
	for i, v := range a {
		if v > 255 {
			return out, false
		}
		out[i] = byte(v)
	}
	return out, true
}

func strtoul(s string) (v uint64, rest string, ok bool) {
	base := uint64(10)
	if strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X") {
		base, s = 16, s[2:]
	} else if strings.HasPrefix(s, "0") {
		base = 8
	}
	i := 0
	for ; i < len(s); i++ {
		d := strings.IndexByte("0123456789abcdef", s[i]|0x20)
		if s[i] < '0' || d < 0 || uint64(d) >= base {
			break
		}
		if v = v*base + uint64(d); v > 1<<40 {
			v = 1 << 40
		}
	}
	return v, s[i:], i > 0
}

// FuzzCut: whatever matches a rule that is kept matches the rules and the ceiling, nothing that both name with the same words is lost, and kept and lost
// are the rules.
func FuzzCut(f *testing.F) {
	f.Add("x.com *.y.com:1-100", "x.com:443 y.com a.y.com:50", uint64(1))
	f.Add("10.0.0.0/8 [2001:db8::]/32:22", "10.1.0.0/16 2001:db8::/32", uint64(2))
	f.Add("https://x.com http://x.com udp://x.com:443", "x.com https://*.com.x udp://x.com:1-65535", uint64(3))
	f.Add("169.254.169.254+force x.com+force", "169.254.0.0/16+force x.com", uint64(4))
	f.Fuzz(func(t *testing.T, rules, ceiling string, seed uint64) {
		checkCut(t, parseAll(rules), parseAll(ceiling), rand.New(rand.NewPCG(seed, 0)))
	})
}

func parseAll(text string) (rules Rules) {
	for _, word := range strings.Fields(text) {
		if r, _, err := Parse(word); err == nil && len(rules) < 8 {
			rules = append(rules, r)
		}
	}
	return rules
}

func checkCut(t *testing.T, rules, ceiling Rules, random *rand.Rand) {
	t.Helper()
	kept, lost := rules.Cut(ceiling)
	for _, r := range slices.Concat(kept, lost) {
		again, notes, err := Parse(r.String())
		require.NoError(t, err)
		require.Equal(t, r, again)
		require.Empty(t, notes)
	}
	all := slices.Concat(rules, ceiling)
	for range 200 {
		if len(all) == 0 {
			return
		}
		r := all[random.IntN(len(all))]
		edge := r.Ports[random.IntN(len(r.Ports))]
		port := []uint16{edge.From - 1, edge.From, edge.To, edge.To + 1}[random.IntN(4)]
		udp := random.IntN(8) == 0 != r.UDP()
		match := func(rs Rules) bool { _, ok := rs.Addr(r.Prefix.Addr(), port, udp); return ok }
		if r.Host != "" {
			name := strings.Replace(r.Host, "*", []string{"a", "a.b"}[random.IntN(2)], 1)
			match = func(rs Rules) bool { _, ok := rs.Name(name, port, udp); return ok }
		}
		if match(kept) {
			require.True(t, match(rules))
			require.True(t, match(ceiling))
		}
		require.Equal(t, match(rules), match(kept) || match(lost))
	}
	for _, r := range kept { // what is kept is not cut again
		again, gone := Rules{r}.Cut(ceiling)
		require.Equal(t, Rules{r}, again)
		require.Empty(t, gone)
	}
	for _, r := range lost {
		none, _ := Rules{r}.Cut(ceiling)
		require.Empty(t, none)
	}
}

// TestCutOfRandomRules makes rules that are near each other, which a fuzzer seldom does.
func TestCutOfRandomRules(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	rules := func() string {
		var words []string
		for range random.IntN(6) {
			words = append(words, pick("", "", "https://", "http://", "udp://")+
				pick("x.org", "a.x.org", "*.x.org", "*.a.x.org", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "[2001:db8::]/32", "[2001:db8::1]", "169.254.169.254")+
				pick("", ":80", ":443", ":1-100", ":80-443", ":81-65535")+pick("", "", "+force"))
		}
		return strings.Join(words, " ")
	}
	for range 2000 {
		checkCut(t, parseAll(rules()), parseAll(rules()), random)
	}
}

// TestPortSets compares the sets of ports with sets of numbers.
func TestPortSets(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 8))
	set := func() (p []Ports, in [65536]bool) {
		for range random.IntN(5) {
			from := 1 + random.IntN(20)
			if random.IntN(4) == 0 {
				from = 65530
			}
			to := min(from+random.IntN(6), 65535)
			p = append(p, Ports{uint16(from), uint16(to)})
			for i := from; i <= to; i++ {
				in[i] = true
			}
		}
		return merge(p), in
	}
	has := func(p []Ports, n int) bool { return n > 0 && Rule{Ports: p}.port(uint16(n)) }
	for range 300 {
		a, inA := set()
		b, inB := set()
		both, rest := intersect(a, b), subtract(a, b)
		assert.Equal(t, merge(both), both)
		assert.Equal(t, merge(rest), rest)
		for _, n := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 65529, 65530, 65531, 65532, 65533, 65534, 65535} {
			require.Equal(t, inA[n], has(a, n))
			require.Equal(t, inA[n] && inB[n], has(both, n))
			require.Equal(t, inA[n] && !inB[n], has(rest, n))
		}
	}
}
