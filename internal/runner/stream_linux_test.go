package runner

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestAWrongRequestIsAnError, and not the end of the program that asks.
func TestAWrongRequestIsAnError(t *testing.T) {
	s := opened(t, NewPolicy())
	const last = "/bin:/usr/bin"
	for _, places := range []int{0, 900, 8500, 100_000} {
		r, err := s.Exec(context.Background(), []string{"true"}, &ExecOptions{Env: []string{"PATH=" + strings.Repeat("/a:", places) + last}})
		if places < 1000 { // positive control
			require.NoError(t, err)
			assert.Equal(t, OK, r.Verdict)
			continue
		}
		assert.Error(t, err, places)
	}
	var none *os.File
	for field, opts := range map[string]*ExecOptions{"stdin": {Stdin: none}, "stdout": {Stdout: none}, "stderr": {Stderr: none}} {
		_, err := s.Exec(context.Background(), []string{"true"}, opts)
		var refused *RefusedError
		if assert.ErrorAs(t, err, &refused) {
			assert.Equal(t, field, refused.Field)
		}
	}
	over, err := os.Open(os.DevNull)
	require.NoError(t, err)
	over.Close()
	for _, opts := range []*ExecOptions{{Stdin: over}, {Stdout: over}, {Stderr: over}} {
		_, err := s.Exec(context.Background(), []string{"true"}, opts)
		assert.Error(t, err)
	}
	assert.Equal(t, OK, sh(t, s, "true").Verdict)
}

// unguarded is a writer that only one may write to at a time, for the race detector.
type unguarded struct{ lines map[string]int }

func (u *unguarded) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		u.lines[line]++
	}
	return len(b), nil
}

// TestOneWriterForBothStreams is written to by one at a time, and in the command's order, as with os/exec.
func TestOneWriterForBothStreams(t *testing.T) {
	s := opened(t, NewPolicy())
	const script = "i=0; while [ $i -lt 200 ]; do echo out; echo err >&2; i=$((i+1)); done"
	want := strings.Repeat("out\nerr\n", 200)
	var both, out, err bytes.Buffer
	r, failed := s.Exec(context.Background(), Shell(script), &ExecOptions{Stdout: &both, Stderr: &both})
	require.NoError(t, failed)
	assert.Equal(t, want, both.String())
	assert.EqualValues(t, len(want), *r.StdoutBytes)
	_, failed = s.Exec(context.Background(), Shell(script), &ExecOptions{Stdout: &out, Stderr: &err}) // positive control
	require.NoError(t, failed)
	assert.Equal(t, strings.Repeat("out\n", 200), out.String())
	assert.Equal(t, strings.Repeat("err\n", 200), err.String())
	u := &unguarded{map[string]int{}}
	_, failed = s.Exec(context.Background(), Shell(script), &ExecOptions{Stdout: u, Stderr: u})
	require.NoError(t, failed)
	assert.NotEmpty(t, u.lines)
	type incomparable struct {
		io.Writer
		_ []int
	}
	both.Reset()
	w := incomparable{Writer: io.Discard}
	_, failed = s.Exec(context.Background(), Shell(script), &ExecOptions{Stdout: w, Stderr: w})
	assert.NoError(t, failed)
}

// TestManyArguments are no more too many than for execve itself.
func TestManyArguments(t *testing.T) {
	s := opened(t, NewPolicy())
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_STACK, &limit))
	if limit.Cur < 8<<20 {
		t.Skip("the stack's limit, and so that of arguments, is below the default one")
	}
	for _, n := range []int{1000, 120_000} {
		args := append([]string{"sh", "-c", "echo $#"}, strings.Split(strings.Repeat("x ", n), " ")...) // one is $0, and the last one is empty
		r, err := s.Exec(context.Background(), args, nil)
		if assert.NoError(t, err, n) {
			assert.Equal(t, n, atoi(t, r.Stdout))
		}
	}
	_, err := s.Exec(context.Background(), append([]string{"/bin/sh"}, make([]string, 400_000)...), nil)
	assert.ErrorIs(t, err, unix.E2BIG, "positive control")
	assert.Equal(t, OK, sh(t, s, "true").Verdict)
}

