// Package fake is a service manager for tests: it answers at a socket as systemd's does, or as one does that is broken. Messages are read
// and written by a library, so what the package scope says of D-Bus is put to the test by somebody else.
package fake

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// Act is what a manager does when it is asked for a scope.
type Act string

// The acts. Those but Starts fail, each in its own way.
const (
	Starts    Act = "starts"    // as systemd does
	Refuses   Act = "refuses"   // with an error
	Silent    Act = "silent"    // takes the call, and never answers
	Undone    Act = "undone"    // answers, and never tells the end of the job
	Fails     Act = "fails"     // the job fails
	Lies      Act = "lies"      // the job is done, but nobody was moved
	Garbage   Act = "garbage"   // bytes that are no message
	Huge      Act = "huge"      // a message of gigabytes
	Closes    Act = "closes"    // ends the connection
	Mute      Act = "mute"      // does not even authenticate
	Rejects   Act = "rejects"   // the authentication
	Unrelated Act = "unrelated" // as Starts, after many signals that are about something else
)

// Ask is what has been asked for.
type Ask struct {
	Unit, Mode string
	Properties map[string]any
	PID        int // who asked
}

// Manager is one that listens.
type Manager struct {
	Socket string
	act    Act
	move   func(pid int, unit string) error
	listen *net.UnixListener
	wg     sync.WaitGroup

	mu    sync.Mutex
	asked []Ask
	conns []net.Conn
	err   error
}

// Listen has a manager listen at a socket in dir. It moves who asks with move.
func Listen(dir string, act Act, move func(pid int, unit string) error) (*Manager, error) {
	m := &Manager{Socket: filepath.Join(dir, "private"), act: act, move: move}
	var err error
	if m.listen, err = net.ListenUnix("unix", &net.UnixAddr{Name: m.Socket, Net: "unix"}); err != nil {
		return nil, err
	}
	m.wg.Add(1)
	go m.serve()
	return m, nil
}

func (m *Manager) serve() {
	defer m.wg.Done()
	for {
		c, err := m.listen.AcceptUnix()
		if err != nil {
			return
		}
		m.mu.Lock()
		m.conns = append(m.conns, c)
		m.mu.Unlock()
		m.wg.Add(1)
		go func() {
			defer m.wg.Done()
			defer c.Close()
			if err := m.talk(c); !left(err) {
				m.mu.Lock()
				m.err = errors.Join(m.err, err)
				m.mu.Unlock()
			}
		}()
	}
}

// left reports whether an error of talk's is but the end of the connection, at either end.
func left(err error) bool {
	return slices.ContainsFunc([]error{io.EOF, net.ErrClosed, unix.EPIPE, unix.ECONNRESET}, func(end error) bool { return errors.Is(err, end) })
}

// Close ends it, and returns what it has been asked for, and what it found wrong with that.
func (m *Manager) Close() ([]Ask, error) {
	m.listen.Close()
	m.mu.Lock()
	for _, c := range m.conns {
		c.Close()
	}
	m.mu.Unlock()
	m.wg.Wait()
	return m.asked, m.err
}

// authenticate is the server's side of the D-Bus Specification's Authentication Protocol.
func (m *Manager) authenticate(c net.Conn, in *bufio.Reader) error {
	if b, err := in.ReadByte(); err != nil || b != 0 {
		return fmt.Errorf("the first byte is %d (%w)", b, err)
	}
	line, err := in.ReadString('\n')
	want := "AUTH EXTERNAL " + hex.EncodeToString([]byte(strconv.Itoa(os.Geteuid()))) + "\r\n"
	if err != nil || line != want {
		return fmt.Errorf("it authenticates by %q (%w)", line, err)
	}
	switch m.act {
	case Mute:
		_, err := in.ReadByte() // the end
		return err
	case Rejects:
		_, err := io.WriteString(c, "REJECTED EXTERNAL\r\n")
		return err
	}
	if _, err := io.WriteString(c, "OK 0123456789abcdef0123456789abcdef\r\n"); err != nil {
		return err
	}
	if line, err = in.ReadString('\n'); err != nil || line != "BEGIN\r\n" {
		return fmt.Errorf("it begins by %q (%w)", line, err)
	}
	return nil
}

// talk answers until the connection ends, which is an error, too.
func (m *Manager) talk(c *net.UnixConn) error {
	pid, err := peer(c)
	if err != nil {
		return err
	}
	in := bufio.NewReader(c)
	if err := m.authenticate(c, in); err != nil {
		return err
	}
	for {
		msg, err := dbus.DecodeMessage(in)
		if err != nil {
			return err
		}
		if err := msg.IsValid(); err != nil {
			return err
		}
		if err := m.answer(c, msg, pid); err != nil {
			return err
		}
	}
}

func peer(c *net.UnixConn) (pid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	failed := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(failed, err); err != nil {
		return 0, err
	}
	return int(cred.Pid), nil
}

