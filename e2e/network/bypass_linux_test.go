package network

import (
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bypass is an attempt to reach what is not listed. Outside of a sandbox, or with what control lists, the same script prints want.
type bypass struct {
	name, script string
	rules        []string
	refused      string   // the denial that it leaves, as name:port or name; empty where nothing can be seen
	control      []string // rules by which it works; nil runs it without a sandbox
	want         string
	looksUp      bool // the name is listed, so that the host asks its resolver
	slow         bool // the same, but only of a client that is slow to speak: what comes in time is refused before it does so
}

const tcp = `/usr/bin/python3 -c "
import socket, sys
s = socket.create_connection(('%s', %p), 5)
s.sendall(b'over\n'); print(s.recv(100).decode())"`

func tcpTo(host, port string) string { return strings.NewReplacer("%s", host, "%p", port).Replace(tcp) }

var bypasses = []bypass{
	{name: "PX01 an unlisted host", script: `curl -sS http://unlisted.test/hello`, rules: []string{"listed.test"}, refused: "unlisted.test", want: "hello from unlisted.test"},
	{name: "PX13 another port", script: tcpTo("listed.test", "7000"), rules: []string{"listed.test:443"}, refused: "listed.test:7000", control: []string{"listed.test:7000"}, want: "over"},
	{name: "PX09 a name that ends alike", script: `curl -sS http://xlisted.test/hello`, rules: []string{"listed.test"}, refused: "xlisted.test", want: "hello from xlisted.test"},
	{name: "PX09 the apex of a wildcard", script: `curl -sS http://wild.test/hello`, rules: []string{"*.wild.test"}, refused: "wild.test", control: []string{"wild.test"}, want: "hello from wild.test"},
	{name: "a literal address", script: tcpTo("203.0.113.10", "7000"), rules: []string{"listed.test:7000"}, refused: "203.0.113.10:7000", control: []string{"203.0.113.0/24:7000"}, want: "over"},
	{name: "PX07 a decimal literal", script: `curl -sS http://3405803786/hello`, rules: []string{"listed.test"}, refused: "203.0.113.10:80", control: []string{"203.0.113.10"}, want: "hello from"},
	{name: "a mapped literal", script: tcpTo("::ffff:203.0.113.10", "7000"), rules: []string{"listed.test:7000"}, refused: "203.0.113.10:7000", control: []string{"203.0.113.10:7000"}, want: "over"},
	{name: "PX19 a name of a private address", script: tcpTo("private.test", "7000"), rules: []string{"private.test:7000"}, refused: "private.test:7000",
		control: []string{"private.test:7000", privateAddress + ":7000"}, want: "over", looksUp: true},
	{name: "PX19 a name of the loopback", script: tcpTo("loop.test", "7000"), rules: []string{"loop.test:7000"}, refused: "loop.test:7000", want: "over", looksUp: true},
	{name: "PX19 a name of a metadata service", script: tcpTo("meta.test", "7000"), rules: []string{"meta.test:7000"}, refused: "meta.test:7000",
		control: []string{"meta.test:7000", metadataAddress + ":7000+force"}, want: "over", looksUp: true},
	{name: "NE03 a metadata service", script: tcpTo(metadataAddress, "7000"), rules: []string{"listed.test:7000"}, refused: metadataAddress + ":7000", control: []string{metadataAddress + ":7000+force"}, want: "over"},
	{name: "a private address", script: tcpTo(privateAddress, "7000"), rules: []string{"listed.test:7000"}, refused: privateAddress + ":7000", control: []string{"10.0.0.0/8:7000"}, want: "over"},
	{name: "PX19 a name of the host itself", script: tcpTo("own.test", "7000"), rules: []string{"own.test:7000"}, refused: "own.test:7000", want: "over", looksUp: true},
	{name: "PX19 a name that a route leads to the host itself", script: tcpTo("home.test", "7000"), rules: []string{"home.test:7000"}, refused: "home.test:7000",
		control: []string{"home.test:7000", homeAddress + ":7000"}, want: "over", looksUp: true},
	{name: "PX15 HTTP with a method that is none", script: `printf 'G@T /hello HTTP/1.1\r\nHost: unlisted.test\r\n\r\n' | bash -c 'exec 3<>/dev/tcp/listed.test/8088; cat >&3; timeout 5 cat <&3'`,
		rules: []string{"listed.test:8088"}, refused: "listed.test:8088", want: "hello from unlisted.test", slow: true},
	{name: "PX15 HTTP without a version", script: `printf 'GET hello\r\nHost: unlisted.test\r\n\r\n' | bash -c 'exec 3<>/dev/tcp/listed.test/8088; cat >&3; timeout 5 cat <&3'`,
		rules: []string{"listed.test:8088"}, refused: "listed.test:8088", want: "hello from unlisted.test", slow: true},
	{name: "NE01 the host's loopback", script: tcpTo("127.0.0.1", "7000"), rules: []string{"listed.test:7000"}, want: "over"},
	{name: "the host's address", script: tcpTo("192.0.2.1", "7000"), rules: []string{"listed.test:7000"}, refused: "192.0.2.1:7000", want: "over"},
	{name: "PX28 another resolver", script: `/usr/bin/python3 -c "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3)
q = b'\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x08unlisted\x04test\x00\x00\x01\x00\x01'
s.sendto(q, ('192.0.2.53', 53)); r = s.recv(512); print('rcode', r[3] & 15)"`, rules: []string{"listed.test"}, refused: "unlisted.test", want: "rcode 0"},
	{name: "PX24 another name in TLS", script: `curl -sS --cacert {CA} --connect-to unlisted.test:443:listed.test:443 https://unlisted.test/hello`, rules: []string{"listed.test:443"},
		refused: "listed.test:443", want: "hello from unlisted.test"},
	{name: "another Host", script: `curl -sS -H 'Host: unlisted.test' http://listed.test/hello`, rules: []string{"listed.test:80"}, refused: "listed.test:80", want: "hello from unlisted.test"},
	{name: "PX16 another Host in the second request", script: `printf 'GET /hello HTTP/1.1\r\nHost: listed.test\r\n\r\nGET /hello HTTP/1.1\r\nHost: unlisted.test\r\nConnection: close\r\n\r\n' | bash -c 'exec 3<>/dev/tcp/listed.test/80; cat >&3; timeout 5 cat <&3'`,
		rules: []string{"listed.test:80"}, refused: "listed.test:80", want: "hello from unlisted.test", looksUp: true},
	{name: "PX15 two Hosts", script: `printf 'GET /hello HTTP/1.1\r\nHost: listed.test\r\nHost: unlisted.test\r\nConnection: close\r\n\r\n' | bash -c 'exec 3<>/dev/tcp/listed.test/8088; cat >&3; timeout 5 cat <&3'`,
		rules: []string{"listed.test:8088"}, refused: "listed.test:8088", want: "hello from unlisted.test", slow: true},
	{name: "HTTP/2 without TLS", script: `curl -sS --http2-prior-knowledge http://listed.test/hello`, rules: []string{"listed.test:80"}, refused: "listed.test:80", want: "hello from listed.test by HTTP/2.0"},
	{name: "UDP", script: `/usr/bin/python3 -c "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3)
s.connect(('listed.test', 9999)); s.send(b'over'); print(s.recv(100).decode())"`, rules: []string{"listed.test:9999"}, control: []string{"udp://listed.test:9999"}, want: "echo over"},
	{name: "PX12 an empty list", script: `curl -sS http://listed.test/hello`, rules: nil, refused: "listed.test", want: "hello from listed.test"},
	{name: "PX17 a proxy's variables", script: `http_proxy=http://192.0.2.1:80 curl -sS http://unlisted.test/hello`, rules: []string{"listed.test"}, refused: "192.0.2.1:80", want: "hello from unlisted.test"},
}

// TestBypasses: none gets anywhere, and nothing leaves the host for it. Each works where it is permitted: else it would prove nothing.
func TestBypasses(t *testing.T) {
	prepared(t)
	eachUser(t, func(t *testing.T, w *world) {
		for _, b := range bypasses {
			t.Run(b.name, func(t *testing.T) {
				script := strings.ReplaceAll(b.script, "{CA}", shared()+"/ca.pem")
				flags := allow(b.rules...)
				if b.rules == nil {
					flags = manifest(t, w, `{"network": {"allow": []}, "workspace": "`+w.work+`"}`)
				}
				quiet := func() bool { return b.refusedTo(t, w, flags, script) }
				if b.slow {
					testenv.Eventually(t, quiet, "a client that was in time, of which nothing is looked up")
				} else {
					quiet()
				}
				if b.control != nil {
					got := w.run(t, allow(b.control...), script)
					assert.Contains(t, got.out, b.want, "the control: %v", got.Denials)
					return
				}
				out, err := w.command("sh", "-c", script).CombinedOutput()
				require.NoError(t, err, "%s", out)
				assert.Contains(t, string(out), b.want, "the control")
			})
		}
	})
}

// refusedTo runs the script in a sandbox and checks that it gets nowhere. It reports whether nothing was looked up for it.
func (b *bypass) refusedTo(t *testing.T, w *world, flags []string, script string) (quiet bool) {
	forget()
	got := w.run(t, flags, script)
	assert.NotContains(t, got.out, b.want)
	asked, packets := left()
	mayAsk := b.looksUp || b.slow
	for _, name := range asked {
		listed := slices.ContainsFunc(b.rules, func(rule string) bool { return strings.HasPrefix(rule, name+":") })
		assert.Truef(t, mayAsk && listed, "%s is looked up", name)
	}
	for _, p := range packets {
		assert.Truef(t, mayAsk && strings.HasSuffix(p, nameServer+":53") || strings.Contains(b.refused, "listed.test:") && strings.HasPrefix(p, "6 "+webAddress), "%s has left", p)
	}
	if b.refused != "" {
		_, ok := got.refusal(b.refused)
		assert.True(t, ok, "%v\n%s", got.Denials, got.out)
	}
	return len(asked) == 0
}
