package netparse

import "errors"

// ErrNotTLS means that a stream does not begin as TLS does.
var ErrNotTLS = errors.New("not TLS")

// Hello has the parts of a ClientHello that name the server and its protocols.
type Hello struct {
	ServerName string   // as it was sent; empty if there is none
	ALPN       []string // protocols, such as "h2" and "http/1.1"

	// ECH reports Encrypted Client Hello (RFC 9849), in which the server may find another name. Some browsers always send the extension with nothing
	// in it, and only the server can distinguish the two.
	ECH bool
}

// The alerts with which a connection is refused (RFC 8446, 6.2, and RFC 6066, 3).
const (
	AlertAccessDenied     = 49
	AlertUnrecognizedName = 112
)

// Parts of TLS records and of the handshake (RFC 8446, 5.1, 4 and 4.2).
const (
	recordChange    = 20
	recordAlert     = 21
	recordHandshake = 22
	recordData      = 23
	recordHeartbeat = 24
	recordHeader    = 5
	maxRecord       = 1 << 14
	maxCiphertext   = maxRecord + 2048

	messageClientHello = 1
	messageHeader      = 4

	extServerName = 0
	extALPN       = 16
	extECH        = 0xfe0d
	extESNI       = 0xffce // what came before ECH
)

// ClientHello reads the first bytes that a client sends. If neither done nor err is set, it needs more of them. err is [ErrNotTLS] as soon as
// the bytes are of another protocol; every other error is an [ErrMalformed], and the stream is to be refused, since a server may read it
// in another way. The ClientHello may be spread over records, and has at most 64 KiB with their headers.
func ClientHello(b []byte) (hello Hello, done bool, err error) {
	hello, n, err := helloRecords(b)
	return hello, n > 0, err
}

// HelloSize gives the length of the records of the ClientHello at the beginning of b, or 0.
func HelloSize(b []byte) int {
	_, n, _ := helloRecords(b)
	return n
}

// helloRecords is ClientHello. n is the length of the records; 0 if they are not whole.
func helloRecords(b []byte) (hello Hello, n int, err error) {
	if is, done := LooksTLS(b); done && !is {
		return Hello{}, 0, ErrNotTLS
	} else if !done {
		return Hello{}, 0, nil
	}
	var msg []byte
	for rest := b; ; {
		if err := checkRecord(rest, len(msg) == 0 && len(rest) == len(b)); err != nil {
			return Hello{}, 0, err
		}
		if len(rest) < recordHeader {
			break
		}
		size := int(rest[3])<<8 | int(rest[4])
		rest = rest[recordHeader:]
		msg = append(msg, rest[:min(size, len(rest))]...)
		hello, done, err := clientHello(msg)
		if err != nil {
			return hello, 0, err
		}
		if len(rest) < size { // also if the message is whole: the rest of the record would be data after it
			break
		}
		rest = rest[size:]
		if done {
			return hello, len(b) - len(rest), nil
		}
	}
	if len(b) >= maxHello {
		return Hello{}, 0, malformed("the ClientHello has more than %d bytes", maxHello)
	}
	return Hello{}, 0, nil
}

// retryRequest is the random of a ServerHello that is a HelloRetryRequest (RFC 8446, 4.1.3).
const retryRequest = "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c"

// RetryRequested reports whether the server's first bytes ask for a second ClientHello, in which a server may look for the name again. Without done it
// needs more bytes.
func RetryRequested(response []byte) (requested, done bool) {
	const serverHello, random = 2, recordHeader + messageHeader + 2
	switch n := len(response); {
	case n > 0 && response[0] != recordHandshake, n > recordHeader && response[recordHeader] != serverHello:
		return false, true
	case n < random+len(retryRequest):
		return false, false
	}
	return string(response[random:][:len(retryRequest)]) == retryRequest, true
}

// Skipped reports whether a record of a type is one of those of [BeforeRetry].
func Skipped(kind byte) bool {
	return kind == recordChange || kind == recordAlert || kind == recordData
}

// BeforeRetry gives the length of what a client may send before its second ClientHello, and a server skips: a change of cipher, alerts that are
// warnings, and early data. Another record is for [ClientHello].
func BeforeRetry(b []byte) (n int) {
	for {
		rest := b[n:]
		if len(rest) < recordHeader || !Skipped(rest[0]) {
			return n
		}
		size := int(rest[3])<<8 | int(rest[4])
		if len(rest) < recordHeader+size {
			return n
		}
		n += recordHeader + size
	}
}

