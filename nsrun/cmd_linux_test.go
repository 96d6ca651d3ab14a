package nsrun_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCmdIsLikeOsExec runs each case three times: by os/exec, in a sandbox of its own, and in a session. Where they have to differ the case says
// why.
func TestCmdIsLikeOsExec(t *testing.T) {
	sh := func(script string) []string { return []string{"sh", "-c", script} }
	cases := []struct {
		name    string
		argv    []string
		path    string           // PATH
		do      func(one) string // nil is output
		differs string           // why
		want    string           // then, in a sandbox
	}{
		{name: "success", argv: sh("echo out; echo err >&2")},
		{name: "exit status", argv: sh("echo out; echo err >&2; exit 3")},
		{name: "exit status 255", argv: sh("exit 255"), do: one.run},
		{name: "killed", argv: sh("kill -9 $$")},
		{name: "terminated", argv: sh("kill -15 $$"), do: one.run},
		{name: "arguments are no script", argv: []string{"printf", "%s|", "$(id)", "a;b", "", "*"}},
		{name: "one argument too many bytes", argv: []string{"echo", strings.Repeat("x", 200<<10)}, do: one.run},
		{name: "its words", argv: sh("exit 3"), do: func(c one) string { return c.String()[strings.Index(c.String(), "sh -c"):] }},
		{name: "no such program", argv: []string{"no-such-program"}},
		{name: "no such path", argv: []string{"/no/such/program"}},
		{name: "no such path below the directory", argv: []string{"./no-such-program"}},
		{name: "not executable", argv: []string{"./data"}},
		{name: "a directory", argv: []string{"/usr"}},
		{name: "a program in the directory", argv: []string{"./program", "x"}},
		{name: "a program in a relative place of PATH", argv: []string{"program"}, path: "."},
		{name: "a script without #!", argv: []string{"./script"}, differs: "as execvp(3) does, /bin/sh runs it", want: `"script\n" ok`},
		{name: "combined output", argv: sh("echo 1; echo 2 >&2; echo 3; exit 4"), do: func(c one) string {
			out, err := c.CombinedOutput()
			return fmt.Sprintf("%q %s", out, shape(err))
		}},
		{name: "standard error of a failure", argv: sh("echo why >&2; exit 1")},
		{name: "standard error is the caller's", argv: sh("echo why >&2; exit 1"), do: func(c one) string {
			var errs bytes.Buffer
			c.set(fields{stderr: &errs})
			return c.output() + errs.String()
		}},
		{name: "output is set already", argv: sh("echo x"), do: func(c one) string { c.set(fields{stdout: io.Discard}); return c.output() }},
		{name: "error output is set already", argv: sh("echo x"), do: func(c one) string {
			c.set(fields{stderr: io.Discard})
			_, err := c.CombinedOutput()
			return shape(err)
		}},
		{name: "much output", argv: sh("head -c 10000000 /dev/zero; head -c 1000000 /dev/zero >&2"), do: func(c one) string { return buffered(c, fields{}) }},
		{name: "much output, returned", argv: sh("head -c 3000000 /dev/zero"), do: func(c one) string {
			out, err := c.Output()
			return fmt.Sprint(len(out), shape(err))
		}},
		{name: "one writer for both", argv: sh("for i in 1 2 3; do echo out; echo err >&2; done"), do: func(c one) string {
			var both bytes.Buffer
			c.set(fields{stdout: &both, stderr: &both})
			return fmt.Sprintf("%s %q", c.run(), both.String())
		}},
		{name: "a file", argv: sh("cat; echo err >&2"), do: func(c one) string {
			in, err := os.Open(filepath.Join(c.dir, "data"))
			require.NoError(c.t, err)
			defer in.Close()
			out, err := os.Create(filepath.Join(c.dir, "out"))
			require.NoError(c.t, err)
			defer out.Close()
			c.set(fields{stdin: in, stdout: out, stderr: out})
			text := c.run()
			data, err := os.ReadFile(out.Name())
			require.NoError(c.t, err)
			return fmt.Sprintf("%s %q", text, data)
		}},
		{name: "input", argv: []string{"cat"}, do: func(c one) string { return buffered(c, fields{stdin: strings.NewReader("in")}) }},
		{name: "much input", argv: []string{"wc", "-c"}, do: func(c one) string {
			return buffered(c, fields{stdin: bytes.NewReader(make([]byte, 5_000_000))})
		}},
		{name: "no input", argv: []string{"cat"}},
		{name: "input that nobody reads", argv: []string{"true"}, do: func(c one) string { return buffered(c, fields{stdin: slow{}}) }},
		{name: "input that fails", argv: []string{"cat"}, do: func(c one) string { return buffered(c, fields{stdin: failing{}}) }},
		{name: "a writer that fails", argv: sh("echo x"), do: func(c one) string { c.set(fields{stdout: failing{}}); return c.run() }},
		{name: "a writer that fails early", argv: []string{"cat", "/dev/zero"}, do: func(c one) string { c.set(fields{stdout: failing{}}); return c.run() }},
		{name: "pipes", argv: sh("while read n; do echo $((n * n)); done; echo end >&2"), do: func(c one) string {
			in, err := c.StdinPipe()
			require.NoError(c.t, err)
			errs, err := c.StderrPipe()
			require.NoError(c.t, err)
			out, err := c.StdoutPipe()
			require.NoError(c.t, err)
			require.NoError(c.t, c.Start())
			answers, text := bufio.NewReader(out), ""
			for n := range 3 {
				fmt.Fprintln(in, n+7)
				line, err := answers.ReadString('\n')
				require.NoError(c.t, err)
				text += line
			}
			require.NoError(c.t, in.Close())
			rest, err := io.ReadAll(answers)
			require.NoError(c.t, err)
			last, err := io.ReadAll(errs)
			require.NoError(c.t, err)
			return fmt.Sprintf("%q %q %q %s", text, rest, last, shape(c.Wait()))
		}},
		{name: "a pipe that nobody reads from", argv: []string{"true"}, do: func(c one) string {
			in, err := c.StdinPipe()
			require.NoError(c.t, err)
			require.NoError(c.t, c.Start())
			testenv.Eventually(c.t, func() bool { _, err = in.Write(make([]byte, 1000)); return err != nil }, "a write fails")
			return fmt.Sprint(errors.Is(err, syscall.EPIPE), shape(c.Wait()))
		}},
		{name: "a pipe that is closed early", argv: []string{"cat", "/dev/zero"}, do: func(c one) string {
			out, err := c.StdoutPipe()
			require.NoError(c.t, err)
			require.NoError(c.t, c.Start())
			_, err = io.ReadFull(out, make([]byte, 100))
			require.NoError(c.t, err)
			return shape(out.Close()) + shape(c.Wait())
		}},
		{name: "Wait closes pipes", argv: sh("echo x"), do: func(c one) string {
			out, err := c.StdoutPipe()
			require.NoError(c.t, err)
			in, err := c.StdinPipe()
			require.NoError(c.t, err)
			require.NoError(c.t, c.Start())
			text := shape(c.Wait())
			_, err = out.Read(make([]byte, 1))
			_, failed := in.Write([]byte("x"))
			return fmt.Sprint(text, err != nil, failed != nil)
		}},
		{name: "output of what is ended before it is read", argv: sh("echo early; exit 2"), do: func(c one) string {
			out, err := c.StdoutPipe()
			require.NoError(c.t, err)
			require.NoError(c.t, c.Start())
			time.Sleep(50 * time.Millisecond)
			text, err := io.ReadAll(out)
			return fmt.Sprintf("%q %s %s", text, shape(err), shape(c.Wait()))
		}},
		{name: "pipes that are asked for too late, or twice", argv: sh("true"), do: func(c one) string {
			_, err := c.StdoutPipe()
			require.NoError(c.t, err)
			_, twice := c.StdoutPipe()
			require.NoError(c.t, c.Start())
			_, late := c.StdinPipe()
			_, late2 := c.StderrPipe()
			return shape(twice) + shape(late) + shape(late2) + shape(c.Wait())
		}},
		{name: "started twice", argv: sh("exit 3"), do: func(c one) string {
			require.NoError(c.t, c.Start())
			return shape(c.Start()) + shape(c.Wait())
		}},
		{name: "run twice", argv: sh("exit 3"), do: func(c one) string { return c.run() + c.run() }},
		{name: "waited for, and not started", argv: sh("true"), do: func(c one) string { return shape(c.Wait()) }},
		{name: "waited for twice", argv: sh("true"), do: func(c one) string { return c.run() + shape(c.Wait()) }},
		{name: "waited for, and not there", argv: []string{"/no/such/program"}, do: func(c one) string { return c.run() + shape(c.Wait()) }},
		{name: "a directory below", argv: []string{"pwd"}, do: func(c one) string { c.set(fields{dir: "sub"}); return strings.ReplaceAll(c.output(), c.dir, "") }},
		{name: "its own directory", argv: []string{"pwd"}, do: func(c one) string { return strings.ReplaceAll(c.output(), c.dir, "") }},
		{name: "no such directory", argv: []string{"pwd"}, do: func(c one) string { c.set(fields{dir: "none"}); return c.output() }},
		{name: "a directory that is a file", argv: []string{"pwd"}, do: func(c one) string { c.set(fields{dir: "data"}); return c.output() }},
		{name: "variables", argv: sh("echo $A $B"), do: func(c one) string { c.set(fields{env: []string{"A=1", "B=two words", "A=last"}}); return c.output() }},
		{name: "a variable without =", argv: sh("echo x"), do: func(c one) string { c.set(fields{env: []string{"A=\x00"}}); return c.output() }},
		{name: "the context has ended", argv: sh("true"), do: func(c one) string { c.end(); return c.run() }},
		{name: "the context ends", argv: sh(forever), do: func(c one) string { c.ready(); c.end(); return shape(c.Wait()) }},
		{name: "Cancel, and it ends well", argv: sh("trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done"), do: func(c one) string {
			c.set(fields{cancel: func(p proc) error { return p.Signal(syscall.SIGTERM) }})
			c.ready()
			c.end()
			return shape(c.Wait())
		}},
		{name: "Cancel, and it fails", argv: sh("trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done"), do: func(c one) string {
			c.set(fields{cancel: func(p proc) error { return p.Signal(syscall.SIGTERM) }})
			c.ready()
			c.end()
			return shape(c.Wait())
		}},
		{name: "Cancel says that it has ended", argv: sh("echo ready; read x"), do: func(c one) string {
			in, err := c.StdinPipe()
			require.NoError(c.t, err)
			called := make(chan struct{})
			f := fields{cancel: func(proc) error { close(called); return os.ErrProcessDone }}
			c.setBeside(f)
			c.ready()
			c.end()
			<-called
			require.NoError(c.t, in.Close())
			return shape(c.Wait())
		}},
		{name: "Cancel fails", argv: sh("echo ready; sleep 0.1"), do: func(c one) string {
			c.set(fields{cancel: func(proc) error { return errTest }})
			c.ready()
			c.end()
			return shape(c.Wait())
		}},
		{name: "Cancel, which is not heard", argv: sh("trap '' TERM; echo ready; while :; do sleep 0.01; done"), do: func(c one) string {
			c.set(fields{cancel: func(p proc) error { return p.Signal(syscall.SIGTERM) }, delay: 50 * time.Millisecond})
			c.ready()
			c.end()
			return shape(c.Wait())
		}},
		{name: "WaitDelay, and a child that holds the output", argv: sh("echo out; sleep 1000 & exit 0"), do: func(c one) string {
			return buffered(c, fields{delay: 100 * time.Millisecond})
		}},
		{name: "WaitDelay, and a child that holds the output, of a failure", argv: sh("echo out; sleep 1000 & exit 6"), do: func(c one) string {
			return buffered(c, fields{delay: 100 * time.Millisecond})
		}},
		{name: "WaitDelay, and a child that lets go of it", argv: sh("echo out; (sleep 0.1; echo late) & exit 0"), do: func(c one) string {
			return buffered(c, fields{delay: time.Minute})
		}},
		{name: "a child that holds the output", argv: sh("echo out; (sleep 0.2; echo late) & exit 0"), do: func(c one) string { return buffered(c, fields{}) },
			differs: "what outlives the command keeps no caller waiting", want: `"out\n" "" ok`},
		{name: "Kill", argv: sh(forever), do: func(c one) string { c.ready(); return shape(c.process().Kill()) + shape(c.Wait()) }},
		{name: "Signal", argv: sh(forever), do: func(c one) string { c.ready(); return shape(c.process().Signal(syscall.SIGUSR1)) + shape(c.Wait()) }},
		{name: "Kill of what has ended", argv: sh("true"), do: func(c one) string { return c.run() + shape(c.process().Kill()) }},
		{name: "Signal to what has ended", argv: sh("true"), do: func(c one) string { return c.run() + shape(c.process().Signal(syscall.SIGINT)) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			answers := map[string]string{}
			for name, side := range map[string]side{"os/exec": plain, "alone": alone, "session": inSession} {
				t.Run(name, func(t *testing.T) {
					dir := workTree(t)
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					cmd := side(t, ctx, dir, c.path, c.argv)
					cmd.t, cmd.dir, cmd.end = t, dir, cancel
					do := c.do
					if do == nil {
						do = one.output
					}
					answers[name] = do(cmd)
				})
			}
			t.Log(answers["os/exec"])
			want := answers["os/exec"]
			if c.differs != "" {
				assert.NotEqual(t, want, c.want, "they differ: %s", c.differs)
				want = c.want
			}
			assert.Equal(t, want, answers["alone"], "in a sandbox of its own")
			assert.Equal(t, want, answers["session"], "in a session")
		})
	}
}

