package plan

import (
	"fmt"
	"testing"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// allowed plans the network allow, on a host without some facts.
func allowed(rules []string, lacks ...facts.Name) (*Plan, error) {
	pol := policy.Policy{Network: policy.NetworkAllow, Allow: rules}
	return Compile(Request{Private: spare, Policy: pol, Command: []string{"true"}}, host("6.18.0", 7, 1000, lacks...))
}

// TestAllowPorts: what is listened on, by each step. Rules for IPv6 have sockets of IPv6, and other rules have none.
func TestAllowPorts(t *testing.T) {
	rules := []string{"example.com", "192.0.2.0/24:22", "[2001:db8::1]:22", "[2001:db8::2]:5000-5001", "udp://example.com:123", "udp://[2001:db8::1]:124"}
	p, err := allowed(rules)
	require.NoError(t, err)
	assert.Equal(t, &Allow{Rules: p.Allow.Rules, Step: StepRedirect, UDP: []uint16{123}, UDP6: []uint16{124}}, p.Allow)

	p, err = allowed(rules, facts.Nftables)
	require.NoError(t, err)
	assert.Equal(t, &Allow{Rules: p.Allow.Rules, Step: StepPorts, TCP: []uint16{22, 53, 80, 443}, TCP6: []uint16{22, 5000, 5001}, UDP: []uint16{123}, UDP6: []uint16{124}}, p.Allow)
	assert.Contains(t, fmt.Sprint(p.Notes), "nftables")

	p, err = allowed([]string{"example.com:53"}, facts.Nftables)
	require.NoError(t, err)
	assert.Equal(t, []uint16{53}, p.Allow.TCP)
}

// TestAllowPortsAreBounded: of both families together, and of UDP by itself.
func TestAllowPortsAreBounded(t *testing.T) {
	for _, most := range [][]string{{"example.com:1-50", "[2001:db8::1]:1-50", "udp://example.com:100-199"}, {"example.com:1000-1099"}} {
		_, err := allowed(most, facts.Nftables)
		assert.NoError(t, err, "%v", most)
	}
	for _, many := range [][]string{{"example.com:1-50", "[2001:db8::1]:1-51"}, {"example.com:1000-1100"}, {"[2001:db8::1]:1-65535"}} {
		_, err := allowed(many, facts.Nftables)
		assert.ErrorContains(t, err, "more than 100 ports of TCP", "%v", many)
		_, err = allowed(many)
		assert.NoError(t, err, "%v with nf_tables", many)
	}
	_, err := allowed([]string{"udp://example.com:100-150", "udp://[2001:db8::1]:100-150"})
	assert.ErrorContains(t, err, "more than 100 ports of UDP")
}
