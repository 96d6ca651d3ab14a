package nethost

import (
	"cmp"
	"io"
	"net"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/netparse"
)

// Further alerts of TLS (RFC 8446, 6).
const (
	alertDecodeError   = 50
	alertInternalError = 80
)

// What an answer to a refused client may take.
const (
	answerTime = time.Second
	answerRead = 256 << 10
)

// refuse records a refusal and ends the client's connection in the form that the client understands: a response of HTTP with one line, an alert of
// TLS, or a reset.
func (c *client) refuse(x *netmessage.Refusal) {
	if c.ctx.Err() != nil { // the server is closing, which is no refusal
		reset(c.conn)
		return
	}
	c.record.refuse(*x)
	if c.kind == unknown {
		c.look()
	}
	switch {
	case c.socks:
		finish(c.conn, netparse.SocksReply(cmp.Or(c.reply, socksReply(x.Reason))))
	case c.kind == speaksHTTP, c.kind != speaksTLS && c.to.port == 80 && len(c.first) > 0:
		finish(c.conn, netparse.Response(cmp.Or(c.status, httpStatus(x.Reason)), line(c.to, x)))
	case c.kind == speaksTLS:
		finish(c.conn, netparse.Alert(tlsAlert(x.Reason)))
	default:
		reset(c.conn)
	}
}

func httpStatus(reason string) int {
	switch reason {
	case netmessage.Malformed:
		return 400
	case netmessage.TooMany:
		return 429
	case netmessage.Unresolvable, netmessage.Unreachable:
		return 502
	}
	return 403
}

func socksReply(reason string) byte {
	switch reason {
	case netmessage.Malformed, netmessage.TooMany:
		return netparse.SocksGeneralFailure
	case netmessage.Unresolvable, netmessage.Unreachable:
		return netparse.SocksHostUnreachable
	}
	return netparse.SocksNotAllowed
}

func tlsAlert(reason string) byte {
	switch reason {
	case netmessage.Malformed:
		return alertDecodeError
	case netmessage.TooMany, netmessage.Unresolvable, netmessage.Unreachable:
		return alertInternalError
	}
	return netparse.AlertAccessDenied
}

// finish sends the last bytes of a connection, and ends it. It reads what the client still sends for a while: a connection that is closed with
// bytes unread ends by a reset, which can overtake the answer (RFC 9112, 9.6).
func finish(conn *net.TCPConn, last []byte) {
	_ = conn.SetDeadline(time.Now().Add(answerTime))
	if _, err := conn.Write(last); err == nil && conn.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, answerRead))
	}
	conn.Close()
}
