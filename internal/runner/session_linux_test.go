package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	Init()
	if role := os.Getenv("NSRUN_TEST_OWNER"); role != "" {
		ownSession(role)
	}
	if request := os.Getenv("NSRUN_TEST_ALONE"); request != "" {
		runAlone(request)
	}
	os.Exit(testenv.Main(m.Run))
}

// built is the policy that b says, with what this kernel has.
func built(t testing.TB, b *Builder) Policy {
	t.Helper()
	if !probe.Quick().Can(facts.Landlock) {
		b.Degrade()
	}
	p, err := b.Build()
	require.NoError(t, err)
	return p
}

func opened(t testing.TB, b *Builder) *Session {
	t.Helper()
	s, err := Open(context.Background(), built(t, b))
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// sh runs a script in the session.
func sh(t testing.TB, s *Session, script string) *ExecResult {
	t.Helper()
	r, err := s.Exec(context.Background(), Shell(script), nil)
	require.NoError(t, err)
	return r
}

func TestExec(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, NewPolicy().Workspace(dir).SetEnv("A", "policy"))
	r := sh(t, s, "echo hello >f; echo out; echo err >&2; exit 3")
	assert.Equal(t, Exit, r.Verdict)
	assert.Equal(t, 3, r.Code)
	assert.Equal(t, "out\n", string(r.Stdout))
	assert.Equal(t, "err\n", string(r.Stderr))
	assert.Positive(t, r.WallMS)
	assert.Equal(t, "native", r.Receipt.Backend)
	data, err := os.ReadFile(filepath.Join(dir, "f"))
	require.NoError(t, err)
	assert.Equal(t, "hello\n", string(data))

	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	r, err = s.Exec(context.Background(), []string{"sh", "-c", `pwd; echo $A $B; cat`}, &ExecOptions{
		Dir: "sub", Env: []string{"A=exec", "B=two words"}, Stdin: strings.NewReader("input")})
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(dir, "sub")+"\nexec two words\ninput", string(r.Stdout))
	assert.Equal(t, OK, r.Verdict)

	r = sh(t, s, "kill -9 $$")
	assert.Equal(t, Signal, r.Verdict)
	assert.Equal(t, "SIGKILL", r.Signal)
	assert.Equal(t, dir, s.WorkingDir())
	assert.True(t, s.Alive())
}

// TestTimeIsUp at whatever moment: before the command has begun, as it begins, and after that.
func TestTimeIsUp(t *testing.T) {
	s := opened(t, NewPolicy().KillGrace(time.Millisecond))
	for _, limit := range []time.Duration{1, 10 * time.Microsecond, 500 * time.Microsecond, 2 * time.Millisecond, 5 * time.Millisecond, 50 * time.Millisecond} {
		r, err := s.Exec(context.Background(), []string{"sleep", "1000"}, &ExecOptions{Timeout: limit})
		if assert.NoError(t, err, limit) {
			assert.Equal(t, Timeout, r.Verdict, limit)
			assert.Equal(t, CodeTimeout, r.Code)
		}
	}
}

func TestArgumentsAreNoShell(t *testing.T) {
	s := opened(t, NewPolicy())
	r, err := s.Exec(context.Background(), []string{"echo", "$(id)", "a;b", "|", "", "*"}, nil)
	require.NoError(t, err)
	assert.Equal(t, "$(id) a;b |  *\n", string(r.Stdout))
}

func TestCommandsShareTheSandbox(t *testing.T) {
	s := opened(t, NewPolicy())
	mark := fmt.Sprintf("NSRUN_MARK=%d-shared", os.Getpid())
	sh(t, s, "echo kept >/tmp/x; "+mark+" sleep 1000 >/dev/null 2>&1 &")
	assert.Equal(t, "kept\n", string(sh(t, s, "cat /tmp/x").Stdout))
	eventually(t, "what was left running lives on, also when it has become a sleep", func() bool { return len(marked(mark+"\x00")) == 1 })
	r, err := s.Exec(context.Background(), Shell("echo /tmp/*"), &ExecOptions{Fresh: true})
	require.NoError(t, err)
	assert.Equal(t, "/tmp/*\n", string(r.Stdout), "nothing is in /tmp")
	assert.Empty(t, marked(mark+"\x00"))
	assert.True(t, s.Alive())
	assert.Equal(t, Exit, sh(t, s, "test -e /tmp/x").Verdict)
	assert.Equal(t, OK, sh(t, s, "echo again >/tmp/x").Verdict)
	assert.Equal(t, "again\n", string(sh(t, s, "cat /tmp/x").Stdout))
}

