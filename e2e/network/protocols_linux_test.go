package network

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// digs are questions, for the list listed.test and *.wild.test, and what dig prints for them.
var digs = []struct {
	args  string
	wants []string
	not   string
}{
	{args: "+short listed.test", wants: []string{"\n198.18."}},
	{args: "+short a.wild.test", wants: []string{"\n198.18."}},
	{args: "+short +tcp listed.test", wants: []string{"\n198.18."}},
	{args: "+short +tcp listed.test @203.0.113.53", wants: []string{"\n198.18."}},
	{args: "+short listed.test @192.0.2.53", wants: []string{"\n198.18."}},
	{args: "+short LISTED.test.", wants: []string{"\n198.18."}},
	{args: "listed.test AAAA", wants: []string{"status: NOERROR", "ANSWER: 0"}},
	{args: "listed.test HTTPS", wants: []string{"status: NOERROR", "ANSWER: 0"}},
	{args: "listed.test TXT", wants: []string{"status: NOERROR", "ANSWER: 0"}},
	{args: "unlisted.test", wants: []string{"status: NXDOMAIN", "; EDE: ", "unlisted.test"}, not: "203.0.113"},
	{args: "unlisted.test AAAA", wants: []string{"status: NXDOMAIN", "; EDE: "}},
	{args: "+tcp unlisted.test @192.0.2.53", wants: []string{"status: NXDOMAIN", "; EDE: "}, not: "203.0.113"},
	{args: "wild.test", wants: []string{"status: NXDOMAIN"}},
	{args: "c2VjcmV0.unlisted.test TXT", wants: []string{"status: NXDOMAIN"}},
}

// TestDig: names are answered inside, and no question leaves the host, whichever resolver is asked.
func TestDig(t *testing.T) {
	if _, err := exec.LookPath("dig"); err != nil {
		missing(t, "dig")
	}
	var script strings.Builder
	for i, d := range digs {
		fmt.Fprintf(&script, "echo '=== %d'; dig +tries=1 +time=5 %s\n", i, d.args)
	}
	eachUser(t, func(t *testing.T, w *world) {
		w.dig(t, w.run, script.String())
		w.dig(t, w.withoutNftables, script.String())
		free, err := w.command("dig", "+short", "unlisted.test").CombinedOutput() // the positive control
		require.NoError(t, err)
		assert.Equal(t, webAddress+"\n", string(free))
	})
}

// dig asks all questions in one run.
func (w *world) dig(t *testing.T, run func(*testing.T, []string, string) outcome, script string) {
	t.Helper()
	forget()
	got := run(t, allow("listed.test", "*.wild.test"), script)
	asked, packets := left()
	assert.Empty(t, asked)
	assert.Empty(t, packets)
	parts := strings.Split(got.out, "=== ")[1:]
	require.Len(t, parts, len(digs), got.out)
	for i, d := range digs {
		for _, want := range d.wants {
			assert.Contains(t, parts[i], want, d.args)
		}
		if d.not != "" {
			assert.NotContains(t, parts[i], d.not, d.args)
		}
	}
	assert.True(t, got.refusedFor("unlisted.test", "no rule names unlisted.test"), "%+v", got.Denials)
}

// TestUDP: two names that rules of UDP list are reached at once from one socket, and each answers from its own address.
func TestUDP(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		script := fmt.Sprintf("%s/goclient udp %d listed.test other.test", shared(), udpPort)
		rule := func(host string) string { return fmt.Sprintf("udp://%s:%d", host, udpPort) }
		got := w.run(t, allow(rule("listed.test"), rule("other.test")), script)
		assert.Contains(t, got.out, "listed.test: echo from listed.test\n")
		assert.Contains(t, got.out, "other.test: other from other.test\n")
		assert.Equal(t, 0, got.Code)
		require.NotNil(t, got.Receipt.Allow)
		assert.Len(t, got.Receipt.Allow.Reached, 2)

		forget()
		got = w.run(t, allow(rule("listed.test"), fmt.Sprintf("other.test:%d", udpPort)), "timeout 1 "+script) // other.test by TCP
		assert.NotContains(t, got.out, "other.test: other")
		assert.NotEqual(t, 0, got.Code)
		_, packets := left()
		assert.NotContains(t, packets, fmt.Sprintf("17 %s:%d", otherAddress, udpPort))
		assert.True(t, got.refusedFor(fmt.Sprintf("other.test:%d", udpPort), "other.test"), "%+v", got.Denials)

		free, err := w.command("sh", "-c", script).CombinedOutput() // the positive control
		require.NoError(t, err, "%s", free)
		assert.Contains(t, string(free), "other.test: other from other.test\n")
	})
}

// udp6 sends to an address of IPv6, and prints the answer if it comes from there.
const udp6 = `/usr/bin/python3 -c "
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.settimeout(20)
s.connect(('%s', 9999)); s.send(b'over'); print(s.recv(100).decode())"`

