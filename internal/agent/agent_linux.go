package agent

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Messages (draft-ietf-sshm-ssh-agent, section 7.1).
const (
	failure           = 5  // SSH_AGENT_FAILURE
	requestIdentities = 11 // SSH_AGENTC_REQUEST_IDENTITIES
	signRequest       = 13 // SSH_AGENTC_SIGN_REQUEST
)

// longest is how long a message may be: OpenSSH's agent takes no longer one (AGENT_MAX_LEN).
const longest = 256 << 10

// mostClients is how many connections are served at once. Others wait.
const mostClients = 16

// Filter is a socket that is served until it is closed.
type Filter struct {
	host     string
	listener *os.File
	done     sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	clients map[*os.File]bool // of both sides
}

// Start makes a socket of a name in dir, a directory that nobody else can reach, and serves it in goroutines. host is the path of the agent's socket, free of
// symlinks; it is connected to for each connection, so that an agent that was started anew is found.
func Start(dir, name, host string) (*Filter, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	listener, err := newSocket()
	if err != nil {
		return nil, err
	}
	at := fmt.Sprintf("/proc/self/fd/%d/%s", fd, name) // an address has room for 107 bytes (unix(7))
	err = os.NewSyscallError("bind", unix.Bind(listener, &unix.SockaddrUnix{Name: at}))
	if err == nil {
		err = errors.Join(os.NewSyscallError("chmod", unix.Fchmodat(fd, name, 0o600, 0)), os.NewSyscallError("listen", unix.Listen(listener, mostClients)))
	}
	if err != nil {
		unix.Close(listener)
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
	}
	f := &Filter{host: host, listener: os.NewFile(uintptr(listener), name), clients: map[*os.File]bool{}}
	f.done.Go(f.accept)
	return f, nil
}

// newSocket returns a socket that os.NewFile gives to Go's poller.
func newSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	return fd, os.NewSyscallError("socket", err)
}

// Close ends all connections, and returns when nothing is served any more. The socket's name is for its directory's owner to remove.
func (f *Filter) Close() {
	f.mu.Lock()
	f.closed = true
	f.listener.Close()
	for c := range f.clients {
		c.Close()
	}
	f.mu.Unlock()
	f.done.Wait()
}

// keep notes a connection, so that Close ends it. It closes one that comes too late.
func (f *Filter) keep(fd int) (*os.File, bool) {
	file := os.NewFile(uintptr(fd), "connection")
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		file.Close()
		return nil, false
	}
	f.clients[file] = true
	return file, true
}

func (f *Filter) drop(file *os.File) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.clients, file)
	file.Close()
}

// accept serves each connection in a goroutine.
func (f *Filter) accept() {
	conn, err := f.listener.SyscallConn()
	if err != nil {
		return
	}
	room := make(chan struct{}, mostClients)
	for {
		room <- struct{}{}
		fd := -1
		err := conn.Read(func(listener uintptr) bool {
			fd, _, err = unix.Accept4(int(listener), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
			return !errors.Is(err, unix.EAGAIN)
		})
		switch {
		case err != nil: // it is closed
			return
		case fd < 0: // the client is gone, or there are no descriptors
			<-room
			time.Sleep(10 * time.Millisecond)
			continue
		}
		client, ok := f.keep(fd)
		if !ok {
			return
		}
		f.done.Go(func() {
			defer func() { f.drop(client); <-room }()
			f.serve(client)
		})
	}
}

// serve answers a client until one of both ends.
func (f *Filter) serve(client *os.File) {
	fd, err := connect(f.host)
	if err != nil {
		return // as if the agent had ended
	}
	host, ok := f.keep(fd)
	if !ok {
		return
	}
	defer f.drop(host)
	// Requests are read ahead, to see that a client has ended while the agent asks its user: its place is for others then, and the question void.
	requests, over := make(chan []byte), make(chan struct{})
	f.done.Go(func() {
		defer close(requests)
		defer host.Close()
		for buf := make([]byte, 4+longest); ; {
			m, err := message(client, buf)
			if err != nil {
				return
			}
			select {
			case requests <- slices.Clone(m):
			case <-over:
				return
			}
		}
	})
	defer func() { close(over); client.Close() }()
	buf := make([]byte, 4+longest)
	for m := range requests {
		if relay(m, client, host, buf) != nil {
			return
		}
	}
}

// connect connects to a socket at a path without following a symlink.
func connect(name string) (int, error) {
	at, err := unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // before Linux 5.6, and in containers
		at, err = unix.Open(name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(at)
	fd, err := newSocket()
	if err != nil {
		return -1, err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d", at)}); err != nil {
		unix.Close(fd)
		return -1, &os.PathError{Op: "connect", Path: name, Err: err}
	}
	return fd, nil
}

// relay answers a request: one that lists or signs with what the host's agent says, and any other with a failure.
func relay(request []byte, client io.Writer, host io.ReadWriter, buf []byte) error {
	answer := []byte{0, 0, 0, 1, failure}
	if kind := request[4]; kind == requestIdentities && len(request) == 5 || kind == signRequest {
		if _, err := host.Write(request); err != nil {
			return err
		}
		var err error
		if answer, err = message(host, buf); err != nil {
			return err
		}
	}
	_, err := client.Write(answer)
	return err
}

// message reads one message into buf: four bytes of length, and what follows.
func message(from io.Reader, buf []byte) ([]byte, error) {
	if _, err := io.ReadFull(from, buf[:4]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(buf)
	if n == 0 || n > longest {
		return nil, fmt.Errorf("a message of %d bytes", n)
	}
	_, err := io.ReadFull(from, buf[4:4+n])
	return buf[:4+n], err
}