func TestErrorsAreToldApart(t *testing.T) {
	s := opened(t, NewPolicy().Timeout(time.Minute))
	refused := func(field string, argv []string, opts *ExecOptions) {
		t.Helper()
		_, err := s.Exec(context.Background(), argv, opts)
		var r *RefusedError
		if assert.ErrorAs(t, err, &r) {
			assert.Equal(t, field, r.Field)
			assert.NotEmpty(t, r.Text)
			assert.NotEmpty(t, r.Fix)
		}
	}
	refused("args", nil, nil)
	refused("args", []string{""}, nil)
	refused("args", []string{"echo", "a\x00b"}, nil)
	refused("dir", []string{"true"}, &ExecOptions{Dir: "/not/there"})
	refused("dir", []string{"true"}, &ExecOptions{Dir: "/etc/passwd"})
	refused("dir", []string{"true"}, &ExecOptions{Dir: "a\x00"})
	refused("env", []string{"true"}, &ExecOptions{Env: []string{"A"}})
	refused("env", []string{"true"}, &ExecOptions{Env: []string{"=x"}})
	refused("env", []string{"true"}, &ExecOptions{Env: []string{"A=\x00"}})
	refused("timeout", []string{"true"}, &ExecOptions{Timeout: time.Hour})
	refused("timeout", []string{"true"}, &ExecOptions{Timeout: -1})

	_, err := s.Exec(context.Background(), []string{"no-such-program"}, nil)
	assert.ErrorIs(t, err, ErrNotFound)
	_, err = s.Exec(context.Background(), []string{"/etc/passwd"}, nil)
	assert.ErrorIs(t, err, ErrNotExecutable)
	_, err = s.Exec(context.Background(), []string{"echo", strings.Repeat("x", 200<<10)}, nil)
	assert.ErrorIs(t, err, unix.E2BIG)
	assert.Contains(t, err.Error(), "argument list too long")
	many := make([]string, 800_000)
	_, err = s.Exec(context.Background(), append([]string{"echo"}, many...), nil)
	assert.ErrorIs(t, err, unix.E2BIG)
	_, err = s.Exec(context.Background(), []string{"true"}, &ExecOptions{Env: []string{"BIG=" + strings.Repeat("x", 7<<20)}})
	assert.ErrorIs(t, err, unix.E2BIG)
	r, err := s.Exec(context.Background(), []string{"sh", "-c", "echo ${#BIG}"}, &ExecOptions{Env: []string{"BIG=" + strings.Repeat("x", 100<<10)}})
	require.NoError(t, err)
	assert.Equal(t, "102400\n", string(r.Stdout))

	dir, err := os.Open(t.TempDir())
	require.NoError(t, err)
	defer dir.Close()
	_, err = s.Exec(context.Background(), []string{"true"}, &ExecOptions{Stdout: dir})
	var failed *Error
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, "descriptors", failed.Stage)

	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = s.Exec(cancelled, []string{"true"}, nil)
	assert.ErrorIs(t, err, context.Canceled)
	_, err = Open(cancelled, Policy{})
	assert.ErrorIs(t, err, context.Canceled)

	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	_, err = s.Exec(context.Background(), []string{"true"}, nil)
	assert.ErrorIs(t, err, ErrClosed)
	_, err = s.Exec(context.Background(), []string{"true"}, &ExecOptions{Fresh: true})
	assert.ErrorIs(t, err, ErrClosed)
	_, err = start(context.Background(), s, []string{"cat"}, ExecOptions{})
	assert.ErrorIs(t, err, ErrClosed)
	_, err = s.ResolvePath("/usr", ForReading)
	assert.ErrorIs(t, err, ErrClosed)
	assert.False(t, s.Alive())
	<-s.Done()
}