// setBeside sets Cancel alone: a pipe has been made already.
func (c one) setBeside(f fields) {
	switch cmd := c.runs.(type) {
	case *exec.Cmd:
		cmd.Cancel = func() error { return f.cancel(cmd.Process) }
	case *nsrun.Cmd:
		cmd.Cancel = func() error { return f.cancel(cmd.Process) }
	}
}

// workTree is a directory with a few files.
func workTree(t *testing.T) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	for name, text := range map[string]string{"data": "data\n", "program": "#!/bin/sh\necho program $1\n", "script": "echo script\n"} {
		mode := os.FileMode(0o755)
		if name == "data" {
			mode = 0o644
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), mode))
	}
	return dir
}

func TestCmdWithoutAContext(t *testing.T) {
	var none context.Context
	assert.Panics(t, func() { nsrun.CommandContext(none, nsrun.Policy{}, "true") }, "as with os/exec")
}

// TestAServerIsNotBounded by the limit that a policy has as a default, but by one that was asked for.
func TestAServerIsNotBounded(t *testing.T) {
	for name, c := range map[string]struct {
		b       *nsrun.Builder
		timeout time.Duration
		want    result.Verdict
	}{
		"a command":            {nsrun.NewPolicy(), 0, result.OK},
		"a server":             {nsrun.NewPolicy(), -1, result.OK},
		"a server with limits": {nsrun.NewPolicy().Limit("output_bytes", 1000), -1, result.Output},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := c.b.Degrade().Build()
			require.NoError(t, err)
			s, err := nsrun.Open(ctx, p)
			require.NoError(t, err)
			defer s.Close()
			cmd := s.Command(ctx, "head", "-c", "100000", "/dev/zero")
			cmd.Stdout, cmd.Timeout = io.Discard, c.timeout
			_ = cmd.Run()
			require.NotNil(t, cmd.Result)
			assert.Equal(t, c.want, cmd.Result.Verdict)
			counted := slices.ContainsFunc(cmd.Result.Receipt.Limits, func(l result.LimitReceipt) bool { return strings.HasPrefix(l.Limit, "output_bytes=") })
			assert.Equal(t, name != "a server", counted, "and the receipt says so")
		})
	}
}

