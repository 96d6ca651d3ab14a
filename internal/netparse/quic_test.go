package netparse

import (
	"context"
	"crypto/aes"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// clientID is the destination connection ID of the examples in RFC 9001 and RFC 9369.
var clientID = unhex("8394c8f03e515708")

func unhex(text string) []byte {
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		panic(err)
	}
	return b
}

// rfc9001 is the datagram of RFC 9001, A.2.
func rfc9001(t testing.TB) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/rfc9001-a2.hex")
	require.NoError(t, err)
	return unhex(string(text))
}

func TestInitial(t *testing.T) {
	var q Initials
	hello, done, err := q.Initial(rfc9001(t))
	require.NoError(t, err)
	assert.True(t, done)
	assert.Equal(t, Hello{ServerName: "example.com", ALPN: []string{"alpn"}}, hello)
	again, done, err := q.Initial([]byte{0x41, 1, 2, 3}) // a short header, of the same connection
	assert.NoError(t, err)
	assert.True(t, done)
	assert.Equal(t, hello, again)
}

// TestKeys has the keys of RFC 9001, A.1, and RFC 9369, A.1.
func TestKeys(t *testing.T) {
	for i, want := range [][2]string{
		{"fa044b2f42a3fd3b46fb255c", "9f50449e04a0e810283a1e9933adedd2"},
		{"91f73e2351d8fa91660e909f", "45b95e15235d6f45a6b19cbcb0294ba9"},
	} {
		k, err := newKeys(&versions[i], clientID)
		require.NoError(t, err)
		assert.Equal(t, want[0], hex.EncodeToString(k.iv))
		block, err := aes.NewCipher(unhex(want[1]))
		require.NoError(t, err)
		var a, b [16]byte
		block.Encrypt(a[:], a[:])
		k.hp.Encrypt(b[:], b[:])
		assert.Equal(t, a, b)
	}
}

// seal makes an Initial packet.
func seal(t testing.TB, version int, keyID, dcid []byte, number byte, payload []byte) []byte {
	t.Helper()
	return sealAs(t, 0xc0, version, keyID, dcid, number, payload)
}

func sealAs(t testing.TB, first byte, version int, keyID, dcid []byte, number byte, payload []byte) []byte {
	t.Helper()
	v := versions[version]
	k, err := newKeys(&v, keyID)
	require.NoError(t, err)
	payload = append(payload, make([]byte, max(0, 4-len(payload)))...)
	header := binary.BigEndian.AppendUint32([]byte{first | v.initial<<4}, v.number)
	header = append(append(append(header, byte(len(dcid))), dcid...), 3, 's', 'r', 'c', 0)
	header = binary.BigEndian.AppendUint16(header, 0x4000|uint16(1+len(payload)+16))
	at := len(header)
	header = append(header, number)
	nonce := append([]byte{}, k.iv...)
	nonce[11] ^= number
	packet := k.aead.Seal(header, nonce, payload, header)
	var mask [16]byte
	k.hp.Encrypt(mask[:], packet[at+4:][:16])
	packet[0] ^= mask[0] & 0x0f
	packet[at] ^= mask[1]
	return packet
}

// cryptoFrame gives the part of a stream from one byte to another.
func cryptoFrame(stream []byte, from, to int) []byte {
	frame := binary.BigEndian.AppendUint16([]byte{6}, 0x4000|uint16(from))
	frame = binary.BigEndian.AppendUint16(frame, 0x4000|uint16(to-from))
	return append(frame, stream[from:to]...)
}

// quicHello is what crypto/tls sends in CRYPTO frames.
func quicHello(t testing.TB, name string) (stream []byte) {
	t.Helper()
	client := tls.QUICClient(&tls.QUICConfig{TLSConfig: &tls.Config{ServerName: name, NextProtos: []string{"h3"}, MinVersion: tls.VersionTLS13}})
	client.SetTransportParameters([]byte{})
	require.NoError(t, client.Start(context.Background()))
	defer func() { _ = client.Close() }()
	for {
		event := client.NextEvent()
		if event.Kind == tls.QUICNoEvent {
			return stream
		}
		if event.Kind == tls.QUICWriteData {
			stream = append(stream, event.Data...)
		}
	}
}

