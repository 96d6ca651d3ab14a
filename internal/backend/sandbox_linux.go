package backend

import (
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/rlimit/cgroup"
	"golang.org/x/sys/unix"
)

// Errors of [Sandbox.Start] when the sandbox ends.
var (
	ErrSandboxEnded = errors.New("the sandbox has ended")                                                            // the command has not run
	ErrLost         = errors.New("the sandbox has ended while the command was started, which may have begun to run") // the command may have run, and is dead
)

// Sandbox is an open sandbox, seen by its owner. Its methods may be called at the same time.
type Sandbox struct {
	Plan *plan.Plan
	Info Info
	// Home is the caller's home directory, for a plan that explains.
	Home string
	// Terminate ends the sandbox because one command cannot be killed on its own. A caller may replace it before the first command is
	// started, by a function that calls [Sandbox.Kill].
	Terminate func()

	pidfd  *os.File
	socket *os.File
	net    *Network      // ends with the sandbox
	done   chan struct{} // closed when the sandbox has ended
	turn   chan struct{} // holds a token, so that requests are sent one at a time

	mu       sync.Mutex
	group    *cgroup.Group   // the sandbox's cgroup; nil if it has none or has ended
	evidence cgroup.Evidence // the cgroup's last counters
}

// NewSandbox takes over the descriptors of an open sandbox, and its network.
func NewSandbox(p *plan.Plan, info Info, socket, pidfd int, net *Network) *Sandbox {
	_ = unix.SetNonblock(pidfd, true) // Go's poller takes only non-blocking descriptors; the socket stays out of it: see [End]
	s := &Sandbox{Plan: p, Info: info, pidfd: os.NewFile(uintptr(pidfd), "pidfd"), socket: os.NewFile(uintptr(socket), "requests"), net: net,
		done: make(chan struct{}), turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	s.Terminate = s.Kill
	s.group, _ = cgroup.Attach(info.Cgroups) // an error means that the cgroup is gone already
	go s.watch()
	return s
}

// watch waits for the end of pid 1, which comes after that of all others (pid_namespaces(7)), or of the subreaper, and then releases
// everything.
func (s *Sandbox) watch() {
	if conn, err := s.pidfd.SyscallConn(); err == nil {
		_ = conn.Read(func(fd uintptr) bool {
			ended, err := await(int(fd), 0)
			return ended || err != nil
		})
		// Its parent, if that is another process, has yet to reap it, which takes microseconds. After that no trace of the sandbox is left.
		for range 200 {
			reaped := false
			_ = conn.Control(func(fd uintptr) { reap(int(fd)); reaped = unix.PidfdSendSignal(int(fd), 0, nil, 0) != nil })
			if reaped {
				break
			}
			time.Sleep(time.Millisecond / 2)
		}
	}
	s.net.End()
	s.socket.Close()
	s.pidfd.Close()
	s.mu.Lock()
	group := s.group
	s.evidence, s.group = group.Read(), nil
	s.mu.Unlock()
	_ = group.Remove() // if that fails, a later run removes it
	close(s.done)
}

// Network returns what serves the sandbox's network: nil where nothing has to.
func (s *Sandbox) Network() *Network { return s.net }

// Evidence returns the counters of the sandbox's cgroup, or their last values once the sandbox has ended.
func (s *Sandbox) Evidence() cgroup.Evidence {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.group == nil {
		return s.evidence
	}
	return s.group.Read()
}

// Scoped reports whether one command and everything that it has started can be killed without the rest: see [Process.Kill].
func (s *Sandbox) Scoped() bool { return s.Plan.Scoped() }

// Done is closed when no process of the sandbox is alive.
func (s *Sandbox) Done() <-chan struct{} { return s.done }

// Kill ends every process of the sandbox. It does not wait: see [Sandbox.Done].
func (s *Sandbox) Kill() {
	if !s.Plan.Bare() {
		s.signal(unix.SIGKILL)
		return
	}
	s.socket.Close() // the subreaper must live to kill the others, and does so when the socket ends
	go func() {
		// Another process may have stopped the subreaper. If the subreaper is killed, the watchdog kills the others.
		for _, sig := range []unix.Signal{unix.SIGCONT, unix.SIGKILL} {
			select {
			case <-s.done:
				return
			case <-time.After(time.Second):
				s.signal(sig)
			}
		}
	}()
}

// signal sends a signal to pid 1 or the subreaper.
func (s *Sandbox) signal(sig unix.Signal) {
	if conn, err := s.pidfd.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), sig, nil, 0) })
	}
}

