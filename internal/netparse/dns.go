package netparse

import (
	"errors"
	"net/netip"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/nsrun/nsrun/nsrun/netrule"
)

// ErrNotQuery means that a message is too short for DNS, or is no query: it gets no answer.
var ErrNotQuery = errors.New("not a DNS query")

const (
	plainSize   = 512  // of UDP answers to a query without EDNS, RFC 1035, 2.3.4
	largestSize = 1232 // of all others: what fits into every path's packets
	noDataTTL   = 3600 // seconds for which a client may remember that a name has no address of a kind
	notFoundTTL = 5    // likewise that a name is not found; rules can change during a run
	nameServer  = "."
)

// extendedError is the EDNS option of RFC 8914, and blocked its code for what a policy refuses.
const (
	extendedError = 15
	blocked       = 15
)

// Query is a DNS query with one question.
type Query struct {
	ID               uint16
	Name             string // canonical; empty for what is no host name, such as an address, the root, or a name with a blank
	Type             dnsmessage.Type
	Class            dnsmessage.Class
	RecursionDesired bool
	EDNS             bool // the query has an OPT record
	UDPSize          int  // that an answer by UDP may have; at least 512

	question dnsmessage.Question // as it came: clients compare its upper and lower case
	asked    bool                // there is one
}

// ParseQuery reads a message. [ErrNotQuery] is returned for what must not be answered; after another error [Query.Fail] with
// RCodeFormatError is the answer.
func ParseQuery(msg []byte) (q Query, err error) {
	q.UDPSize = plainSize
	var p dnsmessage.Parser
	header, err := p.Start(msg)
	if err != nil || header.Response {
		return Query{}, ErrNotQuery
	}
	q.ID, q.RecursionDesired = header.ID, header.RecursionDesired
	if header.OpCode != 0 || header.Truncated {
		return q, malformed("the DNS message is not a standard query")
	}
	questions, err := p.AllQuestions()
	if err != nil || len(questions) != 1 {
		return q, malformed("the DNS query has not one question")
	}
	q.question, q.asked = questions[0], true
	q.Type, q.Class = q.question.Type, q.question.Class
	if name, addr, err := netrule.Canonical(q.question.Name.String()); err == nil && !addr.IsValid() {
		q.Name = name
	}
	return q, q.readAdditional(&p)
}

// readAdditional looks for the OPT record of RFC 6891.
func (q *Query) readAdditional(p *dnsmessage.Parser) error {
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return malformed("the records of the DNS query")
	}
	for {
		h, err := p.AdditionalHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return nil
		}
		if err != nil || p.SkipAdditional() != nil {
			return malformed("the records of the DNS query")
		}
		if h.Type != dnsmessage.TypeOPT {
			continue
		}
		if q.EDNS || h.Name.Length != 1 {
			return malformed("the OPT record of the DNS query")
		}
		q.EDNS, q.UDPSize = true, max(plainSize, int(h.Class))
	}
}

// Address answers with one IPv4 address. To a question of another type it answers like [Query.Empty].
func (q Query) Address(addr netip.Addr, ttl uint32) []byte {
	if q.Type != dnsmessage.TypeA || q.Class != dnsmessage.ClassINET || !addr.Is4() {
		return q.Empty()
	}
	return q.answer(dnsmessage.RCodeSuccess, "", func(b *dnsmessage.Builder) error {
		if err := b.StartAnswers(); err != nil {
			return err
		}
		h := dnsmessage.ResourceHeader{Name: q.question.Name, Class: dnsmessage.ClassINET, TTL: ttl}
		return b.AResource(h, dnsmessage.AResource{A: addr.As4()})
	})
}

// Empty answers that the name exists and has nothing of the type. A SOA record lets clients remember it (RFC 2308, 5).
func (q Query) Empty() []byte {
	return q.answer(dnsmessage.RCodeSuccess, "", soa(noDataTTL))
}

// NotFound answers that the name does not exist. A query with EDNS gets the reason too, as the Extended DNS Error "Blocked" (RFC 8914, 4.16).
func (q Query) NotFound(why string) []byte {
	return q.answer(dnsmessage.RCodeNameError, why, soa(notFoundTTL))
}

// Fail answers with another code, such as RCodeFormatError.
func (q Query) Fail(code dnsmessage.RCode) []byte {
	return q.answer(code, "", func(*dnsmessage.Builder) error { return nil })
}

// soa writes the authority section of a negative answer. The zone is the root, as the answer holds for the whole sandbox.
func soa(ttl uint32) func(*dnsmessage.Builder) error {
	return func(b *dnsmessage.Builder) error {
		if err := b.StartAuthorities(); err != nil {
			return err
		}
		root := dnsmessage.MustNewName(nameServer)
		return b.SOAResource(dnsmessage.ResourceHeader{Name: root, Class: dnsmessage.ClassINET, TTL: ttl},
			dnsmessage.SOAResource{NS: root, MBox: root, Serial: 1, Refresh: ttl, Retry: ttl, Expire: ttl, MinTTL: ttl})
	}
}

// answer builds a message. It is nil if that fails, which no query is known to cause; nothing is sent then.
func (q Query) answer(code dnsmessage.RCode, why string, records func(*dnsmessage.Builder) error) []byte {
	b := dnsmessage.NewBuilder(make([]byte, 0, plainSize), dnsmessage.Header{ID: q.ID, Response: true, RecursionDesired: q.RecursionDesired, RecursionAvailable: true, RCode: code})
	b.EnableCompression()
	if q.asked {
		if b.StartQuestions() != nil || b.Question(q.question) != nil {
			return nil
		}
	}
	if records(&b) != nil {
		return nil
	}
	if q.EDNS && q.option(&b, why) != nil {
		return nil
	}
	msg, err := b.Finish()
	if err != nil || len(msg) > plainSize && (!q.EDNS || len(msg) > q.UDPSize) {
		return nil
	}
	return msg
}

// option writes the OPT record. It cuts why so that every answer fits into 512 bytes: a question has at most 259, the header 12, records 45.
func (q Query) option(b *dnsmessage.Builder, why string) error {
	if err := b.StartAdditionals(); err != nil {
		return err
	}
	var h dnsmessage.ResourceHeader
	if err := h.SetEDNS0(largestSize, dnsmessage.RCodeSuccess, false); err != nil {
		return err
	}
	var opt dnsmessage.OPTResource
	if why != "" {
		const most = 160
		text := []byte(why)
		for i, c := range text {
			if c < ' ' || c > '~' {
				text[i] = '?'
			}
		}
		opt.Options = append(opt.Options, dnsmessage.Option{Code: extendedError, Data: append([]byte{0, blocked}, text[:min(len(text), most)]...)})
	}
	return b.OPTResource(h, opt)
}
