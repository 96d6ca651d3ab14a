package network

import (
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestProxyEnv: programs find the proxy by their environment, and it permits what the rules do, by HTTP, CONNECT and SOCKS5.
func TestProxyEnv(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		flags := manifest(t, w, fmt.Sprintf(`{"network": {"allow": ["listed.test", "listed.test:%d"], "proxy_env": true}, "workspace": %q}`, echoPort, w.work))
		ca := shared() + "/ca.pem"
		got := w.run(t, flags, `echo "$https_proxy $HTTP_PROXY $ALL_PROXY $no_proxy"
			curl -sS http://listed.test/hello
			curl -sSv --cacert `+ca+` https://listed.test/hello 2>&1 | grep -e CONNECT -e hello
			curl -sS --cacert `+ca+` --proxy socks5h://127.0.0.1:15002 https://listed.test/hello
			curl -sS --noproxy '*' http://listed.test/hello
			curl -sS --proxy socks5://127.0.0.1:15002 http://listed.test/hello # which looks the name up itself`)
		assert.Equal(t, 0, got.Code, got.out)
		assert.Contains(t, got.out, "http://127.0.0.1:15002 http://127.0.0.1:15002 socks5h://127.0.0.1:15002 localhost,127.0.0.1,::1\nhello from listed.test by HTTP/1.1\n")
		assert.Contains(t, got.out, "CONNECT listed.test:443")
		assert.Contains(t, got.out, "hello from listed.test by HTTP/2.0\nhello from listed.test by HTTP/2.0\nhello from listed.test by HTTP/1.1\nhello from listed.test by HTTP/1.1\n")
		if assert.NotNil(t, got.Receipt.Allow) && assert.Len(t, got.Receipt.Allow.Reached, 1) {
			assert.Equal(t, 5, got.Receipt.Allow.Reached[0].Connections)
		}

		forget()
		for _, c := range []struct{ script, says, refused string }{
			{`curl -sS http://unlisted.test/hello`, "unlisted.test:80 is not in the network's allow-list", "unlisted.test:80"},
			{`curl -sS --cacert ` + ca + ` https://unlisted.test/hello; curl -sS --cacert ` + ca + ` https://unlisted.test/hello 2>&1 | cat`, "403", "unlisted.test:443"},
			{`curl -sS --proxy socks5h://127.0.0.1:15002 http://unlisted.test/hello`, "", "unlisted.test:80"},
			{`curl -sS --proxy socks5h://127.0.0.1:15002 http://192.0.2.1/hello`, "", "192.0.2.1:80"},
			{`curl -sS http://127.1:7000/ --noproxy ''`, "", "127.0.0.1:7000"},
			{`curl -sS http://169.254.169.254/latest`, "which is a metadata service", "169.254.169.254:80"},
		} {
			got := w.run(t, flags, c.script)
			assert.NotContains(t, got.out, "hello from")
			assert.Contains(t, got.out, c.says)
			assert.NotContains(t, got.out, "+force", "no advice to permit what has the keys of the machine")
			_, ok := got.refusal(c.refused)
			assert.True(t, ok, "%s: %v\n%s", c.script, got.Denials, got.out)
		}
		asked, packets := left()
		assert.Empty(t, asked)
		assert.Empty(t, packets)
	})
}

// TestNobodyElseUsesTheProxy (PX23): it is on the loopback of one sandbox, where neither the host's users nor another sandbox can connect to it.
func TestNobodyElseUsesTheProxy(t *testing.T) {
	eachUser(t, func(t *testing.T, w *world) {
		const request = `curl -sS --proxy http://127.0.0.1:15002 http://listed.test/hello`
		flags := manifest(t, w, fmt.Sprintf(`{"network": {"allow": ["listed.test", "listed.test:%d"], "proxy_env": true}, "workspace": %q}`, echoPort, w.work))
		r := w.start(t, []string{built.nsrun}, flags, request+"; "+fmt.Sprintf(holding, ""))
		children := r.connected(t, w)
		_, err := net.Dial("tcp", "127.0.0.1:15002")
		assert.ErrorIs(t, err, unix.ECONNREFUSED)
		other := newWorld(t, w.name, w.uid, w.gid)
		got := other.run(t, allow("listed.test"), request)
		assert.NotContains(t, got.out, "hello", got.out)
		assert.NotEqual(t, 0, got.Code)
		w.release(t)
		require.Contains(t, r.wait(t).out, "hello from listed.test", "positive control")
		gone(t, children)
	})
}
