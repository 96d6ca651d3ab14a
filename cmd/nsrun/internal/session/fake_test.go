package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
)

// fakeHost makes sandboxes that run nothing; what their commands do follows from the first word.
type fakeHost struct {
	open    atomic.Int32  // sandboxes
	busy    atomic.Int32  // calls of Busy
	asleep  atomic.Int32  // commands
	flooded atomic.Int64  // bytes that floods got rid of
	filled  atomic.Int32  // commands that have written as much as is collected
	gate    chan struct{} // which the manifest /gate waits for
	later   chan struct{} // which the command later waits for, and the command sooner closes
}

func (h *fakeHost) Open(ctx context.Context, asked Asked) (Sandbox, error) {
	switch {
	case asked.Manifest == "/slow":
		<-ctx.Done()
		return nil, context.Cause(ctx)
	case asked.Manifest == "/gate":
		<-h.gate
	case asked.Manifest == "/lacks":
		return nil, &plan.CompatibilityError{Unmet: []plan.Note{{Feature: "landlock", Loss: "files", Fix: "boot with lsm=landlock"}}}
	case asked.Manifest == "/bad":
		return nil, &policy.Fault{Why: OfPolicy, Field: "network", Text: "allow lists are not supported", Fix: "write none or host"}
	}
	h.open.Add(1)
	b := &fakeBox{host: h, slow: asked.Manifest == "/slow to close"}
	b.ctx, b.end = context.WithCancel(context.Background())
	return b, nil
}

func (h *fakeHost) Busy() { h.busy.Add(1) }

type fakeBox struct {
	host *fakeHost
	ctx  context.Context
	end  context.CancelFunc
	once sync.Once
	slow bool

	changed []result.ProtectedChange
	rules   []string
	ask     func(runner.Question) runner.Answer
	refused func(result.Denial)
}

func (b *fakeBox) WorkingDir() string { return "/work" }
func (b *fakeBox) Alive() bool        { return b.ctx.Err() == nil }

func (b *fakeBox) ProtectedChanged() []result.ProtectedChange { return b.changed }

func (b *fakeBox) Receipt() result.Receipt {
	return result.Receipt{Backend: "fake", Holds: []string{"files"}, Lost: []string{"network"}}
}

func (b *fakeBox) Close() error {
	b.once.Do(func() {
		if b.slow {
			time.Sleep(200 * time.Millisecond)
		}
		b.end()
		b.host.open.Add(-1)
	})
	return nil
}

func (b *fakeBox) ResolvePath(path string, access runner.Access) (*runner.HostPath, error) {
	if access == runner.ForWriting {
		return nil, &policy.Fault{Field: "path", Text: path + " is read-only", Fix: "grant it"}
	}
	return &runner.HostPath{Path: "/host/" + path}, nil
}

func exited(status int) result.Result {
	r := result.Result{Version: 1, Verdict: result.OK, Code: status, ExitStatus: &status, Receipt: result.Receipt{Backend: "fake"}}
	if status != 0 {
		r.Verdict = result.Exit
	}
	return r
}

func interrupted() result.Result {
	return result.Result{Version: 1, Verdict: result.Interrupted, Code: 137, Signal: "SIGKILL"}
}

func (b *fakeBox) Exec(ctx context.Context, argv []string, o *runner.ExecOptions) (*runner.ExecResult, error) {
	r := &runner.ExecResult{Result: exited(0)}
	var kept [2]bytes.Buffer
	if o.Stdout == nil {
		o.Stdout, o.Stderr = &kept[0], &kept[1]
	}
	var written [2]int64
	o.Stdout, o.Stderr = counting{o.Stdout, &written[0]}, counting{o.Stderr, &written[1]}
	if !b.Alive() {
		return nil, runner.ErrClosed
	}
	err := b.act(ctx, argv, o, r)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	r.StdoutBytes, r.StderrBytes = &written[0], &written[1]
	r.Stdout, r.Stderr = kept[0].Bytes(), kept[1].Bytes()
	if o.MaxOutput > 0 && len(r.Stdout) > int(o.MaxOutput) {
		r.Stdout, r.StdoutTruncated = r.Stdout[:o.MaxOutput], true
	}
	return r, err
}

// counting counts what it passes on.
type counting struct {
	io.Writer
	n *int64
}

func (c counting) Write(b []byte) (int, error) {
	*c.n += int64(len(b))
	return c.Writer.Write(b)
}

