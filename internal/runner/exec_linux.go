package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
	"golang.org/x/sys/unix"
)

// Size is that of a terminal, in characters.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

func (s *Size) window() *unix.Winsize {
	if s == nil {
		return nil
	}
	return &unix.Winsize{Row: s.Rows, Col: s.Cols}
}

// DefaultMaxOutput is the number of bytes of each stream that a command's result keeps if the options name no other.
const DefaultMaxOutput = 1 << 20

// ExecOptions is what a command in a session takes beside its arguments. nil and the zero value are ready to use.
type ExecOptions struct {
	// Stdin is read for the command. nil is empty. An *os.File is passed as it is. Exec does not wait for a Read that does not return.
	Stdin io.Reader
	// Stdout and Stderr get what the command writes, as those of nsrun.Cmd, at most 32 KiB at once. nil collects it in the result, up to MaxOutput.
	Stdout, Stderr io.Writer
	// MaxOutput is how many bytes of each stream are collected. The rest is read and thrown away. 0 means DefaultMaxOutput.
	MaxOutput int64
	// MaxStderr is how many bytes of Stderr are collected, if it is not 0.
	MaxStderr int64
	// Discard throws away what would be collected.
	Discard bool
	// Dir, Env, Labels, Timeout, Fresh, Terminal and Explain are those of nsrun.Cmd.
	Dir         string
	Env, Labels []string
	Timeout     time.Duration
	Fresh       bool
	Terminal    *Size
	Explain     policy.Explain
	// Unbounded says that no timeout counts but that of an operator's ceiling, and no limit output_bytes but one that was asked for.
	Unbounded bool
	// Cancel is called when ctx ends, and WaitDelay later the command is killed, unless that is 0. nil kills it at once. What the command has
	// left running may write to its pipes for WaitDelay more. A backend that opens no sessions knows neither.
	Cancel    func() error
	WaitDelay time.Duration

	linger  bool     // the streams go on when the command has ended, as long as a process that it has left holds them
	running *Running // gets the progress of the command
}

// ExecResult is how a command ended, and what it has written.
type ExecResult struct {
	result.Result
	// Stdout and Stderr are what was collected.
	Stdout, Stderr []byte
	// StdoutTruncated and StderrTruncated say that there was more.
	StdoutTruncated, StderrTruncated bool
	// Copying is why input or output was not copied as a whole, such as [exec.ErrWaitDelay].
	Copying error
}

// Shell is the argv of a shell that runs script: nothing else in this package ever makes a shell of a string.
func Shell(script string) []string { return []string{"/bin/sh", "-c", script} }

// Exec runs a command and waits until it has ended. argv is what execve gets; a program without a slash is looked for in the PATH inside.
//
// A command that ran is a result, whatever its exit status: see [result.Verdict]. An error is a [*policy.Fault] if the policy does not allow what
// was asked, an [*Error] that wraps [ErrNotFound] or [ErrNotExecutable] if there is no such program, another [*Error] if a step of the
// set-up failed, [ErrClosed], or the cause of ctx's end, beside the result of what had run until then.
//
// When ctx ends, Exec kills the whole process tree of the command, daemons included; after the timeout the tree has the policy's grace first. A
// background process survives a command that ends by itself until the session ends, and does not keep Exec from returning. Before
// Landlock ABI 6 (Linux 6.12), or without Landlock, a tree can only be killed with all that runs in the session: a new sandbox takes the
// place of the old one then, as with Fresh.
func (s *Session) Exec(ctx context.Context, argv []string, opts *ExecOptions) (*ExecResult, error) {
	if opts == nil {
		opts = &ExecOptions{}
	}
	rec, err := s.record(opts.Labels)
	if err != nil {
		return nil, err
	}
	result, err := s.exec(ctx, argv, opts, rec)
	if opts.linger && result != nil {
		return result, err // the logs know it
	}
	return rec.conclude(argv, result, err, ctx.Err() != nil)
}

// ask makes a command of a request, with its timeout, and writes its start to rec.
func (s *Session) ask(argv []string, opts *ExecOptions, rec *record) (command stages.Command, limit time.Duration, err error) {
	if command, err = s.command(argv, opts.Dir, opts.Env); err != nil {
		return command, 0, err
	}
	if limit, err = s.bound(opts.Timeout); err != nil {
		return command, 0, err
	}
	if most := s.explains(); most.Less(opts.Explain) || !slices.Contains(policy.Explains, opts.Explain.Level()) {
		return command, 0, &policy.Fault{Field: "explain", Text: fmt.Sprintf("%q is not what the session does: it explains %s", opts.Explain, most),
			Fix: "ask for no more, or give its policy explain; the notes of its receipt say why it does less than that"}
	}
	if opts.Unbounded {
		limit = time.Duration(s.plan.MaxProcessTime)
	}
	return command, limit, rec.begin(command.Args, command.Dir, command.Env, s.plan.Backend)
}

