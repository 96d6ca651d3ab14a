// Package netparse reads what a sandboxed program sends to the network, so that cmd/nsrun-helper can compare the names in it with the rules:
// DNS queries, the ClientHello of TLS and of QUIC, HTTP/1 requests, and the requests of SOCKS5 and HTTP CONNECT.
//
// The parsers are pure. They take bytes, never panic, and keep at most 64 KiB of a stream. A parser that takes the first bytes of a stream is called again with
// more of them until it reports done; it never asks for more than its bound. Where two programs might read the same bytes differently, a parser refuses them:
// a filter that reads a request in one way in front of a server that reads it in another does not filter.
//
// What the package does not protect against: it compares names, so it sees nothing inside of TLS, neither the Host of a request there nor the
// inner name of Encrypted Client Hello, of which [Hello] reports that it is there. TLS that begins later in a connection (STARTTLS) is not
// looked for. A server may route by other headers than Host, may be reached by another name of the same address, and may read requests in ways
// that no standard has, such as ignoring the body of GET or the one after a refused Expect.
package netparse

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/nsrun/netrule"
)

// maxHello and maxHead bound what a parser keeps of a ClientHello and of the head of a request.
const (
	maxHello = 64 << 10
	maxHead  = 64 << 10
)

// ErrMalformed is the cause of every error about bytes that are of the protocol and break its rules.
var ErrMalformed = errors.New("malformed")

// malformed makes an error of which ErrMalformed is the cause.
func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// Target is a host and port that a client asks for. Exactly one of Name and Addr is set.
type Target struct {
	Name string     // canonical, see netrule.Canonical
	Addr netip.Addr // if the client wrote an address in any form; IPv4 is never written as IPv6
	Port uint16     // 0 if the client gave none
}

// parseTarget reads host[:port], with IPv6 in brackets.
func parseTarget(text string) (t Target, err error) {
	host, port, hasPort := text, "", false
	if i := strings.LastIndexByte(text, ':'); i >= 0 && !strings.HasSuffix(text, "]") {
		host, port, hasPort = text[:i], text[i+1:], true
	}
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		return Target{}, malformed("an IPv6 address without brackets")
	}
	if t.Name, t.Addr, err = netrule.Canonical(host); err != nil {
		return Target{}, malformed("%v", err)
	}
	if !hasPort {
		return t, nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return Target{}, malformed("%q is not a port", port[:min(len(port), 8)])
	}
	t.Port = uint16(n)
	return t, nil
}

// reader takes fields of fixed and of prefixed length from bytes. After the first field that does not fit, fail is set, and all fields are empty.
type reader struct {
	b    []byte
	fail bool
}

func (r *reader) take(n int) []byte {
	if r.fail || n < 0 || n > len(r.b) {
		r.fail, r.b = true, nil
		return nil
	}
	field := r.b[:n]
	r.b = r.b[n:]
	return field
}

// number takes an unsigned number of n bytes, n at most 4, in network order.
func (r *reader) number(n int) (v int) {
	for _, c := range r.take(n) {
		v = v<<8 | int(c)
	}
	return v
}

// vector takes a field after its length, which has n bytes.
func (r *reader) vector(n int) []byte { return r.take(r.number(n)) }