const job = dbus.ObjectPath("/org/freedesktop/systemd1/job/7")

// Property is one of a unit.
type Property struct {
	Name  string
	Value dbus.Variant
}

// Auxiliary is another unit that comes with it.
type Auxiliary struct {
	Name       string
	Properties []Property
}

func (m *Manager) answer(c net.Conn, msg *dbus.Message, pid int) error {
	const known = `@o "/org/freedesktop/systemd1" "org.freedesktop.systemd1.Manager" "StartTransientUnit" "org.freedesktop.systemd1"`
	h := msg.Headers
	if got := fmt.Sprint(h[dbus.FieldPath], h[dbus.FieldInterface], h[dbus.FieldMember], h[dbus.FieldDestination]); got != known {
		return reply(c, msg, dbus.TypeError, "org.freedesktop.DBus.Error.UnknownMethod", "nobody knows "+got)
	}
	ask := Ask{PID: pid, Properties: map[string]any{}}
	var properties []Property
	var others []Auxiliary
	if err := dbus.Store(msg.Body, &ask.Unit, &ask.Mode, &properties, &others); err != nil {
		return err
	}
	for _, p := range properties {
		ask.Properties[p.Name] = p.Value.Value()
	}
	m.mu.Lock()
	m.asked = append(m.asked, ask)
	m.mu.Unlock()
	return m.do(c, msg, ask)
}

// do does what the manager does.
func (m *Manager) do(c net.Conn, msg *dbus.Message, ask Ask) error {
	var out error
	switch m.act {
	case Refuses:
		return reply(c, msg, dbus.TypeError, "org.freedesktop.DBus.Error.AccessDenied", "Permission denied")
	case Silent:
		return nil
	case Garbage:
		_, err := c.Write(bytes.Repeat([]byte("what?"), 20))
		return err
	case Huge:
		_, err := c.Write([]byte{'l', 2, 0, 1, 0, 0, 0, 0x7f, 1, 0, 0, 0, 0, 0, 0, 0})
		return err
	case Closes:
		return io.EOF
	case Unrelated:
		for i := range 200 {
			out = errors.Join(out, tell(c, "UnitNew", strings.Repeat("x", i)+".service", job),
				tell(c, "JobRemoved", uint32(i), job, "run-nsrun-0.scope", "failed"))
		}
	}
	if err := errors.Join(out, reply(c, msg, dbus.TypeMethodReply, "", job)); err != nil || m.act == Undone {
		return err
	}
	result := "done"
	if m.act == Fails {
		result = "failed"
	} else if m.act != Lies {
		if err := m.move(ask.PID, ask.Unit); err != nil {
			result = "failed"
		}
	}
	return tell(c, "JobRemoved", uint32(7), job, ask.Unit, result)
}

func reply(c net.Conn, to *dbus.Message, kind dbus.Type, name string, body ...any) error {
	headers := map[dbus.HeaderField]dbus.Variant{dbus.FieldReplySerial: dbus.MakeVariant(to.Serial())}
	if name != "" {
		headers[dbus.FieldErrorName] = dbus.MakeVariant(name)
	}
	return send(c, kind, headers, body)
}

func tell(c net.Conn, member string, body ...any) error {
	return send(c, dbus.TypeSignal, map[dbus.HeaderField]dbus.Variant{
		dbus.FieldPath:      dbus.MakeVariant(dbus.ObjectPath("/org/freedesktop/systemd1")),
		dbus.FieldInterface: dbus.MakeVariant("org.freedesktop.systemd1.Manager"), dbus.FieldMember: dbus.MakeVariant(member)}, body)
}

func send(c net.Conn, kind dbus.Type, headers map[dbus.HeaderField]dbus.Variant, body []any) error {
	headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(body...))
	var b bytes.Buffer
	if err := (&dbus.Message{Type: kind, Headers: headers, Body: body}).EncodeTo(&b, binary.LittleEndian); err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(b.Bytes()[8:], 1) // a serial number, which the library keeps to its own connections
	_, err := c.Write(b.Bytes())
	return err
}

// Mover moves processes to new groups in a directory of a cgroup tree of version 2.
type Mover struct {
	Dir  string // of the tree
	made []string
}

// Move is what [Listen] takes.
func (m *Mover) Move(pid int, unit string) error {
	dir := filepath.Join(m.Dir, unit)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	m.made = append(m.made, dir)
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// Undo moves the caller back to where it was, a directory, and removes what was made, which a manager does when a scope's last process
// has ended. It fails if somebody has left something there.
func (m *Mover) Undo(back string) (err error) {
	for _, dir := range m.made {
		err = errors.Join(err, os.WriteFile(filepath.Join(back, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0), remove(dir))
	}
	m.made = nil
	return err
}

// remove removes a group, which is busy for a moment when its last process has just left it.
func remove(dir string) (err error) {
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if err = os.Remove(dir); !errors.Is(err, unix.EBUSY) || time.Now().After(end) {
			return err
		}
	}
}
