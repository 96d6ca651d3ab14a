package netparse

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// field is one line of a head or trailer.
type field struct{ name, value string } // name in lower case

// head reads the head of a request, which ends with an empty line and has no control characters but tabs and line ends.
func (r *Requests) head(text string) (*Head, error) {
	line, rest, _ := strings.Cut(text, "\r\n")
	method, target, version, err := requestLine(line)
	if err != nil {
		return nil, err
	}
	fields, err := parseFields(strings.TrimSuffix(rest, "\r\n"))
	if err != nil {
		return nil, err
	}
	h := &Head{Method: method}
	if err := h.authority(target, fields); err != nil {
		return nil, err
	}
	length, chunked, err := bodyOf(fields, version)
	if err != nil {
		return nil, err
	}
	if h.Upgrade, h.HTTP2, err = upgrade(fields); err != nil {
		return nil, err
	}
	switch {
	case h.Upgrade && (r.later || chunked || length > 0):
		return nil, badRequest("an upgrade that is not the connection's first request, or has a body")
	case h.Upgrade:
		r.state = inUpgrade
	case chunked:
		r.state, r.extensions = inChunkSize, 0
	case length > 0:
		r.state, r.left = inBody, length
	}
	r.later = true
	return h, nil
}

// requestLine reads "method target version" with single blanks.
func requestLine(line string) (method, target, version string, err error) {
	if line == "PRI * HTTP/2.0" {
		return "", "", "", ErrHTTP2
	}
	words := strings.Split(line, " ")
	if len(words) != 3 || !token(words[0]) {
		return "", "", "", badRequest("the request line is not a method, a target and a version")
	}
	method, target, version = words[0], words[1], words[2]
	switch {
	case version != "HTTP/1.1" && version != "HTTP/1.0":
		return "", "", "", &HTTPError{505, "the version is neither HTTP/1.1 nor HTTP/1.0"}
	case method == "CONNECT":
		return "", "", "", &HTTPError{405, "CONNECT is for proxies, and this connection leads to a server"}
	case strings.ContainsAny(target, "#\t"):
		return "", "", "", badRequest("a fragment or tab in the request target")
	}
	path, _, _ := strings.Cut(target, "?")
	for i := range len(path) {
		if path[i] == '%' && (i+2 >= len(path) || !hexDigit(path[i+1]) || !hexDigit(path[i+2])) {
			return "", "", "", badRequest("a percent sign without two digits in the request target")
		}
	}
	return method, target, version, nil
}

func hexDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// authority sets the host. A request has one field Host, and a target with a host names the same one.
func (h *Head) authority(target string, fields []field) (err error) {
	hosts := values(fields, "host")
	if len(hosts) != 1 {
		return badRequest("a request has one Host field, and this one has %d", len(hosts))
	}
	h.Host = hosts[0]
	if h.Target, err = parseTarget(h.Host); err != nil {
		return badRequest("Host: %v", err)
	}
	const scheme = "http://"
	switch {
	case strings.HasPrefix(target, "/"), target == "*" && h.Method == "OPTIONS":
		return nil
	case len(target) < len(scheme) || !strings.EqualFold(target[:len(scheme)], scheme):
		return badRequest("the request target is not a path or an http URL")
	}
	host := target[len(scheme):]
	if end := strings.IndexAny(host, "/?"); end >= 0 {
		host = host[:end]
	}
	other, err := parseTarget(host)
	if err != nil {
		return badRequest("the request target: %v", err)
	}
	if other.web() != h.Target.web() {
		return badRequest("the request target and Host name different hosts")
	}
	h.Host, h.Target = host, other
	return nil
}

// web gives the target with HTTP's port if it has none.
func (t Target) web() Target {
	if t.Port == 0 {
		t.Port = 80
	}
	return t
}

