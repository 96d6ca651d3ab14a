package scope

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// The kinds of messages.
const (
	methodCall   = 1
	methodReturn = 2
	errorReply   = 3
	signal       = 4
)

// The fields of a header that are used: their codes.
const (
	fieldPath        = 1
	fieldInterface   = 2
	fieldMember      = 3
	fieldError       = 4
	fieldReplySerial = 5
	fieldDestination = 6
	fieldSignature   = 8
)

// headSize is the fixed part of a header, and longest what is read of one message: what a service manager tells is a few KiB.
const (
	headSize = 16
	longest  = 1 << 20
)

// message is what has been read of one.
type message struct {
	kind      byte
	replyTo   uint32
	member    string
	errorName string
	signature string
	body      []byte
}

// encoder appends values, each aligned to its size from the message's begin.
type encoder struct{ b []byte }

func (e *encoder) align(n int) {
	for len(e.b)%n != 0 {
		e.b = append(e.b, 0)
	}
}

func (e *encoder) u32(v uint32) {
	e.align(4)
	e.b = binary.LittleEndian.AppendUint32(e.b, v)
}

func (e *encoder) str(s string) {
	e.u32(uint32(len(s)))
	e.b = append(append(e.b, s...), 0)
}

func (e *encoder) sig(s string) {
	e.b = append(append(append(e.b, byte(len(s))), s...), 0)
}

// array appends elements that are aligned to n.
func (e *encoder) array(n int, fill func()) {
	e.u32(0)
	at := len(e.b) - 4
	e.align(n)
	begin := len(e.b)
	fill()
	binary.LittleEndian.PutUint32(e.b[at:], uint32(len(e.b)-begin))
}

// call is a method call, with a body of that signature.
func call(serial uint32, path, to, iface, member, signature string, body []byte) []byte {
	e := &encoder{b: []byte{'l', methodCall, 0, 1}}
	e.u32(uint32(len(body)))
	e.u32(serial)
	e.array(8, func() {
		for _, f := range []struct {
			code     byte
			kind, as string
		}{
			{fieldPath, "o", path}, {fieldInterface, "s", iface}, {fieldMember, "s", member}, {fieldDestination, "s", to},
			{fieldSignature, "g", signature},
		} {
			if f.as == "" {
				continue
			}
			e.align(8)
			e.b = append(e.b, f.code)
			e.sig(f.kind)
			if f.kind == "g" {
				e.sig(f.as)
			} else {
				e.str(f.as)
			}
		}
	})
	e.align(8)
	return append(e.b, body...)
}

// decoder takes values from the begin of a message on. What is not there is empty, and err says so.
type decoder struct {
	b   []byte
	at  int
	err error
}

var errShort = errors.New("a message that ends within a value")

func (d *decoder) take(n int) []byte {
	if d.err != nil || n < 0 || n > len(d.b)-d.at {
		d.err = errShort
		return make([]byte, min(max(n, 0), 4))
	}
	d.at += n
	return d.b[d.at-n : d.at]
}

func (d *decoder) align(n int) { d.take((n - d.at%n) % n) }
func (d *decoder) byte() byte  { return d.take(1)[0] }
func (d *decoder) u32() uint32 { d.align(4); return binary.LittleEndian.Uint32(d.take(4)) }
func (d *decoder) str() string { return d.text(int(d.u32())) }
func (d *decoder) sig() string { return d.text(int(d.byte())) }
func (d *decoder) ended() bool { return d.err != nil || d.at >= len(d.b) }
func (d *decoder) text(n int) string {
	s := string(d.take(n))
	d.take(1)
	if d.err != nil {
		return ""
	}
	return s
}

// size says how long a message is, by the fixed part of its header.
func size(head []byte) (int, error) {
	if head[0] != 'l' || head[3] != 1 {
		return 0, fmt.Errorf("what came is no message of D-Bus in this machine's byte order: % x", head[:4])
	}
	body, fields := binary.LittleEndian.Uint32(head[4:]), binary.LittleEndian.Uint32(head[12:])
	if body > longest || fields > longest {
		return 0, fmt.Errorf("a message of %d bytes is more than is read here", uint64(body)+uint64(fields))
	}
	return headSize + (int(fields)+7)&^7 + int(body), nil
}

// parse reads a message that is all there: see size.
func parse(b []byte) (m message, err error) {
	fields := int(binary.LittleEndian.Uint32(b[12:]))
	m.kind, m.body = b[1], b[headSize+(fields+7)&^7:]
	d := &decoder{b: b[:headSize+fields], at: headSize}
	for !d.ended() {
		d.align(8)
		code, kind := d.byte(), d.sig()
		var text string
		var number uint32
		switch kind {
		case "s", "o":
			text = d.str()
		case "g":
			text = d.sig()
		case "u":
			number = d.u32()
		default:
			return m, fmt.Errorf("a header with a field of the type %q", kind)
		}
		switch code {
		case fieldMember:
			m.member = text
		case fieldError:
			m.errorName = text
		case fieldReplySerial:
			m.replyTo = number
		case fieldSignature:
			m.signature = text
		}
	}
	return m, d.err
}

// remoteError is what an error reply says.
func (m message) remoteError() error {
	text := ""
	if len(m.signature) > 0 && m.signature[0] == 's' {
		text = (&decoder{b: m.body}).str()
	}
	return fmt.Errorf("%s (%s)", oneLine(text), oneLine(m.errorName))
}

// oneLine is what somebody else has written, fit to be printed.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s[:min(len(s), 300)])
}
