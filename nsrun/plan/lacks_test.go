package plan

import (
	"testing"

	"github.com/nsrun/nsrun/nsrun/netrule"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatASandboxCannotServeAnyMore(t *testing.T) {
	redirect := &Allow{Step: StepRedirect, UDP: []uint16{123}, UDP6: []uint16{124}}
	byPorts := &Allow{Step: StepPorts, TCP: []uint16{53, 80, 443}, TCP6: []uint16{22}}
	for _, row := range []struct {
		a    *Allow
		rule string
		want string // empty for nothing
	}{
		{redirect, "example.com", ""}, {redirect, "example.com:1-65535", ""}, {redirect, "udp://example.com:123", ""}, {redirect, "udp://[2001:db8::1]:124", ""},
		{redirect, "udp://example.com:124", "124/udp"}, {redirect, "udp://[2001:db8::1]:123", "123/udp"}, {redirect, "udp://example.com:1-65535", "(more than 100)"},
		{byPorts, "example.com", ""}, {byPorts, "[2001:db8::1]:22", ""}, {byPorts, "example.com:8080", "8080/tcp"}, {byPorts, "example.com:1-65535", "(more than 100)"},
	} {
		rules, err := netrule.ParseAll([]string{row.rule})
		require.NoError(t, err)
		port, lacks := row.a.Lacks(rules)
		assert.Equal(t, row.want, port, row.rule)
		assert.Equal(t, row.want != "", lacks)
	}
}