// send sends a request and its descriptors to the server: its sockets, and the command's standard descriptors.
func (s *Sandbox) send(message []byte, sockets []int, files [3]*os.File, until <-chan struct{}) error {
	descriptors := slices.Clone(sockets)
	for _, f := range files {
		if f != nil {
			conn, err := f.SyscallConn()
			if err != nil {
				return &Error{Stage: "descriptors", Op: f.Name(), Err: err}
			}
			_ = conn.Control(func(fd uintptr) { descriptors = append(descriptors, int(fd)) })
		}
	}
	select {
	case <-s.turn:
		defer func() { s.turn <- struct{}{} }()
	case <-until:
		return os.ErrDeadlineExceeded
	case <-s.done:
		return ErrSandboxEnded
	}
	sent, err := s.write(message, unix.UnixRights(descriptors...), until)
	if sent > 0 && sent < len(message) { // the server would take the next request for the rest of this one
		s.Terminate()
		s.socket.Close()
	}
	return err
}

// write writes all of message to the server, unless until is closed first. The descriptors go with its first part. While the socket has no
// room, because other requests wait in it, write occupies a thread.
func (s *Sandbox) write(message, rights []byte, until <-chan struct{}) (sent int, err error) {
	conn, err := s.socket.SyscallConn()
	if err != nil {
		return 0, ErrSandboxEnded
	}
	for sent < len(message) && err == nil {
		var failed error
		err = conn.Control(func(fd uintptr) {
			n := 0
			n, failed = unix.SendmsgN(int(fd), message[sent:], rights, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
			if failed == nil {
				sent, rights = sent+n, nil
			} else if errors.Is(failed, unix.EAGAIN) {
				fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
				_, _ = unix.Poll(fds, int(roomTimeout.Milliseconds()))
			}
		})
		switch {
		case err != nil, errors.Is(failed, unix.EINTR):
		case errors.Is(failed, unix.EAGAIN):
			select {
			case <-until:
				err = os.ErrDeadlineExceeded
			default:
			}
		default:
			err = failed
		}
	}
	var errno unix.Errno
	switch {
	case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
		return sent, err
	case !errors.As(err, &errno), errno == unix.EPIPE, errno == unix.ECONNRESET: // an error without an errno: this process has closed the socket
		return sent, ErrSandboxEnded
	}
	return sent, &Error{Stage: "channels", Op: "sendmsg", Err: err}
}

// roomTimeout is how long write waits before it looks whether it shall go on waiting.
const roomTimeout = 10 * time.Millisecond

// deadline sets a deadline in the past as soon as until is closed. The function that it returns removes the deadline.
func deadline(until <-chan struct{}, set func(time.Time) error) (forget func()) {
	if until == nil {
		return func() {}
	}
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-until:
			_ = set(time.Unix(1, 0))
			<-stop
			_ = set(time.Time{})
		case <-stop:
		}
	}()
	return func() {
		close(stop)
		<-over
	}
}

// awaitDone waits a short time for the sandbox's end, and reports whether it came.
func (s *Sandbox) awaitDone() bool {
	select {
	case <-s.done:
		return true
	case <-time.After(20 * replyTimeout):
		return false
	}
}

// Source is a path of the host that is shown in the sandbox.
type Source struct {
	Source, Dest string
	File         bool // it is not a directory
	ReadOnly     bool // the sandbox cannot write to it
	mount        int
}

// Source returns the host's path that shows name, a path in the sandbox. It returns false if a path of the host does not show it.
func (s *Sandbox) Source(name string) (Source, bool) {
	resolved, best := s.Info.Resolved, -1
	for i, s := range resolved {
		if s.Missing || s.Covered || s.Dest == "" || !stages.Inside(name, s.Dest) {
			continue
		}
		if best < 0 || len(s.Dest) >= len(resolved[best].Dest) {
			best = i
		}
	}
	if best < 0 || s.Plan.Mounts[best].Kind != mounts.Bind || resolved[best].Link {
		return Source{}, false
	}
	at := resolved[best]
	// Kernel file systems, which depend on the process that looks; with the backend landlock they are the host's own.
	if stages.Inside(at.Source, "/proc") || stages.Inside(at.Source, "/dev") {
		return Source{}, false
	}
	return Source{Source: at.Source, Dest: at.Dest, File: at.File, ReadOnly: s.Plan.Mounts[best].Flags.Has(mounts.ReadOnly), mount: best}, true
}
