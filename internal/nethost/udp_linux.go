package nethost

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/nsrun/netrule"
)

const (
	maxPacket  = 64 << 10
	maxPending = 8        // packets of a flow that wait for the lookup of its name, or, of QUIC, for the rest of a ClientHello
	maxHeld    = 16 << 10 // bytes of those: there can be as many as there are flows
	maxFlows   = 1024     // that are open at once
)

// flows are the UDP conversations that are open.
type flows struct {
	mu   sync.Mutex
	list map[flowKey]*flow
}

// use returns the flow of a packet from the program, which keeps it from becoming idle, or nil if there is none.
func (l *flows) use(key flowKey) *flow {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.list[key]
	if f != nil {
		f.carried()
	}
	return f
}

// left returns for how long a flow may still carry nothing. When that is over, the flow leaves the list, so that the program's next packet begins
// another one instead of being lost with this one.
func (l *flows) left(f *flow, idle time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := time.Until(time.Unix(0, f.last.Load()).Add(idle))
	if left <= 0 {
		l.remove(f)
	}
	return left
}

// remove takes a flow off the list, under the lock, unless another one has its place.
func (l *flows) remove(f *flow) {
	if l.list[f.key] == f {
		delete(l.list, f.key)
	}
}

// flowKey names a flow by its two ends inside of the sandbox.
type flowKey struct{ from, to netip.AddrPort }

// flow carries packets between a program in the sandbox and one address of a target.
type flow struct {
	key    flowKey
	to     target
	rule   netrule.Rule
	socket *net.UDPConn // inside
	six    bool         // socket is of IPv6
	name   *reached
	last   atomic.Int64 // when a packet was carried, as Unix nanoseconds
	ended  atomic.Bool
	quic   helloReader // only the goroutine of the socket uses it

	mu      sync.Mutex
	host    net.Conn   // nil until the target is resolved
	at      netip.Addr // where host is connected to
	pending [][]byte
	held    int // bytes of pending
}

// packets serves a UDP socket of the sandbox.
func (s *Server) packets(socket *net.UDPConn, kind string) {
	defer s.drop(socket)
	local := addrPort(socket.LocalAddr())
	six := socket.LocalAddr().(*net.UDPAddr).IP.To4() == nil
	b, oob := make([]byte, maxPacket), make([]byte, packetSpace)
	for {
		n, oobn, _, from, err := socket.ReadMsgUDPAddrPort(b, oob)
		if err != nil {
			if s.ctx.Err() != nil || !s.more(socket) {
				return
			}
			if !isTimeout(err) {
				time.Sleep(acceptPause)
			}
			continue
		}
		to, ok := packetDestination(oob[:oobn])
		if !ok {
			continue
		}
		t := s.target(netip.AddrPortFrom(to, local.Port()), true)
		if kind == netmessage.DNS {
			if !s.allows(t) {
				if answer := s.answer(b[:n]); answer != nil {
					_, _, _ = socket.WriteMsgUDPAddrPort(answer, packetSource(to, six), from)
				}
				continue
			}
		}
		if to.IsLoopback() { // the sandbox's own, where nothing else listens
			continue
		}
		s.packet(socket, six, flowKey{from, netip.AddrPortFrom(to, local.Port())}, t, b[:n])
	}
}

// packet passes a packet of the sandbox on, and begins a flow if there is none for it. It does not block.
func (s *Server) packet(socket *net.UDPConn, six bool, key flowKey, t target, b []byte) {
	f := s.flows.use(key)
	if f == nil {
		if f = s.newFlow(socket, six, key, t); f == nil {
			return
		}
	}
	pass, refused := f.checkQUIC(s, b)
	if refused != nil {
		s.record.refuse(*refused)
		f.end()
		return
	}
	for _, b := range pass {
		f.send(s, b)
	}
}

