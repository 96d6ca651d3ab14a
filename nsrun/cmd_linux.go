package nsrun

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
)

// Cmd is a command to run in a sandbox. It is made by [CommandContext] or [Session.Command], runs once, and behaves as that of os/exec but
// for this:
//
//   - A program without a slash is looked for in the sandbox's PATH, when the command is started. PATH may hold no relative place then, which
//     is [exec.ErrDot].
//   - Env adds to the policy's variables.
//   - A timeout of the policy ends the command, and so do limits; the [ExitError] says which.
//   - What ends a command ends all that it has started.
//   - A process that outlives the command keeps Wait waiting only for WaitDelay, and not at all where that is 0. Its output is lost then. In a
//     session it goes on.
//   - Wait does not wait for a Read of Stdin that does not return.
//   - In a session the command can have begun when Start returns the error of its context. It is killed then.
//   - With a backend that opens no sessions, such as docker, Start does not know whether there is such a program, and Wait returns that error;
//     the command cannot be sent signals, Cancel is not called, and WaitDelay does not count.
type Cmd struct {
	// Args holds the command line. Args[0] is the program: a path inside, or a name.
	Args []string
	// Env has further variables as NAME=value; a later one wins, and all win over the policy's.
	Env []string
	// Dir is a path inside, absolute or below the policy's working directory. Empty means that directory.
	Dir string
	// Stdin is read for the command. nil is empty. An *os.File is passed as it is.
	Stdin io.Reader
	// Stdout and Stderr get what the command writes; nil throws it away. An *os.File is passed as it is, but for a regular one where a limit
	// output_bytes was asked for. If both are the same, one goroutine at a time calls Write. A Write that fails closes the command's pipe.
	Stdout, Stderr io.Writer
	// Timeout bounds the command in wall-clock time. 0 means the policy's, and it may not be above that. Below 0, as for a server, there is none
	// but that of an operator's ceiling, and the default limit output_bytes does not count.
	Timeout time.Duration
	// Labels are the caller's own words for the rows of audit logs, as NAME=value, besides the policy's; a later one wins.
	Labels []string
	// Fresh ends all that runs in the session and begins with empty private file systems, before the command is started: a new sandbox
	// of the same policy takes the place of the old one.
	Fresh bool
	// Terminal, if not nil, gives the command a terminal of that size. What is read from Stdin is typed there, and Stdout gets all that the
	// command writes.
	Terminal *Size
	// Explain is whether Result reports what was refused to the command, and what would allow it: at most what the policy's Explain says, which is
	// also the default. [policy.ExplainOff] spares a command the time.
	Explain policy.Explain
	// Cancel is called when the context ends. Wait then returns the context's error even if the command ends well, unless Cancel returns
	// [os.ErrProcessDone]. nil kills the command with all that it has started.
	Cancel func() error
	// WaitDelay bounds the time from the end of the context until the command is killed, if Cancel is not nil, and that from its end until its
	// pipes are closed, although another process holds them: Wait returns [exec.ErrWaitDelay] then.
	WaitDelay time.Duration
	// Process is the running command, once it is started.
	Process *Process
	// Result says how the command ended, once Wait has returned.
	Result *result.Result

	ctx     context.Context
	exec    runner.Exec
	pipes   []io.Closer // closed when the command has ended
	collect bool        // what is written to Stdout, or Stderr, and is nil
	ended   *runner.ExecResult
}

// CommandContext returns a command to run in a sandbox of its own, which is made when the command starts and ends with it. Backends that
// cannot open sessions are used as well, where the policy says so. When ctx ends, the command is ended: see [Cmd].
func CommandContext(ctx context.Context, p Policy, name string, args ...string) *Cmd {
	return command(ctx, func(ctx context.Context, argv []string, opts *runner.ExecOptions) (*runner.ExecResult, error) {
		return runner.Run(ctx, p.Spec(), argv, opts, p.protected...)
	}, name, args)
}

func command(ctx context.Context, exec runner.Exec, name string, args []string) *Cmd {
	if ctx == nil {
		panic("nil Context")
	}
	return &Cmd{Args: append([]string{name}, args...), ctx: ctx, exec: exec}
}

// String returns the command line for people to read.
func (c *Cmd) String() string { return strings.Join(c.Args, " ") }

// Run starts the command and waits for it to end. What ran and did not end well is an [*ExitError]; other errors are those of [Cmd.Start].
func (c *Cmd) Run() error {
	if err := c.start(false); err != nil {
		return err
	}
	return c.Wait()
}

// Start starts the command and does not wait for it to end. After that [Cmd.Wait] must be called.
//
// An error is a [*RefusedError] if the policy does not allow what was asked, a [*PolicyCompatibilityError] if this host cannot enforce it, an
// [*Error] that wraps [ErrNotFound] or [ErrNotExecutable] if there is no such program, another [*Error] if a step of the set-up failed,
// [ErrClosed], [ErrNoInit], or the cause of the context's end.
func (c *Cmd) Start() error { return c.start(true) }

