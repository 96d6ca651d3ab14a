package nethost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"golang.org/x/sys/unix"
)

// Options replace what reaches the host. The zero value is the host itself.
type Options struct {
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)                   // resolves a name that a rule allows
	Dial   func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) // network is tcp, for a *net.TCPConn, or udp
	Own    func() ([]netip.Addr, error)                                                   // lists the host's own addresses
	Local  func(netip.Addr) bool                                                          // reports whether the host reaches itself at an address that is none of those
	Event  func(netmessage.Event)                                                         // is called at the first refusal of each kind and for questions, from several goroutines; it should not block

	Busy func() // is called once, before the first connection or packet is served

	readTime, tick time.Duration // of tests
}

// The defaults of [netmessage.Caps], and what bounds them.
const (
	defaultConnections = 4096
	defaultPerName     = 1024
	defaultIdle        = time.Hour
	udpIdle            = time.Minute
)

// Server serves one sandbox. [Serve] makes it.
type Server struct {
	rules    rules
	caps     netmessage.Caps
	options  Options
	idle     time.Duration // of TCP
	udpIdle  time.Duration
	readTime time.Duration // for all that has to be read before a client is connected
	tick     time.Duration // at which an idle connection looks whether it is idle for too long
	pool     *pool
	record   *record
	flows    *flows
	asking   asking
	relays   relays

	own struct {
		sync.Mutex
		list   []netip.Addr
		listed time.Time
	}

	busy   func() // calls Options.Busy the first time
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	enter  sync.WaitGroup // of wg, those through which connections and packets come in
	ending chan struct{}  // closed by Finish
	mu     sync.Mutex
	closed bool

	quicIDs usedIDs
	open    map[io.Closer]struct{}
}

// Serve serves sockets of a sandbox's network namespace until [Server.Close]. start.Sockets has the kind of each. Serve takes the files over, and
// closes them if it fails. They may block or not.
func Serve(start netmessage.Start, sockets []*os.File, options Options) (*Server, error) {
	s, err := newServer(start, options)
	if err == nil && len(sockets) != len(start.Sockets) {
		err = fmt.Errorf("%d sockets came, and %d are announced", len(sockets), len(start.Sockets))
	}
	if err != nil {
		for _, f := range sockets {
			f.Close()
		}
		return nil, err
	}
	var failed error
	for i, f := range sockets {
		if failed != nil {
			f.Close()
		} else if err := s.add(start.Sockets[i], f); err != nil {
			failed = fmt.Errorf("socket %d, %q: %w", i, start.Sockets[i], err)
		}
	}
	if failed != nil {
		s.Close()
		return nil, failed
	}
	return s, nil
}

