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

const (
	bufferSize = 32 << 10 // of a direction that has something to carry; one that waits has none
	// splices is how many directions move data by splice(2) at once. Each holds a pipe of up to 1 MiB, and the kernel lets a user have 64 MiB
	// in pipes before it makes the user's further pipes small (pipe(7), pipe-user-pages-soft): most must stay with the user's other programs.
	splices    = 12
	spliceTurn = 50 * time.Millisecond // after which a direction gives its turn to another one
	spliceSize = 16 << 20
)

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// relay carries a connection between the sandbox and the host.
type relay struct {
	server       *Server
	client, host *net.TCPConn
	name         *reached
	last         atomic.Int64 // when something was carried, as Unix nanoseconds
	writing      sync.Mutex   // by whoever writes to the client
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
	wg.Wait()
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
	wait, err := newWaiter(src)
	if err != nil {
		return err
	}
	for {
		if err := r.await(wait); err != nil {
			return err
		}
		n, err := r.move(dst, src, count, lock)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case n == bufferSize && r.tap.Load() == nil:
			err = r.splice(dst, src, count, lock)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// move reads once and writes what it has read.
func (r *relay) move(dst, src *net.TCPConn, count *atomic.Int64, lock *sync.Mutex) (int, error) {
	room := r.name.room(r.server.caps.Bytes)
	if room == 0 {
		return 0, errSpent
	}
	b := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(b)
	n, err := src.Read(b[:min(room, bufferSize)])
	if n == 0 {
		return 0, err
	}
	if t := r.tap.Load(); t != nil && dst == r.client {
		t.look(r, b[:n])
	}
	return n, r.write(dst, b[:n], count, lock)
}

// write writes b and counts it.
func (r *relay) write(dst *net.TCPConn, b []byte, count *atomic.Int64, lock *sync.Mutex) error {
	if lock != nil {
		lock.Lock()
		defer lock.Unlock()
	}
	_ = dst.SetWriteDeadline(time.Now().Add(r.server.idle))
	n, err := dst.Write(b)
	count.Add(int64(n))
	r.touch()
	return err
}

// splice moves what src has by splice(2), if there is a turn left, until src has nothing more or the turn is over.
func (r *relay) splice(dst, src *net.TCPConn, count *atomic.Int64, lock *sync.Mutex) error {
	select {
	case r.server.splices <- struct{}{}:
		defer func() { <-r.server.splices }()
	default:
		return nil
	}
	room := min(r.name.room(r.server.caps.Bytes), spliceSize)
	if room == 0 {
		return errSpent
	}
	if lock != nil {
		lock.Lock()
		defer lock.Unlock()
	}
	now := time.Now()
	_ = src.SetReadDeadline(now.Add(spliceTurn))
	_ = dst.SetWriteDeadline(now.Add(r.server.idle))
	n, err := io.CopyN(dst, src, room)
	count.Add(n)
	r.touch()
	// A deadline can cut a read, but no write: after a failed write there may be bytes in the pipe.
	if isTimeout(err) && time.Since(now) < r.server.idle {
		return nil
	}
	return err
}

// await waits until there is something to read, or the connection has been idle for too long.
func (r *relay) await(w *waiter) error {
	for {
		err := w.wait(time.Now().Add(r.server.tick))
		if !isTimeout(err) {
			return err
		}
		if time.Since(time.Unix(0, r.last.Load())) > r.server.idle {
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
