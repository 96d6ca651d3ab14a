package nethelper

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func (h *helper) order(o netmessage.Order) {
	h.t.Helper()
	data, err := json.Marshal(o)
	require.NoError(h.t, err)
	require.NoError(h.t, unix.Sendto(h.socket, data, unix.MSG_NOSIGNAL, nil))
}

func TestOrders(t *testing.T) {
	f, addr := proxy(t)
	h := start(t, netmessage.Start{Rules: []string{"example.com"}, Sockets: []string{netmessage.Proxy}}, f)
	require.True(t, h.event().Ready)
	h.order(netmessage.Order{Counts: true})
	assert.Equal(t, netmessage.Event{Counts: &netmessage.Summary{}}, h.event())
	h.order(netmessage.Order{Rules: &[]string{"127.0.0.1:1"}, Ask: &netmessage.Asking{MS: 60_000, All: true}, Counts: true})
	require.NotNil(t, h.event().Counts, "the rules count")
	_, line := connect(t, addr, "127.0.0.1:1")
	assert.Contains(t, line, "502", "a rule allows it, and nobody listens there")
	require.Equal(t, netmessage.Unreachable, h.event().Refusal.Reason)
	result := make(chan string, 1)
	go func() {
		_, line := connect(t, addr, "example.com:443")
		result <- line
	}()
	q := h.event().Question
	require.NotNil(t, q)
	assert.Equal(t, "example.com:443", q.Rule)
	h.order(netmessage.Order{Answer: &netmessage.Answer{Serial: q.Serial, Reason: "no"}})
	assert.Contains(t, <-result, "403")
	assert.Equal(t, "no rule names example.com, and no", h.event().Refusal.Detail)
	h.order(netmessage.Order{Counts: true})
	assert.Len(t, h.event().Counts.Refusals, 2)
}

// TestOrdersThatAreNone end the helper, which says why: nothing is served that nsrun does not want.
func TestOrdersThatAreNone(t *testing.T) {
	for order, want := range map[string]string{
		"nonsense":                          "an order of nsrun's",
		`{"rules":["*"]}`:                   `rule "*"`,
		`{"ask":{"ms":1,"most":["*.com"]}}`: `rule "*.com"`,
		`{"rules":["` + strings.Repeat("x", netmessage.MaxEvent) + `"]}`: "an order has more than 65536 bytes",
	} {
		f, _ := proxy(t)
		h := start(t, netmessage.Start{Sockets: []string{netmessage.Proxy}}, f)
		require.True(t, h.event().Ready)
		require.NoError(t, unix.Sendto(h.socket, []byte(order), unix.MSG_NOSIGNAL, nil))
		assert.Contains(t, h.event().Error, want)
		assert.Error(t, h.cmd.Wait())
	}
}
