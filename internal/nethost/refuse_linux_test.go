package nethost

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ends reads a connection to its end, and returns the error; io.EOF stands for an orderly end.
func ends(c interface {
	io.Reader
	SetReadDeadline(time.Time) error
}) error {
	_ = c.SetReadDeadline(time.Now().Add(testenv.Limit(0)))
	for b := make([]byte, 1024); ; {
		if _, err := c.Read(b); err != nil {
			return err
		}
	}
}

// isRefused opens a connection inside, and checks that it is reset, that nothing is dialled, and that the refusal is reported.
func (b *box) isRefused(t *testing.T, addr, target, reason string) netmessage.Refusal {
	t.Helper()
	dials := b.host.dials.Load()
	b.isReset(t, addr)
	assert.Equal(t, dials, b.host.dials.Load(), "%s: nothing is dialled", addr)
	x, err := find(b.host.refused(), opConnect, target, reason)
	assert.NoError(t, err)
	return x
}

func TestLiteralsAreRefusedUnlessListed(t *testing.T) {
	h := newHost()
	server := listen(t, echo)
	for _, addr := range []string{"10.1.2.3", "10.1.2.4", "8.8.8.8", "2001:db8::7", "93.184.216.34", "169.254.169.254"} {
		h.put("", addr, 5432, server)
	}
	h.own = []netip.Addr{netip.MustParseAddr("93.184.216.34")}
	b := newBox(t, h, "10.1.2.3:5432", "[2001:db8::7]:5432", "name.example.com:5432")
	for _, addr := range []string{"10.1.2.3:5432", "[2001:db8::7]:5432"} { // the positive control: a listed address, whatever the guard says
		c := b.dial(t, addr)
		_, err := c.Write([]byte("ping"))
		require.NoError(t, err)
		got := make([]byte, 4)
		_, err = io.ReadFull(c, got)
		require.NoError(t, err, addr)
	}
	for addr, reason := range map[string]string{
		"10.1.2.4:5432":             netmessage.Guarded,
		"10.1.2.3:5433":             netmessage.Guarded,
		"8.8.8.8:5432":              netmessage.Unlisted,
		"93.184.216.34:5432":        netmessage.Guarded,
		"169.254.169.254:5432":      netmessage.Guarded,
		"[fd00:ec2::254]:5432":      netmessage.Guarded,
		"[64:ff9b::a9fe:a9fe]:5432": netmessage.Guarded,
		"[2002:7f00:1::]:5432":      netmessage.Guarded,
		"198.18.0.77:5432":          netmessage.Unlisted, // synthetic, and no name's
		"[2001:db8::8]:5432":        netmessage.Unlisted,
		"100.100.100.200:5432":      netmessage.Guarded,
	} {
		x := b.isRefused(t, addr, addr, reason)
		if reason == netmessage.Unlisted {
			assert.Equal(t, netip.MustParseAddrPort(addr).Port(), uint16(x.Port))
			assert.Equal(t, strings.HasPrefix(addr, "198.18."), x.Rule == "", addr)
		}
	}
	assert.Empty(t, h.looked())
}

func TestTheListenerItselfIsNoDestination(t *testing.T) {
	h := newHost()
	b := newBox(t, h, "10.1.2.3:15000", "127.0.0.1:15000")
	for _, addr := range []string{"127.0.0.1:15000", "127.0.0.9:15000", "[::1]:15000"} {
		b.isReset(t, addr)
	}
	assert.Zero(t, h.dials.Load())
	h.put("", "10.1.2.3", redirectPort, listen(t, echo)) // the same port elsewhere is a destination
	c := b.dial(t, "10.1.2.3:15000")
	_, err := c.Write([]byte("x"))
	require.NoError(t, err)
	_, err = io.ReadFull(c, make([]byte, 1))
	assert.NoError(t, err)
}

func TestAnotherPortOfAListedNameIsRefused(t *testing.T) {
	h := newHost()
	h.put("a.example.com", "93.184.216.34", 22, listen(t, echo))
	b := newBox(t, h, "a.example.com:22")
	addr, err := b.resolver().LookupHost(t.Context(), "a.example.com.")
	require.NoError(t, err)
	x := b.isRefused(t, addr[0]+":23", "a.example.com:23", netmessage.Port)
	assert.Equal(t, "a.example.com:23", x.Rule)
	assert.Empty(t, h.looked())
}

// TestANameThatLeadsInside: a listed name whose address is the host's, or of a private network, or changes to one.
func TestANameThatLeadsInside(t *testing.T) {
	h := newHost()
	server := listen(t, echo)
	h.own = []netip.Addr{netip.MustParseAddr("203.0.113.9")}
	for i, addr := range []string{"127.0.0.1", "169.254.169.254", "10.0.0.1", "::1", "::ffff:10.0.0.1", "fd00:ec2::254", "0.0.0.0", "203.0.113.9", "100.100.100.200", "64:ff9b::7f00:1"} {
		h.put(fmt.Sprintf("r%d.example.com", i), addr, 5432, server)
	}
	b := newBox(t, h, "*.example.com:5432", "192.168.7.7:5432")
	for i := range 10 {
		name := fmt.Sprintf("r%d.example.com:5432", i)
		x := b.isRefused(t, name, name, netmessage.Guarded)
		assert.NotEmpty(t, x.Address)
	}
	// The address that is checked is the one that is dialled: the next lookup's would be another one.
	h.put("two.example.com", "10.0.0.1", 5432, server)
	h.put("two.example.com", "93.184.216.34", 5432, server)
	c := b.dial(t, "two.example.com:5432")
	_, err := c.Write([]byte{0})
	require.NoError(t, err)
	_, err = io.ReadFull(c, make([]byte, 1))
	require.NoError(t, err)
	assert.EqualValues(t, 1, h.dials.Load(), "only the address that the guard allows is dialled")
	h.put("listed.example.com", "192.168.7.7", 5432, server)
	c = b.dial(t, "listed.example.com:5432")
	_, err = c.Write([]byte{0})
	require.NoError(t, err)
	_, err = io.ReadFull(c, make([]byte, 1))
	require.NoError(t, err, "an address that is listed with the port is dialled whatever the guard says")
}

func TestAListedNameThatCannotBeReached(t *testing.T) {
	h := newHost()
	h.put("down.example.com", "93.184.216.34", 1, "")
	b := newBox(t, h, "down.example.com:5432", "none.example.com:5432")
	for name, reason := range map[string]string{"down.example.com": netmessage.Unreachable, "none.example.com": netmessage.Unresolvable} {
		b.isReset(t, name+":5432")
		x, err := find(h.refused(), opConnect, name+":5432", reason)
		require.NoError(t, err)
		assert.Empty(t, x.Rule, "no rule would help")
	}
}

func TestRefusalsAreCounted(t *testing.T) {
	h := newHost()
	b := newBox(t, h)
	for range 3 {
		b.isRefused(t, "8.8.8.8:9", "8.8.8.8:9", netmessage.Unlisted)
	}
	for port := range maxRefusals + 5 {
		if c, err := b.try(t, fmt.Sprintf("8.8.4.4:%d", 1000+port)); err == nil {
			c.Close()
		}
	}
	testenv.Eventually(t, func() bool { return len(h.refused()) == maxRefusals+6 }, "the refusals")
	s := b.Close()
	assert.Len(t, s.Refusals, maxRefusals)
	assert.Equal(t, 6, s.Omitted)
	assert.Len(t, h.refused(), maxRefusals+6, "one event of each kind")
}
