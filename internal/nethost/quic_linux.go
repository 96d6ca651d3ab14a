package nethost

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/netparse"
)

// helloReader reads the server name in a flow to port 443.
type helloReader struct {
	initials netparse.Initials
	held     map[int][][]byte // by connection: datagrams of a ClientHello that is not whole yet
	size     int              // of all
	passed   map[int]bool     // connections whose ClientHello was passed on
}

// longHeader are the two bits with which a QUIC packet begins that can begin a connection (RFC 9000, 17.2). Of a version that the parser knows, the
// second one may be missing.
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
		f.quic.hold(b)
		return nil, nil
	}
	if why := s.mismatchName(f.to, hello.ServerName); why != "" {
		return nil, s.refusal(opSend, f.to, netmessage.Mismatch, why)
	}
	if c := f.quic.initials.Connection(); !f.quic.passed[c] {
		if !s.quicIDs.first(string(f.quic.initials.ID())) {
			return nil, s.refusal(opSend, f.to, netmessage.Malformed, "a QUIC connection with the ID of another one")
		}
		if f.quic.passed == nil {
			f.quic.passed = map[int]bool{}
		}
		f.quic.passed[c] = true
	}
	return append(f.quic.release(), b), nil
}

// usedIDs are the IDs of QUIC connections that were passed on in the last minute or longer. A server could put parts of two ClientHellos together that come
// with one ID, from any ports, though each of the two is good.
type usedIDs struct {
	mu          sync.Mutex
	now, before map[string]bool
	since       time.Time // of now
}

const (
	mostIDs = 1 << 15 // in a minute
	idTime  = time.Minute
)

// first reports whether an ID is new. With too many in a minute it is false for every one.
func (u *usedIDs) first(id string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.now[id] || u.before[id] {
		return false
	}
	if time.Since(u.since) > idTime {
		u.before, u.now, u.since = u.now, map[string]bool{}, time.Now()
	}
	if len(u.now) == mostIDs {
		return false
	}
	u.now[id] = true
	return true
}

// hold keeps a datagram of the connection that the parser saw last, if there is room.
func (r *helloReader) hold(b []byte) {
	c := r.initials.Connection()
	if len(r.held[c]) == maxPending || r.size+len(b) > maxHeld {
		return
	}
	if r.held == nil {
		r.held = map[int][][]byte{}
	}
	r.held[c], r.size = append(r.held[c], bytes.Clone(b)), r.size+len(b)
}

// release gives what is held of that connection, and of no other one: those are not checked yet.
func (r *helloReader) release() [][]byte {
	c := r.initials.Connection()
	pass := r.held[c]
	for _, b := range pass {
		r.size -= len(b)
	}
	delete(r.held, c)
	return pass
}
