package network

import (
	"testing"

	"github.com/nsrun/nsrun/nsrun/result"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLimits: each bounds what it says, and without it the same script succeeds.
func TestLimits(t *testing.T) {
	const connect = `
import socket, time
def open(host):
    s = socket.create_connection((host, 7000), 20); s.settimeout(20)
    s.sendall(b'over\n'); assert s.recv(100) == b'over\n', 'the end'
    return s
`
	python := func(script string) string { return "/usr/bin/python3 -c \"" + connect + script + "\"" }
	for limit, row := range map[string]struct{ script, reason string }{
		"net_connections=1": {python("a, b = open('listed.test'), open('other.test'); print('DONE')"), "1 connections are open, which is the limit net_connections"},
		"net_per_host=1":    {python("a, b, c = open('listed.test'), open('other.test'), open('listed.test'); print('DONE')"), "net_per_host"},
		"net_per_host_mb=1": {"curl -sS http://listed.test/download >file && test $(wc -c <file) -gt 2000000 && echo DONE", "1048576 bytes were carried for listed.test, which is the limit net_per_host_mb"},
		"net_idle_seconds=1": {python(`
a = open('listed.test'); time.sleep(3)
a.sendall(b'over\n'); assert a.recv(100) == b'over\n', 'the end'; print('DONE')`), ""},
	} {
		t.Run(limit, func(t *testing.T) {
			eachUser(t, func(t *testing.T, w *world) {
				flags := allow("listed.test", "listed.test:7000", "other.test:7000")
				got := w.run(t, flags, row.script)
				require.Contains(t, got.out, "DONE", "positive control")
				got = w.run(t, append(flags, "--limit", limit), row.script)
				assert.NotContains(t, got.out, "DONE")
				assert.Contains(t, got.Receipt.Limits, result.LimitReceipt{Limit: limit, By: "network helper"})
				if row.reason != "" && assert.NotEmpty(t, got.Denials, got.out) {
					assert.Contains(t, got.Denials[0].Reason, row.reason)
				}
				out, err := w.command(built.nsrun, "run", "--net", "host", "--limit", limit, "--", "true").CombinedOutput()
				assert.Error(t, err)
				assert.Contains(t, string(out), "nothing counts what goes through the host's network")
			})
		})
	}
}
