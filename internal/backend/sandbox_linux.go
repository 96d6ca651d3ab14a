package backend

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/rlimit/cgroup"
	"golang.org/x/sys/unix"
)

// What a sandbox's end does to a command that is asked for.
var (
	ErrSandboxEnded = errors.New("the sandbox has ended")                                                            // nothing has run
	ErrLost         = errors.New("the sandbox has ended while the command was started, which may have begun to run") // and was killed then
)

// Sandbox is an opened sandbox, from its owner's side. Its methods may be called at the same time.
type Sandbox struct {
	Plan *plan.Plan
	Info Info
	// Terminate is called when the sandbox has to end for the sake of one command. Who sets it, before the first command is started, calls [Sandbox.Kill].
	Terminate func()

	pidfd  *os.File
	socket *os.File
	done   chan struct{} // closed when the sandbox has ended
	turn   chan struct{} // holds a token: a request is sent as a whole

	mu       sync.Mutex
	group    *cgroup.Group   // its cgroup, if it has one, until it has ended
	evidence cgroup.Evidence // that there was then
}

// NewSandbox takes the descriptors of an opened sandbox.
func NewSandbox(p *plan.Plan, info Info, socket, pidfd int) *Sandbox {
	_ = unix.SetNonblock(pidfd, true) // so that the poller takes them
	_ = unix.SetNonblock(socket, true)
	s := &Sandbox{Plan: p, Info: info, pidfd: os.NewFile(uintptr(pidfd), "pidfd"), socket: os.NewFile(uintptr(socket), "requests"),
		done: make(chan struct{}), turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	s.Terminate = s.Kill
	s.group, _ = cgroup.Attach(info.Cgroups) // an error is that it has gone already
	go s.watch()
	return s
}

// watch waits for pid 1's end, which comes after that of all others (pid_namespaces(7)), or for the subreaper's.
func (s *Sandbox) watch() {
	if conn, err := s.pidfd.SyscallConn(); err == nil {
		_ = conn.Read(func(fd uintptr) bool {
			ended, err := await(int(fd), 0)
			return ended || err != nil
		})
		// Its parent has still to reap it, which is a matter of microseconds; then nothing is left to be seen.
		for range 200 {
			reaped := false
			_ = conn.Control(func(fd uintptr) { reaped = unix.PidfdSendSignal(int(fd), 0, nil, 0) != nil })
			if reaped {
				break
			}
			time.Sleep(time.Millisecond / 2)
		}
	}
	s.socket.Close()
	s.pidfd.Close()
	s.mu.Lock()
	group := s.group
	s.evidence, s.group = group.Read(), nil
	s.mu.Unlock()
	_ = group.Remove() // what cannot be removed a later run will
	close(s.done)
}

// Evidence is what has happened in the sandbox's cgroup, to its end.
func (s *Sandbox) Evidence() cgroup.Evidence {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.group == nil {
		return s.evidence
	}
	return s.group.Read()
}

// Scoped reports whether what one command has started can be killed without the rest: see [Process.Kill].
func (s *Sandbox) Scoped() bool { return s.Plan.Scoped() }

// Done is closed when nothing of the sandbox is alive.
func (s *Sandbox) Done() <-chan struct{} { return s.done }

// Kill ends all that is alive in the sandbox. [Sandbox.Done] tells when that has happened.
func (s *Sandbox) Kill() {
	if !usesSubreaper(s.Plan) {
		s.signal(unix.SIGKILL)
		return
	}
	s.socket.Close() // the subreaper must live to kill the others; that we are gone is its signal
	go func() {
		for _, sig := range []unix.Signal{unix.SIGCONT, unix.SIGKILL} { // should somebody have stopped it. The watchdog kills the rest
			select {
			case <-s.done:
				return
			case <-time.After(time.Second):
				s.signal(sig)
			}
		}
	}()
}

func (s *Sandbox) signal(sig unix.Signal) {
	if conn, err := s.pidfd.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), sig, nil, 0) })
	}
}

// send sends a request with its descriptors.
func (s *Sandbox) send(message []byte, channel int, files [3]*os.File, until <-chan struct{}) error {
	descriptors := []int{channel}
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
	forget := deadline(until, s.socket.SetWriteDeadline)
	sent, err := s.write(message, unix.UnixRights(descriptors...))
	forget()
	if sent > 0 && sent < len(message) { // half a request cannot be taken back, and must not become a whole one by the next
		s.Terminate()
		s.socket.Close()
	}
	return err
}

// write writes all of message to the server.
func (s *Sandbox) write(message, rights []byte) (sent int, err error) {
	conn, err := s.socket.SyscallConn()
	if err != nil {
		return 0, ErrSandboxEnded
	}
	for sent < len(message) && err == nil {
		var failed error
		err = conn.Write(func(fd uintptr) bool {
			n := 0
			n, failed = unix.SendmsgN(int(fd), message[sent:], rights, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
			if failed == nil {
				sent, rights = sent+n, nil
			}
			return !errors.Is(failed, unix.EAGAIN)
		})
		if err == nil && !errors.Is(failed, unix.EINTR) {
			err = failed
		}
	}
	var errno unix.Errno
	switch {
	case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
		return sent, err
	case !errors.As(err, &errno), errno == unix.EPIPE, errno == unix.ECONNRESET: // not an errno: the socket was closed here
		return sent, ErrSandboxEnded
	}
	return sent, &Error{Stage: "channels", Op: "sendmsg", Err: err}
}

// deadline sets a deadline that has passed as soon as until is closed. The function it returns takes that back.
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

// awaitDone waits a little for the sandbox's end, and reports whether that came.
func (s *Sandbox) awaitDone() bool {
	select {
	case <-s.done:
		return true
	case <-time.After(20 * replyTimeout):
		return false
	}
}

// Source is a place of the host's that is shown inside.
type Source struct {
	Source, Dest string
	File         bool // not a directory
	ReadOnly     bool // inside
	mount        int
}

// Source finds what shows name, a path inside, if that is a place of the host's.
func (s *Sandbox) Source(name string) (Source, bool) {
	resolved, best := s.Info.Resolved, -1
	for i, s := range resolved {
		if s.Missing || s.Covered || s.Dest == "" || !inside(name, s.Dest) {
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
	if inside(at.Source, "/proc") || inside(at.Source, "/dev") { // the kernel's, which shows the caller: by the backend landlock, the host's own
		return Source{}, false
	}
	return Source{Source: at.Source, Dest: at.Dest, File: at.File, ReadOnly: s.Plan.Mounts[best].Flags.Has(mounts.ReadOnly), mount: best}, true
}
