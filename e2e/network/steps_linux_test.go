package network

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// without is nsrun, on a kernel that seems to lack something.
func without(what string) []string { return []string{built.room + "/without", what, built.nsrun} }

// withoutNftables runs a script in a sandbox where the kernel seems to have no nf_tables.
func (w *world) withoutNftables(t *testing.T, flags []string, script string) outcome {
	t.Helper()
	return w.start(t, without("nftables"), append([]string{"--timeout", "60s"}, flags...), script).wait(t)
}

// TestWithoutNftables: the ports of the rules work, by name and by address, as do UDP and DNS; other ports are refused. Nothing that is not listed is reached.
func TestWithoutNftables(t *testing.T) {
	prepared(t)
	eachUser(t, func(t *testing.T, w *world) {
		rules := []string{"listed.test", "listed.test:7000", "*.wild.test:443", "203.0.113.0/24:6379", fmt.Sprintf("udp://other.test:%d", udpPort), fmt.Sprintf("udp://listed.test:%d", udpPort)}
		if internet.v6 {
			rules = append(rules, "[2001:db8::10]:7000")
		}
		for _, row := range []struct{ name, script, want string }{
			{"HTTP", `curl -sS http://listed.test/hello`, "hello from listed.test by HTTP/1.1"},
			{"TLS", `curl -sS --cacert {CA} https://listed.test/hello https://b.a.wild.test/hello`, "hello from b.a.wild.test by HTTP/2.0"},
			{"a listed port", tcpTo("listed.test", "7000"), "over"},
			{"a listed address", `redis-cli -h 203.0.113.44 ping`, "PONG"},
			{"UDP", fmt.Sprintf(`{ROOM}/goclient udp %d listed.test other.test`, udpPort), "other.test: other from other.test"},
			{"an IPv6 literal", tcpTo(webAddress6, "7000"), "over"},
		} {
			if !internet.v6 && strings.Contains(row.name, "IPv6") {
				continue
			}
			t.Run(row.name, func(t *testing.T) {
				got := w.withoutNftables(t, allow(rules...), client{script: row.script}.at(""))
				assert.Contains(t, got.out, row.want)
				assert.Equal(t, 0, got.Code, got.out)
				byPorts(t, got)
			})
		}
		for _, row := range []struct{ name, script, want, refused string }{
			{"an unlisted name", `curl -sS http://unlisted.test/hello`, "hello from", "unlisted.test"},
			{"a port that another rule has", tcpTo("a.wild.test", "7000"), "over", "a.wild.test:7000"},
			{"another port", tcpTo("listed.test", "2222"), "220 banner", ""},
			{"a literal address", tcpTo("203.0.113.10", "7000"), "over", "203.0.113.10:7000"},
			{"the host's address", tcpTo("192.0.2.1", "7000"), "over", "192.0.2.1:7000"},
			{"the host's loopback", tcpTo("127.0.0.1", "7000"), "over", "127.0.0.1:7000"},
			{"the host's IPv6 loopback", tcpTo("::1", "7000"), "over", "[::1]:7000"},
			{"IPv6 of a port that is listed for IPv4", tcpTo(webAddress6, "443"), "over", ""},
			{"a port of the loopback", tcpTo("127.0.0.1", "2222"), "220 banner", ""},
			{"another name in TLS", `curl -sS --cacert {CA} --connect-to unlisted.test:443:listed.test:443 https://unlisted.test/hello`, "hello from", "listed.test:443"},
			{"a literal address of IPv6", tcpTo("2001:db8::11", "7000"), "over", "[2001:db8::11]:7000"},
		} {
			if !internet.v6 && strings.Contains(row.name, "IPv6") {
				continue
			}
			t.Run(row.name, func(t *testing.T) {
				forget()
				got := w.withoutNftables(t, allow(rules...), client{script: row.script}.at(""))
				asked, packets := left()
				assert.Empty(t, asked)
				assert.Empty(t, packets)
				assert.NotContains(t, strings.ReplaceAll(got.out, "'over", ""), row.want+"\n")
				assert.NotEqual(t, 0, got.Code, got.out)
				byPorts(t, got)
				if row.refused != "" {
					_, ok := got.refusal(row.refused)
					assert.True(t, ok, "%+v\n%s", got.Denials, got.out)
				}
			})
		}
	})
}

