package nethost

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/netparse"
	"github.com/nsrun/nsrun/nsrun/netrule"
)

// httpPort is the port of a request that names none.
const httpPort = 80

// serveProxy serves a client of the proxy, which speaks SOCKS5 or HTTP. The rules decide as they do for other connections.
func (s *Server) serveProxy(conn *net.TCPConn) {
	c := &client{Server: s, conn: conn}
	until := s.deadline()
	const connect = "CONNECT "
	err := c.more(until, func() (bool, error) {
		n := min(len(c.first), len(connect))
		return n == len(connect) || n > 0 && string(c.first[:n]) != connect[:n], nil
	})
	switch {
	case err != nil:
		reset(conn) // it has asked for nothing
	case c.first[0] == netparse.SocksVersion:
		c.serveSocks(until)
	case bytes.HasPrefix(c.first, []byte(connect)):
		c.serveConnect(until)
	default:
		c.forward(until)
	}
}

// malformed refuses a request to the proxy that cannot be read.
func (c *client) malformed(err error) {
	c.refuse(c.badRequest(opConnect, err))
}

// serveConnect serves HTTP CONNECT.
func (c *client) serveConnect(until time.Time) {
	var to netparse.Target
	c.kind = speaksHTTP
	err := c.more(until, func() (bool, error) {
		n, t, err := netparse.Connect(c.first)
		if n > 0 {
			to, c.first = t, c.first[n:]
		}
		return n > 0, err
	})
	if err != nil {
		c.malformed(err)
		return
	}
	c.tunnel(to, []byte("HTTP/1.1 200 Connection established\r\n\r\n"))
}

// serveSocks serves CONNECT of SOCKS5.
func (c *client) serveSocks(until time.Time) {
	err := c.more(until, func() (bool, error) {
		n, answer, err := netparse.SocksGreeting(c.first)
		if answer != nil {
			_ = c.conn.SetWriteDeadline(until)
			if _, failed := c.conn.Write(answer); failed != nil {
				return false, failed
			}
		}
		c.first = c.first[n:]
		return n > 0, err
	})
	if err != nil {
		c.kind = speaksOther
		c.malformed(err)
		return
	}
	c.socks = true
	var to netparse.Target
	err = c.more(until, func() (bool, error) {
		n, t, err := netparse.SocksRequest(c.first)
		if n > 0 {
			to, c.first = t, c.first[n:]
		}
		return n > 0, err
	})
	if err != nil {
		if bad := (*netparse.SocksError)(nil); errors.As(err, &bad) {
			c.reply = bad.Reply
		}
		c.malformed(err)
		return
	}
	c.tunnel(to, netparse.SocksReply(netparse.SocksSucceeded))
}

// tunnel connects to a target, answers the client, and carries both ways. The client's first bytes after the answer are checked when they come.
func (c *client) tunnel(to netparse.Target, success []byte) {
	c.to = target{name: to.Name, addr: to.Addr, port: to.Port}
	if to.Addr.IsValid() { // of a client that has looked the name up itself
		c.to = c.target(netip.AddrPortFrom(to.Addr, to.Port), false)
	}
	rule, refused := c.permit(c.to)
	if refused != nil {
		c.refuse(refused)
		return
	}
	c.connect(rule, func(name *reached, host net.Conn) {
		_ = c.conn.SetWriteDeadline(c.deadline())
		if _, err := c.conn.Write(success); err != nil {
			host.Close()
			return
		}
		c.kind, c.socks = unknown, false
		c.relay(rule, name, host)
	})
}

// connect calls carry with a connection to what the client has asked the proxy for, or refuses it.
func (c *client) connect(rule netrule.Rule, carry func(name *reached, host net.Conn)) {
	name, ok := c.enter()
	if !ok {
		return
	}
	defer c.record.exit(name)
	host, at, refused := c.reach(c.ctx, c.to, rule)
	if refused != nil {
		c.refuse(refused)
		return
	}
	c.at = at
	carry(name, host)
}

// forward serves a plain request for an http URL. The server gets it in the form that servers expect, and is asked to end the connection after its
// answer, since the client's next request may be for another host.
func (c *client) forward(until time.Time) {
	var head *netparse.Head
	c.kind = speaksHTTP
	err := c.more(until, func() (done bool, err error) {
		c.good, head, err = c.http.Next(c.first)
		return head != nil, err
	})
	if err != nil {
		c.malformed(err)
		return
	}
	c.to = target{name: head.Target.Name, addr: head.Target.Addr, port: head.Target.Port}
	if c.to.port == 0 {
		c.to.port = httpPort
	}
	if head.HTTP2 {
		netparse.Withdraw(c.first[:c.good])
	}
	text, ok := originForm(string(c.first[:c.good]), head.Upgrade)
	if !ok {
		c.refuse(c.refusal(opRequest, c.to, netmessage.Malformed, "a request to the proxy without an http URL"))
		return
	}
	rule, refused := c.permit(c.to)
	if refused == nil && (rule.Scheme == "https") {
		refused = c.refusal(opRequest, c.to, netmessage.Mismatch, "the rule is for https, which this is not")
	}
	if refused != nil {
		c.refuse(refused)
		return
	}
	c.connect(rule, func(name *reached, host net.Conn) {
		c.first = append([]byte(text), c.first[c.good:]...)
		c.good, c.offer, c.proxied = len(text), head.Upgrade, !head.Upgrade
		c.relay(rule, name, host)
	})
}

// originForm turns the head of a request for an http URL into one for its path (RFC 9112, 3.2.1), and takes away what is for the proxy. Unless the
// request is an upgrade, it asks the server to close the connection. ok is false if the target is no URL.
func originForm(head string, upgrade bool) (text string, ok bool) {
	lines := strings.SplitAfter(head, "\r\n")
	words := strings.Split(lines[0], " ")
	const scheme = "http://"
	if len(words) != 3 || len(words[1]) < len(scheme) || !strings.EqualFold(words[1][:len(scheme)], scheme) {
		return "", false
	}
	path := "/"
	if at := strings.IndexAny(words[1][len(scheme):], "/?"); at >= 0 {
		path = "/" + strings.TrimPrefix(words[1][len(scheme)+at:], "/")
	} else if words[0] == "OPTIONS" {
		path = "*"
	}
	var b strings.Builder
	b.WriteString(words[0] + " " + path + " " + words[2])
	if !upgrade {
		b.WriteString("Connection: close\r\n")
	}
	for _, line := range lines[1:] {
		name, _, _ := strings.Cut(strings.ToLower(line), ":")
		if strings.HasPrefix(name, "proxy-") || name == "keep-alive" || name == "connection" && !upgrade {
			continue
		}
		b.WriteString(line)
	}
	return b.String(), true
}
