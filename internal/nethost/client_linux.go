package nethost

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/netparse"
	"github.com/nsrun/nsrun/nsrun/netrule"
)

const (
	// silence is how long a client may take to say something on the ports of HTTP and TLS. Then it waits for the server to speak first, as ssh, smtp
	// and mysql do. On other ports that is usual, and the wait is what each connection to such a server takes longer.
	silence      = 300 * time.Millisecond
	shortSilence = 20 * time.Millisecond
	// readTime is how long a client may take for all that has to be read before it is connected.
	readTime = 10 * time.Second
	// maxFirst bounds what is read of a client and not passed on: a ClientHello, the head of a request.
	maxFirst = 32 << 10
)

// speech is the protocol that a client's first bytes are.
type speech int

const (
	unknown speech = iota // too little has come to say
	speaksTLS
	speaksHTTP
	speaksOther
)

// client is a connection from the sandbox whose destination is known.
type client struct {
	*Server
	conn  *net.TCPConn
	to    target
	first []byte // what was read and is kept: the parsers read it from its beginning
	sent  int    // bytes of first that were passed on before it was clear what they are
	good  int    // bytes of first that were checked and may be passed on
	ended bool   // the client has ended its side
	gone  bool   // its connection has failed, or it has said nothing for as long as a connection may
	kind  speech
	http  netparse.Requests
	offer bool // the client has offered an upgrade, and waits for the answer
	tap   *tap // sees the answer to that, or to a ClientHello
	socks bool // the client waits for a reply of SOCKS5
	asked bool // an answer to a question has allowed it, and no rule

	at     netip.Addr // where to it is connected
	scheme string     // that of its rule, or what it speaks

	status int  // of HTTP, for a request that cannot be read
	reply  byte // likewise of SOCKS5

	proxied bool // an HTTP proxy was asked for, which serves one request of a connection
}

// run serves the client until its connection ends.
func (c *client) run() {
	rule, refused := c.permit(c.to)
	if refused != nil {
		for until := time.Now().Add(silence); c.kind == unknown && c.read(until) == nil; c.look() { // it shows in which form to answer
		}
		c.refuse(refused)
		return
	}
	name, ok := c.enter()
	if !ok {
		return
	}
	defer c.record.exit(name)
	if refused := c.listen(rule); refused != nil {
		if len(c.first) == 0 && (c.ended || c.gone) { // it has looked whether somebody listens, or has kept a connection in store
			reset(c.conn)
			return
		}
		c.refuse(refused)
		return
	}
	if _, refused := c.decide(opConnect, c.to); refused != nil && !c.asked { // the rules have changed since
		c.refuse(refused)
		return
	}
	host, at, refused := c.reach(c.ctx, c.to, rule)
	if refused != nil {
		c.refuse(refused)
		return
	}
	c.at = at
	c.relay(rule, name, host)
}

// enter counts the client's connection with those to its target, or refuses it. The caller calls record.exit at its end.
func (c *client) enter() (name *reached, ok bool) {
	name, ok = c.record.enter(c.to.host())
	if !ok {
		c.refuse(c.refusal(opConnect, c.to, netmessage.TooMany, "a limit on what "+c.to.host()+" gets is reached: net_per_host or net_per_host_mb"))
	}
	return name, ok
}

// relay carries both ways between the client and a connection of the host.
func (c *client) relay(rule netrule.Rule, name *reached, conn net.Conn) {
	if !c.keep(conn) {
		return
	}
	defer c.drop(conn)
	host, ok := conn.(*net.TCPConn)
	if !ok {
		c.refuse(c.refusal(opConnect, c.to, netmessage.Unreachable, "bug: not a TCP connection"))
		return
	}
	c.record.connected(name)
	inlineUrgent(host)
	r := c.newRelay(c.conn, host, name)
	c.scheme = rule.Scheme
	switch {
	case c.scheme != "":
	case c.kind == speaksTLS:
		c.scheme = "https"
	case c.kind == speaksHTTP:
		c.scheme = "http"
	}
	done := c.relays.add(c, r.abort)
	defer done()
	if !c.allowed() { // the rules have changed since
		c.refuse(c.refusal(opConnect, c.to, netmessage.Unlisted, "no rule allows "+c.to.host()+" any more"))
		return
	}
	r.run(func() error { return c.up(r, rule) })
	if r.spent.Load() {
		c.record.refuse(*c.refusal(opConnect, c.to, netmessage.TooMany, fmt.Sprintf("%d bytes were carried for %s, which is the limit net_per_host_mb", c.caps.Bytes, c.to.host())))
	}
}

