package nethost

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// askingBox is a box that asks, for wait at most, about what most allows; about everything without that.
func askingBox(t *testing.T, wait time.Duration, most []string, rules ...string) *box {
	t.Helper()
	h := newHost()
	server := listen(t, echo)
	for i, name := range []string{"a.example.com", "b.example.com", "c.example.com"} {
		h.put(name, fmt.Sprintf("192.0.2.%d", 10+i), 7, server)
	}
	h.put("inner.example.com", "10.0.0.1", 7, server)
	return newBoxWith(t, h, usual, netmessage.Start{Rules: rules, Ask: &netmessage.Asking{MS: wait.Milliseconds(), Most: most, All: most == nil}})
}

// echoes reports whether a name can be reached at port 7.
func (b *box) echoes(t testing.TB, name string) bool {
	t.Helper()
	addrs, err := b.resolver().LookupHost(t.Context(), name)
	if err != nil {
		return false
	}
	c, err := b.try(t, net.JoinHostPort(addrs[0], "7"))
	return err == nil && talks(c)
}

func talks(c net.Conn) bool {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(testenv.Limit(0)))
	_, err := c.Write([]byte("over\n"))
	got := make([]byte, 5)
	if err == nil {
		_, err = io.ReadFull(c, got)
	}
	return err == nil
}

func TestAQuestionAndItsAnswers(t *testing.T) {
	b := askingBox(t, time.Minute, nil, "a.example.com:7")
	assert.True(t, b.echoes(t, "a.example.com"))
	for i, row := range []struct {
		name   string
		answer netmessage.Answer
		want   bool
	}{
		{"b.example.com", netmessage.Answer{Allow: true}, true},
		{"b.example.com", netmessage.Answer{Reason: "the user said so"}, false},
		{"inner.example.com", netmessage.Answer{Allow: true}, false}, // it leads to a private address
	} {
		looked := len(b.host.looked())
		result := make(chan bool, 1)
		go func() { result <- b.echoes(t, row.name) }()
		q := b.host.questions(t, i+1)[i]
		assert.Equal(t, netmessage.Question{Serial: i + 1, Name: row.name, Port: 7, Rule: row.name + ":7"}, q)
		assert.Len(t, b.host.looked(), looked, "nothing is looked up before the answer")
		row.answer.Serial = q.Serial
		b.Answer(netmessage.Answer{Serial: 1000, Allow: true}) // to none
		b.Answer(row.answer)
		assert.Equal(t, row.want, testenv.Receive(t, result, "the end of the connection"), "%+v", row)
	}
	refused := b.host.refused()
	require.Len(t, refused, 2)
	assert.Equal(t, "no rule names b.example.com, and the user said so", refused[0].Detail)
	assert.Equal(t, netmessage.Guarded, refused[1].Reason)
}

// TestOneQuestionForAll: connections to the same host and port wait for the same answer.
func TestOneQuestionForAll(t *testing.T) {
	var a asking
	q, first := a.question("b.example.com:7")
	assert.True(t, first)
	for range 10 {
		same, first := a.question("b.example.com:7")
		assert.Same(t, q, same)
		assert.False(t, first)
	}
	other, first := a.question("b.example.com:8")
	assert.NotSame(t, q, other)
	assert.True(t, first)
}

// TestManyConnectionsThatAsk: all get an answer. One that comes after the answer to the others is asked about again.
func TestManyConnectionsThatAsk(t *testing.T) {
	b := askingBox(t, time.Minute, nil)
	addrs, err := b.resolver().LookupHost(t.Context(), "b.example.com")
	require.NoError(t, err)
	ended := make(chan bool)
	const connections = 10
	for range connections {
		c := b.dial(t, addrs[0]+":7")
		go func() { ended <- talks(c) }()
	}
	answers := time.NewTicker(time.Millisecond)
	defer answers.Stop()
	late := time.After(testenv.Limit(0))
	for serial, left := 1, connections; left > 0; {
		select {
		case good := <-ended:
			assert.True(t, good)
			left--
		case <-answers.C:
			if len(b.host.asked()) >= serial {
				b.Answer(netmessage.Answer{Serial: serial, Allow: true})
				serial++
			}
		case <-late:
			require.Fail(t, "connections without an answer", "%d of %d", left, connections)
		}
	}
}

func TestTooManyQuestions(t *testing.T) {
	b := askingBox(t, time.Minute, nil)
	for i := range maxQuestions {
		b.dial(t, fmt.Sprintf("192.0.2.10:%d", 1000+i))
	}
	b.host.questions(t, maxQuestions)
	b.isReset(t, "192.0.2.10:999")
	refused := b.host.refused()
	require.NotEmpty(t, refused)
	assert.Contains(t, refused[0].Detail, "64 questions wait for an answer already")
}

