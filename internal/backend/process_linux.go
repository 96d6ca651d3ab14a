package backend

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// Process is a command in a sandbox, seen by the sandbox's owner.
type Process struct {
	// Terminal is the master of the command's terminal, if it has one.
	Terminal *os.File
	Started  time.Time

	sandbox  *Sandbox
	channel  *End
	terminal bool       // the command was to have a terminal
	failed   bool       // the supervisor has reported that the command was not executed
	explain  *listening // nil if nobody wants to know what is refused

	done  chan struct{} // closed by WaitDescendants
	mu    sync.Mutex
	pidfd int // -1 once closed
}

// Start starts a command and returns once it is being executed. The caller closes the command's descriptors. If until is closed first, the
// command may begin nevertheless; Start then kills it. In a sandbox that is not [Sandbox.Scoped] that may take the end of the sandbox.
func (s *Sandbox) Start(c stages.Command, until <-chan struct{}) (*Process, error) {
	tooBig := func() error {
		return explain(failed(sys.Step{Stage: "exec"}, unix.E2BIG), &plan.Plan{Command: c.Args})
	}
	if c.TooBig() {
		return nil, tooBig()
	}
	request, err := stages.LowerRequest(s.Plan, c)
	if err == nil {
		err = request.Verified()
	}
	if err != nil {
		return nil, err
	}
	message := request.Program.Request(request.Cut, c.Terminal != nil, s.explains(c))
	if len(message) > sys.MaxRequest { // the server would end
		return nil, tooBig()
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, &Error{Stage: "channels", Op: "socketpair", Err: err}
	}
	channel, err := NewEnd(pair[0])
	if err != nil {
		unix.Close(pair[1])
		return nil, &Error{Stage: "channels", Op: "socketpair", Err: err}
	}
	p := &Process{sandbox: s, channel: channel, pidfd: -1, Started: time.Now(), done: make(chan struct{}), terminal: c.Terminal != nil}
	sockets := pair[1:]
	if s.explains(c) {
		var theirs int
		if p.explain, theirs, err = s.listen(c.All); err == nil {
			sockets = append(sockets, theirs)
		}
	}
	if err == nil {
		err = s.send(message, sockets, c.Files, until)
	}
	closeAll(sockets)
	if err == nil {
		err = p.explain.cause(p.begun(request, until))
	}
	if err != nil {
		p.giveUp(err)
		return nil, err
	}
	return p, nil
}

// giveUp kills a command whose start has failed for the caller, or as soon as it begins; as a rule it has begun. In a sandbox that is not
// scoped, processes that have left the command's process group would survive the kill, so giveUp ends the sandbox.
func (p *Process) giveUp(err error) {
	if p.failed {
		p.Close()
		return
	}
	p.Kill()
	received, over := p.drain(time.Now().Add(20 * replyTimeout))
	switch {
	case over || p.sandbox.Scoped():
		p.Close()
	case received || !errors.Is(err, os.ErrDeadlineExceeded):
		p.Close()
		p.sandbox.Terminate()
		<-p.sandbox.Done()
	default: // the command has not begun and may never begin, so the sandbox and its other commands go on
		go func() {
			defer p.Close()
			_ = p.file().SetReadDeadline(time.Time{})
			n, passed, _ := p.receive(make([]byte, sys.FailureSize))
			closeAll(passed)
			if n > 0 && !p.WaitGroupKilled(lateTimeout) {
				p.sandbox.Terminate()
			}
		}()
	}
}

