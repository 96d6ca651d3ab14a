package runner

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"github.com/nsrun/nsrun/internal/backend"
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

	process *process
	record  *record
	meters  [2]*meter
	ended   chan struct{}
	result  *result.Result
	err     error
}

// StartProcess starts a command and returns once it is being executed. No timeout of the policy's counts for it, but that of an operator's
// ceiling does. When ctx ends its whole tree is killed. Errors are those of [Session.Exec].
//
// A limit output_bytes that was asked for holds for each stream: with the byte after it the caller reads the end, and the process is killed. The
// default one does not count here. Of a terminal that nobody reads, only what its line discipline has taken counts, the first 4 KiB.
func (s *Session) StartProcess(ctx context.Context, req StartRequest) (*Process, error) {
	rec, err := s.record(req.Labels)
	if err != nil {
		return nil, err
	}
	p, err := s.startProcess(ctx, req, rec)
	if err != nil {
		_, err = rec.conclude(req.Args, nil, err, ctx.Err() != nil)
	}
	return p, err
}

func (s *Session) startProcess(ctx context.Context, req StartRequest, rec *record) (*Process, error) {
	command, err := s.command(req.Args, req.Dir, req.Env)
	if err == nil {
		err = rec.begin(command.Args, command.Dir, command.Env, s.plan.Backend)
	}
	if err != nil {
		return nil, err
	}
	p := &Process{ended: make(chan struct{}), record: rec}
	ours, err := p.open(&command, req.Terminal)
	closeAll := func(files []*os.File) {
		for _, f := range files {
			if f != nil {
				f.Close()
			}
		}
	}
	if err != nil {
		closeAll(append(ours, command.Files[:]...))
		return nil, &Error{Stage: "channels", Err: err}
	}
	proc, err := s.start(ctx, command)
	closeAll(command.Files[:])
	if err != nil {
		closeAll(ours)
		return nil, err
	}
	if p.Stderr == nil {
		p.Stdin, p.Stdout = proc.handle.Terminal, proc.handle.Terminal
	}
	if o := s.plan.Output; o != nil && !o.Pipes {
		p.bound(o.Bytes, func() { proc.mark(&proc.outputExceeded); go proc.kill() })
	}
	s.hold(p)
	p.process = proc
	go p.wait(ctx)
	return p, nil
}

// open makes the pipes: ours in p, the command's in c.
func (p *Process) open(c *backend.Command, size *Size) (ours []*os.File, err error) {
	if c.Terminal = size.window(); size != nil {
		return nil, nil
	}
	var stdin, stdout, stderr *os.File
	c.Files[0], stdin, err = pipe(false)
	ours = append(ours, stdin)
	if err == nil {
		stdout, c.Files[1], err = pipe(true)
		ours = append(ours, stdout)
	}
	if err == nil {
		stderr, c.Files[2], err = pipe(true)
		ours = append(ours, stderr)
	}
	if err == nil {
		p.Stdin, p.Stdout, p.Stderr = stdin, stdout, stderr
	}
	return ours, err
}

// receiptFor is the session's, but for the default limit on output, which does not count where a command is unbounded.
func (s *Session) receiptFor(unbounded bool) result.Receipt {
	r := ReceiptOf(s)
	if o := s.plan.Output; o != nil && o.Pipes && unbounded {
		r.Limits = slices.DeleteFunc(slices.Clone(r.Limits), func(l result.LimitReceipt) bool { return l.By == "pipe" })
	}
	return r
}

// wait sees to the process's end, and then to that of what it has left.
func (p *Process) wait(ctx context.Context) {
	out, cause := p.process.wait(ctx, time.Duration(p.process.session.plan.MaxProcessTime))
	out.Output = p.metered()
	r := endedWith(p.process.session.plan, p.process.session.receiptFor(true), out)
	r.Receipt.Notes = append(slices.Clone(r.Receipt.Notes), p.record.finish(r)...)
	p.result, p.err = &r, cause
	close(p.ended)
	p.process.handle.WaitDescendants()
	p.process.session.release(p)
}

// close closes what is ours of its pipes.
func (p *Process) close() {
	p.Stdin.Close()
	p.Stdout.Close()
	if p.Stderr != nil {
		p.Stderr.Close()
	}
}

// Wait waits until the process has ended. It can be called any number of times, and returns the cause beside the result if the context of
// StartProcess has ended it. The pipes stay open for what is still to be read; the caller closes them.
func (p *Process) Wait() (*result.Result, error) {
	<-p.ended
	return p.result, p.err
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.ended }

// Signal sends a signal to the process alone. One that has ended is [os.ErrProcessDone].
func (p *Process) Signal(sig os.Signal) error {
	select {
	case <-p.ended:
		return os.ErrProcessDone
	default:
	}
	return p.process.signal(sig)
}

func (proc *process) signal(sig os.Signal) error {
	s, ok := sig.(unix.Signal)
	if !ok {
		return errors.ErrUnsupported
	}
	return proc.handle.Signal(s, false)
}

// Kill ends the process and all that it has started, also what has outlived it, and returns when nothing of that is alive.
func (p *Process) Kill() error {
	select {
	case <-p.ended:
	default:
		p.process.kill()
		<-p.ended
	}
	p.process.handle.Kill() // what has outlived it, also if it has just ended by itself
	select {
	case <-p.process.handle.Done():
	case <-time.After(killTimeout):
		p.process.endSandbox()
	}
	return nil
}

// Resize tells the terminal's new size. Without a terminal it is [os.ErrInvalid].
func (p *Process) Resize(size Size) error { return p.process.resize(size) }

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
