package nethost

import (
	"encoding/binary"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

func query(t testing.TB, name string, kind dnsmessage.Type) []byte {
	t.Helper()
	q := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, RecursionDesired: true}, Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name + "."), Type: kind, Class: dnsmessage.ClassINET}}}
	b, err := q.Pack()
	require.NoError(t, err)
	return b
}

// ask asks the server at an address inside.
func (b *box) ask(t testing.TB, server, name string, kind dnsmessage.Type) dnsmessage.Message {
	t.Helper()
	c, err := b.open("udp4", server)
	require.NoError(t, err)
	defer c.Close()
	got, err := say(t, c, string(query(t, name, kind)))
	require.NoError(t, err)
	var m dnsmessage.Message
	require.NoError(t, m.Unpack([]byte(got)))
	return m
}

func TestDNSAnswersForListedNamesAlone(t *testing.T) {
	h := newHost()
	b := newBox(t, h, "*.example.com", "db.internal:5432", "udp://time.example.org:123")
	var first netip.Addr
	for _, server := range []string{"198.18.0.1:53", "8.8.8.8:53", "127.0.0.53:53"} { // whatever server is asked
		m := b.ask(t, server, "a.example.com", dnsmessage.TypeA)
		require.Len(t, m.Answers, 1)
		a := netip.AddrFrom4(m.Answers[0].Body.(*dnsmessage.AResource).A)
		assert.True(t, synthetic.Contains(a))
		assert.GreaterOrEqual(t, m.Answers[0].Header.TTL, uint32(3600))
		if first.IsValid() {
			assert.Equal(t, first, a, "a name has one address")
		}
		first = a
	}
	other := b.ask(t, "198.18.0.1:53", "B.Example.COM", dnsmessage.TypeA)
	require.Len(t, other.Answers, 1)
	assert.NotEqual(t, first, netip.AddrFrom4(other.Answers[0].Body.(*dnsmessage.AResource).A))
	assert.Len(t, b.ask(t, "198.18.0.1:53", "time.example.org", dnsmessage.TypeA).Answers, 1)
	for _, kind := range []dnsmessage.Type{dnsmessage.TypeAAAA, dnsmessage.TypeMX, dnsmessage.TypeTXT, 64, 65} {
		m := b.ask(t, "198.18.0.1:53", "a.example.com", kind)
		assert.Equal(t, dnsmessage.RCodeSuccess, m.RCode)
		assert.Empty(t, m.Answers, "no data, so no keys of ECH and no hints to HTTP/3")
	}
	for _, name := range []string{"example.com", "example.com.evil.org", "aexample.com", "secret-in-a-name.attacker.org", "1.0.0.127", "127.1"} {
		for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypeTXT} {
			assert.Equal(t, dnsmessage.RCodeNameError, b.ask(t, "198.18.0.1:53", name, kind).RCode, name)
		}
	}
	for _, name := range []string{"localhost", "x.localhost"} {
		m := b.ask(t, "198.18.0.1:53", name, dnsmessage.TypeA)
		require.Len(t, m.Answers, 1)
		assert.Equal(t, [4]byte{127, 0, 0, 1}, m.Answers[0].Body.(*dnsmessage.AResource).A)
	}
	assert.Empty(t, h.looked(), "nothing is looked up before a connection is authorised")
	x, err := find(h.refused(), opResolve, "example.com.evil.org", netmessage.Unlisted)
	require.NoError(t, err)
	assert.Equal(t, "example.com.evil.org:443", x.Rule)
}

func TestDNSOverTCP(t *testing.T) {
	b := newBox(t, newHost(), "a.example.com")
	c := b.dial(t, "198.18.0.1:53")
	_ = c.SetDeadline(time.Now().Add(testenv.Limit(0)))
	for range 2 { // two queries on one connection
		q := query(t, "a.example.com", dnsmessage.TypeA)
		_, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...))
		require.NoError(t, err)
		var size [2]byte
		_, err = io.ReadFull(c, size[:])
		require.NoError(t, err)
		got := make([]byte, binary.BigEndian.Uint16(size[:]))
		_, err = io.ReadFull(c, got)
		require.NoError(t, err)
		var m dnsmessage.Message
		require.NoError(t, m.Unpack(got))
		assert.Len(t, m.Answers, 1)
	}
}