// closeAll closes descriptors.
func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// begun waits for the message that the command is being executed, or could not be.
func (p *Process) begun(r *stages.Request, until <-chan struct{}) error {
	forget := func() {}
	if !Await(replyTimeout, p.channel)[0] {
		forget = deadline(until, p.file().SetReadDeadline)
	}
	buf := make([]byte, sys.FailureSize)
	n, passed, err := p.receive(buf)
	forget()
	for i, fd := range passed {
		if i == 0 {
			p.pidfd = fd
		} else {
			_ = unix.SetNonblock(fd, true)
			p.Terminal = os.NewFile(uintptr(fd), "terminal")
		}
	}
	f, ok := sys.ParseFailure(buf[:n])
	p.failed = ok && f.Errno != 0
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case err != nil || !ok:
		return ErrLost
	case f.Errno == uint32(unix.ENOMEM) && p.sandbox.awaitDone(): // from fork(2) if the namespace's init was killed (alloc_pid in kernel/pid.c)
		return ErrSandboxEnded
	case f.Errno != 0:
		return p.sandbox.explainStart(r, f)
	case p.pidfd < 0 || p.terminal && p.Terminal == nil: // descriptors were cut off: unix(7), on SCM_RIGHTS
		return &Error{Stage: "channels", Op: "recvmsg", Err: unix.EMFILE, Hint: "raise the limit on open files (ulimit -n)"}
	}
	return nil
}

// replyTimeout is the longest time in which a server that is not busy answers.
const replyTimeout = 5 * time.Millisecond

// lateTimeout is how long a command that begins after it was given up may take to be killed before the sandbox is, with other commands in it. Nobody
// waits for that. A loaded machine takes more than 100 ms.
const lateTimeout = time.Second

// Channel returns the end that can be read from when [Process.Wait] has something to return.
func (p *Process) Channel() *End { return p.channel }

// file returns the channel as a file that can be waited for.
func (p *Process) file() *os.File {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.channel.File()
}

// receive receives one message, and waits for it until the deadline of file. A message of no bytes is the end.
func (p *Process) receive(buf []byte) (n int, passed []int, err error) {
	oob := make([]byte, unix.CmsgSpace(2*4))
	var oobn int
	var failed error
	take := func(fd uintptr) bool {
		n, oobn, failed = takeMessage(int(fd), buf, oob)
		return !errors.Is(failed, unix.EAGAIN)
	}
	came := false
	if err = p.channel.Control(func(fd uintptr) { came = take(fd) }); err == nil && !came {
		var conn syscall.RawConn
		if conn, err = p.file().SyscallConn(); err == nil {
			err = conn.Read(take)
		}
	}
	if err = errors.Join(err, failed); err != nil {
		return 0, nil, err
	}
	if messages, err := unix.ParseSocketControlMessage(oob[:oobn]); err == nil && len(messages) == 1 {
		passed, _ = unix.ParseUnixRights(&messages[0])
	}
	return n, passed, nil
}

// takeMessage receives a message if there is one. The kernel may report the end of the socket before a message that was sent earlier: if
// the message came after the kernel had found none, but before it checked whether the other side is gone (__unix_dgram_recvmsg in
// net/unix/af_unix.c). As ECONNRESET it does so if the other side has not read everything (unix_release_sock). So takeMessage believes the
// end only after the kernel has repeated it.
func takeMessage(fd int, buf, oob []byte) (n, oobn int, err error) {
	for ends := 0; ends < 3; {
		n, oobn, err = sys.Recvmsg(fd, buf, oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
		switch {
		case err == nil && n == 0, errors.Is(err, unix.ECONNRESET):
			ends++
		case !errors.Is(err, unix.EINTR):
			return n, oobn, err
		}
	}
	return n, oobn, err
}

// Wait waits for the command's end, and returns its Status and Usage, and whether it has left the root Full. [io.EOF] means that its supervisor ended
// without a report, as a rule because the sandbox ended.
func (p *Process) Wait() (out Outcome, err error) {
	buf := make([]byte, sys.ExitSize)
	n, _, err := p.receive(buf)
	if err != nil {
		return out, err
	}
	e, ok := sys.ParseExit(buf[:n])
	if !ok {
		return out, io.EOF
	}
	return Outcome{Status: unix.WaitStatus(e.Status), Usage: e.Usage, Full: e.Full(), HomeFull: e.PlaceFull()}, nil
}

// Signal sends a signal to the command, or to its process group if the kernel can do that by pidfd (Linux 6.9).
func (p *Process) Signal(sig unix.Signal, group bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pidfd < 0 {
		return os.ErrProcessDone
	}
	err := unix.EINVAL
	if group {
		err = asErrno(unix.PidfdSendSignal(p.pidfd, sig, nil, pidfdSignalProcessGroup))
	}
	if err == unix.EINVAL {
		err = asErrno(unix.PidfdSendSignal(p.pidfd, sig, nil, 0))
	}
	switch err {
	case 0:
		return nil
	case unix.ESRCH:
		return os.ErrProcessDone
	}
	return os.NewSyscallError("pidfd_send_signal", err)
}

// asErrno returns the errno in err, or 0 for nil.
func asErrno(err error) unix.Errno {
	if err == nil {
		return 0
	}
	return errnoOf(err)
}

// Kill makes the supervisor kill the command and everything that it has started, or its process group if the sandbox is not
// [Sandbox.Scoped]. It does not wait: see [Process.WaitGroupKilled].
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.channel.Control(func(fd uintptr) { _ = unix.Send(int(fd), []byte{'k'}, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT) })
}

