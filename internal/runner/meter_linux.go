package runner

import (
	"errors"
	"io"
	"os"
	"sync"

	"github.com/nsrun/nsrun/internal/backend"
	"golang.org/x/sys/unix"
)

// meter is a stream of a process's that its owner reads, to an end after so many bytes.
type meter struct {
	file   *os.File
	most   int64
	excess func() // called once when there is more

	mu   sync.Mutex
	read int64
}

func (p *Process) bound(most int64, excess func()) {
	for i, stream := range []*io.ReadCloser{&p.Stdout, &p.Stderr} {
		if *stream != nil {
			p.meters[i] = &meter{file: (*stream).(*os.File), most: most, excess: excess}
			*stream = p.meters[i]
		}
	}
}

// Read is that of [io.Reader].
func (m *meter) Read(b []byte) (n int, err error) {
	conn, err := m.file.SyscallConn()
	if err != nil || len(b) == 0 {
		return 0, err
	}
	var failed error
	err = conn.Read(func(fd uintptr) bool {
		n, failed = m.take(int(fd), b)
		return !errors.Is(failed, unix.EAGAIN)
	})
	switch {
	case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
		err = os.ErrClosed // the poller has an error of its own for that
	case err == nil:
		err = failed
	}
	if err != nil { // as of os.File
		return n, &os.PathError{Op: "read", Path: m.file.Name(), Err: err}
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// take reads once what is there, as far as it may be read. No byte is the end.
func (m *meter) take(fd int, b []byte) (n int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.read > m.most {
		return 0, nil
	}
	for {
		if n, err = unix.Read(fd, b); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return 0, err
	}
	before := m.read
	if m.read += int64(n); m.read > m.most {
		m.excess()
		n = int(m.most - before)
	}
	return n, nil
}

// Close is that of [io.Closer].
func (m *meter) Close() error { return m.file.Close() }

// over reports whether there was too much, read or not.
func (m *meter) over() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	unread := 0
	if conn, err := m.file.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { unread, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	return m.read+int64(unread) > m.most
}

// metered says where there was too much, as the backend does for a single run.
func (p *Process) metered() (out [2]backend.Passed) {
	for i, m := range p.meters {
		if m != nil && m.over() {
			out[i] = backend.Passed{Counted: true, Bytes: m.most, Over: true}
		}
	}
	return out
}