// newFlow begins a flow, or refuses it.
func (s *Server) newFlow(socket *net.UDPConn, six bool, key flowKey, t target) *flow {
	rule, refused := s.decide(opSend, t)
	if refused != nil {
		s.record.refuse(*refused)
		return nil
	}
	s.flows.mu.Lock()
	full := len(s.flows.list) >= maxFlows
	s.flows.mu.Unlock()
	if full || !s.record.admit() {
		s.record.refuse(*s.refusal(opSend, t, netmessage.TooMany, "as many connections or flows are open as net_connections, or a bound on flows, allows"))
		return nil
	}
	name, ok := s.record.enter(t.host())
	if !ok {
		s.record.leave()
		s.record.refuse(*s.refusal(opSend, t, netmessage.TooMany, "a limit on what "+t.host()+" gets is reached: net_per_host or net_per_host_mb"))
		return nil
	}
	f := &flow{key: key, to: t, rule: rule, socket: socket, six: six, name: name}
	s.flows.mu.Lock()
	s.flows.list[key] = f
	s.flows.mu.Unlock()
	if !s.allows(t) { // the rules have changed since
		f.end()
	}
	s.wg.Go(func() {
		defer s.record.leave()
		defer s.record.exit(name)
		defer func() {
			s.flows.mu.Lock()
			defer s.flows.mu.Unlock()
			s.flows.remove(f)
		}()
		f.run(s)
	})
	return f
}

// send passes a packet on, or keeps it until the target is resolved.
func (f *flow) send(s *Server, b []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended.Load() {
		return
	}
	if f.host == nil {
		if len(f.pending) < maxPending && (f.held == 0 || f.held+len(b) <= maxHeld) { // a first one that is large has no other way
			f.pending, f.held = append(f.pending, append([]byte(nil), b...)), f.held+len(b)
		}
		return
	}
	f.write(s, b)
}

// write sends a packet to the host's side. A packet for which there is no room is lost, as it is on any network.
func (f *flow) write(s *Server, b []byte) {
	if f.name.room(s.caps.Bytes) == 0 {
		return
	}
	_ = f.host.SetWriteDeadline(time.Now().Add(acceptPause))
	if n, err := f.host.Write(b); err == nil {
		f.name.sent.Add(int64(n))
	}
}

// carried notes that a packet is carried now.
func (f *flow) carried() { f.last.Store(time.Now().UnixNano()) }

// allowed reports whether the rules still allow the flow.
func (f *flow) allowed(s *Server) bool {
	f.mu.Lock()
	at := f.at
	f.mu.Unlock()
	return s.allowsStill(f.to, at, f.rule.Scheme)
}

// end makes run return.
func (f *flow) end() {
	f.ended.Store(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.host != nil {
		_ = f.host.SetReadDeadline(past)
	}
}

// run resolves the target once, and carries the answers until the flow is idle.
func (f *flow) run(s *Server) {
	host, at, refused := s.reach(s.ctx, f.to, f.rule)
	if refused != nil {
		if s.ctx.Err() == nil {
			s.record.refuse(*refused)
		}
		return
	}
	if !s.keep(host) {
		return
	}
	defer s.drop(host)
	s.record.connected(f.name)
	f.mu.Lock()
	f.host, f.at = host, at
	if !s.allowsStill(f.to, at, f.rule.Scheme) { // the rules have changed since
		f.ended.Store(true)
	}
	for _, b := range f.pending {
		if f.ended.Load() {
			break
		}
		f.write(s, b)
	}
	f.pending = nil
	f.mu.Unlock()
	f.carried() // only now: the lookup may have taken longer than a flow may be idle
	f.answers(s, host)
}

// answers carries what the host receives until the flow is idle.
func (f *flow) answers(s *Server, host net.Conn) {
	source := packetSource(f.key.to.Addr(), f.six)
	udp, ok := host.(socket)
	if !ok {
		return
	}
	wait, err := newWaiter(udp)
	for err == nil && !f.ended.Load() && !s.isEnding() {
		left := s.flows.left(f, s.udpIdle)
		if left <= 0 {
			return
		}
		err = wait.wait(time.Now().Add(left))
		if isTimeout(err) {
			err = nil // unless the program has sent something meanwhile, the flow is idle
			continue
		}
		if err == nil {
			err = f.answer(s, host, source)
		}
	}
}

// answer carries one packet.
func (f *flow) answer(s *Server, host net.Conn, source []byte) error {
	b := packetBuffers.Get().(*[maxPacket]byte)
	defer packetBuffers.Put(b)
	n, err := host.Read(b[:])
	if isTimeout(err) {
		return nil // the deadline of the wait has passed since
	}
	if err != nil {
		return err
	}
	if f.name.room(s.caps.Bytes) == 0 {
		return errSpent
	}
	f.carried()
	f.name.received.Add(int64(n))
	_, _, _ = f.socket.WriteMsgUDPAddrPort(b[:n], source, f.key.from)
	return nil
}

var packetBuffers = sync.Pool{New: func() any { return new([maxPacket]byte) }}