// exec is Exec.
func (s *Session) exec(ctx context.Context, argv []string, opts *ExecOptions, rec *record) (*ExecResult, error) {
	command, limit, err := s.ask(argv, opts, rec)
	if err == nil && opts.Fresh {
		err = s.empty()
	}
	if err != nil {
		return nil, err
	}
	streams, err := openStreams(opts, s.plan.Output)
	if err != nil {
		return nil, err
	}
	defer streams.closeOurs()
	proc, err := s.begin(ctx, command, limit, streams, opts)
	switch {
	case err != nil && opts.linger:
		return nil, err
	case err != nil:
		return s.notBegun(err)
	}
	defer proc.handle.Close()
	if opts.linger || !streams.quick(proc.handle) {
		streams.copy(proc.handle.Terminal)
		s.hold(streams)
		defer s.release(streams)
	}
	out, cause := proc.wait(ctx, limit)
	if opts.linger {
		out.Output = streams.passed()
		end, err := rec.conclude(argv, &ExecResult{Result: endedWith(s.plan, s.withNetwork(s.receiptFor(true), out), out)}, cause, false)
		opts.running.report(end, err)
		proc.handle.WaitDescendants()
		s.release(streams) // what lies in the pipes is the caller's, whatever becomes of the session
		streams.wait()
		return end, err
	}
	opts.running.exit()
	if !streams.finish(opts.WaitDelay) { // the session was closed, and what the command had written is lost
		out.Killed = unix.SIGKILL
	}
	out.Output = streams.passed()
	result := &ExecResult{Result: endedWith(s.plan, s.withNetwork(s.receiptFor(opts.Unbounded), out), out)}
	streams.collect(result, opts.WaitDelay)
	result.Receipt.Notes = append(slices.Clone(result.Receipt.Notes), streams.notes...)
	return result, cause
}

// explains is the most that is reported of what is refused to a command.
func (s *Session) explains() policy.Explain {
	switch e := s.plan.Explain; {
	case e == nil:
		return policy.ExplainOff
	case e.All:
		return policy.ExplainAll
	}
	return policy.ExplainOn
}

// empty ends all that runs in the session. The next command has a new sandbox.
func (s *Session) empty() error {
	sandbox, _, err := s.current()
	if err == nil {
		s.expire(sandbox)
	}
	return err
}

// begin starts a command with its streams.
func (s *Session) begin(ctx context.Context, command stages.Command, limit time.Duration, streams *streams, opts *ExecOptions) (*process, error) {
	command.Files, command.Terminal = streams.theirs, opts.Terminal.window()
	level := cmp.Or(opts.Explain, s.explains())
	command.Explain, command.All = level != policy.ExplainOff, level == policy.ExplainAll
	defer streams.closeTheirs()
	if limit > 0 { // a sandbox that does not answer is no reason to wait longer
		starting, cancel := context.WithTimeoutCause(ctx, limit, errStart)
		defer cancel()
		ctx = starting
	}
	proc, err := s.start(ctx, command)
	if err != nil {
		return nil, err
	}
	proc.onCancel, proc.delay = opts.Cancel, opts.WaitDelay
	opts.running.begin(proc)
	if o := s.plan.Output; o != nil && (!o.Pipes || !opts.Unbounded) {
		streams.bound(o.Bytes, func() { proc.mark(&proc.outputExceeded); go proc.kill() })
	}
	return proc, nil
}

// errStart means that no message reported the command's start within its timeout.
var errStart = errors.New("the command has not begun within its time")

// notBegun is what comes of a command of which no word has come. If its sandbox, or its time, has ended meanwhile, it may have begun, and
// was killed then.
func (s *Session) notBegun(err error) (*ExecResult, error) {
	out := backend.Outcome{Started: time.Now(), Status: unix.WaitStatus(unix.SIGKILL)}
	switch {
	case errors.Is(err, errStart):
		out.TimedOut = true
	case errors.Is(err, backend.ErrLost):
		out.Killed = unix.SIGKILL
	default:
		return nil, err
	}
	return &ExecResult{Result: endedWith(s.plan, s.Receipt(), out)}, nil
}

