package netparse

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// dnsQuery makes a query. edns is the UDP size of its OPT record, if it has one.
func dnsQuery(t testing.TB, name string, kind dnsmessage.Type, edns int) []byte {
	t.Helper()
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: 0xbeef, RecursionDesired: true})
	require.NoError(t, b.StartQuestions())
	require.NoError(t, b.Question(dnsmessage.Question{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}))
	if edns > 0 {
		var h dnsmessage.ResourceHeader
		require.NoError(t, b.StartAdditionals())
		require.NoError(t, h.SetEDNS0(edns, 0, false))
		require.NoError(t, b.OPTResource(h, dnsmessage.OPTResource{}))
	}
	msg, err := b.Finish()
	require.NoError(t, err)
	return msg
}

func TestQuery(t *testing.T) {
	q, err := ParseQuery(dnsQuery(t, "ExAmple.COM.", dnsmessage.TypeA, 0))
	require.NoError(t, err)
	assert.Equal(t, "example.com", q.Name)
	assert.Equal(t, uint16(0xbeef), q.ID)
	assert.Equal(t, dnsmessage.TypeA, q.Type)
	assert.True(t, q.RecursionDesired)
	assert.False(t, q.EDNS)
	assert.Equal(t, 512, q.UDPSize)

	var m dnsmessage.Message
	require.NoError(t, m.Unpack(q.Address(netip.MustParseAddr("198.18.0.7"), 600)))
	assert.True(t, m.Response && m.RecursionDesired && m.RecursionAvailable)
	assert.Equal(t, uint16(0xbeef), m.ID)
	assert.Equal(t, "ExAmple.COM.", m.Questions[0].Name.String(), "the case of the question stays")
	require.Len(t, m.Answers, 1)
	assert.Equal(t, &dnsmessage.AResource{A: [4]byte{198, 18, 0, 7}}, m.Answers[0].Body)
	assert.Equal(t, uint32(600), m.Answers[0].Header.TTL)

	require.NoError(t, m.Unpack(q.NotFound("no rule")))
	assert.Equal(t, dnsmessage.RCodeNameError, m.RCode)
	assert.Empty(t, m.Additionals, "no EDNS in the query")

	require.NoError(t, m.Unpack(q.Fail(dnsmessage.RCodeServerFailure)))
	assert.Equal(t, dnsmessage.RCodeServerFailure, m.RCode)
	assert.Len(t, m.Questions, 1)
}

func TestQueryWithoutData(t *testing.T) {
	for _, kind := range []dnsmessage.Type{dnsmessage.TypeAAAA, dnsmessage.TypeTXT, 64, 65, 255} { // 64 and 65: SVCB, HTTPS
		q, err := ParseQuery(dnsQuery(t, "example.com.", kind, 0))
		require.NoError(t, err)
		assert.Equal(t, q.Empty(), q.Address(netip.MustParseAddr("198.18.0.7"), 600))
		var m dnsmessage.Message
		require.NoError(t, m.Unpack(q.Empty()))
		assert.Equal(t, dnsmessage.RCodeSuccess, m.RCode)
		assert.Empty(t, m.Answers)
		require.Len(t, m.Authorities, 1)
		assert.Equal(t, uint32(noDataTTL), m.Authorities[0].Body.(*dnsmessage.SOAResource).MinTTL)
	}
}

func TestQueryWithEDNS(t *testing.T) {
	long := strings.Repeat(strings.Repeat("a", 62)+".", 3) + strings.Repeat("b", 62) + "."
	for _, size := range []int{1, 512, 4096} {
		q, err := ParseQuery(dnsQuery(t, long, dnsmessage.TypeA, size))
		require.NoError(t, err)
		assert.True(t, q.EDNS)
		assert.Equal(t, max(size, 512), q.UDPSize)
		answer := q.NotFound("no rule names it\n" + strings.Repeat("x", 1000))
		require.NotNil(t, answer)
		assert.LessOrEqual(t, len(answer), 512)
		var m dnsmessage.Message
		require.NoError(t, m.Unpack(answer))
		opt := m.Additionals[0].Body.(*dnsmessage.OPTResource)
		require.Len(t, opt.Options, 1)
		assert.Equal(t, uint16(15), opt.Options[0].Code)
		assert.Equal(t, "\x00\x0fno rule names it?xxx", string(opt.Options[0].Data[:22]))
	}
}

func TestQueryRefused(t *testing.T) {
	good := dnsQuery(t, "example.com.", dnsmessage.TypeA, 1232)
	change := func(at int, value byte) []byte {
		msg := append([]byte{}, good...)
		msg[at] = value
		return msg
	}
	for _, msg := range [][]byte{nil, good[:11], change(2, 0x80)} {
		_, err := ParseQuery(msg)
		assert.ErrorIs(t, err, ErrNotQuery)
	}
	for name, msg := range map[string][]byte{
		"opcode": change(2, 0x28), "truncated": change(2, 0x02), "no question": change(5, 0), "two questions": change(5, 2),
		"cut": good[:20], "more records": change(11, 2), "pointer to itself": append(change(12, 0xc0)[:13], 12, 0, 1, 0, 1),
	} {
		q, err := ParseQuery(msg)
		assert.ErrorIs(t, err, ErrMalformed, name)
		var m dnsmessage.Message
		require.NoError(t, m.Unpack(q.Fail(dnsmessage.RCodeFormatError)), name)
		assert.Equal(t, uint16(0xbeef), m.ID)
		assert.Equal(t, dnsmessage.RCodeFormatError, m.RCode)
	}
	for _, name := range []string{".", "127.1.", "a b.com.", "evil\x00.com.", "*.com.", "-a.com.", "10.0.0.1."} {
		q, err := ParseQuery(dnsQuery(t, name, dnsmessage.TypeA, 0))
		assert.NoError(t, err, name)
		assert.Empty(t, q.Name)
		assert.NotNil(t, q.NotFound("no"), name)
	}
}

func FuzzQuery(f *testing.F) {
	f.Add(dnsQuery(f, "ExAmple.com.", dnsmessage.TypeA, 0))
	f.Add(dnsQuery(f, "a_b.example.com.", dnsmessage.TypeAAAA, 1232))
	f.Add(dnsQuery(f, ".", 255, 1))
	f.Add(dnsQuery(f, strings.Repeat("abcdefghijklmno.", 15)+"abcdefghijkl.", dnsmessage.TypeA, 512))
	f.Fuzz(func(t *testing.T, msg []byte) {
		q, err := ParseQuery(msg)
		if err != nil {
			_ = q.Fail(dnsmessage.RCodeFormatError)
			return
		}
		for _, answer := range [][]byte{q.Address(netip.MustParseAddr("198.18.0.1"), 60), q.Empty(), q.NotFound(strings.Repeat("why ", 99)), q.Fail(dnsmessage.RCodeRefused)} {
			require.NotNil(t, answer)
			require.LessOrEqual(t, len(answer), 512)
			var m, asked dnsmessage.Message
			require.NoError(t, m.Unpack(answer))
			require.Equal(t, q.ID, m.ID)
			require.True(t, m.Response)
			require.Len(t, m.Questions, 1)
			if asked.Unpack(msg) == nil {
				require.Equal(t, asked.Questions, m.Questions)
			}
		}
	})
}
