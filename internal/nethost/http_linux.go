package nethost

import (
	"errors"
	"net/netip"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/netparse"
	"github.com/nsrun/nsrun/nsrun/netrule"
	"golang.org/x/sys/unix"
)

// checkHTTP reads the head of the first request, and compares its host.
func (c *client) checkHTTP(until time.Time) (refused *netmessage.Refusal) {
	err := c.more(until, func() (done bool, err error) {
		var head *netparse.Head
		if c.good, head, err = c.http.Next(c.first); head == nil {
			return false, err
		}
		refused = c.checkHead(head, c.good)
		return true, nil
	})
	if err != nil {
		return c.badRequest(opRequest, err)
	}
	return refused
}

// badRequest refuses what cannot be read as HTTP.
func (c *client) badRequest(op string, err error) *netmessage.Refusal {
	if bad := (*netparse.HTTPError)(nil); errors.As(err, &bad) {
		c.status = bad.Status
	}
	return c.refusal(op, c.to, netmessage.Malformed, err.Error())
}

// checkHead compares the host of a request with what was asked for. Its head is the first n bytes that have come.
func (c *client) checkHead(head *netparse.Head, n int) *netmessage.Refusal {
	c.offer = head.Upgrade
	if head.HTTP2 {
		netparse.Withdraw(c.first[:n])
	}
	if why := c.mismatch(c.to, head.Target, "the request"); why != "" {
		x := c.refusal(opRequest, c.to, netmessage.Mismatch, why)
		if c.to.name == "" && head.Target.Name != "" { // to a listed address, with a name that could be listed too
			x.Rule = netrule.Suggest(head.Target.Name, netip.Addr{}, c.to.port, false)
		}
		return x
	}
	return nil
}

// upHTTP carries requests, of which each is checked. The first one's head has been passed on.
func (c *client) upHTTP(r *relay) error {
	wait, err := newWaiter(c.conn)
	if err != nil {
		return err
	}
	for {
		if opaque, err := c.requests(r); err != nil || opaque {
			return err
		}
		if c.ended {
			return nil
		}
		if err := c.again(r, wait); err != nil {
			return err
		}
	}
}

// requests passes on what has come of requests and is whole. opaque says that the connection has changed its protocol, and has been carried to its end.
func (c *client) requests(r *relay) (opaque bool, err error) {
	for {
		if c.offer {
			c.offer = false
			accepted := c.acceptedUpgrade(r)
			if c.http.Upgraded(accepted); accepted {
				return true, c.rest(r)
			}
		}
		n, head, err := c.http.Next(c.first)
		if err != nil {
			return false, c.refuseRequest(r, c.badRequest(opRequest, err))
		}
		if n == 0 {
			return false, nil
		}
		if head != nil && c.proxied {
			<-r.downEnded // the answer to the first request says that the connection ends after it
			return true, nil
		}
		if head != nil {
			if refused := c.checkHead(head, n); refused != nil {
				return false, c.refuseRequest(r, refused)
			}
		}
		c.good = n
		if err := c.pass(r); err != nil {
			return false, err
		}
	}
}

// What the answer to a later request that is refused waits for: the answers to those before it.
const (
	quiet     = 100 * time.Millisecond
	quietTime = 5 * time.Second
)

// refuseRequest refuses a later request of a connection. The server may still be answering an earlier one, so the refusal waits until nothing has
// come for a while.
func (c *client) refuseRequest(r *relay, refused *netmessage.Refusal) error {
	for end := time.Now().Add(quietTime); time.Now().Before(end); {
		idle := time.Since(time.Unix(0, r.last.Load()))
		if idle >= quiet {
			break
		}
		select {
		case <-time.After(quiet - idle):
		case <-r.downEnded:
			return errRefused
		}
	}
	return c.refuseRelayed(r, refused)
}

// tap reads what a server answers first: to an upgrade, which only the first request of a connection has, or to a ClientHello.
type tap struct {
	response []byte
	read     func(response []byte) (accepted, done bool)
	accepted bool
	done     chan struct{}
}

// listenForAnswer sees the server's answer from here on. What it is an answer to has not been passed on yet.
func (c *client) listenForAnswer(r *relay) {
	switch {
	case c.offer:
		c.tap = &tap{read: netparse.Switched, done: make(chan struct{})}
	case c.kind == speaksTLS:
		c.tap = &tap{read: netparse.RetryRequested, done: make(chan struct{})}
	default:
		return
	}
	r.tap.Store(c.tap)
}

// look is called with all that the server sends until the answer is there.
func (t *tap) look(r *relay, b []byte) {
	t.response = append(t.response, b...)
	accepted, done := t.read(t.response)
	if done || len(t.response) > maxFirst {
		t.accepted, t.response = accepted, nil
		r.tap.Store(nil)
		close(t.done)
	}
}

// lookTime is how often a client that waits for an answer is looked at: its end is behind what it has sent and is not read.
const lookTime = 500 * time.Millisecond

// acceptedUpgrade is accepted, but false for a client that has ended its side meanwhile: no bytes of another protocol will come from it, and the
// server has to see that end.
func (c *client) acceptedUpgrade(r *relay) bool {
	for {
		select {
		case <-c.tap.done:
			return c.accepted(r)
		case <-r.downEnded:
			return c.accepted(r)
		case <-c.ending:
			return c.accepted(r)
		case <-time.After(lookTime):
			info := tcpInfo(c.conn)
			select {
			case <-c.tap.done: // meanwhile
				return c.accepted(r)
			default:
			}
			if info == nil || info.State != unix.BPF_TCP_ESTABLISHED {
				return false
			}
		}
	}
}

// accepted waits for the server's answer, and reports whether it is the one that changes what follows.
func (c *client) accepted(r *relay) bool {
	select {
	case <-c.tap.done:
		return c.tap.accepted
	case <-r.downEnded:
		return false
	case <-c.ending: // what comes is checked as if the answer was no
		return false
	}
}
