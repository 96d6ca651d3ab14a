package netparse

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
)

// ErrNotQUIC means that a datagram is of another protocol, or of a version of QUIC other than 1 and 2.
var ErrNotQUIC = errors.New("not QUIC version 1 or 2")

// version is what the versions of QUIC do differently in Initial packets (RFC 9001, 5.2, and RFC 9369, 3.3).
type version struct {
	number      uint32
	initial     byte // the packet type
	salt        string
	key, iv, hp string // labels
}

var versions = [...]version{
	{1, 0, "\x38\x76\x2c\xf7\xf5\x59\x34\xb3\x4d\x17\x9a\xe6\xa4\xc8\x0c\xad\xcc\xbb\x7f\x0a", "quic key", "quic iv", "quic hp"},
	{0x6b3343cf, 1, "\x0d\xed\xe3\xde\xf7\x00\xa6\xdb\x81\x93\x81\xbe\x6e\x26\x9d\xcb\xf9\xbd\x2e\xd9", "quicv2 key", "quicv2 iv", "quicv2 hp"},
}

const (
	maxConnID      = 20       // RFC 9000, 17.2
	minFirstID     = 8        // of the destination that a client makes up, RFC 9000, 7.2
	maxConnections = 4        // of one flow
	maxCrypto      = 16 << 10 // of a ClientHello, as servers bound it too: one packet can ask for all of it
	maxSegments    = 256
	sampleSize     = 16
)

// Initials reads the datagrams that a client sends from one UDP port to one address, to find the server name in its QUIC Initial packets. The zero
// value is ready. It keeps at most four ClientHellos.
//
// The keys of Initial packets derive from a number in the packet, so everybody on the path can read them (RFC 9001, 5.2). Anybody can also write
// them: the name is the client's claim, as in TLS.
type Initials struct {
	connections []*connection
	begun       int // connections, of which old ones may be forgotten
	current     int // what the last datagram belonged to
}

// Connection numbers the connection that the last datagram without an error belonged to, from 0.
func (q *Initials) Connection() int { return q.current }

// ID is the destination ID of that connection's first packet: of what servers know it by until they have answered.
func (q *Initials) ID() []byte {
	i := slices.IndexFunc(q.connections, func(c *connection) bool { return c.number == q.current })
	if i < 0 {
		return nil
	}
	return q.connections[i].dcid
}

// connection is one attempt to connect: its keys and its stream of CRYPTO frames. A Retry of the server makes a second one.
type connection struct {
	number int                  // see [Initials.Connection]
	keys   [len(versions)]*keys // of one version, and of the other one if the client has changed to it (RFC 9368)
	dcid   []byte               // of the first packet, from which both derive

	stream []byte
	known  []segment // of stream, sorted; they do not touch
	hello  Hello
	done   bool
}

// keys are what protects a client's Initial packets.
type keys struct {
	aead cipher.AEAD
	hp   cipher.Block
	iv   []byte
}

// segment is the bytes from, inclusive, to to, exclusive.
type segment struct{ from, to int }

// Initial reads the next datagram of the client. Feed all of them: a flow can begin another connection later.
//
// With done, hello is the ClientHello of the connection that the datagram belongs to; compare its ServerName, each time, and then pass on the datagram and those
// before it. Without done and err, keep the datagram until done. err is [ErrNotQUIC] or an [ErrMalformed]; the datagram is to be dropped then. A datagram
// without an Initial packet belongs to the connection that began last.
func (q *Initials) Initial(datagram []byte) (hello Hello, done bool, err error) {
	if len(datagram) == 0 { // the fixed bit is not looked at: a server may have allowed to leave it out (RFC 9287)
		return Hello{}, false, ErrNotQUIC
	}
	var current *connection
	for rest := datagram; len(rest) > 0; {
		if rest[0]&0x80 == 0 { // a short header: nothing follows it
			if len(q.connections) == 0 {
				return Hello{}, false, ErrNotQUIC
			}
			break
		}
		p, err := splitPacket(rest)
		if errors.Is(err, ErrNotQUIC) && len(rest) < len(datagram) {
			err = malformed("a QUIC packet with something else behind it")
		}
		if err != nil {
			return Hello{}, false, err
		}
		rest = rest[p.size:]
		if !p.isInitial {
			if len(q.connections) == 0 {
				return Hello{}, false, malformed("a QUIC connection that does not begin with an Initial packet")
			}
			continue
		}
		c, err := q.open(p)
		if err != nil {
			return Hello{}, false, err
		}
		if current != nil && c != current {
			return Hello{}, false, malformed("a datagram of two QUIC connections")
		}
		current = c
	}
	if current == nil {
		current = q.connections[len(q.connections)-1]
	}
	q.current = current.number
	return current.hello, current.done, nil
}