// LooksTLS reports whether a server may take a stream for TLS. Without done it needs more bytes, at most 6. Servers are lenient: the version of a record
// "MUST be ignored for all purposes" (RFC 8446, 5.1), of which crypto/tls ignores all but the first four bits; they skip an alert that is a warning;
// and OpenSSL reads a ClientHello in the form of SSL 2, which has no server name.
func LooksTLS(b []byte) (is, done bool) {
	var h [recordHeader + 1]byte
	copy(h[:], b)
	kind, major, size := h[0], h[1], int(h[3])<<8|int(h[4])
	switch {
	case len(b) == 0:
		return false, false
	case kind&0x80 != 0: // SSL 2: a length, the type, and the version 3
		return len(b) > 3 && h[2] == messageClientHello && h[3] == 3, len(b) > 3 || len(b) > 2 && h[2] != messageClientHello
	case kind < recordChange || kind > recordHeartbeat || len(b) > 1 && major > 15:
		return false, true
	case len(b) < 2:
		return false, false
	case major == 3 && kind == recordHandshake:
		return true, true
	case len(b) < recordHeader:
		return false, false
	}
	switch kind {
	case recordHandshake:
		if size == 0 || size > maxRecord {
			return false, true
		}
		return len(b) > recordHeader && h[recordHeader] == messageClientHello, len(b) > recordHeader
	case recordAlert:
		return size == 2, true
	case recordChange:
		return major == 3 && size == 1, true
	}
	return major == 3 && size > 0 && size <= maxCiphertext, true
}

// checkRecord checks the header of a record, of which there may be a part. The first one is one that LooksTLS.
func checkRecord(b []byte, first bool) error {
	switch {
	case len(b) > 0 && b[0] != recordHandshake:
		if first {
			return malformed("what looks like TLS does not begin with a ClientHello")
		}
		return malformed("another TLS record before the end of the ClientHello")
	case !first && (len(b) > 1 && b[1] != 3 || len(b) > 2 && b[2] > 4):
		return malformed("the version of a TLS record")
	case len(b) >= recordHeader:
		if size := int(b[3])<<8 | int(b[4]); size == 0 || size > maxRecord {
			return malformed("a TLS record of %d bytes", size)
		}
	}
	return nil
}

// clientHello reads a handshake message, of which there may be a part. More bytes than those of the message are malformed: a client
// has to wait for the server after it.
func clientHello(b []byte) (hello Hello, done bool, err error) {
	if len(b) > 0 && b[0] != messageClientHello {
		return Hello{}, false, malformed("the TLS handshake does not begin with a ClientHello")
	}
	if len(b) < messageHeader {
		return Hello{}, false, nil
	}
	size := int(b[1])<<16 | int(b[2])<<8 | int(b[3])
	switch body := b[messageHeader:]; {
	case size > maxHello-messageHeader:
		return Hello{}, false, malformed("the ClientHello has more than %d bytes", maxHello)
	case len(body) > size:
		return Hello{}, false, malformed("data after the ClientHello")
	case len(body) < size:
		return Hello{}, false, nil
	default:
		hello, err = parseHello(body)
		return hello, err == nil, err
	}
}

// parseHello reads the body of a ClientHello (RFC 8446, 4.1.2).
func parseHello(body []byte) (hello Hello, err error) {
	r := reader{b: body}
	r.take(2 + 32) // version and random
	session := r.vector(1)
	suites := r.vector(2)
	compression := r.vector(1)
	if r.fail || len(session) > 32 || len(suites) == 0 || len(suites)%2 != 0 || len(compression) == 0 {
		return Hello{}, malformed("the ClientHello's fields")
	}
	if len(r.b) == 0 {
		return hello, nil // extensions may be missing before TLS 1.3
	}
	extensions := reader{b: r.vector(2)}
	if r.fail || len(r.b) > 0 {
		return Hello{}, malformed("the ClientHello's extensions")
	}
	seen := map[int]bool{}
	for len(extensions.b) > 0 {
		kind := extensions.number(2)
		data := extensions.vector(2)
		if extensions.fail || seen[kind] {
			return Hello{}, malformed("the ClientHello's extensions")
		}
		seen[kind] = true
		if err := hello.extension(kind, data); err != nil {
			return Hello{}, err
		}
	}
	return hello, nil
}

func (h *Hello) extension(kind int, data []byte) error {
	r := reader{b: data}
	switch kind {
	case extECH, extESNI:
		h.ECH = true
	case extServerName: // RFC 6066, 3: a list with one name of the type host_name, 0
		list := reader{b: r.vector(2)}
		nameType := list.number(1)
		name := list.vector(2)
		if r.fail || list.fail || len(r.b) > 0 || len(list.b) > 0 || nameType != 0 || len(name) == 0 {
			return malformed("the ClientHello's server name")
		}
		h.ServerName = string(name)
	case extALPN: // RFC 7301, 3.1
		list := reader{b: r.vector(2)}
		if r.fail || len(r.b) > 0 || len(list.b) == 0 {
			return malformed("the ClientHello's protocols")
		}
		for len(list.b) > 0 {
			name := list.vector(1)
			if list.fail || len(name) == 0 {
				return malformed("the ClientHello's protocols")
			}
			h.ALPN = append(h.ALPN, string(name))
		}
	}
	return nil
}

// Alert gives the record of a fatal alert, which a server may send instead of its first message.
func Alert(code byte) []byte {
	const fatal = 2
	return []byte{recordAlert, 3, 3, 0, 2, fatal, code}
}