func TestAQuestionWaitsNoLongerThanItMay(t *testing.T) {
	b := askingBox(t, 50*time.Millisecond, nil)
	assert.False(t, b.echoes(t, "b.example.com"))
	require.Len(t, b.host.refused(), 1)
	assert.Contains(t, b.host.refused()[0].Detail, "nobody has answered within 50ms")
	require.NoError(t, b.SetAsking(netmessage.Asking{}))
	assert.False(t, b.echoes(t, "c.example.com"))
	b.host.questions(t, 1)
	assert.Empty(t, b.host.looked())
}

// TestNoQuestionBeyondTheCeiling: neither is such a name resolved.
func TestNoQuestionBeyondTheCeiling(t *testing.T) {
	b := askingBox(t, time.Minute, []string{"b.example.com:7", "192.0.2.12:7"})
	for _, name := range []string{"a.example.com", "c.example.com"} {
		_, err := b.resolver().LookupHost(t.Context(), name)
		assert.Error(t, err, name)
	}
	b.isReset(t, "192.0.2.10:7")
	addrs, err := b.resolver().LookupHost(t.Context(), "b.example.com")
	require.NoError(t, err)
	b.isReset(t, addrs[0]+":8")
	b.host.questions(t, 0)
	go func() { _, _ = b.try(t, addrs[0]+":7") }()
	go func() { _, _ = b.try(t, "192.0.2.12:7") }()
	for _, q := range b.host.questions(t, 2) {
		b.Answer(netmessage.Answer{Serial: q.Serial})
	}
}

// TestAnAnswerIsWithinTheSchemeOfTheCeiling: it does not open a port for what is no TLS.
func TestAnAnswerIsWithinTheSchemeOfTheCeiling(t *testing.T) {
	b := askingBox(t, time.Minute, []string{"https://b.example.com:7"})
	result := make(chan bool, 1)
	go func() { result <- b.echoes(t, "b.example.com") }()
	q := b.host.questions(t, 1)[0]
	assert.Equal(t, "https://b.example.com:7", q.Rule)
	b.Answer(netmessage.Answer{Serial: q.Serial, Allow: true})
	assert.False(t, testenv.Receive(t, result, "the end of the connection"))
	require.Len(t, b.host.refused(), 1)
	assert.Equal(t, netmessage.Mismatch, b.host.refused()[0].Reason)
	assert.Empty(t, b.host.looked())
}

// TestRulesAreExchanged while connections begin: none goes on that the last rules do not allow.
func TestRulesAreExchanged(t *testing.T) {
	b := askingBox(t, 0, nil, "a.example.com:7", "b.example.com:7")
	addrs := map[string]string{}
	for _, name := range []string{"a.example.com", "b.example.com"} {
		found, err := b.resolver().LookupHost(t.Context(), name)
		require.NoError(t, err)
		addrs[name] = found[0] + ":7"
	}
	assert.Error(t, b.SetRules([]string{"b.example.com:7", "*"}))
	assert.True(t, b.echoes(t, "a.example.com"), "rules that are none change nothing")
	for round := range testenv.Times(30) {
		require.NoError(t, b.SetRules([]string{"a.example.com:7", "b.example.com:7"}))
		var conns []net.Conn
		for range 4 {
			conns = append(conns, b.dial(t, addrs["a.example.com"]))
		}
		kept := b.dial(t, addrs["b.example.com"])
		_, err := conns[0].Write([]byte("over\n"))
		require.NoError(t, err)
		_, err = io.ReadFull(conns[0], make([]byte, 5))
		require.NoError(t, err, "positive control")
		require.NoError(t, b.SetRules([]string{"b.example.com:7"}))
		for i, c := range conns {
			require.False(t, talks(c), "connection %d of round %d", i, round)
		}
		require.True(t, talks(kept))
	}
	testenv.Eventually(t, func() bool {
		b.relays.mu.Lock()
		defer b.relays.mu.Unlock()
		return len(b.relays.list) == 0
	}, "the end of all connections")
}

// TestRulesThatAllowLess than a host and a port: connections that they would not begin are reset, too.
func TestRulesThatAllowLess(t *testing.T) {
	b := askingBox(t, 0, nil)
	for _, row := range []struct {
		name        string
		first, then []string
		want        bool
	}{
		{"inner.example.com", []string{"inner.example.com:7", "10.0.0.0/8:7"}, []string{"inner.example.com:7", "10.0.0.1:7"}, true},
		{"inner.example.com", []string{"inner.example.com:7", "10.0.0.0/8:7"}, []string{"inner.example.com:7"}, false},
		{"a.example.com", []string{"a.example.com:7"}, []string{"*.example.com:1-9"}, true},
		{"a.example.com", []string{"a.example.com:7"}, []string{"https://a.example.com:7"}, false},
	} {
		require.NoError(t, b.SetRules(row.first))
		addrs, err := b.resolver().LookupHost(t.Context(), row.name)
		require.NoError(t, err)
		c := b.dial(t, addrs[0]+":7")
		_, err = c.Write([]byte("over\n"))
		require.NoError(t, err)
		_, err = io.ReadFull(c, make([]byte, 5))
		require.NoError(t, err, "%+v", row)
		require.NoError(t, b.SetRules(row.then))
		assert.Equal(t, row.want, talks(c), "%+v", row)
	}
}
