package nethost

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// relay carries a connection between the sandbox and the host.
type relay struct {
	server       *Server
	client, host *net.TCPConn
	name         *reached
	last         atomic.Int64 // when something was carried, as Unix nanoseconds
	looking      sync.Mutex
	taken        int64      // bytes that both ends had taken when idle looked last
	writing      sync.Mutex // is held to write to the client
	aborted      atomic.Bool
	spent        atomic.Bool // the cap on the name's bytes is reached
	tap          atomic.Pointer[tap]
	downEnded    chan struct{}
}

func (s *Server) newRelay(client, host *net.TCPConn, name *reached) *relay {
	r := &relay{server: s, client: client, host: host, name: name, downEnded: make(chan struct{})}
	r.touch()
	return r
}

func (r *relay) touch() { r.last.Store(time.Now().UnixNano()) }

// idle reports whether nothing has moved for as long as a connection may be idle. What the kernel still has to send moves when an end takes any of it.
// It is called at each tick.
func (r *relay) idle() bool {
	r.looking.Lock()
	defer r.looking.Unlock()
	taken := int64(0)
	for _, c := range []*net.TCPConn{r.client, r.host} {
		if info := tcpInfo(c); info != nil {
			taken += int64(info.Bytes_acked)
		}
	}
	if taken != r.taken {
		r.taken = taken
		r.touch()
	}
	return time.Since(time.Unix(0, r.last.Load())) > r.server.idle
}

// abort ends both connections by a reset.
func (r *relay) abort() {
	if !r.aborted.Swap(true) {
		reset(r.host)
		reset(r.client)
	}
}

// run carries both ways until both have ended. up carries what the client sends.
func (r *relay) run(up func() error) {
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(r.downEnded)
		r.finish(r.client, r.down())
	})
	r.finish(r.host, up())
	select {
	case <-r.downEnded:
	case <-r.server.ending:
		r.leave()
	}
	wg.Wait()
}

// leave ends both connections, whose client has gone, but for what is on its way to the host.
func (r *relay) leave() {
	if !r.aborted.Swap(true) {
		r.host.Close()
		r.client.Close()
	}
}

// finish passes the end of a direction on to where it led.
func (r *relay) finish(to *net.TCPConn, err error) {
	if errors.Is(err, errSpent) {
		r.spent.Store(true)
	}
	if err != nil || to.CloseWrite() != nil {
		r.abort()
	}
}

// down carries what the host sends.
func (r *relay) down() error {
	return r.carry(r.client, r.host, &r.name.received, &r.writing)
}

// up carries what the client sends, without looking at it.
func (r *relay) up() error {
	return r.carry(r.host, r.client, &r.name.sent, nil)
}

// errIdle ends a connection on which nothing has moved for too long; errSpent one whose name has used its bytes up.
var (
	errIdle  = errors.New("idle")
	errSpent = errors.New("the cap on bytes is reached")
)

// carry moves bytes from src to dst until src ends. It holds lock, if there is one, while it writes.
func (r *relay) carry(dst, src *net.TCPConn, count *atomic.Int64, lock *sync.Mutex) error {
	in, err := newStream(src)
	if err != nil {
		return err
	}
	for {
		b, err := in.next(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if t := r.tap.Load(); t != nil && dst == r.client {
			t.look(r, b.read)
		}
		err = r.write(dst, b.read, count, lock)
		b.release()
		if err != nil {
			return err
		}
	}
}

// write writes b and counts it. It goes on for as long as dst takes anything.
func (r *relay) write(dst *net.TCPConn, b []byte, count *atomic.Int64, lock *sync.Mutex) error {
	if lock != nil {
		lock.Lock()
		defer lock.Unlock()
	}
	for waited := false; ; {
		_ = dst.SetWriteDeadline(time.Now().Add(r.server.idle / 2)) // in time for the other direction, which would end an idle connection
		n, err := dst.Write(b)
		if count.Add(int64(n)); n > 0 {
			r.touch()
		}
		if b = b[n:]; !isTimeout(err) || r.aborted.Load() || n == 0 && waited {
			return err
		}
		waited = n == 0
	}
}

// await waits until there is something to read, or the connection has been idle for too long.
func (r *relay) await(w *waiter) error {
	for {
		err := w.wait(time.Now().Add(r.server.tick))
		if !isTimeout(err) {
			return err
		}
		if r.idle() {
			return errIdle
		}
	}
}

// socket is a TCP or UDP socket that can be waited for.
type socket interface {
	syscall.Conn
	SetReadDeadline(time.Time) error
}

// waiter waits for bytes without a buffer for them.
type waiter struct {
	socket socket
	raw    syscall.RawConn
}

func newWaiter(c socket) (*waiter, error) {
	raw, err := c.SyscallConn()
	return &waiter{c, raw}, err
}

// wait returns nil if there are bytes to read, or the end, and otherwise the socket's error: the kernel reports an error once.
func (w *waiter) wait(until time.Time) error {
	if err := w.socket.SetReadDeadline(until); err != nil {
		return err
	}
	var failed error
	err := w.raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, failed = unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return !errors.Is(failed, unix.EAGAIN) && !errors.Is(failed, unix.EINTR)
	})
	if err != nil {
		return err
	}
	return failed
}

// isTimeout reports whether an error is that of a deadline.
func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