func TestWithoutInitNothingIsStarted(t *testing.T) {
	initialised.Store(false)
	defer initialised.Store(true)
	_, err := Open(context.Background(), Policy{})
	assert.ErrorIs(t, err, ErrNoInit)
	_, err = Run(context.Background(), Policy{}, []string{"true"}, nil)
	assert.ErrorIs(t, err, ErrNoInit)
}

func TestPoliciesThatCannotBeCarriedOut(t *testing.T) {
	_, err := Open(context.Background(), built(t, NewPolicy().ReadOnly("/not/there/at/all")))
	var failed *Error
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, "mount", failed.Stage)
	_, err = Open(context.Background(), built(t, NewPolicy().Backend(policy.BackendNone)))
	var lacks *PolicyCompatibilityError
	require.ErrorAs(t, err, &lacks)
	assert.Contains(t, err.Error(), "session")
}

func TestRunIsOneCommand(t *testing.T) {
	for name, b := range map[string]*Builder{"native": NewPolicy(), "none": NewPolicy().Backend(policy.BackendNone)} {
		t.Run(name, func(t *testing.T) {
			p := built(t, b)
			r, err := Run(context.Background(), p, []string{"sh", "-c", "cat; echo err >&2; exit 4"}, &ExecOptions{Stdin: strings.NewReader("in")})
			require.NoError(t, err)
			assert.Equal(t, 4, r.Code)
			assert.Equal(t, "in", string(r.Stdout))
			assert.Equal(t, "err\n", string(r.Stderr))
			assert.Equal(t, name, r.Receipt.Backend)
			r, err = Run(context.Background(), p, []string{"sh", "-c", `printf %s "$1$X"`, "sh", "\xff\xfe"}, &ExecOptions{Env: []string{"X=\xfd"}})
			require.NoError(t, err)
			assert.Equal(t, "\xff\xfe\xfd", string(r.Stdout), "byte for byte")
			_, err = Run(context.Background(), p, []string{"no-such-program"}, nil)
			assert.ErrorIs(t, err, ErrNotFound)
			_, err = Run(context.Background(), p, nil, nil)
			var refused *RefusedError
			assert.ErrorAs(t, err, &refused)
			r, err = Run(context.Background(), p, []string{"sleep", "1000"}, &ExecOptions{Timeout: testenv.Scale(100 * time.Millisecond)})
			require.NoError(t, err)
			assert.Equal(t, Timeout, r.Verdict)
			r = nil
			for limit := testenv.Scale(100 * time.Millisecond); r == nil; limit *= 2 { // nil is a command that has not begun in its time
				require.Less(t, limit, testenv.Limit(0), "it begins")
				ctx, cancel := context.WithTimeout(context.Background(), limit)
				r, err = Run(ctx, p, []string{"sleep", "1000"}, nil)
				cancel()
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			assert.Equal(t, Interrupted, r.Verdict)
		})
	}
}

// TestManyAtOnce has sessions side by side, and commands side by side in each: nobody sees another one's files, and every answer is its own.
func TestManyAtOnce(t *testing.T) {
	n := testenv.Times(100)
	p := built(t, NewPolicy())
	var group sync.WaitGroup
	for i := range n {
		group.Add(1)
		go func() {
			defer group.Done()
			s, err := Open(context.Background(), p)
			if !assert.NoError(t, err) {
				return
			}
			defer s.Close()
			var inner sync.WaitGroup
			for j := range 4 {
				inner.Add(1)
				go func() {
					defer inner.Done()
					r, err := s.Exec(context.Background(), Shell(fmt.Sprintf("echo %d >/tmp/%d-%d; echo %d %d", i, i, j, i, j)), nil)
					if assert.NoError(t, err) {
						assert.Equal(t, fmt.Sprintf("%d %d\n", i, j), string(r.Stdout))
					}
				}()
			}
			inner.Wait()
			r, err := s.Exec(context.Background(), Shell("cd /tmp; echo *"), nil)
			if assert.NoError(t, err) {
				assert.Equal(t, fmt.Sprintf("%d-0 %d-1 %d-2 %d-3\n", i, i, i, i), string(r.Stdout))
			}
		}()
	}
	group.Wait()
}

// TestWithManyDescriptors has a caller with so many open descriptors that none is left among the numbers that a sandbox prefers.
func TestWithManyDescriptors(t *testing.T) {
	for range 600 {
		f, err := os.Open(os.DevNull)
		require.NoError(t, err)
		defer f.Close()
	}
	r, err := Run(context.Background(), built(t, NewPolicy()), Shell("echo in; ls /proc/self/fd | wc -l"), nil)
	require.NoError(t, err)
	assert.Equal(t, "in\n4\n", string(r.Stdout), "and none of them reaches the command")
	s := opened(t, NewPolicy())
	r, err = s.Exec(context.Background(), []string{"true"}, nil)
	require.NoError(t, err)
	assert.Equal(t, OK, r.Verdict)
}

// TestManyInARow has commands that end, or are not there, one right after the other: a supervisor's end must never be taken for another's.
func TestManyInARow(t *testing.T) {
	s := opened(t, NewPolicy())
	var group sync.WaitGroup
	for range 3 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range testenv.Times(300) {
				if r, err := s.Exec(context.Background(), []string{"no-such-program"}, nil); !assert.ErrorIs(t, err, ErrNotFound, "%+v", r) {
					return
				}
				if r, err := s.Exec(context.Background(), []string{"true"}, nil); !assert.NoError(t, err) || !assert.Equal(t, OK, r.Verdict) {
					return
				}
			}
		}()
	}
	group.Wait()
}

