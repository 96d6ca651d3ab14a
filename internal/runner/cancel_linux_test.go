package runner

import (
	"context"
	"errors"
	"math"
	"math/rand"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestAContextThatEndsAsACommandBegins ends contexts all around the moment when a command begins. Where trees can be killed singly, the
// sandbox stays: a supervisor has a second to answer an order to kill, and if it does not, the sandbox is replaced.
func TestAContextThatEndsAsACommandBegins(t *testing.T) {
	s := opened(t, NewPolicy())
	neighbour := echo(t, s)
	const tries = 20
	begin := time.Now()
	for range tries {
		r, err := s.Exec(context.Background(), []string{"true"}, nil)
		require.NoError(t, err)
		require.Equal(t, OK, r.Verdict)
	}
	mean := time.Since(begin) / tries
	sandbox := s.sandbox
	before, after := 0, 0
	for i := 0; i < testenv.Times(300) || (before == 0 || after == 0) && i < 1000; i++ {
		ctx, cancel := context.WithCancel(context.Background())
		// A supervisor tells of a command that goes on after 2 ms. Half of the contexts end within microseconds, before there is one.
		end := float64(2*mean+4*time.Millisecond) * rand.Float64()
		if i%2 == 0 {
			end *= math.Exp2(-12 * rand.Float64())
		}
		timer := time.AfterFunc(time.Duration(end), cancel)
		r, err := s.Exec(ctx, []string{"sleep", "1000"}, nil)
		timer.Stop()
		require.ErrorIs(t, err, context.Canceled)
		if r == nil {
			before++
		} else {
			after++
			require.Equal(t, Interrupted, r.Verdict)
		}
		if !s.sandbox.Scoped() {
			sandbox = s.sandbox // each that had begun has cost one
		}
	}
	t.Log(before, after)
	assert.NotZero(t, before, "positive control: contexts have ended before their command had begun")
	assert.NotZero(t, after, "and after that")
	if !s.sandbox.Scoped() {
		assert.Equal(t, OK, sh(t, s, "true").Verdict)
		t.Skip("trees cannot be killed singly here: sandboxes are replaced")
	}
	assert.Same(t, sandbox, s.sandbox, "the sandbox was not replaced")
	neighbour.says(t, "still here")
}

// TestACommandThatDoesNotBegin is given up with its context, or when its time is up, and does not keep others from beginning.
func TestACommandThatDoesNotBegin(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, NewPolicy().Workspace(dir))
	h := hold(t, dir)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Exec(ctx, []string{h.path}, nil)
		ended <- err
	}()
	h.wait(t)
	cancel()
	assert.ErrorIs(t, testenv.Receive(t, ended, "Exec, whose context has ended"), context.Canceled)
	assert.True(t, h.pending(t), "Exec does not wait until the program can be executed")
	assert.Equal(t, OK, sh(t, s, "true").Verdict, "others begin")
	returns(t, "Exec", func() {
		r, err := s.Exec(context.Background(), []string{h.path}, &ExecOptions{Timeout: testenv.Scale(100 * time.Millisecond)})
		if assert.NoError(t, err) {
			assert.Equal(t, Timeout, r.Verdict)
		}
	})
	assert.True(t, h.pending(t), "Exec does not wait until the program can be executed")
	assert.NoFileExists(t, h.made)
	h.free()
	r, err := s.Exec(context.Background(), []string{h.path}, nil) // positive control: held no more
	require.NoError(t, err)
	assert.Equal(t, "freed\n", string(r.Stdout))
	assert.FileExists(t, h.made)
}

// TestFreshBesideOthers: whose sandbox is replaced while it starts a command gets another one, not ErrClosed.
func TestFreshBesideOthers(t *testing.T) {
	s := opened(t, NewPolicy())
	stop := make(chan struct{})
	var group sync.WaitGroup
	var done atomic.Int64
	for range 3 {
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				select {
				case <-stop:
					return
				default:
				}
				r, err := s.Exec(context.Background(), []string{"true"}, nil)
				if !assert.NoError(t, err) {
					return
				}
				if assert.Contains(t, []Verdict{OK, Interrupted}, r.Verdict) && r.Verdict == OK {
					done.Add(1)
				}
			}
		}()
	}
	first := s.sandbox
	for range testenv.Times(30) {
		_, err := s.Exec(context.Background(), []string{"true"}, &ExecOptions{Fresh: true})
		assert.NoError(t, err)
	}
	close(stop)
	group.Wait()
	assert.NotSame(t, first, s.sandbox, "positive control: it was replaced")
	assert.NotZero(t, done.Load(), "and commands have run beside that")
	assert.True(t, s.Alive())
}

// TestEverythingAtOnce ends commands by context, time, Kill, Fresh and Close at once, for the race detector. Each call comes back with what
// it may come back with.
func TestEverythingAtOnce(t *testing.T) {
	p := built(t, NewPolicy().KillGrace(5*time.Millisecond))
	may := func(err error) {
		t.Helper()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrClosed) {
			var failed *Error
			if !errors.As(err, &failed) || failed.Stage != "server" { // not begun in its time
				t.Errorf("%T %v", err, err)
			}
		}
	}
	use := func(s *Session, rnd *rand.Rand, fresh bool) {
		ctx, cancel := context.WithTimeout(context.Background(), testenv.Scale(time.Duration(rnd.Intn(15000))*time.Microsecond))
		defer cancel()
		switch n := rnd.Intn(6); {
		case n == 0 && fresh:
			_, err := s.Exec(ctx, []string{"true"}, &ExecOptions{Fresh: true})
			may(err)
		case n <= 1:
			_, err := s.Exec(ctx, Shell("sleep 1000 & echo x; sleep 0.01"), &ExecOptions{Terminal: &Size{1, 1}, Stdin: strings.NewReader("x")})
			may(err)
		case n == 2:
			_, err := s.Exec(context.Background(), []string{"sleep", "1000"}, &ExecOptions{Timeout: testenv.Scale(8 * time.Millisecond), Stdin: strings.NewReader("x")})
			may(err)
		case n == 3:
			_, err := s.Exec(context.Background(), []string{"echo", "hi"}, nil)
			may(err)
		default:
			p, err := start(ctx, s, []string{"cat"}, ExecOptions{})
			may(err)
			if err != nil {
				return
			}
			go func() { _ = p.Signal(unix.SIGTERM) }()
			if n == 4 {
				may(p.End())
			}
			_, err = p.Wait()
			may(err)
			p.close()
		}
	}
	var group sync.WaitGroup
	for w := range 3 {
		group.Add(1)
		go func() {
			defer group.Done()
			for round := range testenv.Times(12) {
				s, err := Open(context.Background(), p)
				if !assert.NoError(t, err) {
					return
				}
				var inner sync.WaitGroup
				for k := range 3 {
					inner.Add(1)
					go func() {
						defer inner.Done()
						rnd := rand.New(rand.NewSource(int64(w*1000 + round*10 + k)))
						for range 4 {
							use(s, rnd, k == 0)
						}
					}()
				}
				if round%2 == 0 {
					inner.Wait()
				} else {
					time.Sleep(time.Duration(round) * time.Millisecond)
				}
				assert.NoError(t, s.Close())
				inner.Wait()
			}
		}()
	}
	returns(t, "all of it", group.Wait)
}