// byPorts checks that the receipt says that there was a listener for each port, and why.
func byPorts(t *testing.T, got outcome) {
	t.Helper()
	require.NotNil(t, got.Receipt.Allow, got.out)
	assert.Equal(t, plan.StepPorts, got.Receipt.Allow.Step)
	assert.Equal(t, "network namespace", got.Receipt.NetworkBy)
	for _, n := range got.Receipt.Notes {
		if n.Feature == "nftables" {
			return
		}
	}
	t.Errorf("no note: %+v", got.Receipt.Notes)
}

// TestWithoutIPv6: rules for IPv6 are of no use, and the others work.
func TestWithoutIPv6(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		script := "curl -sS http://listed.test/hello; " + fmt.Sprintf("%s/goclient udp %d listed.test other.test; ", shared(), udpPort) + tcpTo(webAddress6, "7000") + " 2>&1 | tail -n 1"
		rules := allow("listed.test", "udp://listed.test:9999", "udp://other.test:9999", "[2001:db8::10]:7000", "udp://[2001:db8::10]:9999")
		both := append([]string{built.room + "/without", "ipv6"}, without("nftables")...)
		for step, nsrun := range map[string][]string{plan.StepRedirect: without("ipv6"), plan.StepPorts: both} {
			got := w.start(t, nsrun, rules, script).wait(t)
			assert.Contains(t, got.out, "hello from listed.test")
			assert.Contains(t, got.out, "other.test: other from other.test")
			assert.Contains(t, got.out, "Address family not supported")
			assert.Equal(t, 0, got.Code, got.out)
			require.NotNil(t, got.Receipt.Allow)
			assert.Equal(t, step, got.Receipt.Allow.Step)
		}
	})
}

// TestManyPortsWithoutNftables: rules with more ports than there are listeners are refused, or, if the policy allows that, there is no network.
func TestManyPortsWithoutNftables(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		script := tcpTo("listed.test", "7000")
		got := w.run(t, allow("listed.test:7000-8000"), script)
		assert.Contains(t, got.out, "over", "the control: %+v", got.Denials)
		most := []string{"listed.test:7000-7049", "[2001:db8::10]:7000-7049", "udp://listed.test:7000-7049", "udp://[2001:db8::10]:7000-7049"}
		got = w.withoutNftables(t, allow(most...), script)
		assert.Contains(t, got.out, "over", "as many ports as there can be: %+v", got.Denials)

		r := w.start(t, without("nftables"), allow("listed.test:7000-8000"), "touch ran")
		_ = r.cmd.Wait()
		assert.Equal(t, 125, r.cmd.ProcessState.ExitCode(), r.out.String())
		assert.Contains(t, r.out.String(), "more than 100 ports")
		assert.NoFileExists(t, filepath.Join(w.work, "ran"))

		forget()
		got = w.withoutNftables(t, append(allow("listed.test:7000-8000"), "--fallback", "degrade"), script)
		_, packets := left()
		assert.Empty(t, packets)
		assert.NotEqual(t, 0, got.Code, got.out)
		assert.Nil(t, got.Receipt.Allow)
		assert.Contains(t, fmt.Sprint(got.Receipt.Notes), "more than 100 ports")
	})
}

// TestPlanFromFacts: nsrun plan says what a host without nf_tables would do.
func TestPlanFromFacts(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		for step, program := range map[string][]string{plan.StepRedirect: {built.nsrun}, plan.StepPorts: without("nftables")} {
			cmd := w.command(append(program, "doctor", "--json")...)
			facts, err := cmd.Output()
			require.NotEmpty(t, facts, "%v", err) // its exit code is about everything that is missing
			file := filepath.Join(w.from, step+".json")
			require.NoError(t, os.WriteFile(file, facts, 0o644))
			out, err := w.command(built.nsrun, "plan", "--facts", file, "--json", "--net", "allow:listed.test:7000-7002,[2001:db8::10]:22,udp://[2001:db8::10]:123", "--", "true").CombinedOutput()
			require.NoError(t, err, "%s", out)
			var p plan.Plan
			require.NoError(t, json.Unmarshal(out, &p), "%s", out)
			require.NotNil(t, p.Allow)
			assert.Equal(t, step, p.Allow.Step)
			assert.Equal(t, []uint16{123}, p.Allow.UDP6)
			assert.Empty(t, p.Allow.UDP)
			if step == plan.StepPorts {
				assert.Equal(t, []uint16{53, 7000, 7001, 7002}, p.Allow.TCP)
				assert.Equal(t, []uint16{22}, p.Allow.TCP6)
			}
		}
	})
}