// allowed reports whether what has allowed the client's connection still does.
func (c *client) allowed() bool { return c.asked || c.allowsStill(c.to, c.at, c.scheme) }

// listen waits for the client's first bytes and checks them. With a scheme in the rule it waits for as long as a connection may be idle. Without one, a client that says nothing, or too little to see what it
// is, is let through: up checks the bytes when they come, so that a client gains nothing by waiting.
func (c *client) listen(rule netrule.Rule) *netmessage.Refusal {
	if rule.Scheme != "" {
		if err := c.read(time.Now().Add(c.idle)); isTimeout(err) {
			c.gone = true
			return c.refusal(opConnect, c.to, netmessage.Malformed, "the client has said nothing")
		}
		return c.check(rule, c.deadline())
	}
	wait := shortSilence
	if c.to.port == httpPort || c.to.port == httpsPort {
		wait = silence
	}
	until := time.Now().Add(wait)
	for c.kind == unknown && !c.ended {
		if err := c.read(until); isTimeout(err) {
			return nil
		} else if err != nil && !c.ended {
			return c.refusal(opConnect, c.to, netmessage.Malformed, "the client has gone")
		}
		c.look()
	}
	return c.check(rule, c.deadline())
}

// look sees what the first bytes are. The client may have sent all that it will: then nothing more makes a request of what is none yet.
func (c *client) look() {
	secure, known := netparse.LooksTLS(c.first)
	switch is, done := netparse.Looks(c.first); {
	case len(c.first) == 0 && !c.ended:
	case secure && known:
		c.kind = speaksTLS
	case done && is:
		c.kind = speaksHTTP
	case done && known || c.ended:
		c.kind = speaksOther
	}
}

var errTooLong error = &netparse.HTTPError{Status: 431, Text: fmt.Sprintf("more than %d bytes", maxFirst)}

// read reads once more from the client, into first. Its error is that of the connection, and of the deadline if nothing has come.
func (c *client) read(until time.Time) error {
	if len(c.first) >= maxFirst {
		return errTooLong
	}
	wait, err := newWaiter(c.conn)
	if err == nil {
		err = wait.wait(until) // without a buffer, as it may take long
	}
	if err != nil {
		c.gone = c.gone || !isTimeout(err)
		return err
	}
	b := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(b)
	n, err := c.conn.Read(b[:min(bufferSize, maxFirst-len(c.first))])
	c.first = append(c.first, b[:n]...)
	c.ended = errors.Is(err, io.EOF)
	c.gone = err != nil && !c.ended
	return err
}

// more reads until enough returns true or an error. It begins with what has come already.
func (c *client) more(until time.Time, enough func() (bool, error)) error {
	for {
		done, err := enough()
		if done || err != nil {
			return err
		}
		if c.ended {
			return errors.New("it has ended too early")
		}
		switch err := c.read(until); {
		case isTimeout(err):
			return errors.New("it has not come in time")
		case err != nil && !c.ended:
			return err
		}
	}
}

