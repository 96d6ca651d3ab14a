package nethost

import (
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// listenPackets answers packets on the host with the same after "re: ".
func listenPackets(t testing.TB) string {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	go func() {
		for b := make([]byte, 2048); ; {
			n, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(append([]byte("re: "), b[:n]...), from)
		}
	}()
	return c.LocalAddr().String()
}

// say sends a packet and returns the answer.
func say(t testing.TB, c net.Conn, text string) (string, error) {
	t.Helper()
	_, err := c.Write([]byte(text))
	require.NoError(t, err)
	_ = c.SetReadDeadline(time.Now().Add(testenv.Limit(0)))
	b := make([]byte, 2048)
	n, err := c.Read(b)
	return string(b[:n]), err
}

// dialUDP returns a UDP socket inside that is connected to what a name leads to there.
func (b *box) dialUDP(t testing.TB, name string, port int) net.Conn {
	t.Helper()
	addrs, err := b.resolver().LookupHost(t.Context(), name+".")
	require.NoError(t, err)
	c, err := b.open("udp4", net.JoinHostPort(addrs[0], strconv.Itoa(port)))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestUDPReachesAListedName(t *testing.T) {
	h := newHost()
	h.put("time.example.com", "93.184.216.34", 123, listenPackets(t))
	h.put("", "10.9.9.9", 123, listenPackets(t))
	h.put("", "2001:db8::9", 123, listenPackets(t))
	b := newBoxWith(t, h, usual+" udp:123 udp:123/6", netmessage.Start{Rules: []string{"udp://time.example.com:123", "udp://10.9.9.9:123", "udp://[2001:db8::9]:123"}})
	addrs, err := b.resolver().LookupHost(t.Context(), "time.example.com.")
	require.NoError(t, err)
	for _, to := range []struct{ network, addr string }{{"udp4", addrs[0] + ":123"}, {"udp4", "10.9.9.9:123"}, {"udp6", "[2001:db8::9]:123"}} {
		c, err := b.open(to.network, to.addr) // a connected socket takes answers of that address alone
		require.NoError(t, err)
		defer c.Close()
		for _, text := range []string{"one", "two"} {
			got, err := say(t, c, text)
			require.NoError(t, err)
			assert.Equal(t, "re: "+text, got)
		}
	}
	assert.Equal(t, []string{"time.example.com"}, h.looked(), "one lookup for a flow")
	assert.EqualValues(t, 3, h.dials.Load())

	c, err := b.open("udp4", "8.8.8.8:123")
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write([]byte("x"))
	require.NoError(t, err)
	testenv.Eventually(t, func() bool {
		_, err := find(h.refused(), opSend, "8.8.8.8:123", netmessage.Unlisted)
		return err == nil
	}, "the refusal")
	x, _ := find(h.refused(), opSend, "8.8.8.8:123", netmessage.Unlisted)
	assert.Equal(t, "udp://8.8.8.8:123", x.Rule)
	assert.EqualValues(t, 3, h.dials.Load())
	names := b.Close().Names
	require.Len(t, names, 3)
	assert.Equal(t, netmessage.Name{Name: "time.example.com", Connections: 1, Sent: 6, Received: 14}, names[2])
}

func TestAnIdleFlowEnds(t *testing.T) {
	h := newHost()
	h.put("time.example.com", "93.184.216.34", 123, listenPackets(t))
	idle := int(testenv.Scale(time.Second).Seconds()) // in which the server answers
	b := newBoxWith(t, h, usual+" udp:123", netmessage.Start{Rules: []string{"udp://time.example.com:123"}, Caps: netmessage.Caps{Idle: idle}})
	c := b.dialUDP(t, "time.example.com", 123)
	got, err := say(t, c, "one")
	require.NoError(t, err)
	require.Equal(t, "re: one", got)
	testenv.Eventually(t, func() bool {
		b.flows.mu.Lock()
		defer b.flows.mu.Unlock()
		return len(b.flows.list) == 0
	}, "the end of the flow")
	got, err = say(t, c, "two")
	require.NoError(t, err, "a packet begins a new flow")
	assert.Equal(t, "re: two", got)
	assert.Len(t, h.looked(), 2)
}

// TestALookupDoesNotMakeAFlowIdle: the time that the lookup takes does not count, so that the answer to the first packet comes.
func TestALookupDoesNotMakeAFlowIdle(t *testing.T) {
	idle := testenv.Scale(time.Second)
	h := newHost()
	h.delay = idle + 100*time.Millisecond
	h.put("time.example.com", "93.184.216.34", 123, listenPackets(t))
	b := newBoxWith(t, h, usual+" udp:123", netmessage.Start{Rules: []string{"udp://time.example.com:123"}, Caps: netmessage.Caps{Idle: int(idle.Seconds())}})
	c := b.dialUDP(t, "time.example.com", 123)
	got, err := say(t, c, "one")
	require.NoError(t, err)
	assert.Equal(t, "re: one", got)
}

// TestAPacketForAnIdleFlow begins another flow, however near the end of the idle one it comes.
func TestAPacketForAnIdleFlow(t *testing.T) {
	l := flows{list: map[flowKey]*flow{}}
	was, is := &flow{}, &flow{}
	l.list[was.key] = was
	assert.LessOrEqual(t, l.left(was, time.Hour), time.Duration(0), "it has never carried anything")
	assert.Nil(t, l.use(was.key))

	l.list[is.key] = is
	l.remove(was)
	assert.Same(t, is, l.use(is.key), "the end of the idle one leaves another one alone")
	assert.Positive(t, l.left(is, time.Hour))
}

// TestFlowsUnderChangedRules: one that the new rules do not allow ends, and what the program sends on is refused until they allow it again.
func TestFlowsUnderChangedRules(t *testing.T) {
	server := listenPackets(t)
	h := newHost()
	h.put("a.example.com", "93.184.216.34", 123, server)
	h.put("b.example.com", "93.184.216.35", 123, server)
	all := []string{"udp://a.example.com:123", "udp://b.example.com:123"}
	b := newBoxWith(t, h, usual+" udp:123", netmessage.Start{Rules: all})
	open := map[string]net.Conn{}
	for _, name := range []string{"a.example.com", "b.example.com"} {
		c := b.dialUDP(t, name, 123)
		_, err := say(t, c, "one")
		require.NoError(t, err)
		open[name] = c
	}
	require.NoError(t, b.SetRules(all[1:]))
	got, err := say(t, open["b.example.com"], "two")
	require.NoError(t, err)
	assert.Equal(t, "re: two", got)
	testenv.Eventually(t, func() bool { return b.record.left() == 1 }, "the end of the flow")
	_, err = open["a.example.com"].Write([]byte("refused"))
	require.NoError(t, err)
	testenv.Eventually(t, func() bool {
		_, err := find(h.refused(), opSend, "a.example.com:123", netmessage.Unlisted)
		return err == nil
	}, "the refusal")
	assert.Len(t, h.looked(), 2)
	require.NoError(t, b.SetRules(all))
	got, err = say(t, open["a.example.com"], "three")
	require.NoError(t, err)
	assert.Equal(t, "re: three", got)
	assert.Len(t, h.looked(), 3, "a flow of its own")
}

func TestTheCapOnFlows(t *testing.T) {
	h := newHost()
	h.put("time.example.com", "93.184.216.34", 123, listenPackets(t))
	b := newBoxWith(t, h, usual+" udp:123", netmessage.Start{Rules: []string{"udp://time.example.com:123"}, Caps: netmessage.Caps{PerName: 2}})
	addrs, err := b.resolver().LookupHost(t.Context(), "time.example.com.")
	require.NoError(t, err)
	for i := range 3 {
		c, err := b.open("udp4", addrs[0]+":123")
		require.NoError(t, err)
		defer c.Close()
		if i < 2 {
			_, err = say(t, c, "one")
		} else {
			_, err = c.Write([]byte("one"))
		}
		require.NoError(t, err)
	}
	testenv.Eventually(t, func() bool {
		_, err := find(h.refused(), opSend, "time.example.com:123", netmessage.TooMany)
		return err == nil
	}, "the refusal")
}

func TestUDPToANameThatLeadsInside(t *testing.T) {
	h := newHost()
	h.put("in.example.com", "10.0.0.1", 123, listenPackets(t))
	b := newBoxWith(t, h, usual+" udp:123", netmessage.Start{Rules: []string{"udp://*.example.com:123", "in.example.com:124"}})
	addrs, err := b.resolver().LookupHost(t.Context(), "in.example.com.")
	require.NoError(t, err)
	for _, to := range []string{addrs[0] + ":123", "127.0.0.1:123", "169.254.169.254:123", "10.0.0.1:123"} {
		c, err := b.open("udp4", to)
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Write([]byte("x"))
		require.NoError(t, err)
	}
	for _, target := range []string{"in.example.com:123", "169.254.169.254:123", "10.0.0.1:123"} {
		testenv.Eventually(t, func() bool {
			_, err := find(h.refused(), opSend, target, netmessage.Guarded)
			return err == nil
		}, "the refusal of "+target)
	}
	assert.Zero(t, h.dials.Load())
}
