package network

import (
	"crypto/tls"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/quic-go/quic-go/http3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serveHTTP3 serves HTTP/3 at webAddress.
func serveHTTP3(handler http.Handler, config *tls.Config) error {
	conn, err := net.ListenPacket("udp", net.JoinHostPort(webAddress, "443"))
	if err != nil {
		return err
	}
	server := &http3.Server{Handler: handler, TLSConfig: http3.ConfigureTLSConfig(config)}
	go func() { _ = server.Serve(conn) }()
	return nil
}

// TestHTTP3: a client whose ClientHello takes two datagrams, in frames that are out of order, reaches what a rule of UDP lists, and by that name alone.
func TestHTTP3(t *testing.T) {
	h3 := func(args string) string {
		return "SSL_CERT_FILE=" + filepath.Join(shared(), "ca.pem") + " " + filepath.Join(shared(), "h3client") + " " + args
	}
	const listed, over = "udp://listed.test:443", "17 " + webAddress + ":443"
	eachUser(t, func(t *testing.T, w *world) {
		_ = w.run(t, allow(listed), h3("listed.test /download")+" & sleep 0.03; kill -KILL $!") // the server goes on; no check below may count the answers
		forget()
		got := w.run(t, allow(listed), h3("listed.test /hello")+" && "+h3("listed.test /download"))
		assert.Equal(t, "hello from listed.test by HTTP/3.0\n"+downloadSum+"\n", got.out)
		assert.Equal(t, 0, got.Code)
		asked, packets := left()
		assert.Equal(t, []string{"listed.test"}, asked)
		assert.ElementsMatch(t, []string{"17 " + nameServer + ":53", over}, packets)
		require.NotNil(t, got.Receipt.Allow)
		require.Len(t, got.Receipt.Allow.Reached, 1)
		assert.Greater(t, got.Receipt.Allow.Reached[0].Received, int64(downloadSize))

		for _, row := range []struct{ name, rule, script, refused, reason string }{
			{"a rule of TCP", "udp://other.test:443,listed.test:443", h3("listed.test /hello"), "listed.test:443", "listed.test"},
			{"another name in TLS", listed, h3("listed.test /hello unlisted.test"), "listed.test:443", "unlisted.test"},
			{"no rule", "udp://other.test:443", h3("unlisted.test /hello"), "unlisted.test", "no rule names unlisted.test"},
		} {
			forget()
			got := w.run(t, allow(row.rule), row.script)
			assert.NotContains(t, got.out, "hello from ", row.name)
			assert.NotEqual(t, 0, got.Code, row.name)
			_, packets := left()
			assert.NotContains(t, packets, over, row.name)
			assert.True(t, got.refusedFor(row.refused, row.reason), "%s: %+v", row.name, got.Denials)
			free, err := w.command("sh", "-c", row.script).CombinedOutput() // the positive control
			assert.NoError(t, err, row.name)
			assert.Contains(t, string(free), "hello from ", row.name)
		}
	})
}