func TestOutputIsCapped(t *testing.T) {
	s := opened(t, NewPolicy())
	r, err := s.Exec(context.Background(), Shell("head -c 100000 /dev/zero; head -c 10 /dev/zero >&2"), &ExecOptions{MaxOutput: 1000})
	require.NoError(t, err)
	assert.Len(t, r.Stdout, 1000)
	assert.True(t, r.StdoutTruncated)
	assert.EqualValues(t, 100000, *r.StdoutBytes)
	assert.Len(t, r.Stderr, 10)
	assert.False(t, r.StderrTruncated)
	var out bytes.Buffer
	r, err = s.Exec(context.Background(), Shell("head -c 3000000 /dev/zero"), &ExecOptions{Stdout: &out})
	require.NoError(t, err)
	assert.Equal(t, 3000000, out.Len())
	assert.EqualValues(t, 3000000, *r.StdoutBytes)
	assert.Nil(t, r.Stdout)
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer file.Close()
	_, err = s.Exec(context.Background(), []string{"echo", "to a file"}, &ExecOptions{Stdout: file, Stderr: file})
	require.NoError(t, err)
	data, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	assert.Equal(t, "to a file\n", string(data))
	r, err = s.Exec(context.Background(), Shell("while :; do echo y; done"), &ExecOptions{Stdout: broken{}})
	require.NoError(t, err)
	assert.Equal(t, "SIGPIPE", r.Signal)
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken") }

// TestABackgroundChildDoesNotHang: what the command has written is all there, what its child holds open is not waited for.
func TestABackgroundChildDoesNotHang(t *testing.T) {
	s := opened(t, NewPolicy())
	var r *ExecResult
	returns(t, "Exec", func() { r = sh(t, s, "sleep 1000 & head -c 50000 /dev/zero; (sleep 1000; echo late) & exit 7") })
	assert.Equal(t, OK, sh(t, s, "true").Verdict)
	assert.Equal(t, 7, r.Code)
	assert.EqualValues(t, 50000, *r.StdoutBytes)
}
