package nethost

import (
	"errors"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/netparse"
)

// checkTLS reads the ClientHello, and compares the name in it. Under Encrypted ClientHello that is the outer name. not says that the bytes are not of
// TLS.
func (c *client) checkTLS(until time.Time) (refused *netmessage.Refusal, not bool) {
	var hello netparse.Hello
	err := c.more(until, func() (done bool, err error) {
		hello, done, err = netparse.ClientHello(c.first)
		return done, err
	})
	if errors.Is(err, netparse.ErrNotTLS) {
		return nil, true
	}
	if err != nil {
		return c.refusal(opConnect, c.to, netmessage.Malformed, "the ClientHello of TLS: "+err.Error()), false
	}
	if why := c.mismatchName(c.to, hello.ServerName); why != "" {
		return c.refusal(opConnect, c.to, netmessage.Mismatch, why), false
	}
	c.good = netparse.HelloSize(c.first)
	return nil, false
}

// upTLS carries what comes after the ClientHello that has been passed on. The server may ask for a second one, whose name is compared too, so nothing
// more is passed on until its answer is there.
func (c *client) upTLS(r *relay) error {
	wait, err := newWaiter(c.conn)
	if err != nil {
		return err
	}
	if len(c.first) == 0 { // clients wait for the answer: it is there when they go on
		if err := c.again(r, wait); err != nil {
			return err
		}
	}
	if len(c.first) == 0 {
		return nil
	}
	if !c.accepted(r) {
		return c.rest(r)
	}
	for {
		c.good = netparse.BeforeRetry(c.first)
		if err := c.pass(r); err != nil {
			return err
		}
		if len(c.first) > 0 && !netparse.Skipped(c.first[0]) {
			hello, done, err := netparse.ClientHello(c.first)
			if err != nil {
				return c.refuseRelayed(r, c.refusal(opConnect, c.to, netmessage.Malformed, "the second ClientHello of TLS: "+err.Error()))
			}
			if done {
				if why := c.mismatchName(c.to, hello.ServerName); why != "" {
					return c.refuseRelayed(r, c.refusal(opConnect, c.to, netmessage.Mismatch, "the second time, "+why))
				}
				return c.rest(r)
			}
		}
		if c.ended {
			return nil
		}
		if err := c.again(r, wait); err != nil {
			return err
		}
	}
}

// again waits for more of the client, and reads it.
func (c *client) again(r *relay, wait *waiter) error {
	if err := r.await(wait); err != nil {
		return err
	}
	if err := c.read(c.deadline()); err != nil && !c.ended {
		return err
	}
	return nil
}

// rest passes on what has been read and all that follows.
func (c *client) rest(r *relay) error {
	c.good = len(c.first)
	if err := c.pass(r); err != nil || c.ended {
		return err
	}
	c.first = nil
	return r.up()
}