func (c *Cmd) start(background bool) error {
	if c.Process != nil {
		return errors.New("nsrun: already started")
	}
	opts := runner.ExecOptions{Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr, Dir: c.Dir, Env: c.Env, Labels: c.Labels, Timeout: max(c.Timeout, 0),
		Unbounded: c.Timeout < 0, Fresh: c.Fresh, Terminal: (*runner.Size)(c.Terminal), Explain: c.Explain, Cancel: c.Cancel, WaitDelay: c.WaitDelay}
	opts.MaxOutput, opts.MaxStderr, opts.Discard = math.MaxInt64, mostStderr, !c.collect
	c.Process = &Process{runner.NewRunning()}
	err := c.Process.running.Start(c.ctx, c.exec, c.Args, opts, background)
	if err != nil {
		c.Process = nil
		c.closePipes()
	}
	return c.explain(err)
}

// Wait waits for the command to end and for its output to be copied, and closes the pipes of StdinPipe, StdoutPipe and StderrPipe: all must be
// read before. What ran and did not end well is an [*ExitError], which wraps the cause of the context's end if that has ended the command.
func (c *Cmd) Wait() error {
	switch {
	case c.Process == nil:
		return errors.New("nsrun: not started")
	case c.ended != nil:
		return errors.New("nsrun: Wait was already called")
	}
	<-c.Process.running.Exited()
	c.closePipes()
	r, err := c.Process.running.Wait()
	if r == nil {
		c.ended = &runner.ExecResult{}
		return c.explain(err)
	}
	c.ended, c.Result = r, &r.Result
	switch {
	case r.Verdict != result.OK:
		return &ExitError{Result: c.Result, cause: err}
	case err != nil:
		return err
	}
	return r.Copying
}

func (c *Cmd) closePipes() {
	for _, p := range c.pipes {
		p.Close()
	}
	c.pipes = nil
}

// Output runs the command and returns what it writes to standard output. If Stderr is nil, an [*ExitError] has the beginning of what it
// writes to standard error.
func (c *Cmd) Output() ([]byte, error) {
	if c.Stdout != nil {
		return nil, errors.New("nsrun: Stdout already set")
	}
	c.collect = true
	err := c.Run()
	if c.ended == nil {
		return nil, err
	}
	if failed := (*ExitError)(nil); errors.As(err, &failed) {
		failed.Stderr = c.ended.Stderr
	}
	return c.ended.Stdout, err
}

// mostStderr is how much of standard error an [ExitError] has.
const mostStderr = 64 << 10

// CombinedOutput runs the command and returns what it writes to standard output and standard error.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	switch {
	case c.Stdout != nil:
		return nil, errors.New("nsrun: Stdout already set")
	case c.Stderr != nil:
		return nil, errors.New("nsrun: Stderr already set")
	}
	var both bytes.Buffer
	c.Stdout, c.Stderr = &both, &both
	err := c.Run()
	return both.Bytes(), err
}

// StdinPipe returns a pipe that is connected to the command's standard input. Wait closes it; a command that reads to the end needs it closed
// before. To a terminal the end of the pipe is a Ctrl-D.
func (c *Cmd) StdinPipe() (io.WriteCloser, error) {
	if err := c.pipeable("Stdin", c.Stdin != nil); err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	c.Stdin = r
	c.pipes = append(c.pipes, r, w)
	return w, nil
}

// StdoutPipe returns a pipe that is connected to the command's standard output. It ends when the command does, and Wait closes it, which is
// called after all was read. With a limit output_bytes the pipe ends with the last byte that is allowed.
func (c *Cmd) StdoutPipe() (io.ReadCloser, error) {
	return c.outputPipe("Stdout", &c.Stdout)
}

// StderrPipe is [Cmd.StdoutPipe] for standard error.
func (c *Cmd) StderrPipe() (io.ReadCloser, error) {
	return c.outputPipe("Stderr", &c.Stderr)
}

func (c *Cmd) outputPipe(name string, to *io.Writer) (io.ReadCloser, error) {
	if err := c.pipeable(name, *to != nil); err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	*to = w
	c.pipes = append(c.pipes, r)
	return r, nil
}

func (c *Cmd) pipeable(name string, set bool) error {
	switch {
	case set:
		return errors.New("nsrun: " + name + " already set")
	case c.Process != nil:
		return errors.New("nsrun: " + name + "Pipe after process started")
	}
	return nil
}

// Process is a command that was started: see [Cmd.Process].
type Process struct{ running *runner.Running }

// Signal sends a signal to the command alone. One that has ended is [os.ErrProcessDone].
func (p *Process) Signal(sig os.Signal) error { return p.running.Signal(sig) }

// Kill ends the command and all that it has started; when [Cmd.Wait] returns nothing of that is alive. Before Landlock ABI 6 (Linux 6.12), or
// without Landlock, it ends all that runs in the session: a new sandbox takes the place of the old one then, as with Fresh.
func (p *Process) Kill() error { return p.running.Kill() }

// Resize sets the size of the command's terminal. Without a terminal it is [os.ErrInvalid].
func (p *Process) Resize(size Size) error { return p.running.Resize(runner.Size(size)) }

// Size is that of a terminal, in characters.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}