func (b *fakeBox) act(ctx context.Context, argv []string, o *runner.ExecOptions, r *runner.ExecResult) error {
	rest := strings.Join(argv[1:], " ")
	switch argv[0] {
	case "cat":
		if o.Stdin != nil {
			_, _ = io.Copy(o.Stdout, o.Stdin)
		}
	case "connect": // to the host that is its argument, and prints the answer
		if b.refused != nil {
			b.refused(result.Denial{Kind: "net", Op: "connect", Path: rest + ":443", Rule: "network", Count: 1})
		}
		if b.ask != nil {
			fmt.Fprintf(o.Stdout, "%+v", b.ask(runner.Question{Name: rest, Port: 443, Rule: rest + ":443"}))
		}
	case "env":
		fmt.Fprint(o.Stdout, strings.Join(append(o.Env, o.Labels...), ","), " ", o.Dir, " ", o.Timeout, " ", o.Fresh, " ", o.Terminal)
	case "bytes": // each by itself
		for _, c := range []byte(rest) {
			_, _ = o.Stdout.Write([]byte{c})
		}
	case "binary":
		fmt.Fprint(o.Stdout, "\xff\x00")
		fmt.Fprint(o.Stderr, "oops")
	case "exit":
		n, _ := strconv.Atoi(rest)
		r.Result = exited(n)
	case "sleep":
		b.host.asleep.Add(1)
		defer b.host.asleep.Add(-1)
		select {
		case <-ctx.Done():
			r.Result = interrupted()
			return context.Cause(ctx)
		case <-b.ctx.Done():
			r.Result = interrupted()
		}
	case "later":
		<-b.host.later
	case "sooner":
		close(b.host.later)
	case "die": // with all that there is
		b.end()
		r.Result = interrupted()
	case "flood":
		for ctx.Err() == nil && b.Alive() {
			n, err := o.Stdout.Write(make([]byte, 64<<10))
			if b.host.flooded.Add(int64(n)); err != nil {
				break
			}
		}
		r.Result = interrupted()
	case "fill":
		defer b.host.filled.Add(1)
		_, _ = o.Stdout.Write(make([]byte, max(o.MaxOutput, 1)))
		_, _ = o.Stderr.Write(make([]byte, max(o.MaxOutput, 1)))
	case "missing":
		return &runner.Error{Stage: "exec", Err: fmt.Errorf("missing: %w", runner.ErrNotFound), Hint: "install it"}
	case "refused":
		return &policy.Fault{Field: "dir", Text: "/root is not shown", Fix: "grant it"}
	case "broken":
		return &runner.Error{Stage: "mount", Index: 7, Op: "bind", Path: "/a", Err: syscall.EPERM, Hint: "run nsrun doctor"}
	case "odd":
		return errors.New("something else")
	default:
		fmt.Fprint(o.Stdout, rest)
	}
	return nil
}

// fakeProcess is cat, in a way.
type fakeProcess struct {
	in        *io.PipeReader
	stdin     *io.PipeWriter
	out, errs io.WriteCloser
	ended     chan struct{}
	end       func(result.Result)
	r         runner.ExecResult
}

func (b *fakeBox) Start(ctx context.Context, argv []string, o runner.ExecOptions) (Process, error) {
	if argv[0] == "missing" {
		return nil, b.act(ctx, argv, nil, nil)
	}
	p := &fakeProcess{ended: make(chan struct{}), out: o.Stdout.(io.WriteCloser), errs: o.Stderr.(io.WriteCloser)}
	p.in, p.stdin = io.Pipe()
	var once sync.Once
	p.end = func(r result.Result) {
		once.Do(func() {
			p.r.Result = r
			p.in.CloseWithError(syscall.EPIPE)
			close(p.ended)
			go p.out.Close() // as soon as the client has taken what there was
			go p.errs.Close()
		})
	}
	if argv[0] != "deaf" {
		go func() {
			_, _ = io.Copy(p.out, p.in)
			p.end(exited(0))
		}()
	}
	context.AfterFunc(ctx, func() { p.end(interrupted()) })
	context.AfterFunc(b.ctx, func() { p.end(interrupted()) })
	return p, nil
}

func (p *fakeProcess) Stdin() io.WriteCloser             { return p.stdin }
func (p *fakeProcess) Done() <-chan struct{}             { return p.ended }
func (p *fakeProcess) Wait() (*runner.ExecResult, error) { <-p.ended; return &p.r, nil }
func (p *fakeProcess) End() error                        { p.end(interrupted()); return nil }
func (p *fakeProcess) Signal(sig os.Signal) error {
	select {
	case <-p.ended:
		return os.ErrProcessDone
	default:
	}
	_, err := fmt.Fprintf(p.errs, "%v\n", sig)
	return err
}
func (p *fakeProcess) Resize(size runner.Size) error {
	_, err := fmt.Fprintf(p.errs, "%dx%d\n", size.Rows, size.Cols)
	return err
}

func (b *fakeBox) Allow() []string { return b.rules }

func (b *fakeBox) SetAllow(rules []string) error {
	if len(rules) > 0 && rules[0] == "*" {
		return &policy.Fault{Field: "rules[0]", Text: "the rule \"*\": everything", Fix: "name hosts"}
	}
	b.rules = rules
	return nil
}

func (b *fakeBox) Ask(_ time.Duration, answer func(runner.Question) runner.Answer) error {
	b.ask = answer
	return nil
}

func (b *fakeBox) OnRefused(f func(result.Denial)) { b.refused = f }
