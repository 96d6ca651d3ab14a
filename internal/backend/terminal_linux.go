package backend

import (
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Terminal connects this process's terminal, or whatever files its standard descriptors are, with the command's terminal.
type Terminal struct {
	In, Out *os.File

	mu     sync.Mutex
	master *os.File
	state  *term.State
	done   chan struct{} // closed when all output is copied
}

// attach takes the master of the command's terminal and starts to copy.
func (t *Terminal) attach(fd int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = unix.SetNonblock(fd, true) // so that os.File waits for it in Go's poller, and Close ends the copies
	t.master = os.NewFile(uintptr(fd), "terminal")
	t.done = make(chan struct{})
	t.copySize()
	if term.IsTerminal(int(t.In.Fd())) {
		t.state, _ = term.MakeRaw(int(t.In.Fd())) // without raw mode it still works, but echoes twice
	}
	go func() {
		_, _ = io.Copy(t.Out, t.master) // ends with EIO when the last process has closed the other end: pty(7)
		close(t.done)
	}()
	go func() {
		if _, err := io.Copy(t.master, t.In); err == nil {
			_, _ = t.master.Write([]byte{4}) // end of input is ^D to a terminal in its usual mode
		}
	}()
}

// resize copies the size of this process's terminal to the command's.
func (t *Terminal) resize() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.copySize()
}

// copySize is resize without the lock.
func (t *Terminal) copySize() {
	if t.master == nil {
		return
	}
	if ws := t.size(); ws != nil {
		if conn, err := t.master.SyscallConn(); err == nil {
			_ = conn.Control(func(fd uintptr) { _ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, ws) })
		}
	}
}

// size returns the size of this process's terminal, or nil if it has none.
func (t *Terminal) size() *unix.Winsize {
	for _, f := range []*os.File{t.In, t.Out} {
		if ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
			return ws
		}
	}
	return nil
}

// finish waits until the output is copied, and restores the mode of this process's terminal.
func (t *Terminal) finish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.master == nil {
		return
	}
	<-t.done
	t.master.Close()
	if t.state != nil {
		_ = term.Restore(int(t.In.Fd()), t.state)
	}
}
