package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestHalfARequest cannot be taken back: the sandbox ends for it, and the session goes on.
func TestHalfARequest(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *Session{
		"pid 1":     func(t *testing.T) *Session { return opened(t, NewPolicy()) },
		"subreaper": kept,
	} {
		t.Run(name, func(t *testing.T) {
			s, server := withServer(t, func() *Session { return open(t) })
			stoppedTree(t, server)
			large := append([]string{"true"}, strings.Split(strings.Repeat(strings.Repeat("y", 100_000)+" ", 10), " ")...)
			again := func() { // gives up in the middle, until that is not necessary
				for limit := testenv.Scale(50 * time.Millisecond); ; limit *= 2 {
					ctx, cancel := context.WithTimeout(context.Background(), limit)
					r, err := s.Exec(ctx, large, nil)
					cancel()
					if err != nil && !assert.ErrorIs(t, err, context.DeadlineExceeded) || err == nil && r.Verdict == OK {
						return
					}
				}
			}
			returns(t, "Exec", func() {
				var both sync.WaitGroup // one waits for its turn when the other gives up
				both.Go(again)
				both.Go(again)
				both.Wait()
			})
			eventually(t, "positive control: the sandbox was replaced", func() bool { return state(server) == "" })
			assert.Equal(t, OK, sh(t, s, "true").Verdict)
			assert.True(t, s.Alive())
		})
	}
}

// TestADaemonOfWhatWasGivenUp ends, where trees cannot be killed singly too: the command begins as its context ends, or when nobody waits
// for it any more, and its supervisor, which is stopped, does not come to kill it before it has left a daemon.
func TestADaemonOfWhatWasGivenUp(t *testing.T) {
	for _, early := range []bool{true, false} {
		t.Run(fmt.Sprintf("early %v", early), func(t *testing.T) {
			dir := t.TempDir()
			s, server := withServer(t, func() *Session { return unscoped(t, NewPolicy().Workspace(dir)) })
			h := holdScript(t, dir, "setsid sleep 1000 &\nexec sleep 1000")
			m := mark("given up")
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := s.Exec(ctx, []string{h.path}, &ExecOptions{Env: []string{m}})
				ended <- err
			}()
			h.wait(t)
			supervisor := 0
			for _, pid := range below(server) {
				if len(below(pid)) == 1 {
					supervisor = pid
				}
			}
			require.NotZero(t, supervisor)
			require.NoError(t, unix.Kill(supervisor, unix.SIGSTOP)) // which comes when it is not held any more
			gaveUp := func() {
				assert.ErrorIs(t, testenv.Receive(t, ended, "Exec, whose context has ended"), context.Canceled)
			}
			if !early {
				cancel()
				gaveUp()
				assert.True(t, h.pending(t), "Exec does not wait until the program can be executed")
				assert.Equal(t, OK, sh(t, s, "true").Verdict, "what does not begin does not end the sandbox")
				assert.NotEmpty(t, state(server))
			}
			h.free()
			eventually(t, "the daemon is there", func() bool {
				pids := marked(m)
				return len(pids) == 2 && !slices.ContainsFunc(pids, func(pid int) bool {
					sid, err := unix.Getsid(pid)
					return err != nil || sid != pid // as the command's is, too
				})
			})
			if early {
				cancel()
				time.Sleep(20 * time.Millisecond) // the order to kill it is on its way by then, or the command is one that has begun
			}
			require.NoError(t, unix.Kill(supervisor, unix.SIGCONT))
			if early {
				gaveUp()
			}
			eventually(t, "all of it has ended", func() bool { return len(marked(m)) == 0 })
			assert.Equal(t, OK, sh(t, s, "true").Verdict, "and the session goes on")
			eventually(t, "in another sandbox", func() bool { return state(server) == "" })
		})
	}
}

