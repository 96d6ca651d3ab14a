package runner

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nsrun/nsrun/internal/backend"
	"golang.org/x/sys/unix"
)

// meter reads one stream of a command's to its end, in constant memory: it counts the bytes, and passes on or collects as many as it may.
type meter struct {
	stream   int // 0 is standard output, which may be both
	from     *backend.End
	to       io.Writer // nil to collect
	closes   bool      // to, at the end
	collects int64     // at most; the rest is thrown away
	limit    int64     // more than this is too much; 0 is no bound
	exceeded func()    // called once when it is

	mu     sync.Mutex   // from a read to what is made of it
	inHand int64        // what was read, and is not in total yet
	total  atomic.Int64 // what has come
	kept   []byte
	lost   string        // why to, a file, did not take the rest
	failed error         // of to
	late   bool          // the stream was still open when it was to be finished
	over   bool          // there is no more
	done   chan struct{} // closed when the goroutine that reads has come to the end
}

// buffers are what streams are read into. A writer of the caller's gets no more at once.
var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

func (m *meter) start() {
	m.done = make(chan struct{})
	m.from.File() // before another goroutine may close it
	go func() {
		defer close(m.done)
		if m.closes {
			defer m.to.(io.Closer).Close()
		}
		b := buffers.Get().(*[]byte)
		defer buffers.Put(b)
		for m.read(*b, true) {
		}
	}()
}

// read reads from the stream once, and reports whether there may be more. With wait it waits for data, until the deadline of from.
func (m *meter) read(b []byte, wait bool) bool {
	var n int
	var failed error
	try := func(fd uintptr) bool {
		n, failed = m.fetch(fd, b)
		return !wait || !errors.Is(failed, unix.EAGAIN)
	}
	var err error
	if !wait {
		err = m.from.Control(func(fd uintptr) { try(fd) })
	} else if conn, failed := m.from.File().SyscallConn(); failed != nil {
		err = failed
	} else {
		err = conn.Read(try)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		m.late = true
		m.rest(b)
		m.over = true
	case err == nil && (errors.Is(failed, unix.EAGAIN) || errors.Is(failed, unix.EINTR)):
	case err != nil || n <= 0: // a terminal whose last process is gone says EIO
		m.over = true
	default:
		m.over = !m.take(b[:n])
	}
	return !m.over
}

// fetch reads what is there. It is counted from now on: see seen.
func (m *meter) fetch(fd uintptr, b []byte) (n int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err = unix.Read(int(fd), b)
	m.inHand = int64(max(n, 0))
	return n, err
}

// take collects or passes on what was read, and reports whether more is wanted.
func (m *meter) take(b []byte) bool {
	before := m.passed(0)
	m.mu.Lock()
	m.total.Add(int64(len(b)))
	m.inHand = 0
	m.mu.Unlock()
	over := m.passed(0).Over
	if over {
		if !before.Over {
			m.exceeded()
		}
		b = b[:m.limit-before.Bytes] // nobody gets more, however long the command takes to be killed
	}
	if m.to == nil {
		m.kept = append(m.kept, b[:min(int64(len(b)), m.collects-int64(len(m.kept)))]...)
		return true
	}
	n, err := m.to.Write(b)
	if err == nil {
		return !m.closes || !over // the reader sees the end then
	}
	if f, ok := m.to.(*os.File); ok && plainFile(f) { // which the command, whose write has succeeded, cannot say
		m.total.Store(before.Bytes + int64(n))
		m.lost = cause(err)
	}
	if !errors.Is(err, io.ErrClosedPipe) {
		m.failed = err
	}
	m.from.Close() // as a program's that writes into a pipe which nobody reads
	return false
}

// cause is what went wrong with a file, without its name.
func cause(err error) string {
	var e *os.PathError
	if errors.As(err, &e) {
		err = e.Err
	}
	return err.Error()
}

// seen is passed with all that the command has written, while another goroutine may be reading.
func (m *meter) seen() backend.Passed {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.passed(m.inHand + m.unread())
}

// passed returns what has come, with bytes that are not counted yet, up to the limit.
func (m *meter) passed(unread int64) backend.Passed {
	p := backend.Passed{Counted: true, Bytes: m.total.Load() + unread, Lost: m.lost}
	if m.limit > 0 && p.Bytes > m.limit {
		p.Bytes, p.Over = m.limit, true
	}
	return p
}

func (m *meter) truncated() bool { return m.to == nil && m.total.Load() > int64(len(m.kept)) }

// unread returns how many bytes of the stream have not been read.
func (m *meter) unread() (n int64) {
	_ = m.from.Control(func(fd uintptr) { lies, _ := unix.IoctlGetInt(int(fd), unix.TIOCINQ); n = int64(lies) })
	return n
}

// finish waits until all is read that the command has written. What it has left running may hold the stream open, and write on: that is
// not waited for.
func (m *meter) finish(until time.Time) {
	if m.done == nil && !m.over {
		if time.Now().After(until) {
			b := buffers.Get().(*[]byte)
			defer buffers.Put(b)
			m.rest(*b)
			return
		}
		m.start()
	}
	if m.done != nil {
		_ = m.from.File().SetReadDeadline(until)
		<-m.done
	}
}

// rest takes what lies in the pipe, which is at most what one holds.
func (m *meter) rest(b []byte) {
	const most = 1 << 20 // /proc/sys/fs/pipe-max-size, as a rule
	for begin, before := m.total.Load(), int64(-1); before < m.total.Load() && m.total.Load()-begin < most; {
		before = m.total.Load()
		if !m.read(b, false) {
			return
		}
	}
}