// TestManyArgumentsForManyPlaces are refused before they are written out for each place of PATH, and the session goes on.
func TestManyArgumentsForManyPlaces(t *testing.T) {
	s := opened(t, NewPolicy())
	sandbox := s.sandbox
	path := func(n int) []string { return []string{"PATH=" + strings.Repeat("/not/there:", n-1) + "/bin"} }
	words := func(n int) []string { return append([]string{"sh", "-c", "echo $#"}, make([]string, n)...) }
	for name, c := range map[string]struct {
		args []string
		env  []string
		want error
	}{
		"many of both":   {words(20_000), path(900), unix.E2BIG},
		"a great many":   {words(600_000), path(1000), unix.E2BIG},
		"a long name":    {[]string{strings.Repeat("x", 1<<20)}, []string{"PATH=/" + strings.Repeat(":/", 1<<20)}, unix.E2BIG},
		"many arguments": {words(20_000), path(10), nil},
		"many places":    {words(1), path(900), nil},
		"by its path":    {append([]string{"/bin/sh"}, words(20_000)[1:]...), path(900), nil},
	} {
		r, err := s.Exec(context.Background(), c.args, &ExecOptions{Env: c.env})
		if c.want == nil {
			if assert.NoError(t, err, name) {
				assert.Equal(t, len(c.args)-4, atoi(t, r.Stdout), name) // the first one is $0
			}
			continue
		}
		assert.ErrorIs(t, err, c.want, name)
		assert.ErrorIs(t, err, ErrNotExecutable, name)
	}
	assert.Same(t, sandbox, s.sandbox)
	assert.Equal(t, OK, sh(t, s, "true").Verdict)
}

func atoi(t *testing.T, b []byte) (n int) {
	t.Helper()
	for _, c := range strings.TrimSpace(string(b)) {
		require.True(t, c >= '0' && c <= '9', "%q", b)
		n = 10*n + int(c-'0')
	}
	return n
}

// TestTheEndOfWhatIsTyped is that of the command's input, after half a line too.
func TestTheEndOfWhatIsTyped(t *testing.T) {
	s := opened(t, NewPolicy().Timeout(testenv.Limit(0))) // without the end of its input the command reaches it
	for _, typed := range []string{"", "abc\n", "abc", "a\nbc", "\n", strings.Repeat("long ", 300)} {
		r, err := s.Exec(context.Background(), Shell("cat >/tmp/typed"), &ExecOptions{Terminal: &Size{24, 80}, Stdin: strings.NewReader(typed)})
		require.NoError(t, err)
		assert.Equal(t, OK, r.Verdict, "%q", typed)
		assert.Equal(t, typed, string(sh(t, s, "cat /tmp/typed").Stdout))
	}
	over := make(chan struct{})
	defer close(over)
	r, err := s.Exec(context.Background(), []string{"cat"}, &ExecOptions{Terminal: &Size{24, 80}, Stdin: blocked(over), Timeout: testenv.Scale(200 * time.Millisecond)})
	require.NoError(t, err)
	assert.Equal(t, Timeout, r.Verdict, "positive control: without an end it waits")
}

// TestAReaderThatDoesNotReturn is not waited for, nor is what the command does not read.
func TestAReaderThatDoesNotReturn(t *testing.T) {
	s := opened(t, NewPolicy())
	over := make(chan struct{})
	defer close(over)
	for name, input := range map[string]func() io.Reader{
		"blocked": func() io.Reader { return blocked(over) },
		"large":   func() io.Reader { return strings.NewReader(strings.Repeat("x\n", 1<<20)) },
	} {
		for _, size := range []*Size{nil, {1, 1}} {
			in := input() // it may be read from when Exec has returned
			returns(t, "Exec with input that is "+name, func() {
				r, err := s.Exec(context.Background(), []string{"true"}, &ExecOptions{Stdin: in, Terminal: size})
				if assert.NoError(t, err) && size == nil {
					assert.Equal(t, OK, r.Verdict)
				}
			})
		}
	}
	r, err := s.Exec(context.Background(), []string{"wc", "-c"}, &ExecOptions{Stdin: strings.NewReader(strings.Repeat("x", 5<<20))})
	require.NoError(t, err)
	assert.Equal(t, 5<<20, atoi(t, r.Stdout), "positive control: all of it arrives")
}

// blocked is a reader that has nothing, and no end until it is closed.
type blocked chan struct{}

func (b blocked) Read([]byte) (int, error) {
	<-b
	return 0, io.EOF
}

// TestAWriterThatDoesNotReturn keeps Exec from returning, and no command from being ended.
func TestAWriterThatDoesNotReturn(t *testing.T) {
	s := opened(t, NewPolicy().KillGrace(time.Millisecond))
	for _, way := range []string{"timeout", "cancel"} {
		for name, script := range map[string]string{"at once": "echo hi; exec sleep 1000", "later": "sleep 0.1; echo hi; exec sleep 1000"} {
			t.Run(way+"/"+name, func(t *testing.T) {
				m := mark("writer")
				w := &stuck{begun: make(chan struct{}), over: make(chan struct{})}
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				opts := &ExecOptions{Stdout: w, Env: []string{m}}
				if way == "timeout" {
					opts.Timeout = testenv.Scale(200 * time.Millisecond)
				}
				ended := make(chan *ExecResult, 1)
				run := func() {
					r, _ := s.Exec(ctx, Shell(script), opts)
					ended <- r
				}
				go run()
				for begun := false; !begun; {
					select {
					case <-w.begun:
						begun = true
					case r := <-ended: // its time was up before it had written: on a busy machine it needs more
						require.NotNil(t, r)
						require.Equal(t, Timeout, r.Verdict)
						opts.Timeout *= 2
						require.Less(t, opts.Timeout, testenv.Limit(0), "it writes")
						go run()
					}
				}
				if way == "cancel" {
					cancel()
				}
				eventually(t, "the command has ended", func() bool { return len(marked(m)) == 0 })
				close(w.over)
				if r := testenv.Receive(t, ended, "Exec"); assert.NotNil(t, r) {
					assert.Equal(t, map[string]Verdict{"timeout": Timeout, "cancel": Interrupted}[way], r.Verdict)
				}
			})
		}
	}
}