// WaitGroupKilled waits until no process that the command has started is alive. It reports whether that happened within the time.
func (p *Process) WaitGroupKilled(within time.Duration) bool {
	_, over := p.drain(time.Now().Add(within))
	return over
}

// drain receives and drops the supervisor's messages until their end, or until a time. It reports whether there were any, and whether the
// end came.
func (p *Process) drain(until time.Time) (received, over bool) {
	_ = p.file().SetReadDeadline(until)
	buf := make([]byte, sys.ExitSize)
	for {
		n, passed, err := p.receive(buf)
		closeAll(passed)
		if err != nil || n == 0 {
			return received, !errors.Is(err, os.ErrDeadlineExceeded)
		}
		received = true
	}
}

// WaitDescendants waits until no process that the command has started is alive, and closes the descriptors that are of no use then. The
// caller closes the terminal.
func (p *Process) WaitDescendants() {
	_ = p.file().SetReadDeadline(time.Time{})
	for n, err := 1, error(nil); n > 0 && err == nil; {
		n, _, err = p.receive(make([]byte, sys.ExitSize))
	}
	close(p.done)
	p.release()
}

// Done is closed when [Process.WaitDescendants] has seen the end of the last process.
func (p *Process) Done() <-chan struct{} { return p.done }

// release closes the channel and the pidfd.
func (p *Process) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.channel.Close()
	p.explain.close()
	if p.pidfd >= 0 {
		unix.Close(p.pidfd)
		p.pidfd = -1
	}
}

// Close closes the process's descriptors. Processes that the command has left survive with the sandbox.
func (p *Process) Close() {
	p.release()
	if p.Terminal != nil {
		p.Terminal.Close()
	}
}

// bindsPids reports whether the caller has asked for this limit on processes. Such a limit is smaller than the others, so it is the one
// that was reached.
func bindsPids(h plan.Enforcement) bool { return strings.HasPrefix(h.Limit, "pids=") && !h.Default }

// explainStart returns the error of a failure that a supervisor has reported: in a call of the request, or in one of the server's program.
func (s *Sandbox) explainStart(r *stages.Request, f sys.Failure) error {
	step, ok := sys.Step{}, false
	if f.Index&sys.OfRequest != 0 {
		step = r.Program.Describe(int(f.Index &^ sys.OfRequest))
	} else if step, ok = s.Info.step(int(f.Index)); !ok {
		step = sys.Step{Stage: "bug: unknown call"}
	}
	errno := syscall.Errno(f.Errno)
	if step.Stage == "server" && errno == unix.EAGAIN && slices.ContainsFunc(r.Plan.EnforcedBy, bindsPids) {
		return &Error{Stage: "limit", Op: "pids", Err: fmt.Errorf("it is used up before the command begins: %w", errno),
			Hint: "raise pids, or end what earlier commands have left running: kill it, or start with Fresh"}
	}
	return explain(failed(step, errno), r.Plan)
}
