package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"

	"github.com/nsrun/nsrun/cmd/nsrun/internal/session"
	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun"
	"github.com/nsrun/nsrun/nsrun/load"
	"github.com/nsrun/nsrun/nsrun/policy"
	"golang.org/x/sys/unix"
)

// sessionFlags are those of session.
type sessionFlags struct {
	schema bool
	audit  string
}

func (f *sessionFlags) rows() []flagRow {
	return []flagRow{
		{"--schema", &f.schema, "print the JSON Schema of all lines", ""},
		{"--audit FILE", &f.audit, "append a row to FILE before each command starts and one when it has ended", ""},
	}
}

// session talks with a client over standard input and output until one of them ends, or a signal comes.
func (a *app) session(args []string) int {
	var f sessionFlags
	var made host
	fs := newFlags("session", f.rows()...)
	switch err := a.parse(fs, args); {
	case err != nil:
		return a.fail(err)
	case fs.NArg() > 0:
		return a.fail(fmt.Errorf("session takes no arguments, got %q; requests come over standard input", fs.Arg(0)))
	case f.schema:
		return a.print(session.Schema())
	case f.audit != "":
		var err error
		if made.audit, err = absolute(f.audit); err != nil {
			return a.fail(fmt.Errorf("--audit: %w", err))
		}
	}
	runner.ForkHere()
	ctx, end := untilSignal()
	defer end(nil)
	out, _ := a.stdout.(*os.File)
	left := hangup(os.Stdin, out, func() { end(session.ErrOutput) })
	err := session.Serve(ctx, os.Stdin, a.stdout, left, made, version)
	runner.Shutdown()
	var step *fault.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &step) && step.Stage == "interrupted":
		return 128 + int(unix.SignalNum(step.Op))
	}
	return a.fail(fmt.Errorf("%w; all sessions are closed", err))
}

// untilSignal returns a context that a signal ends. The second one ends this process at once, and the kernel the sandboxes with it. A
// client that has gone is an error of writing here, and not SIGPIPE.
func untilSignal() (context.Context, context.CancelCauseFunc) {
	ctx, end := context.WithCancelCause(context.Background())
	signals, pipe := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	signal.Notify(pipe, unix.SIGPIPE)
	go func() {
		sig := <-signals
		signal.Stop(signals)
		end(&fault.Error{Stage: "interrupted", Op: unix.SignalName(sig.(unix.Signal)), Err: context.Canceled})
	}()
	return ctx, end
}

// hangup returns a channel that is closed when the other end of in is, a pipe or socket, and calls gone when that of out is, unless out is nil.
// It costs a thread.
func hangup(in, out *os.File, gone func()) <-chan struct{} {
	left := make(chan struct{})
	fds := []unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLRDHUP}, {Fd: -1}} // what can be written to has no other word for it than POLLHUP or POLLERR
	if out != nil {
		fds[1].Fd = int32(out.Fd())
	}
	go func() {
		for ended := []func(){func() { close(left) }, gone}; fds[0].Fd >= 0 || fds[1].Fd >= 0; {
			_, err := unix.Poll(fds, -1)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			for i := range fds {
				if fds[i].Fd >= 0 && (fds[i].Revents != 0 || err != nil) {
					fds[i].Fd = -1 // which poll(2) ignores
					ended[i]()
				}
			}
		}
	}()
	return left
}

// host makes the sandboxes of a conversation.
type host struct {
	audit string // a log that each of them gets besides its policy's; absolute, or empty
}

func (h host) Open(ctx context.Context, asked session.Asked) (session.Sandbox, error) {
	pol, err := asPolicy(asked)
	if err == nil && h.audit != "" {
		pol, err = pol.With(func(p policy.Policy) (policy.Policy, error) {
			p.Audit = append(p.Audit, h.audit)
			return p, nil
		})
	}
	if err != nil {
		return nil, refusal(asked, err)
	}
	s, err := runner.Open(ctx, pol.Spec(), pol.Protected()...)
	if err != nil {
		return nil, err
	}
	return sandbox{s}, nil
}

// spread has Busy act once.
var spread sync.Once

// Busy lets Go use all processors. Until then one is enough, and a session needs 280 KiB less (a heap has spans for each).
func (h host) Busy() {
	spread.Do(func() {
		if onOneProcessor {
			runtime.GOMAXPROCS(runtime.NumCPU())
		}
	})
}

// asPolicy is the policy that is asked for, by the operator's variables and under the ceiling.
func asPolicy(asked session.Asked) (nsrun.Policy, error) {
	var switches []load.Wish
	if os.Getenv(envFallback)+os.Getenv(envRequire)+os.Getenv(envSandbox) != "" {
		if off, err := switchedOff(); off && err == nil {
			return nsrun.Policy{}, fmt.Errorf("%s=%s: without a sandbox there is no session; unset it, or run each command by nsrun run", envSandbox, os.Getenv(envSandbox))
		}
		switches = append(switches, (&flags{}).switches)
	}
	if asked.Manifest != "" {
		return load.Manifest(asked.Manifest, switches...)
	}
	return load.Bytes("policy", asked.Policy, asked.Dir, switches...)
}

// refusal is what is wrong with a policy: the first fault's field and fix, and the text of all.
func refusal(asked session.Asked, err error) error {
	r := &policy.Fault{Why: session.OfPolicy, Text: err.Error(), Field: "policy"}
	if asked.Manifest != "" {
		r.Field = "manifest"
	}
	if fault := (*policy.Fault)(nil); errors.As(err, &fault) {
		r.Field, r.Fix = fault.Field, fault.Fix
	}
	return r
}

// sandbox is a session of the library's.
type sandbox struct{ *runner.Session }

// Close says on standard error what makes the host run something and has changed: a client that ends its input gets no answer.
func (s sandbox) Close() error {
	err := s.Session.Close()
	if line := protectedLine(s.ProtectedChanged(), true); line != "" {
		fmt.Fprintf(os.Stderr, "nsrun: note: %s\n", printable(line))
	}
	return err
}

func (s sandbox) Start(ctx context.Context, argv []string, opts runner.ExecOptions) (session.Process, error) {
	return s.StartProcess(ctx, argv, opts)
}
