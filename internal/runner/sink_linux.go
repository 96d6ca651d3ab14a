package runner

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// sink reads one stream of a command's to its end, whatever becomes of it, in constant memory.
type sink struct {
	from   *os.File
	to     io.Writer // nil to keep
	closes bool      // to, at the end
	limit  int64
	kept   []byte
	total  atomic.Int64
	most   int64         // more than this is too much; 0 is no bound
	excess func()        // called once when it is
	lost   string        // why to, a file, did not take the rest
	failed error         // of to
	late   bool          // the stream was still open when it was to be finished
	over   bool          // there is no more
	done   chan struct{} // closed when the goroutine that reads has come to the end
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

func (k *sink) start() {
	k.done = make(chan struct{})
	go func() {
		defer close(k.done)
		if k.closes {
			defer k.to.(io.Closer).Close()
		}
		b := buffers.Get().(*[]byte)
		defer buffers.Put(b)
		for {
			n, err := k.from.Read(*b)
			if n > 0 && !k.take((*b)[:n]) {
				return
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				k.late = true
				k.rest(*b)
				return
			}
			if err != nil { // a terminal whose last process is gone says EIO
				return
			}
		}
	}()
}

// take keeps or passes on what was read, and reports whether there is somebody for more.
func (k *sink) take(b []byte) bool {
	before := k.total.Load()
	k.total.Add(int64(len(b)))
	if k.excessive() {
		if before <= k.most {
			k.excess()
		}
		b = b[:max(k.most-before, 0)] // nobody gets more, however long the command takes to be killed
	}
	if k.to != nil {
		if n, err := k.to.Write(b); err != nil {
			if f, ok := k.to.(*os.File); ok && plainFile(f) { // which the command, whose write has succeeded, cannot say
				k.total.Store(before + int64(n))
				k.lost = cause(err)
			}
			if !errors.Is(err, io.ErrClosedPipe) {
				k.failed = err
			}
			k.from.Close() // as a program's that writes into a pipe which nobody reads
			return false
		}
		return !k.closes || !k.excessive() // the reader sees the end then
	}
	if sandbox := k.limit - int64(len(k.kept)); sandbox > 0 {
		k.kept = append(k.kept, b[:min(int64(len(b)), sandbox)]...)
	}
	return true
}

// cause is what went wrong with a file, without its name.
func cause(err error) string {
	var e *os.PathError
	if errors.As(err, &e) {
		err = e.Err
	}
	return err.Error()
}

func (k *sink) excessive() bool { return k.most > 0 && k.total.Load() > k.most }

func (k *sink) truncated() bool { return k.to == nil && k.total.Load() > int64(len(k.kept)) }

// finish waits until all is read that the command has written. What it has left running may hold the stream open, and write on: that is
// not waited for.
func (k *sink) finish(until time.Time) {
	switch {
	case k.over:
	case k.done == nil && time.Now().After(until):
		b := buffers.Get().(*[]byte)
		defer buffers.Put(b)
		k.rest(*b)
	default:
		if k.done == nil {
			k.start()
		}
		_ = k.from.SetReadDeadline(until)
		<-k.done
	}
}

// some takes what lies in the pipe, once, and reports whether there may be more.
func (k *sink) some(b []byte) bool {
	n, err := 0, error(nil)
	conn, failed := k.from.SyscallConn()
	if failed == nil {
		failed = conn.Control(func(fd uintptr) { n, err = unix.Read(int(fd), b) })
	}
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return true
	}
	if failed != nil || n <= 0 || !k.take(b[:n]) {
		k.over = true
	}
	return !k.over
}

// rest takes what lies in the pipe, which is at most what one holds.
func (k *sink) rest(b []byte) {
	const most = 1 << 20 // /proc/sys/fs/pipe-max-size, as a rule
	for begin := k.total.Load(); k.total.Load()-begin < most; {
		before := k.total.Load()
		if !k.some(b) || k.total.Load() == before {
			return
		}
	}
}

// unread is how much lies in the pipe.
func (k *sink) unread() (n int64) {
	if conn, err := k.from.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { lies, _ := unix.IoctlGetInt(int(fd), unix.TIOCINQ); n = int64(lies) })
	}
	return n
}