// check checks the client's first bytes against what was asked for: a name in TLS and the Host of HTTP must be the name that was looked up.
func (c *client) check(rule netrule.Rule, until time.Time) *netmessage.Refusal {
	err := c.more(until, func() (bool, error) {
		c.look()
		return c.kind != unknown, nil
	})
	if err != nil {
		first := "what the client sends first"
		if rule.Scheme == "" {
			first += " could be HTTP"
		}
		return c.refusal(opConnect, c.to, netmessage.Malformed, first+": "+err.Error())
	}
	if c.kind == speaksTLS && rule.Scheme != "http" {
		refused, not := c.checkTLS(until)
		if !not {
			return refused
		}
		c.kind = speaksOther
	}
	switch {
	case c.kind == speaksHTTP && rule.Scheme != "https":
		return c.checkHTTP(until)
	case rule.Scheme != "":
		return c.refusal(opConnect, c.to, netmessage.Mismatch, "the rule is for "+rule.Scheme+", which this is not")
	}
	c.good = len(c.first)
	return nil
}

// mismatchName says why TLS to a target may not name a server, or is empty.
func (s *Server) mismatchName(to target, server string) string {
	if server == "" && to.name != "" {
		return "the handshake names no server, and " + to.name + " was asked for"
	}
	if server == "" {
		return "" // clients name no address
	}
	name, addr, err := netrule.Canonical(server)
	if err != nil {
		return "the server name: " + err.Error()
	}
	return s.mismatch(to, netparse.Target{Name: name, Addr: addr}, "the handshake")
}

// mismatch says why a connection to a target may not have another one inside, or is empty. A connection to an address may have a name that the
// rules list with this port.
func (s *Server) mismatch(to target, in netparse.Target, where string) string {
	inner := target{name: in.Name, addr: in.Addr, port: in.Port, udp: to.udp}
	if inner.port == 0 {
		inner.port = to.port
	}
	if inner == to || to.name == "" && inner.name != "" && inner.port == to.port && s.allows(inner) {
		return ""
	}
	if inner.port != to.port {
		return fmt.Sprintf("%s is for %s, and %s was asked for", where, inner, to)
	}
	return fmt.Sprintf("%s is for %s, and %s was asked for", where, inner.host(), to.host())
}

// up carries what the client sends.
func (c *client) up(r *relay, rule netrule.Rule) error {
	if c.kind == unknown {
		if err := c.late(r, rule); err != nil {
			return err
		}
	}
	c.listenForAnswer(r)
	if err := c.pass(r); err != nil {
		return err
	}
	switch {
	case c.kind == speaksHTTP:
		return c.upHTTP(r)
	case c.kind == speaksTLS:
		return c.upTLS(r)
	case c.ended:
		return nil
	}
	c.first = nil
	return r.up()
}

// pass passes on what was checked.
func (c *client) pass(r *relay) error {
	if c.good > c.sent {
		if err := r.write(r.host, c.first[c.sent:c.good], &r.name.sent, nil); err != nil {
			return err
		}
	}
	c.first = c.first[:copy(c.first, c.first[c.good:])]
	c.sent, c.good = max(c.sent-c.good, 0), 0
	return nil
}

// errRefused ends a relay whose client was refused.
var errRefused = errors.New("refused")

// late checks the first bytes of a client that is connected already. Where no protocol is required, bytes that do not show yet what they are go on:
// no server answers half a line, and the connection ends if they turn out to be what is refused.
func (c *client) late(r *relay, rule netrule.Rule) error {
	wait, err := newWaiter(c.conn)
	if err != nil {
		return err
	}
	for c.look(); c.kind == unknown; c.look() {
		if rule.Scheme == "" && len(c.first) > c.sent {
			if err := r.write(r.host, c.first[c.sent:], &r.name.sent, nil); err != nil {
				return err
			}
			c.sent = len(c.first)
		}
		if err := c.again(r, wait); err != nil {
			return err
		}
	}
	refused := c.check(rule, c.deadline())
	if refused == nil {
		return nil
	}
	return c.refuseRelayed(r, refused)
}

// refuseRelayed refuses a client that is connected, and ends the host's connection.
func (c *client) refuseRelayed(r *relay, refused *netmessage.Refusal) error {
	r.aborted.Store(true) // c.refuse ends the client's connection
	reset(r.host)
	_ = c.conn.SetWriteDeadline(time.Now()) // who writes to a client that reads slowly stops
	r.writing.Lock()
	defer r.writing.Unlock()
	c.refuse(refused)
	return errRefused
}
