package netparse

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// HTTPError is a request that is refused. Status is for [Response].
type HTTPError struct {
	Status int
	Text   string
}

// Error gives the text without the status.
func (e *HTTPError) Error() string { return "HTTP: " + e.Text }

// Is makes every HTTPError an [ErrMalformed].
func (e *HTTPError) Is(target error) bool { return target == ErrMalformed }

func badRequest(format string, args ...any) error {
	return &HTTPError{400, fmt.Sprintf(format, args...)}
}

// ErrHTTP2 refuses HTTP/2 without TLS, of which each request would have to be decoded: its preface (RFC 9113, 3.4).
var ErrHTTP2 error = &HTTPError{505, "HTTP/2 without TLS is not supported"}

// Bounds of what is read at once. A body has no bound.
const (
	maxChunkLine  = 512     // of a chunk's size with its extensions
	maxExtensions = 8 << 10 // of all chunks' extensions of one body
	maxTrailer    = 8 << 10 // also of an interim answer
)

// state is which part of the stream comes next.
type state int

const (
	inHead state = iota
	inBody
	inChunkSize
	inChunk
	inChunkEnd // the line end after a chunk
	inTrailer
	inUpgrade // the answer to an upgrade is awaited
	inOpaque  // the connection speaks another protocol
)

// Requests reads what a client sends on one HTTP/1 connection (RFC 9112). The zero value is ready. It passes all bytes as they are, and refuses
// what two servers may read in two ways.
type Requests struct {
	state      state
	later      bool  // a request has been read
	left       int64 // bytes of the body or chunk
	seen       int   // bytes of an incomplete head or trailer that have been checked
	extensions int   // bytes
	err        error // of Next, which stays
}

// Head is the head of a request.
type Head struct {
	Method  string
	Host    string // as it was sent: of the target, if that has one, and otherwise of the header Host
	Target  Target // the same, read
	Upgrade bool   // the client offers to change the protocol
	HTTP2   bool   // the client offers HTTP/2: the head is not to be passed on before [Withdraw]
}

// Next returns how many of the bytes b may be passed on. b has all bytes that have come and that earlier calls have not passed on.
//
// If head is set, the n bytes are exactly the head of a request: check its Target before passing them on. This happens for each request of a
// connection. Otherwise they are of a body. If n is 0 and err is nil, Next needs more bytes, or, after a head with Upgrade, a call of [Requests.Upgraded].
// An error is an [*HTTPError]; it stays, and nothing may be passed on any more.
func (r *Requests) Next(b []byte) (n int, head *Head, err error) {
	if r.err != nil {
		return 0, nil, r.err
	}
	n, head, r.err = r.next(b)
	return n, head, r.err
}

func (r *Requests) next(b []byte) (n int, head *Head, err error) {
	if len(b) == 0 {
		return 0, nil, nil
	}
	switch r.state {
	case inHead:
		if n, err = r.fieldsEnd(b, maxHead, "\r\n\r\n"); n == 0 || err != nil {
			return 0, nil, err
		}
		head, err = r.head(string(b[:n]))
		if err != nil {
			return 0, nil, err
		}
		return n, head, nil
	case inBody, inChunk:
		n = int(min(r.left, int64(len(b))))
		if r.left -= int64(n); r.left > 0 {
			return n, nil, nil
		}
		if r.state == inChunk {
			r.state = inChunkEnd
		} else {
			r.state = inHead
		}
		return n, nil, nil
	case inChunkEnd:
		if b[0] != '\r' || len(b) > 1 && b[1] != '\n' {
			return 0, nil, badRequest("no line end after a chunk")
		}
		if len(b) < 2 {
			return 0, nil, nil
		}
		r.state = inChunkSize
		return 2, nil, nil
	case inChunkSize:
		n, err = r.chunkSize(b)
		return n, nil, err
	case inTrailer:
		n, err = r.trailer(b)
		return n, nil, err
	case inOpaque:
		return len(b), nil, nil
	}
	return 0, nil, nil // inUpgrade
}

// Upgraded reports the server's answer to a request with Upgrade: whether it was 101, see [Switched]. After that every byte may be passed on.
func (r *Requests) Upgraded(accepted bool) {
	switch {
	case r.state != inUpgrade:
	case accepted:
		r.state = inOpaque
	default:
		r.state = inHead
	}
}

// fieldsEnd returns the length of a head or trailer up to and with its end, or 0 if that has not come. Bytes that no field has are refused
// before.
func (r *Requests) fieldsEnd(b []byte, most int, end string) (n int, err error) {
	for i := r.seen; i < min(len(b), most); i++ {
		switch c := b[i]; {
		case c == '\n' && (i == 0 || b[i-1] != '\r'):
			return 0, badRequest("a line ends without a carriage return")
		case c != '\n' && i > 0 && b[i-1] == '\r':
			return 0, badRequest("a carriage return within a line")
		case c < ' ' && c != '\t' && c != '\r' && c != '\n', c == 0x7f:
			return 0, badRequest("a control character")
		case c == '\n' && bytes.HasSuffix(b[:i+1], []byte(end)):
			r.seen = 0
			return i + 1, nil
		}
	}
	if r.seen = len(b); len(b) >= most {
		return 0, &HTTPError{431, fmt.Sprintf("the head of a request has more than %d bytes", most)}
	}
	return 0, nil
}

