package nethost

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/quic"
)

// oneEnd makes a connected UDP socket the socket of an endpoint.
type oneEnd struct{ net.Conn }

func (c oneEnd) ReadFrom(b []byte) (int, net.Addr, error) {
	n, err := c.Read(b)
	return n, c.RemoteAddr(), err
}

func (c oneEnd) WriteTo(b []byte, _ net.Addr) (int, error) { return c.Write(b) }

// quicEcho is a QUIC server on the host.
func quicEcho(t *testing.T) string {
	t.Helper()
	w := newWeb(t, (*httptest.Server).StartTLS)
	config := &quic.Config{TLSConfig: &tls.Config{Certificates: w.TLS.Certificates, NextProtos: []string{"x"}, MinVersion: tls.VersionTLS13}}
	e, err := quic.Listen("udp4", "127.0.0.1:0", config)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = e.Close(ctx)
	})
	go func() {
		for {
			c, err := e.Accept(context.Background())
			if err != nil {
				return
			}
			go func() {
				s, err := c.AcceptStream(context.Background())
				if err != nil {
					return
				}
				_, _ = io.Copy(s, s)
				s.CloseWrite()
				_ = s.Flush()
			}()
		}
	}()
	return e.LocalAddr().String()
}

// quicTalk connects inside with a server name, and sends text there and back.
func (b *box) quicTalk(t *testing.T, addr, server, text string) (string, error) {
	t.Helper()
	conn, err := b.open("udp4", addr)
	require.NoError(t, err)
	config := &quic.Config{TLSConfig: &tls.Config{ServerName: server, InsecureSkipVerify: true, NextProtos: []string{"x"}, MinVersion: tls.VersionTLS13}}
	e, err := quic.NewEndpoint(oneEnd{conn}, config)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Limit(0))
	if server != "a.example.com" {
		ctx, cancel = context.WithTimeout(t.Context(), 700*time.Millisecond) // nothing answers
	}
	defer cancel()
	defer func() {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		_ = e.Close(gone)
	}()
	c, err := e.Dial(ctx, "udp4", addr, config)
	if err != nil {
		return "", err
	}
	s, err := c.NewStream(ctx)
	if err != nil {
		return "", err
	}
	s.SetReadContext(ctx)
	if _, err := s.Write([]byte(text)); err != nil {
		return "", err
	}
	s.CloseWrite()
	_ = s.Flush()
	got, err := io.ReadAll(s)
	return string(got), err
}

func TestQUICNamesWhatWasLookedUp(t *testing.T) {
	h := newHost()
	h.put("a.example.com", "93.184.216.34", 443, quicEcho(t))
	b := newBoxWith(t, h, usual+" udp:443", netmessage.Start{Rules: []string{"udp://a.example.com:443"}})
	addrs, err := b.resolver().LookupHost(t.Context(), "a.example.com.")
	require.NoError(t, err)
	addr := addrs[0] + ":443"
	got, err := b.quicTalk(t, addr, "a.example.com", "over QUIC")
	require.NoError(t, err)
	assert.Equal(t, "over QUIC", got)
	sent := b.record.reached["a.example.com"].sent.Load()
	_, err = b.quicTalk(t, addr, "b.example.com", "over QUIC")
	assert.Error(t, err)
	testenv.Eventually(t, func() bool {
		_, err := find(h.refused(), opSend, "a.example.com:443", netmessage.Mismatch)
		return err == nil
	}, "the refusal")
	assert.Less(t, b.record.reached["a.example.com"].sent.Load()-sent, int64(1000), "no ClientHello was passed on")
	got, err = b.quicTalk(t, addr, "a.example.com", "again")
	require.NoError(t, err)
	assert.Equal(t, "again", got)
}
