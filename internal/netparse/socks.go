package netparse

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"

	"github.com/nsrun/nsrun/nsrun/netrule"
)

// maxConnect bounds the head of a CONNECT request, which is read from its beginning each time.
const maxConnect = 8 << 10

// SocksVersion is the first byte of a SOCKS5 client.
const SocksVersion = 5

// The replies to a SOCKS5 request (RFC 1928, 6).
const (
	SocksSucceeded       = 0
	SocksGeneralFailure  = 1
	SocksNotAllowed      = 2
	SocksHostUnreachable = 4
	SocksRefused         = 5
	socksNoCommand       = 7
	socksNoAddressType   = 8
)

// SocksError is a SOCKS5 request that is refused. Reply is for [SocksReply].
type SocksError struct {
	Reply byte
	Text  string
}

// Error gives the text.
func (e *SocksError) Error() string { return "SOCKS5: " + e.Text }

// Is makes every SocksError an [ErrMalformed].
func (e *SocksError) Is(target error) bool { return target == ErrMalformed }

// SocksGreeting reads the first message of a SOCKS5 client and gives the answer to it: no authentication, the only method there is. n is how
// many bytes were read; if it is 0 and err is nil, more are needed. With an error, answer, if it is not nil, is sent before the connection is closed.
func SocksGreeting(b []byte) (n int, answer []byte, err error) {
	const noAuthentication, noMethod = 0, 0xff
	if len(b) > 0 && b[0] != SocksVersion {
		return 0, nil, &SocksError{SocksGeneralFailure, "the version is not 5"}
	}
	if len(b) < 2 || len(b) < 2+int(b[1]) {
		return 0, nil, nil
	}
	n = 2 + int(b[1])
	if bytes.IndexByte(b[2:n], noAuthentication) < 0 {
		return 0, []byte{SocksVersion, noMethod}, &SocksError{SocksGeneralFailure, "the client insists on authentication"}
	}
	return n, []byte{SocksVersion, noAuthentication}, nil
}

// SocksRequest reads the request after the greeting (RFC 1928, 4): CONNECT with an IPv4 or IPv6 address or a name. n is how many bytes were read; if
// it is 0 and err is nil, more are needed. An error is a [*SocksError]. A name that is an address in any form gives that address.
func SocksRequest(b []byte) (n int, t Target, err error) {
	const connect, typeIPv4, typeName, typeIPv6 = 1, 1, 3, 4
	refuse := func(reply byte, format string, args ...any) (int, Target, error) {
		return 0, Target{}, &SocksError{reply, fmt.Sprintf(format, args...)}
	}
	switch {
	case len(b) > 0 && b[0] != SocksVersion:
		return refuse(SocksGeneralFailure, "the version is not 5")
	case len(b) > 1 && b[1] != connect:
		return refuse(socksNoCommand, "there is no command but CONNECT")
	case len(b) > 2 && b[2] != 0:
		return refuse(SocksGeneralFailure, "the reserved byte is not 0")
	case len(b) < 5:
		return 0, Target{}, nil
	}
	from, size := 4, 0
	switch b[3] {
	case typeIPv4:
		size = 4
	case typeIPv6:
		size = 16
	case typeName:
		from, size = 5, int(b[4])
	default:
		return refuse(socksNoAddressType, "the address type is not IPv4, IPv6 or a name")
	}
	if n = from + size + 2; len(b) < n {
		return 0, Target{}, nil
	}
	host := b[from : from+size]
	if b[3] == typeName {
		t.Name, t.Addr, err = netrule.Canonical(string(host))
	} else {
		addr, _ := netip.AddrFromSlice(host)
		t.Addr = addr.Unmap()
	}
	if err != nil {
		return refuse(SocksGeneralFailure, "%v", err)
	}
	if t.Port = uint16(b[n-2])<<8 | uint16(b[n-1]); t.Port == 0 {
		return refuse(SocksGeneralFailure, "the port is 0")
	}
	return n, t, nil
}

// SocksReply gives the answer to a request. The address in it is 0.0.0.0:0: how a connection leaves the host is not the sandbox's business.
func SocksReply(reply byte) []byte { return []byte{SocksVersion, reply, 0, 1, 0, 0, 0, 0, 0, 0} }

// Connect reads an HTTP CONNECT request (RFC 9110, 9.3.6) to a proxy. n is how many bytes were read; if it is 0 and err is nil, more are needed.
// An error is an [*HTTPError]. A Host field need not be there, as several clients send none; if it is, it names the same host. A proxy's other
// requests are for [Requests], and begin with another word than "CONNECT ".
func Connect(b []byte) (n int, t Target, err error) {
	var r Requests
	if n, err = r.fieldsEnd(b, maxConnect, "\r\n\r\n"); n == 0 || err != nil {
		return 0, Target{}, err
	}
	line, rest, _ := strings.Cut(string(b[:n]), "\r\n")
	words := strings.Split(line, " ")
	if len(words) != 3 || words[0] != "CONNECT" || words[2] != "HTTP/1.1" && words[2] != "HTTP/1.0" {
		return 0, Target{}, badRequest("the request line is not CONNECT, a host with a port, and a version")
	}
	if t, err = parseTarget(words[1]); err != nil || t.Port == 0 {
		return 0, Target{}, badRequest("CONNECT takes a host and a port")
	}
	fields, err := parseFields(strings.TrimSuffix(rest, "\r\n"))
	if err != nil {
		return 0, Target{}, err
	}
	if length, chunked, err := bodyOf(fields, words[2]); err != nil || chunked || length > 0 {
		return 0, Target{}, badRequest("CONNECT with a body")
	}
	hosts := values(fields, "host")
	if len(hosts) > 1 {
		return 0, Target{}, badRequest("two Host fields")
	}
	for _, host := range hosts {
		other, err := parseTarget(host)
		if other.Port == 0 {
			other.Port = t.Port
		}
		if err != nil || other != t {
			return 0, Target{}, badRequest("the request target and Host name different hosts")
		}
	}
	return n, t, nil
}