func TestDNSIsNotConfusedByNonsense(t *testing.T) {
	b := newBox(t, newHost(), "a.example.com")
	c, err := b.open("udp4", "198.18.0.1:53")
	require.NoError(t, err)
	defer c.Close()
	for _, packet := range []string{"", "x", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", string(make([]byte, 1200))} {
		_, err := c.Write([]byte(packet))
		require.NoError(t, err)
	}
	assert.Len(t, b.ask(t, "198.18.0.1:53", "a.example.com", dnsmessage.TypeA).Answers, 1)
}

func TestASyntheticAddressIsNeverReused(t *testing.T) {
	h := newHost()
	b := newBox(t, h, "*.example.com", "named.example.org")
	first := b.ask(t, "198.18.0.1:53", "first.example.com", dnsmessage.TypeA)
	require.Len(t, first.Answers, 1)
	var last netip.Addr
	one := func(i int, itself bool) (netip.Addr, bool) {
		return b.pool.address(string([]byte{byte(i >> 16), byte(i >> 8), byte(i)}), itself)
	}
	for i := 1; i < maxSynthetic-kept; i++ {
		_, ok := one(i, false)
		require.True(t, ok)
	}
	assert.Equal(t, dnsmessage.RCodeServerFailure, b.ask(t, "198.18.0.1:53", "more.example.com", dnsmessage.TypeA).RCode)
	assert.Len(t, b.ask(t, "198.18.0.1:53", "named.example.org", dnsmessage.TypeA).Answers, 1, "names of a wildcard leave addresses for those of rules")
	for i := maxSynthetic - kept + 1; i < maxSynthetic; i++ {
		a, ok := one(i, true)
		require.True(t, ok)
		last = a
	}
	assert.Equal(t, netip.MustParseAddr("198.19.255.254"), last)
	assert.Equal(t, dnsmessage.RCodeServerFailure, b.ask(t, "198.18.0.1:53", "last.example.com", dnsmessage.TypeA).RCode)
	again := b.ask(t, "198.18.0.1:53", "first.example.com", dnsmessage.TypeA)
	assert.Equal(t, first.Answers, again.Answers)
	_, err := find(h.refused(), opResolve, "last.example.com", netmessage.TooMany)
	assert.NoError(t, err)
}

// TestServicesOfListedHosts have no address, and no denial tells of them.
func TestServicesOfListedHosts(t *testing.T) {
	h := newHost()
	b := newBox(t, h, "example.com", "*.example.org")
	assert.Equal(t, dnsmessage.RCodeNameError, b.ask(t, "198.18.0.1:53", "_http._tcp.example.com", dnsmessage.TypeSRV).RCode)
	assert.Equal(t, dnsmessage.RCodeSuccess, b.ask(t, "198.18.0.1:53", "_mongodb._tcp.db.example.org", dnsmessage.TypeSRV).RCode, "a rule has it")
	assert.Len(t, b.ask(t, "198.18.0.1:53", "_app.example.org", dnsmessage.TypeA).Answers, 1, "likewise")
	assert.Empty(t, h.refused())
	b.ask(t, "198.18.0.1:53", "_http._tcp.unlisted.example", dnsmessage.TypeSRV)
	assert.Len(t, h.refused(), 1, "of another host it does")
}

// TestDNSToAServerThatIsListed: a rule for port 53 is for that server itself.
func TestDNSToAServerThatIsListed(t *testing.T) {
	h := newHost()
	h.put("", "9.9.9.9", 53, listenPackets(t))
	b := newBox(t, h, "udp://9.9.9.9:53")
	c, err := b.open("udp4", "9.9.9.9:53")
	require.NoError(t, err)
	defer c.Close()
	got, err := say(t, c, "question")
	require.NoError(t, err)
	assert.Equal(t, "re: question", got)
}