// TestCmdOfABackendWithoutSessions has another process start the command: what is known of it comes later.
func TestCmdOfABackendWithoutSessions(t *testing.T) {
	p, err := nsrun.NewPolicy().Backend(policy.BackendNone).Build()
	require.NoError(t, err)
	command := func(argv ...string) *nsrun.Cmd { return nsrun.CommandContext(ctx, p, argv[0], argv[1:]...) }
	cmd := command("sh", "-c", "cat; echo why >&2; exit 3")
	cmd.Stdin = strings.NewReader("in")
	out, err := cmd.Output()
	assert.Equal(t, "in", string(out))
	assert.Equal(t, `exit status 3, code 3, stderr "why\n"`, shape(err))

	cmd = command("no-such-program")
	if err = cmd.Start(); err == nil {
		err = cmd.Wait()
	}
	assert.Equal(t, "error: "+exec.ErrNotFound.Error(), shape(err))
	assert.Equal(t, "another error", shape(cmd.Wait()))

	cmd = command("sh", "-c", forever)
	piped, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(piped).ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "ready\n", line)
	assert.ErrorIs(t, cmd.Process.Signal(syscall.SIGTERM), errors.ErrUnsupported)
	assert.ErrorIs(t, cmd.Process.Resize(nsrun.Size{Rows: 1, Cols: 1}), os.ErrInvalid)
	require.NoError(t, cmd.Process.Kill())
	assert.Equal(t, `signal: killed, code -1, stderr ""`, shape(cmd.Wait()))
	assert.ErrorIs(t, cmd.Process.Kill(), os.ErrProcessDone)

	ending, end := context.WithCancel(ctx)
	cmd = nsrun.CommandContext(ending, p, "sleep", "1000")
	require.NoError(t, cmd.Start())
	end()
	err = cmd.Wait()
	assert.ErrorIs(t, err, context.Canceled)
}