// packet is a packet with a long header (RFC 9000, 17.2).
type packet struct {
	raw       []byte // the whole packet
	size      int
	version   int // an index of versions
	isInitial bool
	dcid      []byte
	number    int // offset of the packet number
}

func splitPacket(b []byte) (p packet, err error) {
	r := reader{b: b}
	first := r.number(1)
	number := uint32(r.number(4))
	i := slices.IndexFunc(versions[:], func(v version) bool { return v.number == number })
	if r.fail || i < 0 {
		return packet{}, ErrNotQUIC
	}
	p.version = i
	initial := versions[i].initial
	p.dcid = r.vector(1)
	source := r.vector(1)
	kind := byte(first >> 4 & 3)
	const retry = 3 // of version 1; servers send it
	if len(p.dcid) > maxConnID || len(source) > maxConnID || (kind-initial)&3 == retry {
		return packet{}, malformed("the header of a QUIC packet")
	}
	if p.isInitial = kind == initial; p.isInitial {
		r.take(r.varint()) // the token
	}
	length := r.varint()
	p.number = len(b) - len(r.b)
	r.take(length)
	if r.fail {
		return packet{}, malformed("the header of a QUIC packet")
	}
	p.size = p.number + length
	p.raw = b[:p.size]
	return p, nil
}

// varint takes a number of RFC 9000, 16. One of more than 30 bits is not one of the lengths here, and fails.
func (r *reader) varint() int {
	first := r.number(1)
	size := 1 << (first >> 6)
	v := first & 0x3f
	for _, c := range r.take(size - 1) {
		v = v<<8 | int(c)
		if v >= 1<<30 {
			r.fail, r.b = true, nil
			return 0
		}
	}
	return v
}

// open decrypts an Initial packet with the keys of a connection that is there, or with its own ones, and reads its frames.
func (q *Initials) open(p packet) (*connection, error) {
	for _, c := range q.connections {
		if payload, ok := c.decrypt(p); ok {
			return c, c.frames(payload)
		}
	}
	if len(p.dcid) < minFirstID || len(q.connections) == maxConnections && !q.forget() {
		return nil, malformed("a QUIC Initial packet that belongs to no connection")
	}
	c := &connection{number: q.begun, dcid: bytes.Clone(p.dcid)}
	payload, ok := c.decrypt(p)
	if !ok {
		return nil, malformed("a QUIC Initial packet that cannot be decrypted")
	}
	q.connections, q.begun = append(q.connections, c), q.begun+1
	return c, c.frames(payload)
}

// forget makes room for one more connection. It drops the oldest one whose ClientHello is whole, and reports whether there is one.
func (q *Initials) forget() bool {
	i := slices.IndexFunc(q.connections, func(c *connection) bool { return c.done })
	if i >= 0 {
		q.connections = slices.Delete(q.connections, i, i+1)
	}
	return i >= 0
}

// decrypt opens a packet of either version.
func (c *connection) decrypt(p packet) (payload []byte, ok bool) {
	k := c.keys[p.version]
	if k == nil {
		var err error
		if k, err = newKeys(&versions[p.version], c.dcid); err != nil {
			return nil, false
		}
		c.keys[p.version] = k
	}
	return k.open(p)
}

// newKeys derives the client's keys (RFC 9001, 5.2).
func newKeys(v *version, dcid []byte) (*keys, error) {
	initial, err := hkdf.Extract(sha256.New, dcid, []byte(v.salt))
	if err != nil {
		return nil, err
	}
	secret, err1 := expand(initial, "client in", sha256.Size)
	key, err2 := expand(secret, v.key, 16)
	iv, err3 := expand(secret, v.iv, 12)
	hp, err4 := expand(secret, v.hp, 16)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	k := &keys{iv: iv}
	if k.aead, err = cipher.NewGCM(block); err != nil {
		return nil, err
	}
	k.hp, err = aes.NewCipher(hp)
	return k, err
}