// process is one command until its end.
type process struct {
	session *Session
	sandbox *backend.Sandbox
	handle  *backend.Process
	before  backend.Evidence   // what had happened in the sandbox's cgroup
	counts  netmessage.Summary // what had been reached and refused

	onCancel func() error // see [ExecOptions.Cancel]
	delay    time.Duration

	mu             sync.Mutex
	timers         []*time.Timer
	over           bool // nothing more is to be done
	killed         bool
	cancelled      error // why, if it was
	timedOut       bool
	outputExceeded bool // it has written more than it may
}

// killTimeout is how long a tree that was told to die may take to do so, before the sandbox is killed that it lives in. A kernel under load
// takes a few milliseconds.
const killTimeout = time.Second

// wait waits for the command's end, at the latest when ctx or its time ends.
func (proc *process) wait(ctx context.Context, limit time.Duration) (out backend.Outcome, cancelled error) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		proc.cancel(context.Cause(ctx))
	})
	if limit > 0 {
		proc.after(limit, proc.timeUp)
	}
	out, err := proc.handle.Wait()
	if !stop() {
		<-done
	}
	out.Started, out.Wall = proc.handle.Started, time.Since(proc.handle.Started)
	proc.mu.Lock()
	out.TimedOut, cancelled = proc.timedOut, proc.cancelled
	ending := proc.timedOut || proc.killed || cancelled != nil || proc.outputExceeded
	if cancelled != nil && proc.killed {
		out.Killed = unix.SIGKILL
	}
	proc.mu.Unlock()
	if err != nil {
		out.Status, out.Killed = unix.WaitStatus(unix.SIGKILL), unix.SIGKILL
		proc.session.lost(proc.sandbox)
	} else if ending {
		proc.kill()
		// Its supervisor's word ends with the sandbox, too, of which more may be alive then.
		if !proc.handle.WaitGroupKilled(2*killTimeout) || proc.session.hasExpired(proc.sandbox) {
			proc.endSandbox()
		}
	}
	proc.finish()
	if out.Status != 0 && len(proc.sandbox.Info.Cgroups) > 0 {
		out.Evidence = proc.session.evidence(proc.sandbox, proc.before)
	}
	out.Denials, out.Explain = proc.handle.Explained() // which takes time, in which others go on
	proc.network(&out)
	return out, cancelled
}

// cancel is called when the command's context has ended.
func (proc *process) cancel(cause error) {
	if proc.onCancel != nil {
		err := proc.onCancel()
		if errors.Is(err, os.ErrProcessDone) {
			return
		}
		if err != nil {
			cause = fmt.Errorf("cancelling the command: %w", err)
		}
	}
	proc.mu.Lock()
	proc.cancelled = cause
	proc.mu.Unlock()
	switch {
	case proc.onCancel == nil:
		proc.kill()
	case proc.delay > 0:
		proc.after(proc.delay, proc.kill)
	}
}

func (proc *process) mark(flag *bool) {
	proc.mu.Lock()
	defer proc.mu.Unlock()
	*flag = true
}

// after calls f after d, unless the job is over by then.
func (proc *process) after(d time.Duration, f func()) {
	proc.mu.Lock()
	defer proc.mu.Unlock()
	if !proc.over {
		proc.timers = append(proc.timers, time.AfterFunc(d, f))
	}
}

func (proc *process) finish() {
	proc.mu.Lock()
	defer proc.mu.Unlock()
	proc.over = true
	for _, t := range proc.timers {
		t.Stop()
	}
}

// timeUp asks the command to end, and kills it when its grace is over.
func (proc *process) timeUp() {
	proc.mark(&proc.timedOut)
	_ = proc.handle.Signal(unix.SIGTERM, true)
	proc.after(time.Duration(proc.session.plan.KillGrace), proc.kill)
}

// kill ends the command and all that it has started.
func (proc *process) kill() {
	proc.mu.Lock()
	again := proc.killed || proc.over
	proc.killed = true
	proc.mu.Unlock()
	switch {
	case again:
	case !proc.sandbox.Scoped():
		proc.endSandbox()
	default:
		proc.handle.Kill()
		proc.after(killTimeout, proc.endSandbox) // should its supervisor not answer
	}
}

// lost is called when a supervisor has ended without a word: with its sandbox, or because a command has killed it, which only the
// sandbox's end makes up for.
func (s *Session) lost(sandbox *backend.Sandbox) {
	select {
	case <-sandbox.Done():
	case <-time.After(killTimeout):
		s.expire(sandbox)
	}
}

// endSandbox ends the sandbox. Another one takes its place, unless the session was closed.
func (proc *process) endSandbox() { proc.session.expire(proc.sandbox) }