// TestWhatACommandLeavesIsInItsResult: the library compares as nsrun run does, and a session keeps hooks read-only.
func TestWhatACommandLeavesIsInItsResult(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(dir+"/.git/hooks", 0o755))
	p, err := nsrun.NewPolicy().Workspace(dir).Build()
	require.NoError(t, err)
	cmd := nsrun.CommandContext(t.Context(), p, "sh", "-c", "echo x >.envrc; ! (echo x >.git/hooks/x)")
	require.NoError(t, cmd.Run())
	require.Len(t, cmd.Result.ProtectedChanged, 1)
	require.Equal(t, "new file", cmd.Result.ProtectedChanged[0].What)
	require.NoError(t, os.WriteFile(dir+"/deploy.sh", nil, 0o755))
	back, err := nsrun.NewPolicy().Workspace(dir).Protect(policy.ProtectRevert, dir+"/deploy.sh").Build()
	require.NoError(t, err)
	cmd = nsrun.CommandContext(t.Context(), back, "sh", "-c", "echo y >.envrc; ! (echo x >deploy.sh)")
	require.NoError(t, cmd.Run())
	require.True(t, cmd.Result.ProtectedChanged[0].Reverted)
	s, err := nsrun.Open(t.Context(), p)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Command(t.Context(), "sh", "-c", "echo x >.mcp.json; ! (echo x >.git/hooks/x)").Run())
	require.Equal(t, []string{dir}, s.Receipt().Protect.Compared)
	require.Equal(t, []string{dir + "/.git/hooks"}, s.Receipt().Protect.ReadOnly)
}

