package nethost

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The sizes of a buffer of a direction that has something to carry; one that waits has none. splice(2) instead of a buffer has been measured: it takes
// no less CPU time from loopback to loopback, and each pipe of 1 MiB counts against what the kernel lets the user have in pipes
// (pipe-user-pages-soft, pipe(7)).
const (
	bufferSize = 32 << 10
	largeSize  = 1 << 20 // of a direction that has filled its buffer before: a fifth faster than 256 KiB from loopback to loopback
	mostLarge  = 32      // at once, whatever the number of connections: who does not read holds one
)

var (
	buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}
	larges  = sync.Pool{New: func() any { return new([largeSize]byte) }}
	large   = make(chan struct{}, mostLarge)
)

// buffer is one of a pool. Its first bytes were read.
type buffer struct {
	small *[bufferSize]byte
	large *[largeSize]byte
	read  []byte
}

// newBuffer takes a large buffer if one is wanted and there may be one more.
func newBuffer(wantLarge bool) buffer {
	if wantLarge {
		select {
		case large <- struct{}{}:
			b := buffer{large: larges.Get().(*[largeSize]byte)}
			b.read = b.large[:]
			return b
		default:
		}
	}
	b := buffer{small: buffers.Get().(*[bufferSize]byte)}
	b.read = b.small[:]
	return b
}

func (b *buffer) release() {
	if b.large != nil {
		larges.Put(b.large)
		<-large
	}
	if b.small != nil {
		buffers.Put(b.small)
	}
	*b = buffer{}
}

// stream is a connection that is read as fast as it comes.
type stream struct {
	conn  *net.TCPConn
	raw   syscall.RawConn
	until time.Time // the deadline that is set
	full  bool      // the last read has filled its buffer
}

func newStream(c *net.TCPConn) (*stream, error) {
	raw, err := c.SyscallConn()
	return &stream{conn: c, raw: raw}, err
}

// next waits for bytes and reads them. The caller releases the buffer. [io.EOF] is the end of the connection, errIdle and errSpent are its caps.
func (s *stream) next(r *relay) (b buffer, err error) {
	for {
		if now := time.Now(); s.until.Sub(now) < r.server.tick/2 { // to set a deadline takes longer than to read
			s.until = now.Add(r.server.tick)
			if err := s.conn.SetReadDeadline(s.until); err != nil {
				return b, err
			}
		}
		n, failed := 0, error(nil)
		room := r.name.room(r.server.caps.Bytes)
		err = s.raw.Read(func(fd uintptr) bool {
			b = newBuffer(s.full)
			b.read = b.read[:max(min(int64(len(b.read)), room), 1)]
			n, failed = unix.Read(int(fd), b.read) // which no signal interrupts: it does not wait
			if errors.Is(failed, unix.EAGAIN) {
				b.release()
				return false
			}
			return true
		})
		switch {
		case isTimeout(err):
			if s.until = (time.Time{}); r.idle() {
				return b, errIdle
			}
			continue
		case err == nil && failed == nil && n > 0 && room > 0:
			s.full, b.read = n >= bufferSize, b.read[:n]
			return b, nil
		}
		b.release()
		switch {
		case err != nil || failed != nil:
			return b, errors.Join(err, failed)
		case n == 0:
			return b, io.EOF
		}
		return b, errSpent
	}
}