func newServer(start netmessage.Start, options Options) (*Server, error) {
	s := &Server{caps: start.Caps, options: options, pool: newPool(), open: map[io.Closer]struct{}{}, ending: make(chan struct{})}
	if err := s.rules.set(start.Rules); err != nil {
		return nil, err
	}
	if err := s.asking.set(start.Ask); err != nil {
		return nil, err
	}
	if s.caps.Connections <= 0 {
		s.caps.Connections = defaultConnections
	}
	s.caps.Connections = min(s.caps.Connections, descriptorRoom())
	if s.caps.PerName <= 0 {
		s.caps.PerName = defaultPerName
	}
	s.idle, s.udpIdle = time.Duration(s.caps.Idle)*time.Second, udpIdle
	if s.idle <= 0 {
		s.idle = defaultIdle
	}
	s.readTime = cmp.Or(options.readTime, readTime)
	s.udpIdle = min(s.udpIdle, s.idle)
	s.tick = cmp.Or(options.tick, min(s.idle/4, 15*time.Second))
	if s.options.Lookup == nil {
		s.options.Lookup = lookupHost
	}
	if s.options.Dial == nil {
		s.options.Dial = dialHost
	}
	if s.options.Own == nil {
		s.options.Own = interfaceAddresses
	}
	if s.options.Local == nil {
		s.options.Local = routedHere
	}
	s.busy = sync.OnceFunc(func() {
		if options.Busy != nil {
			options.Busy()
		}
	})
	s.record = newRecord(s.caps, options.Event)
	s.flows = &flows{list: map[flowKey]*flow{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// deadline is when what is read before a client is connected has to be whole.
func (s *Server) deadline() time.Time { return time.Now().Add(s.readTime) }

// descriptorRoom returns how many connections the limit on open files has room for: two descriptors each, and some for pipes, listeners and the
// resolver.
func descriptorRoom() int {
	const others, most = 128, 1 << 20
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return most
	}
	return max((int(min(r.Cur, most))-others)/2, 1)
}

// add begins to serve one socket.
func (s *Server) add(kind string, file *os.File) error {
	switch kind {
	case netmessage.Redirect, netmessage.Direct, netmessage.Proxy:
		l, err := listenTCP(file)
		if err != nil {
			return err
		}
		s.keep(l)
		s.receive(func() { s.accept(l, kind) })
	case netmessage.DNS, netmessage.UDP:
		c, err := listenUDP(file)
		if err != nil {
			return err
		}
		s.keep(c)
		s.receive(func() { s.packets(c, kind) })
	default:
		file.Close()
		return errors.New("there is no such kind")
	}
	return nil
}

// receive starts what receives connections or packets.
func (s *Server) receive(f func()) {
	s.enter.Add(1)
	s.wg.Go(func() {
		defer s.enter.Done()
		f()
	})
}

// keep lists c among what Close closes. It closes c and returns false if the server is closed already.
func (s *Server) keep(c io.Closer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		end(c)
		return false
	}
	s.open[c] = struct{}{}
	return true
}

// end closes c, and a connection by a reset.
func end(c io.Closer) {
	if tcp, ok := c.(*net.TCPConn); ok {
		reset(tcp)
	} else {
		c.Close()
	}
}

// drop closes c and takes it off the list.
func (s *Server) drop(c io.Closer) {
	c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// Close ends every connection by a reset, and returns what has been counted. Nothing of the server is left then: no goroutine, no descriptor.
func (s *Server) Close() netmessage.Summary {
	s.cancel()
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		end(c)
	}
	s.mu.Unlock()
	s.wg.Wait()
	return s.record.summary()
}

// Counts returns what has been counted until now: every refusal that a client has heard of is in it.
func (s *Server) Counts() netmessage.Summary { return s.record.summary() }

// acceptPause is how long a listener waits after an error such as EMFILE, which passes when connections end.
const acceptPause = 5 * time.Millisecond

// accept serves the connections of a listener, each in a goroutine of its own.
func (s *Server) accept(l *net.TCPListener, kind string) {
	defer s.drop(l)
	for {
		conn, err := l.AcceptTCP()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || s.ctx.Err() != nil || !s.more(l) {
				return
			}
			if !isTimeout(err) {
				time.Sleep(acceptPause)
			}
			continue
		}
		s.busy()
		if !s.record.admit() {
			s.overflow(conn, kind)
			continue
		}
		if !s.keep(conn) {
			s.record.leave()
			return
		}
		s.wg.Go(func() {
			defer s.record.leave()
			defer s.drop(conn)
			s.serve(conn, kind)
		})
	}
}

// overflow refuses a connection because the cap on all of them is reached.
func (s *Server) overflow(conn *net.TCPConn, kind string) {
	t := target{}
	if kind != netmessage.Proxy {
		if to, err := destination(conn, kind); err == nil {
			t = s.target(to, false)
		}
	}
	s.record.refuse(*s.refusal(opConnect, t, netmessage.TooMany, fmt.Sprintf("%d connections are open, which is the limit net_connections, or what the limit on open files leaves", s.caps.Connections)))
	reset(conn)
}

// serve serves one connection until its end.
func (s *Server) serve(conn *net.TCPConn, kind string) {
	inlineUrgent(conn)
	if kind == netmessage.Proxy {
		s.serveProxy(conn)
		return
	}
	to, err := destination(conn, kind)
	if errors.Is(err, net.ErrClosed) { // by Close, which is no refusal
		return
	}
	if err != nil {
		r := netmessage.Refusal{Op: opConnect, Reason: netmessage.Malformed, Detail: "a connection without a destination: " + err.Error()}
		if to.IsValid() {
			r.Address, r.Port = to.Addr().String(), int(to.Port())
		}
		s.record.refuse(r)
		reset(conn)
		return
	}
	t := s.target(to, false)
	if to.Port() == dnsPort && !s.allows(t) {
		s.serveDNS(conn)
		return
	}
	(&client{Server: s, conn: conn, to: t}).run()
}
