package nsrun_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nsrun/nsrun/nsrun"
	"github.com/stretchr/testify/require"
)

// runs is what the commands of os/exec and of this package have in common, beside their fields.
type runs interface {
	Run() error
	Start() error
	Wait() error
	Output() ([]byte, error)
	CombinedOutput() ([]byte, error)
	StdinPipe() (io.WriteCloser, error)
	StdoutPipe() (io.ReadCloser, error)
	StderrPipe() (io.ReadCloser, error)
	String() string
}

// proc is what their processes have in common.
type proc interface {
	Signal(os.Signal) error
	Kill() error
}

// fields are the fields that they have in common.
type fields struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	dir            string
	env            []string
	cancel         func(proc) error
	delay          time.Duration
}

// one is a command of either side in one case.
type one struct {
	runs
	t       *testing.T
	process func() proc
	set     func(fields)
	dir     string // of the case, where the command starts
	end     context.CancelFunc
}

// side makes commands.
type side func(t *testing.T, ctx context.Context, dir, path string, argv []string) one

func plain(t *testing.T, ctx context.Context, dir, path string, argv []string) one {
	if path != "" {
		t.Setenv("PATH", path)
		t.Chdir(dir)
	}
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Dir = dir
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	t.Cleanup(func() {
		if c.Process != nil {
			_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // what has outlived it
		}
	})
	return one{runs: c, process: func() proc { return c.Process }, set: func(f fields) {
		c.Stdin, c.Stdout, c.Stderr, c.WaitDelay = f.stdin, f.stdout, f.stderr, f.delay
		if f.dir != "" {
			c.Dir = filepath.Join(dir, f.dir)
		}
		if f.env != nil {
			c.Env = append(c.Environ(), f.env...)
		}
		if f.cancel != nil {
			c.Cancel = func() error { return f.cancel(c.Process) }
		}
	}}
}

func sandboxed(c *nsrun.Cmd) one {
	return one{runs: c, process: func() proc { return c.Process }, set: func(f fields) {
		c.Stdin, c.Stdout, c.Stderr, c.WaitDelay, c.Dir, c.Env = f.stdin, f.stdout, f.stderr, f.delay, f.dir, f.env
		if f.cancel != nil {
			c.Cancel = func() error { return f.cancel(c.Process) }
		}
	}}
}

func policyOf(t *testing.T, dir, path string) nsrun.Policy {
	b := nsrun.NewPolicy().Workspace(dir).Degrade()
	if path != "" {
		b.SetEnv("PATH", path)
	}
	p, err := b.Build()
	require.NoError(t, err)
	return p
}

func alone(t *testing.T, ctx context.Context, dir, path string, argv []string) one {
	return sandboxed(nsrun.CommandContext(ctx, policyOf(t, dir, path), argv[0], argv[1:]...))
}

func inSession(t *testing.T, ctx context.Context, dir, path string, argv []string) one {
	s, err := nsrun.Open(context.Background(), policyOf(t, dir, path))
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return sandboxed(s.Command(ctx, argv[0], argv[1:]...))
}

// shape is what callers can find out about an error of either package.
func shape(err error) string {
	var theirs *exec.ExitError
	var ours *nsrun.ExitError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &theirs):
		return fmt.Sprintf("%v, code %d, stderr %q", theirs, theirs.ExitCode(), theirs.Stderr)
	case errors.As(err, &ours):
		return fmt.Sprintf("%s, code %d, stderr %q", strings.TrimPrefix(ours.Error(), "interrupted: "), ours.ExitCode(), ours.Stderr)
	}
	for _, e := range []error{exec.ErrWaitDelay, exec.ErrDot, exec.ErrNotFound, context.Canceled, context.DeadlineExceeded, os.ErrProcessDone, syscall.E2BIG,
		fs.ErrNotExist, fs.ErrPermission, syscall.ENOTDIR, syscall.ENOEXEC, errTest} {
		if errors.Is(err, e) {
			return "error: " + e.Error()
		}
	}
	return "another error"
}

var errTest = errors.New("of the test")

type failing struct{}

func (failing) Read([]byte) (int, error)  { return 0, errTest }
func (failing) Write([]byte) (int, error) { return 0, errTest }

// slow is a reader that never ends.
type slow struct{}

func (slow) Read(b []byte) (int, error) { return len(b), nil }

// ready starts a command that prints "ready" when it is, and returns the rest of its output.
func (c one) ready() *bufio.Reader {
	out, err := c.StdoutPipe()
	require.NoError(c.t, err)
	require.NoError(c.t, c.Start())
	r := bufio.NewReader(out)
	line, err := r.ReadString('\n')
	require.NoError(c.t, err)
	require.Equal(c.t, "ready\n", line)
	return r
}

func (c one) output() string {
	out, err := c.Output()
	return fmt.Sprintf("%q %s", out, shape(err))
}

func (c one) run() string { return shape(c.Run()) }

func buffered(c one, f fields) string {
	var out, errs bytes.Buffer
	f.stdout, f.stderr = &out, &errs
	c.set(f)
	err := c.Run()
	if out.Len() > 1000 {
		return fmt.Sprintf("%d bytes %s", out.Len(), shape(err))
	}
	return fmt.Sprintf("%q %q %s", out.String(), errs.String(), shape(err))
}

const forever = "echo ready; exec sleep 1000"