// TestASessionSaysWhatItCannotCompare: in its receipt and the results of its commands, as nsrun run does at the end.
func TestASessionSaysWhatItCannotCompare(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(dir+"/.vscode", 0o755))
	for i := range 300 {
		require.NoError(t, os.WriteFile(fmt.Sprintf("%s/.vscode/%d", dir, i), nil, 0o600))
	}
	p, err := nsrun.NewPolicy().Workspace(dir).Build()
	require.NoError(t, err)
	said := func(r result.Receipt) bool {
		return slices.ContainsFunc(r.Notes, func(n plan.Note) bool { return n.Loss == dir+"/.vscode holds too much to be compared" })
	}
	s, err := nsrun.Open(t.Context(), p)
	require.NoError(t, err)
	defer s.Close()
	require.True(t, said(s.Receipt()))
	cmd := s.Command(t.Context(), "true")
	require.NoError(t, cmd.Run())
	require.True(t, said(cmd.Result.Receipt))
	require.NoError(t, os.RemoveAll(dir+"/.vscode"))
	other, err := nsrun.Open(t.Context(), p)
	require.NoError(t, err)
	defer other.Close()
	require.False(t, said(other.Receipt()))
}

// TestASessionNamesWhatItsCommandsLeave: when it ends, of whatever sandbox of it the command was; it puts nothing back. What has changed before a
// pool hands a session out is not named.
func TestASessionNamesWhatItsCommandsLeave(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(dir+"/.git", 0o755))
	p, err := nsrun.NewPolicy().Workspace(dir).Protect(policy.ProtectRevert).Build()
	require.NoError(t, err)
	paths := func(s *nsrun.Session) (all []string) {
		require.Empty(t, s.ProtectedChanged(), "not while it is open")
		require.NoError(t, s.Close())
		for _, c := range s.ProtectedChanged() {
			require.False(t, c.Reverted)
			all = append(all, strings.TrimPrefix(c.Path, dir+"/"))
		}
		return all
	}
	s, err := nsrun.Open(t.Context(), p)
	require.NoError(t, err)
	require.NoError(t, s.Command(t.Context(), "sh", "-c", "echo x >.mcp.json; mkdir sub; echo x >sub/.mcp.json").Run())
	fresh := s.Command(t.Context(), "sh", "-c", "echo gitdir: x >.git/commondir")
	fresh.Fresh = true
	require.NoError(t, fresh.Run())
	require.ElementsMatch(t, []string{".mcp.json", ".git/commondir"}, paths(s))
	require.FileExists(t, dir+"/.mcp.json")

	pool, err := nsrun.NewPool(p, 1)
	require.NoError(t, err)
	defer pool.Close()
	require.NoError(t, os.WriteFile(dir+"/.envrc", []byte("user's own"), 0o600))
	s, err = pool.Get(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Command(t.Context(), "mkdir", ".vscode").Run())
	require.NoError(t, s.Command(t.Context(), "sh", "-c", "echo x >.vscode/tasks.json").Run())
	require.ElementsMatch(t, []string{".vscode/tasks.json"}, paths(s))
}