// chunkSize reads the line before a chunk: hexadecimal digits, and extensions that are bounded.
func (r *Requests) chunkSize(b []byte) (n int, err error) {
	line, _, found := bytes.Cut(b[:min(len(b), maxChunkLine)], []byte("\n"))
	if !found {
		if len(b) >= maxChunkLine {
			return 0, badRequest("the line of a chunk's size is too long")
		}
		return 0, nil
	}
	text, ended := strings.CutSuffix(string(line), "\r")
	digits, extension, _ := strings.Cut(text, ";")
	if !ended || strings.ContainsFunc(extension, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
		return 0, badRequest("a control character or a line end without carriage return in a chunk's size")
	}
	if r.extensions += len(text) - len(digits); r.extensions > maxExtensions {
		return 0, badRequest("chunk extensions of more than %d bytes", maxExtensions)
	}
	size, err := strconv.ParseUint(digits, 16, 60)
	if err != nil || len(digits) > 15 {
		return 0, badRequest("a chunk's size")
	}
	if r.left, r.state = int64(size), inChunk; size == 0 {
		r.state = inTrailer
	}
	return len(line) + 1, nil
}

// trailer reads the fields after the last chunk, and the empty line.
func (r *Requests) trailer(b []byte) (n int, err error) {
	if b[0] == '\r' && len(b) == 1 {
		return 0, nil
	}
	if bytes.HasPrefix(b, []byte("\r\n")) {
		r.state, r.seen = inHead, 0
		return 2, nil
	}
	if n, err = r.fieldsEnd(b, maxTrailer, "\r\n\r\n"); n == 0 || err != nil {
		return 0, err
	}
	fields, err := parseFields(strings.TrimSuffix(string(b[:n]), "\r\n"))
	if err != nil {
		return 0, err
	}
	for _, f := range fields {
		if framing(f.name) {
			return 0, badRequest("the field %s in a trailer", f.name)
		}
	}
	r.state = inHead
	return n, nil
}

// Looks reports whether a stream begins with an HTTP/1 request: a method, a blank and a target. It also reports so for bytes that
// only lenient servers take for a request, which [Requests] then refuses. Without done it needs more bytes, at most 4 KiB in all.
//
// A client of another protocol may wait for the server after bytes that are not enough. Those may be passed on if Looks goes on seeing the stream from
// its first byte, and the connection is reset when it turns out to be HTTP.
func Looks(b []byte) (is, done bool) {
	const most = 4 << 10
	if bytes.HasPrefix(b, []byte("PROXY ")) || bytes.HasPrefix(b, []byte("\r\n\r\n\x00")) {
		return true, true // the PROXY protocol of either version: a server that takes it from anybody reads the protocol that counts behind it
	}
	rest := trimBlanks(b, true) // several servers skip them
	word := 0
	for word < len(rest) && rest[word] > ' ' && rest[word] != 0x7f && !blank(rest[word]) { // some servers take more for a method than a token
		word++
	}
	undecided := len(b) >= most // so many bytes without a decision are treated as HTTP: what they begin could be
	switch {
	case word == len(rest):
		return undecided, undecided
	case word == 0 || !blank(rest[word]):
		return false, true
	}
	method := rest[:word]
	rest = trimBlanks(rest[word:], false)
	line, _, ended := bytes.Cut(rest, []byte("\n"))
	lower := bytes.ToLower(line)
	switch {
	case bytes.HasPrefix(line, []byte("/")), bytes.HasPrefix(lower, []byte("http:")), bytes.HasPrefix(lower, []byte("https:")), bytes.Contains(lower, []byte("http/")):
		return true, true
	case ended:
		// HTTP/0.9 has no version. Some servers read fields behind such a line, too.
		return string(method) == "GET" && len(bytes.TrimRight(line, "\r")) > 0, true
	}
	return undecided, undecided
}

// blank reports whether some server takes c for the blank between the words of a request line: all that RFC 9112, 3 has, and what Python's str.split
// takes for one, in ISO 8859-1.
func blank(c byte) bool { return strings.IndexByte(" \t\v\f\r\x1c\x1d\x1e\x1f\x85\xa0", c) >= 0 }

// trimBlanks drops blanks from the beginning, and ends of lines too.
func trimBlanks(b []byte, lines bool) []byte {
	for len(b) > 0 && (blank(b[0]) || lines && b[0] == '\n') {
		b = b[1:]
	}
	return b
}

// Switched reports whether the server's first bytes accept an upgrade: the final status is 101. Other interim answers before it are skipped.
// Without done it needs more bytes.
func Switched(response []byte) (switched, done bool) {
	const line = "HTTP/1.1 101"
	for {
		if len(response) < len(line) {
			return false, !bytes.HasPrefix([]byte("HTTP/1.1 1"), response[:min(len(response), len("HTTP/1.1 1"))])
		}
		status := string(response[:len(line)])
		if status == line || !strings.HasPrefix(status, "HTTP/1.1 1") {
			return status == line, true
		}
		_, after, found := bytes.Cut(response, []byte("\r\n\r\n"))
		if !found {
			return false, len(response) >= maxTrailer
		}
		response = after
	}
}

// Response gives an answer that ends the connection, with one line as its body. Control characters of the line become blanks.
func Response(status int, line string) []byte {
	reasons := map[int]string{400: "Bad Request", 403: "Forbidden", 405: "Method Not Allowed", 421: "Misdirected Request", 429: "Too Many Requests",
		431: "Request Header Fields Too Large", 501: "Not Implemented", 502: "Bad Gateway", 504: "Gateway Timeout", 505: "HTTP Version Not Supported"}
	line = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, line) + "\n"
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, reasons[status], len(line), line)
}