// TestUDPToIPv6Literals, by either step.
func TestUDPToIPv6Literals(t *testing.T) {
	if !internet.v6 {
		missing(t, "IPv6")
	}
	script, other := fmt.Sprintf(udp6, webAddress6), "timeout 1 "+fmt.Sprintf(udp6, "2001:db8::11")
	eachUser(t, func(t *testing.T, w *world) {
		for _, run := range []func(*testing.T, []string, string) outcome{w.run, w.withoutNftables} {
			rules := append(allow("udp://[2001:db8::10]:9999", "udp://listed.test:9999", "[2001:db8::10]:22"), "--verify")
			got := run(t, rules, script)
			assert.Contains(t, got.out, "six over")
			assert.Equal(t, 0, got.Code, got.out)
			forget()
			got = run(t, rules, other)
			assert.NotEqual(t, 0, got.Code, got.out)
			_, packets := left()
			assert.Empty(t, packets)
			assert.True(t, got.refusedFor("[2001:db8::11]:9999", "no rule lists 2001:db8::11"), "%+v", got.Denials)
		}
	})
}

// TestIPv6Literals: an address that a rule lists is reached, and another one is refused with a denial.
func TestIPv6Literals(t *testing.T) {
	if !internet.v6 {
		missing(t, "IPv6")
	}
	eachUser(t, func(t *testing.T, w *world) {
		for _, rule := range []string{"[2001:db8::10]:7000", "[2001:db8::/64]:7000"} {
			forget()
			got := w.run(t, allow(rule), tcpTo(webAddress6, "7000"))
			assert.Contains(t, got.out, "over")
			assert.Equal(t, 0, got.Code)
			_, packets := left()
			assert.Equal(t, []string{"6 [2001:db8::10]:7000"}, packets)
			require.NotNil(t, got.Receipt.Allow)
			require.Len(t, got.Receipt.Allow.Reached, 1)
			assert.Equal(t, webAddress6, got.Receipt.Allow.Reached[0].Name)
		}
		for to, rules := range map[string][]string{"2001:db8::11": {"[2001:db8::10]:7000"}, webAddress6: {"[2001:db8::10]:7001", "listed.test:7000"}, "2001:db8:1::1": {"[2001:db8::/64]:7000"}} {
			script := tcpTo(to, "7000")
			forget()
			got := w.run(t, allow(rules...), script)
			assert.NotContains(t, got.out, "over\n")
			_, packets := left()
			assert.Empty(t, packets)
			assert.True(t, got.refusedFor("["+to+"]:7000", "no rule lists "+to), "%+v", got.Denials)
			free, err := w.command("sh", "-c", script).CombinedOutput() // the positive control
			require.NoError(t, err, "%s", free)
			assert.Contains(t, string(free), "over")
		}
	})
}

// TestWhatTheHostCannotReach: a rule lists it, the program gets an error in the form of its protocol, and the denial says what the host got.
func TestWhatTheHostCannotReach(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		for _, row := range []struct{ name, rule, script, out, refused, reason string }{
			{"nobody listens", "listed.test:7777", tcpTo("listed.test", "7777"), "Connection reset by peer", "listed.test:7777", "the host cannot connect to 203.0.113.10:7777: "},
			{"nobody listens for HTTP", "http://listed.test:7777", "curl -sS -i http://listed.test:7777/", "502 Bad Gateway", "listed.test:7777", "the host cannot connect to 203.0.113.10:7777: "},
			{"no such host", "missing.test", "curl -sS -i http://missing.test/", "502 Bad Gateway", "missing.test:80", "the host cannot resolve missing.test: there is no such host"},
		} {
			got := w.run(t, allow(row.rule), row.script)
			assert.Contains(t, got.out, row.out, row.name)
			assert.True(t, got.refusedFor(row.refused, row.reason), "%s: %+v", row.name, got.Denials)
			for _, d := range got.Denials {
				assert.Nil(t, d.Change, "%s: no rule would help", row.name)
			}
		}
	})
}

// TestHostsFile: a name that the host's /etc/hosts has is reached there, and no resolver is asked.
func TestHostsFile(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		forget()
		got := w.run(t, allow("listed.hosts.test"), "curl -sS http://listed.hosts.test/hello")
		assert.Contains(t, got.out, "hello from listed.hosts.test")
		asked, packets := left()
		assert.Empty(t, asked)
		assert.Equal(t, []string{"6 203.0.113.77:80"}, packets)
	})
}

// TestWhatProgramsDoByTheWay succeeds, and leaves no denial. The same works without a sandbox.
func TestWhatProgramsDoByTheWay(t *testing.T) {
	for _, row := range []struct{ name, program, script, want string }{
		{"an IPv4 address alone, where the host has one", "getent", "getent ahostsv4 listed.test", "STREAM"},
		{"the same by Node", "node", `node -e "require('dns').lookup('listed.test', {family: 4, hints: require('dns').ADDRCONFIG}, (e, a) => console.log(e || 'address ' + a))"`, "address "},
		{"an offer of HTTP/2", "curl", "curl -sS --http2 http://listed.test/hello", "hello from listed.test by HTTP/1.1"},
		{"a service of the host", "dig", "dig +short _http._tcp.listed.test SRV; echo asked", "asked"},
		{"a look whether somebody listens", "bash", "bash -c 'exec 3<>/dev/tcp/listed.test/80' && echo somebody", "somebody"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if _, err := exec.LookPath(row.program); err != nil {
				missing(t, row.program)
			}
			eachUser(t, func(t *testing.T, w *world) {
				got := w.run(t, allow("http://listed.test"), row.script)
				assert.Contains(t, got.out, row.want)
				assert.Equal(t, 0, got.Code, got.out)
				assert.Empty(t, got.Denials)
				free, err := w.command("sh", "-c", row.script).CombinedOutput() // the control
				require.NoError(t, err)
				assert.Contains(t, string(free), row.want)
			})
		})
	}
}
