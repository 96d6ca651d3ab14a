package nethost

import (
	"errors"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/netparse"
)

// helloReader reads the server name in a flow to port 443.
type helloReader struct {
	initials netparse.Initials
	held     [][]byte // datagrams of a ClientHello that is not whole yet
}

// longHeader are the two bits with which a QUIC packet begins that can begin a connection (RFC 9000, 17.2).
const longHeader = 0xc0

// checkQUIC returns the datagrams that may be passed on now that b has come: none while a ClientHello is not whole. A flow to another port than 443 is
// not checked, and neither are datagrams of another protocol.
func (f *flow) checkQUIC(s *Server, b []byte) (pass [][]byte, refused *netmessage.Refusal) {
	if f.to.port != httpsPort {
		return [][]byte{b}, nil
	}
	hello, done, err := f.quic.initials.Initial(b)
	switch {
	case errors.Is(err, netparse.ErrNotQUIC) && (len(b) == 0 || b[0]&longHeader != longHeader):
		return [][]byte{b}, nil
	case err != nil:
		return nil, s.refusal(opSend, f.to, netmessage.Malformed, err.Error())
	case !done:
		if len(f.quic.held) < maxPending {
			f.quic.held = append(f.quic.held, append([]byte(nil), b...))
		}
		return nil, nil
	}
	if why := s.mismatchName(f.to, hello.ServerName); why != "" {
		return nil, s.refusal(opSend, f.to, netmessage.Mismatch, why)
	}
	pass = append(f.quic.held, b)
	f.quic.held = nil
	return pass, nil
}
