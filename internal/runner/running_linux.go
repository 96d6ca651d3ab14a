package runner

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Exec is what runs a command: [Session.Exec], or [Run] with a policy.
type Exec func(ctx context.Context, argv []string, opts *ExecOptions) (*ExecResult, error)

// Running is one command that [Exec] runs, for whom it is a process meanwhile.
type Running struct {
	begun, exited, over chan struct{}
	begins, exits, ends sync.Once
	process             *process // nil where the backend opens no sessions; to be read when begun is closed
	stop                context.CancelCauseFunc
	input               *os.File // our end of standard input, of a command that was started by StartProcess; closed with the session
	result              *ExecResult
	err                 error
}

// NewRunning is a command that is not started yet.
func NewRunning() *Running {
	return &Running{begun: make(chan struct{}), exited: make(chan struct{}), over: make(chan struct{})}
}

func (r *Running) begin(proc *process) {
	if r != nil {
		r.begins.Do(func() { r.process = proc; close(r.begun) })
	}
}

func (r *Running) exit() {
	if r != nil {
		r.exits.Do(func() { close(r.exited) })
	}
}

// report records, once, how the command ended.
func (r *Running) report(result *ExecResult, err error) {
	if r == nil {
		return
	}
	if errors.Is(err, errKilled) {
		err = nil
	}
	r.ends.Do(func() { r.result, r.err = result, err; close(r.over) })
	r.exit()
}

// errKilled ends a command of a backend that opens no sessions.
var errKilled = errors.New("killed")

// Start has exec run the command, and returns when that is executed, or without background when it has ended. An error means that it has not
// run; where the backend opens no sessions that may also be the error of [Running.Wait].
func (r *Running) Start(ctx context.Context, exec Exec, argv []string, opts ExecOptions, background bool) error {
	ctx, r.stop = context.WithCancelCause(ctx)
	opts.running = r
	run := func() {
		defer r.stop(nil)
		r.report(exec(ctx, argv, &opts))
	}
	if !background {
		run()
	} else {
		go run()
		select {
		case <-r.begun:
			return nil
		case <-r.over:
		}
	}
	if r.result == nil {
		return r.err
	}
	return nil
}

// Exited is closed when the command has ended, and what it has written may still have to be read.
func (r *Running) Exited() <-chan struct{} { return r.exited }

// Wait waits until the command has ended and its streams are copied, unless they linger. Its results are those of [Exec].
func (r *Running) Wait() (*ExecResult, error) {
	<-r.over
	return r.result, r.err
}

// running returns the process, if it has begun to run and has not ended.
func (r *Running) running() (*process, error) {
	select {
	case <-r.exited:
		return nil, os.ErrProcessDone
	default:
	}
	select {
	case <-r.begun:
		return r.process, nil
	default:
		return nil, nil
	}
}

// Kill begins to end the command and all that it has started. When [Running.Wait] returns nothing of that is alive.
func (r *Running) Kill() error {
	proc, err := r.running()
	switch {
	case err != nil:
		return err
	case proc == nil:
		r.stop(errKilled)
	default:
		proc.kill()
	}
	return nil
}

// End kills a command that was started by [Session.StartProcess] and all that it has started, also what has outlived it, and returns when nothing
// of that is alive.
func (r *Running) End() error {
	if r.Kill() == nil {
		<-r.over
	}
	proc := r.process
	proc.handle.Kill() // what has outlived it, also if it has just ended by itself
	select {
	case <-proc.handle.Done():
	case <-time.After(killTimeout):
		proc.endSandbox()
	}
	return nil
}

// Done is closed when the command has ended and, unless they linger, its streams are copied.
func (r *Running) Done() <-chan struct{} { return r.over }

// Stdin writes to the standard input of a command that was started by [Session.StartProcess], or to its terminal.
func (r *Running) Stdin() io.WriteCloser {
	if r.input == nil {
		return r.process.handle.Terminal
	}
	return r.input
}

// Signal sends a signal to the command alone.
func (r *Running) Signal(sig os.Signal) error {
	proc, err := r.running()
	number, ok := sig.(unix.Signal)
	switch {
	case err != nil:
		return err
	case proc == nil || !ok:
		return errors.ErrUnsupported
	}
	return proc.handle.Signal(number, false)
}

// Resize sets the terminal's size. Without a terminal it is [os.ErrInvalid].
func (r *Running) Resize(size Size) error {
	select {
	case <-r.begun:
	default:
		return os.ErrInvalid
	}
	if r.process == nil || r.process.handle.Terminal == nil {
		return os.ErrInvalid
	}
	conn, err := r.process.handle.Terminal.SyscallConn()
	if err != nil {
		return err
	}
	failed := conn.Control(func(fd uintptr) { err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, size.window()) })
	return errors.Join(failed, os.NewSyscallError("ioctl", err))
}