// bodyOf reads how long the body is (RFC 9112, 6). Forms that servers and proxies read in different ways are refused: two lengths, a length and chunks,
// another coding than chunks, and chunks in HTTP/1.0.
func bodyOf(fields []field, version string) (length int64, chunked bool, err error) {
	lengths, codings := values(fields, "content-length"), values(fields, "transfer-encoding")
	switch {
	case len(lengths)+len(codings) > 1:
		return 0, false, badRequest("a request has one Content-Length or Transfer-Encoding")
	case len(codings) == 1 && version == "HTTP/1.0":
		return 0, false, badRequest("Transfer-Encoding in HTTP/1.0")
	case len(codings) == 1 && !strings.EqualFold(codings[0], "chunked"):
		return 0, false, &HTTPError{501, "Transfer-Encoding other than chunked"}
	case len(codings) == 1:
		return 0, true, nil
	case len(lengths) == 0:
		return 0, false, nil
	}
	n, err := strconv.ParseUint(lengths[0], 10, 62)
	if err != nil || len(lengths[0]) > 18 {
		return 0, false, badRequest("the Content-Length is not a number")
	}
	return int64(n), false, nil
}

// upgrade reports whether the client offers another protocol, or another version of HTTP, in which requests would no longer be checked. TLS is refused for
// that reason.
func upgrade(fields []field) (offered, http2 bool, err error) {
	for _, value := range values(fields, "upgrade") {
		offered = true
		for protocol := range strings.SplitSeq(strings.ToLower(value), ",") {
			name, _, _ := strings.Cut(strings.Trim(protocol, " \t"), "/")
			http2 = http2 || name == "h2c" || name == "h2" || name == "http"
			if name == "tls" || !token(name) {
				return false, false, badRequest("the protocol of an upgrade")
			}
		}
	}
	http2 = http2 || len(values(fields, "http2-settings")) > 0
	return offered && !http2, http2, nil
}

// Withdraw takes an offer of another protocol out of a request's head, of which all bytes stay in place: the fields get names that no server knows. A
// proxy may leave such an offer out (RFC 9110, 7.8).
func Withdraw(head []byte) {
	names := [][2]string{{"upgrade", "x-nsrun"}, {"http2-settings", "x-nsrun-unused"}}
	for line, rest, found := bytes.Cut(head, []byte("\n")); found; line, rest, found = bytes.Cut(rest, []byte("\n")) {
		name, _, _ := bytes.Cut(line, []byte(":"))
		for _, n := range names {
			if bytes.EqualFold(name, []byte(n[0])) {
				copy(name, n[1])
			}
		}
	}
}

// parseFields reads lines "name: value", each with its line end. A line that begins with a blank (obs-fold) and a blank before the colon are
// refused (RFC 9112, 5), and so are names that some servers take for those of the framing, and fields that have a proxy drop those.
func parseFields(text string) (fields []field, err error) {
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\r\n"), "\r\n") {
		if line == "" && text == "" {
			return nil, nil
		}
		name, value, found := strings.Cut(line, ":")
		if !found || !token(name) {
			return nil, badRequest("a header line is not a name, a colon and a value")
		}
		f := field{strings.ToLower(name), strings.Trim(value, " \t")}
		if strings.Contains(f.name, "_") && framing(strings.ReplaceAll(f.name, "_", "-")) {
			return nil, badRequest("the header field %s", f.name)
		}
		if f.name == "connection" || f.name == "proxy-connection" || f.name == "trailer" {
			for option := range strings.SplitSeq(strings.ToLower(f.value), ",") {
				if framing(strings.Trim(option, " \t")) {
					return nil, badRequest("the header field %s names a field that no proxy may drop", f.name)
				}
			}
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// framing reports whether a field decides where a request goes or where it ends.
func framing(name string) bool {
	return slices.Contains([]string{"host", "content-length", "transfer-encoding", "trailer"}, name)
}

func values(fields []field, name string) (list []string) {
	for _, f := range fields {
		if f.name == name {
			list = append(list, f.value)
		}
	}
	return list
}

// token reports whether text is a token (RFC 9110, 5.6.2).
func token(text string) bool {
	for i := range len(text) {
		if !tokenByte(text[i]) {
			return false
		}
	}
	return text != ""
}

func tokenByte(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
