package nethost

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/netparse"
	"github.com/nsrun/nsrun/nsrun/netrule"
	"golang.org/x/net/dns/dnsmessage"
)

const (
	dnsPort   = 53
	httpsPort = 443          // of the rule to suggest, as DNS does not say which port is meant
	dnsTTL    = 24 * 60 * 60 // seconds; an address is the name's as long as the server is there
	maxQuery  = 4 << 10      // of one by TCP; a question with options has a few hundred bytes
)

// serveDNS answers the queries of a connection (RFC 7766) until it ends, is silent for long, or sends what is no query.
func (s *Server) serveDNS(conn *net.TCPConn) {
	for {
		_ = conn.SetDeadline(s.deadline())
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		n := binary.BigEndian.Uint16(size[:])
		if n > maxQuery {
			return
		}
		query := make([]byte, n)
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		answer := s.answer(query)
		if answer == nil {
			return
		}
		answer = append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

// answer answers a DNS query, or returns nil for what is none. Nothing is looked up: a name that a rule lists has a synthetic address, and every other
// name does not exist.
func (s *Server) answer(query []byte) []byte {
	q, err := netparse.ParseQuery(query)
	switch {
	case errors.Is(err, netparse.ErrNotQuery):
		return nil
	case err != nil:
		return q.Fail(dnsmessage.RCodeFormatError)
	case strings.HasSuffix(q.Name, ".arpa"): // programs ask for the names of addresses by the way
		return q.NotFound("")
	case q.Name == "localhost" || strings.HasSuffix(q.Name, ".localhost"): // RFC 6761, 6.3
		return q.Address(netip.AddrFrom4([4]byte{127, 0, 0, 1}), dnsTTL)
	case !s.rules.now().Lists(q.Name) && s.serviceOfListed(q.Name):
		return q.NotFound("")
	case !s.rules.now().Lists(q.Name) && !s.asking.about(q.Name):
		return s.noSuchName(q)
	case q.Type != dnsmessage.TypeA:
		return q.Empty()
	}
	synthetic, ok := s.pool.address(q.Name, s.rules.now().NamesItself(q.Name))
	if !ok {
		s.record.refuse(*s.refusal(opResolve, target{name: q.Name}, netmessage.TooMany, "as many names were resolved as there are synthetic addresses"))
		return q.Fail(dnsmessage.RCodeServerFailure)
	}
	return q.Address(synthetic, dnsTTL)
}

// serviceOfListed reports whether a name is one of a service at a listed host, as _http._tcp.example.com is (RFC 2782): programs ask for such by the way.
func (s *Server) serviceOfListed(name string) bool {
	host := name
	for strings.HasPrefix(host, "_") {
		_, host, _ = strings.Cut(host, ".")
	}
	return host != name && s.rules.now().Lists(host)
}

// noSuchName refuses to resolve a name.
func (s *Server) noSuchName(q netparse.Query) []byte {
	if q.Name == "" {
		s.record.refuse(netmessage.Refusal{Op: opResolve, Reason: netmessage.Malformed, Detail: "a question for what is no host name"})
		return q.NotFound("nsrun: this is no host name")
	}
	x := s.refusal(opResolve, target{name: q.Name}, netmessage.Unlisted, "no rule names "+q.Name)
	x.Rule = netrule.Suggest(q.Name, netip.Addr{}, httpsPort, false)
	s.record.refuse(*x)
	return q.NotFound("nsrun: " + q.Name + " is not in the network's allow-list; add --net allow:" + x.Rule)
}
