package netparse

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// helloOf is what crypto/tls sends first.
func helloOf(t testing.TB, config *tls.Config) []byte {
	t.Helper()
	client, server := net.Pipe()
	go func() {
		_ = tls.Client(client, config).Handshake()
	}()
	header := make([]byte, 5)
	_, err := io.ReadFull(server, header)
	require.NoError(t, err)
	body := make([]byte, int(header[3])<<8|int(header[4]))
	_, err = io.ReadFull(server, body)
	require.NoError(t, err)
	require.NoError(t, server.Close())
	return append(header, body...)
}

// inRecords spreads a handshake message over records of a size.
func inRecords(message []byte, size int) (stream []byte) {
	for len(message) > 0 {
		n := min(size, len(message))
		stream = append(append(stream, 22, 3, 1, byte(n>>8), byte(n)), message[:n]...)
		message = message[n:]
	}
	return stream
}

// rawHello makes a ClientHello with the given extensions, each of which has its type and length.
func rawHello(extensions string) []byte {
	body := "\x03\x03" + strings.Repeat("r", 32) + "\x00" + "\x00\x02\x13\x01" + "\x01\x00"
	if extensions != "" {
		body += string([]byte{byte(len(extensions) >> 8), byte(len(extensions))}) + extensions
	}
	return append([]byte{1, 0, byte(len(body) >> 8), byte(len(body))}, body...)
}

const (
	sniExample = "\x00\x00\x00\x0e\x00\x0c\x00\x00\x09a.example"
	alpnH2     = "\x00\x10\x00\x05\x00\x03\x02h2"
)

func TestClientHello(t *testing.T) {
	hello := helloOf(t, &tls.Config{ServerName: "example.com", NextProtos: []string{"h2", "http/1.1"}})
	for _, size := range []int{1, 3, 100, 1 << 14} {
		stream := inRecords(hello[5:], size)
		for n := range stream {
			_, done, err := ClientHello(stream[:n])
			require.NoError(t, err)
			require.False(t, done)
		}
		got, done, err := ClientHello(stream)
		require.NoError(t, err)
		require.True(t, done)
		assert.Equal(t, Hello{ServerName: "example.com", ALPN: []string{"h2", "http/1.1"}}, got)
	}
	got, done, err := ClientHello(helloOf(t, &tls.Config{ServerName: "192.0.2.1"}))
	assert.True(t, done)
	assert.NoError(t, err)
	assert.Empty(t, got.ServerName, "clients send no name for an address")

	for _, version := range []string{"\x03\x05", "\x03\xff", "\x00\x00", "\x02\x01", "\x0f\xff"} {
		stream := "\x16" + version + string(inRecords(rawHello(sniExample), 1<<14)[3:])
		got, done, err := ClientHello([]byte(stream))
		assert.NoError(t, err)
		assert.True(t, done)
		assert.Equal(t, "a.example", got.ServerName, "%q", version)
	}

	for extensions, want := range map[string]Hello{
		"":                              {},
		sniExample:                      {ServerName: "a.example"},
		sniExample + alpnH2:             {ServerName: "a.example", ALPN: []string{"h2"}},
		"\xfe\x0d\x00\x01\x00":          {ECH: true},
		"\xff\xce\x00\x00" + sniExample: {ECH: true, ServerName: "a.example"},
		"\x0a\x0a\x00\x00" + sniExample: {ServerName: "a.example"}, // GREASE
		strings.Replace(sniExample, ".", "\x00", 1): {ServerName: "a\x00example"}, // raw: netrule.Canonical refuses it
	} {
		got, done, err := ClientHello(inRecords(rawHello(extensions), 1<<14))
		assert.True(t, done)
		assert.NoError(t, err)
		assert.Equal(t, want, got)
	}
}