func TestInitialInPieces(t *testing.T) {
	stream := quicHello(t, "example.com")
	n := len(stream)
	require.Greater(t, n, 1000)
	for version := range versions {
		var q Initials
		last := append(cryptoFrame(stream, 300, 600), 1, 0, 0) // PING, PADDING
		last = append(last, cryptoFrame(stream, 0, 100)...)
		_, done, err := q.Initial(seal(t, version, clientID, clientID, 0, append(cryptoFrame(stream, 600, n), 0)))
		require.NoError(t, err)
		require.False(t, done)
		_, done, err = q.Initial(seal(t, version, clientID, clientID, 1, last))
		require.NoError(t, err)
		require.False(t, done)
		hello, done, err := q.Initial(seal(t, version, clientID, []byte("server"), 2, cryptoFrame(stream, 50, 350)))
		require.NoError(t, err)
		require.True(t, done)
		assert.Equal(t, Hello{ServerName: "example.com", ALPN: []string{"h3"}}, hello)

		// An acknowledgement, in either version, with the first keys and the server's ID.
		ack := []byte{2, 0xc0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0}
		for other := range versions {
			hello, done, err = q.Initial(seal(t, other, clientID, []byte("server"), 3, ack))
			require.NoError(t, err)
			assert.True(t, done)
			assert.Equal(t, "example.com", hello.ServerName)
		}
	}
}

// TestInitialOfAnotherConnection: a flow that has been allowed begins another connection, with another name.
func TestInitialOfAnotherConnection(t *testing.T) {
	var q Initials
	_, done, err := q.Initial(rfc9001(t))
	require.NoError(t, err)
	require.True(t, done)
	stream := quicHello(t, "evil.example")
	hello, done, err := q.Initial(seal(t, 0, []byte("evil-conn"), []byte("evil-conn"), 0, cryptoFrame(stream, 0, 700)))
	require.NoError(t, err)
	assert.False(t, done)
	assert.Empty(t, hello.ServerName)
	assert.Equal(t, 1, q.Connection())
	_, done, err = q.Initial(seal(t, 0, clientID, clientID, 4, []byte{1}))
	require.NoError(t, err)
	assert.True(t, done)
	assert.Equal(t, 0, q.Connection())
	hello, done, err = q.Initial(seal(t, 0, []byte("evil-conn"), []byte("evil-conn"), 1, cryptoFrame(stream, 700, len(stream))))
	require.NoError(t, err)
	assert.True(t, done)
	assert.Equal(t, "evil.example", hello.ServerName)

	two := append(seal(t, 0, clientID, clientID, 5, []byte{1}), seal(t, 0, []byte("evil-conn"), []byte("evil-conn"), 6, []byte{1})...)
	_, _, err = q.Initial(two)
	assert.ErrorIs(t, err, ErrMalformed)
	for i, id := range []string{"third-conn", "fourth-conn", "fifth-conn", "sixth-conn"} { // in the place of those that are done
		_, done, err = q.Initial(seal(t, 0, []byte(id), []byte(id), 0, []byte{1}))
		require.NoError(t, err, id)
		assert.False(t, done)
		assert.Equal(t, 2+i, q.Connection())
	}
	_, _, err = q.Initial(seal(t, 0, []byte("seventh-conn"), []byte("seventh-conn"), 0, []byte{1}))
	assert.ErrorIs(t, err, ErrMalformed, "five connections of which none is done")
}

// TestWhatFollowsAnInitial is refused if it is nothing of QUIC: it would make the datagram one that nobody has to check.
func TestWhatFollowsAnInitial(t *testing.T) {
	stream := quicHello(t, "evil.example")
	for _, first := range []byte{0x80, 0xc0} {
		b := sealAs(t, first, 0, clientID, clientID, 0, cryptoFrame(stream, 0, len(stream)))
		_, _, err := new(Initials).Initial(append(b, 0x80, 0xde, 0xad, 0xbe, 0xef))
		assert.ErrorIs(t, err, ErrMalformed)
		assert.NotErrorIs(t, err, ErrNotQUIC)
	}
}