// stuck is a writer that does not return until it is told to.
type stuck struct {
	begun, over chan struct{}
	once        sync.Once
}

func (s *stuck) Write(b []byte) (int, error) {
	s.once.Do(func() { close(s.begun) })
	<-s.over
	return len(b), nil
}

// TestOutputIsAllThere when something else that holds the stream open goes on.
func TestOutputIsAllThere(t *testing.T) {
	s := opened(t, NewPolicy())
	for range testenv.Times(20) {
		r := sh(t, s, "sleep 1000 & head -c 300000 /dev/zero; printf END")
		require.EqualValues(t, 300003, len(r.Stdout))
		require.True(t, bytes.HasSuffix(r.Stdout, []byte("END")))
		r, err := s.Exec(context.Background(), Shell("sleep 1000 & head -c 200000 /dev/zero; printf END"), &ExecOptions{Terminal: &Size{24, 80}})
		require.NoError(t, err)
		require.EqualValues(t, 200003, len(r.Stdout))
		require.True(t, bytes.HasSuffix(r.Stdout, []byte("END")))
	}
}

// TestPipesThatAreHeldOpen, by what a command has left, are closed with the session, whoever reads them.
func TestPipesThatAreHeldOpen(t *testing.T) {
	s := opened(t, NewPolicy())
	p, err := start(context.Background(), s, Shell("echo hi; sleep 1000 & exit 4"), ExecOptions{})
	require.NoError(t, err)
	r, err := p.Wait()
	require.NoError(t, err)
	assert.Equal(t, 4, r.Code)
	word := make([]byte, 3)
	_, err = io.ReadFull(p.Stdout, word)
	require.NoError(t, err)
	assert.Equal(t, "hi\n", string(word), "positive control")
	read := make(chan error, 1)
	go func() {
		_, err := p.Stdout.Read(word)
		read <- err
	}()
	select {
	case err := <-read:
		t.Fatalf("positive control: it is held open, but %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	require.NoError(t, s.Close())
	assert.Error(t, testenv.Receive(t, read, "Read"))
	_, err = p.Stdin().Write(word)
	assert.ErrorIs(t, err, os.ErrClosed)
}

// TestPipesThatNobodyHolds are the caller's alone, whatever becomes of the session.
func TestPipesThatNobodyHolds(t *testing.T) {
	s := opened(t, NewPolicy())
	p, err := start(context.Background(), s, []string{"echo", "hi"}, ExecOptions{})
	require.NoError(t, err)
	_, err = p.Wait()
	require.NoError(t, err)
	eventually(t, "the session forgets it", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.held) == 0
	})
	require.NoError(t, s.Close())
	text, err := io.ReadAll(p.Stdout)
	require.NoError(t, err)
	assert.Equal(t, "hi\n", string(text))
	p.close()
}

// TestTooFewDescriptors are an error, or enough, but nothing between: a command without the handle by which it is ended.
func TestTooFewDescriptors(t *testing.T) {
	s := opened(t, NewPolicy())
	var was unix.Rlimit
	require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &was))
	lowest, err := os.Open(os.DevNull)
	require.NoError(t, err)
	used := uint64(lowest.Fd())
	lowest.Close()
	fine, few := 0, 0
	for more := uint64(0); more < 16 || fine == 0 && more < 256; more++ { // numbers above may be taken
		for _, size := range []*Size{nil, {1, 1}} {
			limit := unix.Rlimit{Cur: used + more, Max: was.Max}
			require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, &limit, nil))
			var r *ExecResult
			returns(t, "Exec", func() { r, err = s.Exec(context.Background(), []string{"echo", "hi"}, &ExecOptions{Terminal: size}) })
			require.NoError(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, &was, nil))
			if err != nil {
				few++
				assert.ErrorIs(t, err, unix.EMFILE)
				continue
			}
			fine++
			assert.Equal(t, "hi", strings.TrimSpace(string(r.Stdout)))
		}
	}
	assert.NotZero(t, few, "positive control: too few are tried")
	assert.NotZero(t, fine, "and enough")
	assert.True(t, s.Alive())
}
