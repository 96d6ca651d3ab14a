package runner

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"github.com/nsrun/nsrun/nsrun/result"
	"golang.org/x/sys/unix"
)

// StartRequest is a long-lived command: a server that is talked to over its standard descriptors.
type StartRequest struct {
	Args []string
	// Dir, Env, Labels and Terminal are as in [ExecOptions].
	Dir      string
	Env      []string
	Labels   []string
	Terminal *Size
}

// Process is a command that was started in a session.
type Process struct {
	// Stdin, Stdout and Stderr are the ends of its pipes. With a terminal Stdin writes to it, Stdout reads from it, and Stderr is nil. Stdout
	// and Stderr end when the process and whatever it has left have let go of them, or with the session.
	Stdin          io.WriteCloser
	Stdout, Stderr io.ReadCloser

	*Running
}

// StartProcess starts a command and returns once it is being executed. No timeout of the policy's counts for it, but that of an operator's
// ceiling does. When ctx ends its whole tree is killed. Errors are those of [Session.Exec].
//
// A limit output_bytes that was asked for holds for each stream: with the byte after it the caller reads the end, and the process is killed. The
// default one does not count here.
func (s *Session) StartProcess(ctx context.Context, req StartRequest) (*Process, error) {
	p := &Process{Running: NewRunning()}
	opts := ExecOptions{Dir: req.Dir, Env: req.Env, Labels: req.Labels, Terminal: req.Terminal, Unbounded: true, linger: true}
	stdout, toStdout := io.Pipe()
	p.Stdout, opts.Stdout = stdout, toStdout
	if req.Terminal == nil {
		stdin, toStdin, err := pipe(false)
		if err != nil {
			return nil, channels(err)
		}
		defer stdin.Close()
		stderr, toStderr := io.Pipe()
		p.Stdin, opts.Stdin, p.Stderr, opts.Stderr = toStdin, stdin, stderr, toStderr
		p.input = toStdin
	}
	if err := p.Start(ctx, s.Exec, req.Args, opts, true); err != nil {
		p.close()
		return nil, err
	}
	if req.Terminal != nil {
		p.Stdin = p.process.handle.Terminal
	}
	return p, nil
}

// receiptFor is the session's, but for the default limit on output, which does not count where a command is unbounded.
func (s *Session) receiptFor(unbounded bool) result.Receipt {
	r := ReceiptOf(s)
	if o := s.plan.Output; o != nil && o.Pipes && unbounded {
		r.Limits = slices.DeleteFunc(slices.Clone(r.Limits), func(l result.LimitReceipt) bool { return l.By == "pipe" })
	}
	return r
}

// close closes what is ours of its pipes.
func (p *Process) close() {
	for _, c := range []io.Closer{p.Stdin, p.Stdout, p.Stderr} {
		if c != nil {
			c.Close()
		}
	}
}

// Wait waits until the process has ended. It can be called any number of times, and returns the cause beside the result if the context of
// StartProcess has ended it. The pipes stay open for what is still to be read; the caller closes them.
func (p *Process) Wait() (*result.Result, error) {
	r, err := p.Running.Wait()
	return &r.Result, err
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.over }

// Kill ends the process and all that it has started, also what has outlived it, and returns when nothing of that is alive.
func (p *Process) Kill() error {
	if p.Running.Kill() == nil {
		<-p.over
	}
	p.process.handle.Kill() // what has outlived it, also if it has just ended by itself
	select {
	case <-p.process.handle.Done():
	case <-time.After(killTimeout):
		p.process.endSandbox()
	}
	return nil
}

func (proc *process) signal(sig os.Signal) error {
	s, ok := sig.(unix.Signal)
	if !ok {
		return errors.ErrUnsupported
	}
	return proc.handle.Signal(s, false)
}

func (proc *process) resize(size Size) error {
	if proc.handle.Terminal == nil {
		return os.ErrInvalid
	}
	conn, err := proc.handle.Terminal.SyscallConn()
	if err != nil {
		return err
	}
	failed := err
	if err := conn.Control(func(fd uintptr) { failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, size.window()) }); err != nil {
		return err
	}
	return os.NewSyscallError("ioctl", failed)
}