// TestInitialWithoutFixedBit: servers with the parameter grease_quic_bit take it (RFC 9287, 3).
func TestInitialWithoutFixedBit(t *testing.T) {
	stream := quicHello(t, "evil.example")
	hello, done, err := new(Initials).Initial(sealAs(t, 0x80, 0, clientID, clientID, 0, cryptoFrame(stream, 0, len(stream))))
	require.NoError(t, err)
	assert.True(t, done)
	assert.Equal(t, "evil.example", hello.ServerName)
}

func TestInitialRefused(t *testing.T) {
	good := rfc9001(t)
	change := func(at int, value byte) []byte {
		b := append([]byte{}, good...)
		b[at] = value
		return b
	}
	for name, datagram := range map[string][]byte{
		"empty": nil, "another version": change(1, 1), "version negotiation": change(4, 0), "short header": {0x40, 1, 2}, "DNS": []byte("\x00\x01\x01\x00\x00\x01"),
	} {
		_, done, err := new(Initials).Initial(datagram)
		assert.False(t, done)
		assert.ErrorIs(t, err, ErrNotQUIC, name)
	}
	stream := quicHello(t, "example.com")
	packet := func(payload ...byte) []byte { return seal(t, 0, clientID, clientID, 0, payload) }
	many := []byte{}
	for i := range maxSegments + 1 {
		many = append(many, cryptoFrame(stream[:1400], 2*i, 2*i+1)...)
	}
	for name, datagram := range map[string][]byte{
		"no fixed bit": change(0, 0x80), "changed": change(1000, good[1000]^1), "cut": good[:600], "retry": change(0, 0xf0), "handshake": change(0, 0xe0), "long ID": change(5, 21),
		"short first ID":        seal(t, 0, []byte("short"), []byte("short"), 0, cryptoFrame(stream, 0, 99)),
		"stream frame":          packet(8, 0, 0, 0),
		"cut frame":             packet(6, 0, 9, 1),
		"another message":       packet(6, 0, 1, 2),
		"a far offset":          packet(6, 0x80, 0, 0x40, 0, 1, 1),
		"a huge offset":         packet(6, 0xff, 255, 255, 255, 255, 255, 255, 255, 1, 1),
		"many acknowledgements": packet(2, 0, 0, 0xbf, 255, 255, 255, 0),
		"contradiction":         packet(append(cryptoFrame(stream, 0, 50), 6, 10, 1, stream[10]^1)...),
		"data after it":         packet(append(cryptoFrame(append(stream, 0), 0, 900), cryptoFrame(append(stream, 0), 900, len(stream)+1)...)...),
		"many pieces":           packet(many...),
	} {
		_, done, err := new(Initials).Initial(datagram)
		assert.False(t, done)
		assert.ErrorIs(t, err, ErrMalformed, name)
	}
}

// FuzzInitial reads datagrams as they are, and their frames inside of a packet.
func FuzzInitial(f *testing.F) {
	stream := quicHello(f, "example.com")
	f.Add(rfc9001(f), 1)
	f.Add(append(cryptoFrame(stream, 0, 500), cryptoFrame(stream, 500, len(stream))...), 0)
	f.Add(append([]byte{1, 0, 2, 1, 2, 1, 1, 1, 1, 3, 0, 0, 0, 0, 1, 2, 3}, cryptoFrame(rawHello(sniExample), 0, 70)...), 0)
	f.Add([]byte{0x1c, 0, 0, 1, 'x'}, 3)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		var raw, q Initials
		_, _, err := raw.Initial(b)
		require.True(t, err == nil || errors.Is(err, ErrMalformed) || errors.Is(err, ErrNotQUIC))
		if len(b) > 8000 {
			return
		}
		cut = min(max(cut, 0), len(b))
		for i, part := range [][]byte{b[:cut], b[cut:]} {
			hello, done, err := q.Initial(seal(t, i, clientID, clientID, byte(i), append([]byte{}, part...)))
			require.True(t, err == nil || errors.Is(err, ErrMalformed))
			require.False(t, err != nil && done)
			if !done {
				require.Equal(t, Hello{}, hello)
			}
			for _, c := range q.connections {
				require.LessOrEqual(t, len(c.stream), maxHello)
			}
		}
	})
}