// TestWhatIsMadeTooLate is thrown away, which is waited for unless it takes long. The clock is one of synctest, which only moves when
// everything waits.
func TestWhatIsMadeTooLate(t *testing.T) {
	made := func(t *testing.T, discard time.Duration) (gone bool, took time.Duration) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var thrown atomic.Bool
		begin := time.Now()
		value, err := within(ctx, func() (int, error) { cancel(); time.Sleep(20 * time.Millisecond); return 1, nil },
			func(int) { time.Sleep(discard); thrown.Store(true) })
		assert.ErrorIs(t, err, context.Canceled)
		assert.Zero(t, value)
		gone, took = thrown.Load(), time.Since(begin)
		time.Sleep(discard)
		synctest.Wait()
		assert.True(t, thrown.Load(), "in the end it is thrown away")
		return gone, took
	}
	synctest.Test(t, func(t *testing.T) {
		gone, took := made(t, 20*time.Millisecond)
		assert.True(t, gone, "it is waited for")
		assert.Equal(t, 40*time.Millisecond, took)
	})
	synctest.Test(t, func(t *testing.T) {
		gone, took := made(t, time.Hour)
		assert.False(t, gone, "that takes long")
		assert.Equal(t, killTimeout, took)
	})
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		defer close(over)
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		begin := time.Now()
		_, err := within(ctx, func() (int, error) { <-over; return 0, context.Canceled }, func(int) {})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Millisecond+killTimeout, time.Since(begin), "what does not return is not waited for longer")
	})
	synctest.Test(t, func(t *testing.T) {
		value, err := within(t.Context(), func() (int, error) { time.Sleep(time.Hour); return 1, nil }, func(int) { t.Error("it is made in time") })
		assert.NoError(t, err)
		assert.Equal(t, 1, value)
	})
}

// untilAsked returns a context that ends when the spawner, which is stopped, has been asked for a sandbox: by the socket's queue (unix(7)).
func untilAsked() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Limit(0))
	asked := func() bool {
		owner.Lock()
		defer owner.Unlock()
		unread, err := unix.IoctlGetInt(owner.socket, unix.SIOCOUTQ)
		return err == nil && unread > 0
	}
	go func() {
		defer cancel()
		for !asked() && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}()
	return ctx
}

// TestCloseWaitsForWhatIsBeingMade: while the spawner is stopped a sandbox is asked for, which nobody wants any more when it is there.
func TestCloseWaitsForWhatIsBeingMade(t *testing.T) {
	needsChildren(t)
	sessionClose := func(t *testing.T) func() error {
		s := opened(t, NewPolicy())
		s.expire(s.sandbox)
		stopped(t, spawnerOf(t))
		_, err := s.Exec(untilAsked(), []string{"true"}, nil)
		require.ErrorIs(t, err, context.Canceled)
		return s.Close
	}
	poolClose := func(t *testing.T) func() error {
		pool, err := NewPool(built(t, NewPolicy()), 1)
		require.NoError(t, err)
		stopped(t, spawnerOf(t))
		s, err := pool.Get(context.Background()) // which has another one made
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		s.sandbox.Kill()
		<-s.sandbox.Done()
		<-untilAsked().Done()
		return pool.Close
	}
	var given chan struct{} // closed when nobody wants the sandbox any more
	openClose := func(t *testing.T) func() error {
		p := built(t, NewPolicy())
		stopped(t, spawnerOf(t))
		given = make(chan struct{})
		return func() error {
			ctx := untilAsked()
			go func() {
				<-ctx.Done()
				close(given)
			}()
			_, err := Open(ctx, p)
			assert.ErrorIs(t, err, context.Canceled)
			return nil
		}
	}
	for name, prepare := range map[string]func(*testing.T) func() error{"session": sessionClose, "pool": poolClose, "open": openClose} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, opened(t, NewPolicy()).Close())
			spawner := spawnerOf(t)
			alive := func(pid int) bool { return state(pid) != "Z" && state(pid) != "" }
			eventually(t, "nothing else is there", func() bool { return !slices.ContainsFunc(below(spawner), alive) })
			closing := prepare(t)
			type end struct{ early, alive bool }
			closed := make(chan end, 1)
			go func() {
				begin := time.Now()
				assert.NoError(t, closing())
				early := time.Since(begin) < killTimeout // longer nobody waits, and then a sandbox may be alive
				closed <- end{early, slices.ContainsFunc(below(spawner), alive)}
			}()
			select {
			case e := <-closed:
				require.False(t, e.early, "it has returned before the sandbox was made")
			case <-time.After(100 * time.Millisecond):
				if name == "open" {
					testenv.Receive(t, given, "that nobody wants the sandbox any more")
				}
				require.NoError(t, unix.Kill(spawner, unix.SIGCONT))
				e := testenv.Receive(t, closed, "Close")
				assert.False(t, e.early && e.alive, "a sandbox is alive")
			}
		})
	}
}
