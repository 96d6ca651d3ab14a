package scope

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Names of the service manager's: org.freedesktop.systemd1(5).
const (
	managerName  = "org.freedesktop.systemd1"
	managerPath  = "/org/freedesktop/systemd1"
	managerIface = "org.freedesktop.systemd1.Manager"
	busName      = "org.freedesktop.DBus"
	busPath      = "/org/freedesktop/DBus"
)

// conn is a connection to a service manager, or to a bus that it is on.
type conn struct {
	fd       int
	deadline time.Time
	timeout  time.Duration
	stop     func() error // why not to wait any longer
	serial   uint32
	in       []byte // what has been read and not taken
	unit     string // whose job is waited for
	result   string // of that
}

// dial connects to a manager of this user's or of root's, and says who asks. See the D-Bus Specification, Authentication Protocol.
func dial(socket string, timeout time.Duration, stop func() error) (c *conn, err error) {
	c = &conn{fd: -1, deadline: time.Now().Add(timeout), timeout: timeout, stop: stop}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if c.fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return c, err
	}
	for {
		err = unix.Connect(c.fd, &unix.SockaddrUnix{Name: socket})
		if !errors.Is(err, unix.EINTR) || time.Now().After(c.deadline) {
			break
		}
	}
	if err != nil {
		return c, fmt.Errorf("connect: %w", err)
	}
	peer, err := unix.GetsockoptUcred(c.fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return c, err
	}
	if me := uint32(os.Geteuid()); peer.Uid != 0 && peer.Uid != me {
		return c, fmt.Errorf("it is the user %d's", peer.Uid)
	}
	if err = c.send([]byte("\x00AUTH EXTERNAL " + hex.EncodeToString([]byte(strconv.Itoa(os.Geteuid()))) + "\r\n")); err != nil {
		return c, err
	}
	line, err := c.line()
	if err != nil {
		return c, fmt.Errorf("authenticate: %w", err)
	}
	if !strings.HasPrefix(line, "OK ") && line != "OK" {
		return c, fmt.Errorf("authenticate: it says %q", line)
	}
	return c, c.send([]byte("BEGIN\r\n"))
}

func (c *conn) close() {
	if c.fd >= 0 {
		unix.Close(c.fd)
	}
}

func (c *conn) send(b []byte) error {
	for len(b) > 0 {
		n, err := unix.SendmsgN(c.fd, b, nil, nil, unix.MSG_NOSIGNAL)
		switch {
		case errors.Is(err, unix.EINTR) && time.Now().Before(c.deadline):
		case errors.Is(err, unix.EAGAIN):
			return c.late()
		case err != nil:
			return fmt.Errorf("send: %w", err)
		default:
			b = b[n:]
		}
	}
	return nil
}

func (c *conn) late() error { return fmt.Errorf("no answer within %v", c.timeout) }

// pollInterval is how often it is asked whether to wait any longer.
const pollInterval = 10 * time.Millisecond

// more waits for bytes.
func (c *conn) more() error {
	var buf [4096]byte
	for {
		if err := c.stop(); err != nil {
			return err
		}
		if !time.Now().Before(c.deadline) {
			return c.late()
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}, int(pollInterval.Milliseconds()))
		if err == nil && n > 0 {
			n, err = unix.Read(c.fd, buf[:])
		} else if err == nil {
			continue
		}
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		switch {
		case err != nil:
			return fmt.Errorf("receive: %w", err)
		case n == 0:
			return errors.New("it has closed the connection")
		}
		c.in = append(c.in, buf[:n]...)
		return nil
	}
}

// line takes a line of the authentication.
func (c *conn) line() (string, error) {
	for {
		if at := bytes.Index(c.in, []byte("\r\n")); at >= 0 {
			line := string(c.in[:at])
			c.in = c.in[at+2:]
			return line, nil
		}
		if len(c.in) > 1000 {
			return "", fmt.Errorf("what came begins with %q, and is no line of D-Bus's", c.in[:20])
		}
		if err := c.more(); err != nil {
			return "", err
		}
	}
}

// receive takes a message, and keeps what it says of the unit's job.
func (c *conn) receive() (m message, err error) {
	need := headSize
	for {
		if len(c.in) >= headSize {
			if need, err = size(c.in); err != nil {
				return m, err
			}
		}
		if len(c.in) >= max(need, headSize) {
			break
		}
		if err := c.more(); err != nil {
			return m, err
		}
	}
	if m, err = parse(c.in[:need]); err != nil {
		return m, err
	}
	c.in = c.in[need:]
	if m.kind == signal && m.member == "JobRemoved" && m.signature == "uoss" {
		d := &decoder{b: m.body}
		d.u32()
		d.str()
		if unit, result := d.str(), d.str(); unit == c.unit && d.err == nil {
			c.result = result
		}
	}
	return m, nil
}

// ask calls a method, and waits for its answer.
func (c *conn) ask(path, to, iface, member, signature string, body []byte) error {
	c.serial++
	if err := c.send(call(c.serial, path, to, iface, member, signature, body)); err != nil {
		return fmt.Errorf("%s: %w", member, err)
	}
	for {
		m, err := c.receive()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", member, err)
		case m.replyTo != c.serial:
		case m.kind == errorReply:
			return fmt.Errorf("%s: it refuses: %w", member, m.remoteError())
		case m.kind == methodReturn:
			return nil
		}
	}
}

// join says who this is, as a bus wants it, and asks to be told of jobs. The manager itself tells whoever is connected.
func (c *conn) join() error {
	if err := c.ask(busPath, busName, busName, "Hello", "", nil); err != nil {
		return err
	}
	e := &encoder{}
	e.str("type='signal',sender='" + managerName + "',interface='" + managerIface + "',member='JobRemoved'")
	return c.ask(busPath, busName, busName, "AddMatch", "s", e.b)
}

// start has the manager start a unit that holds this process, and waits for the end of that job.
func (c *conn) start(unit string, properties func(*encoder)) error {
	c.unit = unit
	e := &encoder{}
	e.str(unit)
	e.str("fail")
	e.array(8, func() { properties(e) })
	e.array(8, func() {}) // of other units
	if err := c.ask(managerPath, managerName, managerIface, "StartTransientUnit", "ssa(sv)a(sa(sv))", e.b); err != nil {
		return err
	}
	for c.result == "" {
		if _, err := c.receive(); err != nil {
			return fmt.Errorf("wait for the job: %w", err)
		}
	}
	if c.result != "done" {
		return fmt.Errorf("its job ends with the result %q", c.result)
	}
	return nil
}