// expand is HKDF-Expand-Label (RFC 8446, 7.1) without a context.
func expand(secret []byte, label string, size int) ([]byte, error) {
	label = "tls13 " + label
	info := append([]byte{0, byte(size), byte(len(label))}, label...)
	return hkdf.Expand(sha256.New, secret, string(append(info, 0)), size)
}

// open removes the protection of header and payload (RFC 9001, 5.3 and 5.4). It takes the packet number to be small, as those of the packets are that carry
// a ClientHello.
func (k *keys) open(p packet) (payload []byte, ok bool) {
	if len(p.raw) < p.number+4+sampleSize {
		return nil, false
	}
	var mask [aes.BlockSize]byte
	k.hp.Encrypt(mask[:], p.raw[p.number+4:][:sampleSize])
	header := bytes.Clone(p.raw[:p.number+4])
	header[0] ^= mask[0] & 0x0f
	size := int(header[0]&3) + 1
	header = header[:p.number+size]
	for i := range size {
		header[p.number+i] ^= mask[1+i]
	}
	var number [4]byte
	copy(number[4-size:], header[p.number:])
	nonce := bytes.Clone(k.iv)
	binary.BigEndian.PutUint32(nonce[8:], binary.BigEndian.Uint32(nonce[8:])^binary.BigEndian.Uint32(number[:]))
	payload, err := k.aead.Open(nil, nonce, p.raw[p.number+size:], header)
	return payload, err == nil
}

// frames reads the frames that an Initial packet may have (RFC 9000, 17.2.2).
func (c *connection) frames(payload []byte) error {
	const padding, ping, ack, ackECN, crypto, closed = 0, 1, 2, 3, 6, 0x1c
	for r := (reader{b: payload}); len(r.b) > 0; {
		switch kind := r.number(1); kind {
		case padding, ping:
		case ack, ackECN:
			r.bigVarint() // the largest number, and the delay
			r.bigVarint()
			count := r.varint()
			r.bigVarint()
			for range 2 * min(count, len(r.b)) {
				r.bigVarint()
			}
			for range 3 * (kind - ack) {
				r.bigVarint()
			}
			if count > len(payload) {
				r.fail = true
			}
		case crypto:
			offset := r.varint()
			data := r.take(r.varint())
			if r.fail {
				break
			}
			if err := c.add(offset, data); err != nil {
				return err
			}
		case closed:
			r.bigVarint()
			r.bigVarint()
			r.take(r.varint())
		default:
			return malformed("a QUIC frame of the type %d in an Initial packet", kind)
		}
		if r.fail {
			return malformed("the frames of a QUIC Initial packet")
		}
	}
	return c.parse()
}

// bigVarint skips a number that may have all 62 bits.
func (r *reader) bigVarint() {
	first := r.number(1)
	r.take(1<<(first>>6) - 1)
}

// add puts data into the stream. Bytes that come twice must be the same: an endpoint may use either.
func (c *connection) add(from int, data []byte) error {
	to := from + len(data)
	if to > maxCrypto {
		return malformed("the ClientHello has more than %d bytes", maxCrypto)
	}
	if len(data) == 0 {
		return nil
	}
	if to > len(c.stream) {
		c.stream = append(c.stream, make([]byte, to-len(c.stream))...)
	}
	merged := segment{from, to}
	var known []segment
	for _, s := range c.known {
		if a, b := max(s.from, from), min(s.to, to); a < b && !bytes.Equal(c.stream[a:b], data[a-from:b-from]) {
			return malformed("CRYPTO frames that contradict each other")
		}
		if s.to < from || s.from > to {
			known = append(known, s)
			continue
		}
		merged = segment{min(s.from, merged.from), max(s.to, merged.to)}
	}
	c.known = append(known, merged)
	slices.SortFunc(c.known, func(a, b segment) int { return a.from - b.from })
	if len(c.known) > maxSegments {
		return malformed("more than %d pieces of a ClientHello", maxSegments)
	}
	copy(c.stream[from:], data)
	return nil
}

// parse reads the ClientHello if all of it is there.
func (c *connection) parse() (err error) {
	if len(c.known) == 0 || c.known[0].from != 0 {
		return nil
	}
	hello, done, err := clientHello(c.stream[:c.known[0].to])
	if err == nil && done {
		c.hello, c.done = hello, true
	}
	return err
}
