package netrule

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Limits of RFC 1035, 2.3.4, without the root's dot.
const (
	maxName  = 253
	maxLabel = 63
)

// Canonical gives the one form of a host that traffic names: in SNI, Host, a DNS question, CONNECT or SOCKS5. Exactly one of name and addr is
// set unless err is. It is idempotent.
//
// Letters become lower case and one dot at the end is dropped. Every form of IPv4 that inet_aton(3) reads becomes an address: 2130706433, 127.1,
// 0x7f.1, 0177.0.0.1. A name whose last label is a number is such an address or an error, as in the URL standard (host parser, "ends in a number
// checker"). An IPv4 address written as IPv6 becomes IPv4; IPv6 may be in brackets.
//
// An error is returned for a byte that is not a letter, digit, hyphen, underscore or dot, so for NUL, blanks, %, @, slashes and everything that is not
// ASCII; for an empty label, one of more than 63 bytes, or one with a hyphen at either end; for a name of more than 253 bytes; and for a zone.
func Canonical(host string) (name string, addr netip.Addr, err error) {
	if err := checkBytes(host); err != nil {
		return "", netip.Addr{}, err
	}
	inner, bracketed := strings.CutPrefix(host, "[")
	if bracketed {
		var closed bool
		if inner, closed = strings.CutSuffix(inner, "]"); !closed || !strings.Contains(inner, ":") {
			return "", netip.Addr{}, fmt.Errorf("the brackets of %s do not hold an IPv6 address", quote(host))
		}
	}
	if strings.ContainsAny(inner, ":[]") {
		addr, err := netip.ParseAddr(inner)
		if err != nil {
			return "", netip.Addr{}, fmt.Errorf("%s is not an IPv6 address", quote(host))
		}
		return "", addr.Unmap(), nil
	}
	name = strings.ToLower(strings.TrimSuffix(host, "."))
	if last := name[strings.LastIndexByte(name, '.')+1:]; numeric(last) {
		addr, ok := inetAton(name)
		if !ok {
			return "", netip.Addr{}, fmt.Errorf("%s ends in a number and is not an IPv4 address", quote(host))
		}
		return "", addr, nil
	}
	if err := checkLabels(name, host); err != nil {
		return "", netip.Addr{}, err
	}
	return name, netip.Addr{}, nil
}

// checkBytes reports the first byte that no host has.
func checkBytes(host string) error {
	switch {
	case host == "":
		return fmt.Errorf("the host is empty")
	case len(host) > maxName+1: // an address is shorter
		return fmt.Errorf("the host has more than %d bytes", maxName)
	}
	for i := range len(host) {
		switch c := host[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("-_.:[]", c) >= 0:
		case c >= 0x80:
			return fmt.Errorf("%s is not ASCII", quote(host))
		default:
			return fmt.Errorf("%s has the character %q, which no host has", quote(host), c)
		}
	}
	return nil
}

// checkLabels checks a name in lower case.
func checkLabels(name, host string) error {
	if len(name) > maxName {
		return fmt.Errorf("the host has more than %d bytes", maxName)
	}
	for label := range strings.SplitSeq(name, ".") {
		switch {
		case label == "":
			return fmt.Errorf("%s has an empty label", quote(host))
		case len(label) > maxLabel:
			return fmt.Errorf("%s has a label of more than %d bytes", quote(host), maxLabel)
		case label[0] == '-' || label[len(label)-1] == '-':
			return fmt.Errorf("%s has a label with a hyphen at its end", quote(host))
		}
	}
	return nil
}

// numeric reports whether a label reads as a number: digits, or 0x and hexadecimal digits or nothing.
func numeric(label string) bool {
	digits, hex := strings.CutPrefix(label, "0x")
	for i := range len(digits) {
		c := digits[i]
		if !('0' <= c && c <= '9' || hex && 'a' <= c && c <= 'f') {
			return false
		}
	}
	return hex || digits != ""
}

// inetAton reads the forms of inet_aton(3), in lower case: one to four numbers, decimal, octal after 0 and hexadecimal after 0x, of which the last
// fills the bytes that are left.
func inetAton(text string) (addr netip.Addr, ok bool) {
	parts := strings.Split(text, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var value uint64
	for i, part := range parts {
		if !numeric(part) { // before ParseUint, which reads signs and underscores
			return netip.Addr{}, false
		}
		base := 10
		if digits, hex := strings.CutPrefix(part, "0x"); hex {
			part, base = digits, 16
		} else if part[0] == '0' {
			base = 8
		}
		last, bits, shift := i == len(parts)-1, 8, 8*(3-i)
		if last {
			bits, shift = 8*(4-i), 0
		}
		n, err := strconv.ParseUint(part, base, bits)
		if err != nil {
			return netip.Addr{}, false
		}
		value |= n << shift
	}
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), true
}

// quote gives what a client has sent for a message: no control characters, and not all of it.
func quote(text string) string {
	const most = 80
	if len(text) > most {
		text = text[:most] + "..."
	}
	return strconv.QuoteToASCII(text)
}