func TestClientHelloRefused(t *testing.T) {
	for _, text := range []string{"GET / HTTP/1.1\r\n", "SSH-2.0-x\r\n", "\x80\x00\x00\x03", "\x80\x2e\x01\x00", "\x16\x10", "\x16\x00\x00\x00\x00",
		"\x16\x00\x00\x00\x16\x07", "\x15\x00\x00\x00\x15", "\x14\x03\x03\x00\x02", "\x17\x00\x00\x00\x17", "\x13\x03", "\x19\x03", "\x00"} {
		_, done, err := ClientHello([]byte(text))
		assert.False(t, done)
		assert.ErrorIs(t, err, ErrNotTLS, "%q", text)
	}
	stream := inRecords(rawHello(sniExample), 1<<14)
	for name, text := range map[string]string{
		"an alert first":         "\x15\x03\x03\x00\x02\x01\x5a" + string(stream),
		"the form of SSL 2":      "\x80\x2e\x01\x03\x01",
		"a change first":         "\x14\x03\x03\x00\x01\x01" + string(stream),
		"an empty record":        "\x16\x03\x01\x00\x00",
		"a long record":          "\x16\x03\x01\x40\x01",
		"another message":        "\x16\x03\x01\x00\x01\x02",
		"a long message":         "\x16\x03\x01\x00\x04\x01\x01\x00\x00",
		"an alert in between":    string(inRecords(rawHello(sniExample)[:20], 20)) + "\x15\x03\x03\x00\x02",
		"data after it":          string(inRecords(append(rawHello(sniExample), 0), 1<<14)),
		"two names":              hello("\x00\x00\x00\x12\x00\x10\x00\x00\x05a.exa\x00\x00\x05b.exb"),
		"two extensions":         hello(sniExample + sniExample),
		"a type of name":         hello(strings.Replace(sniExample, "\x00\x0c\x00", "\x00\x0c\x01", 1)),
		"an empty name":          hello("\x00\x00\x00\x05\x00\x03\x00\x00\x00"),
		"an empty list":          hello("\x00\x00\x00\x02\x00\x00"),
		"an empty extension":     hello("\x00\x00\x00\x00"),
		"data after the name":    hello("\x00\x00\x00\x0f\x00\x0c\x00\x00\x09a.example!"),
		"a cut extension":        hello("\x00\x00\x00\xff"),
		"no protocols":           hello("\x00\x10\x00\x02\x00\x00"),
		"an empty protocol":      hello("\x00\x10\x00\x03\x00\x01\x00"),
		"data after extensions":  string(inRecords(append([]byte{1, 0, 0, 45}, append(rawHello("")[4:], 0, 0, 1, 2)...), 1<<14)),
		"no suites":              string(inRecords([]byte("\x01\x00\x00\x27\x03\x03"+strings.Repeat("r", 32)+"\x00\x00\x00\x01\x00"), 99)),
		"a long list of records": strings.Repeat("\x16\x03\x01\x00\x01\x01", 1) + strings.Repeat("\x16\x03\x01\x00\x01\x00", maxHello/6+1),
	} {
		_, done, err := ClientHello([]byte(text))
		assert.False(t, done, name)
		assert.ErrorIs(t, err, ErrMalformed, name)
		assert.False(t, errors.Is(err, ErrNotTLS))
	}
	_, done, err := ClientHello(stream)
	assert.True(t, done)
	assert.NoError(t, err)
}

func hello(extensions string) string { return string(inRecords(rawHello(extensions), 1<<14)) }

// TestAlert has crypto/tls read the alerts.
func TestAlert(t *testing.T) {
	for code, text := range map[byte]string{AlertAccessDenied: "access denied", AlertUnrecognizedName: "unrecognized name"} {
		client, server := net.Pipe()
		go func() {
			_, _ = server.Read(make([]byte, 4096))
			_, _ = server.Write(Alert(code))
		}()
		assert.ErrorContains(t, tls.Client(client, &tls.Config{ServerName: "example.com"}).Handshake(), text)
	}
}

func FuzzClientHello(f *testing.F) {
	f.Add([]byte(hello(sniExample + alpnH2)))
	f.Add(inRecords(rawHello("\xfe\x0d\x00\x01\x00"+sniExample), 7))
	f.Add(helloOf(f, &tls.Config{ServerName: "example.com", NextProtos: []string{"h2"}}))
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, done, err := ClientHello(b)
		require.False(t, done && err != nil)
		if !done {
			require.Equal(t, Hello{}, got)
			if len(b) < 512 { // all that it says of a part holds for the whole
				for n := range b {
					_, done, early := ClientHello(b[:n])
					require.False(t, done)
					require.True(t, early == nil || errors.Is(err, ErrMalformed) || errors.Is(err, ErrNotTLS))
				}
			}
			return
		}
		// What crypto/tls reads is the same name.
		if name, ok := nameForTLS(b); ok {
			require.Equal(t, name, got.ServerName)
		}
	})
}

// nameForTLS is the server name that a server of crypto/tls sees, if it accepts the ClientHello so far.
func nameForTLS(b []byte) (name string, ok bool) {
	stop := errors.New("stop")
	_ = tls.Server(readOnly{bytes.NewReader(b)}, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name, ok = h.ServerName, true
		return nil, stop
	}}).Handshake()
	return name, ok
}

// readOnly is a connection from which bytes come.
type readOnly struct{ *bytes.Reader }

func (readOnly) Write(b []byte) (int, error) { return len(b), nil }

func (readOnly) Close() error                     { return nil }
func (readOnly) LocalAddr() net.Addr              { return nil }
func (readOnly) RemoteAddr() net.Addr             { return nil }
func (readOnly) SetDeadline(time.Time) error      { return nil }
func (readOnly) SetReadDeadline(time.Time) error  { return nil }
func (readOnly) SetWriteDeadline(time.Time) error { return nil }
