package backend

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// stuckVar makes TestRunToBeKilled the nsrun of TestNothingWaitsForABubblewrapThatDied.
const stuckVar = "NSRUN_TEST_STUCK"

// stuckBwrap puts a program on PATH that does as bubblewrap whose monitor never lets its child go on (bubblewrap issue 700): both wait for ever,
// the child without a death signal. mark is on their command lines.
func stuckBwrap(t *testing.T) (dir, mark string) {
	t.Helper()
	dir, mark = t.TempDir(), fmt.Sprintf("7%d.77", os.Getpid())
	script := fmt.Sprintf("#!/bin/sh\nsleep %s &\nexec sleep %s\n", mark, mark)
	require.NoError(t, os.WriteFile(dir+"/bwrap", []byte(script), 0o755))
	t.Cleanup(func() {
		for _, pid := range running(mark) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	})
	return dir, mark
}

// runStuck runs a command by that program.
func runStuck(t *testing.T, cancel <-chan struct{}) error {
	pol := policy.Default("/home/nobody")
	pol.Backend, pol.Fallback = policy.BackendBwrap, policy.Degrade
	known := probe.Quick().With(facts.Bwrap, facts.Answer{State: facts.Yes})
	p, err := plan.Compile(plan.Request{Policy: pol, Private: plan.PrivatePlace{Dir: filepath.Join(t.TempDir(), "private")}, Command: []string{"true"}, Environ: os.Environ()}, known)
	require.NoError(t, err)
	_, err = Run(p, Options{Cancel: cancel})
	return err
}

// TestNothingWaitsForABubblewrapThatDied kills each process of a run in which bubblewrap's child waits for ever. When Run returns, nothing is
// left.
func TestNothingWaitsForABubblewrapThatDied(t *testing.T) {
	for _, victim := range []string{"bubblewrap", "watchdog", "nobody, but the run is cancelled", "nsrun"} {
		t.Run(victim, func(t *testing.T) {
			dir, mark := stuckBwrap(t)
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			before, cancel := leftNow(t), make(chan struct{})
			if victim == "nsrun" {
				cmd := exec.Command("/proc/self/exe", "-test.run=^TestRunToBeKilled$")
				cmd.Env = append(os.Environ(), stuckVar+"=1", "TMPDIR="+t.TempDir()) // which it cannot clean up
				require.NoError(t, cmd.Start())
				testenv.Eventually(t, func() bool { return len(running(mark)) == 2 }, "both processes")
				require.NoError(t, cmd.Process.Kill())
				_ = cmd.Wait()
				testenv.Eventually(t, func() bool { return len(running(mark)) == 0 }, "the end of both")
				return
			}
			done := make(chan error, 1)
			go func() { done <- runStuck(t, cancel) }()
			testenv.Eventually(t, func() bool { return len(running(mark)) == 2 }, "both processes")
			watchdog := childrenOf(t, os.Getpid())
			require.Len(t, watchdog, 1)
			monitor := childrenOf(t, watchdog[0])
			require.Len(t, monitor, 1)
			failed := true
			switch victim {
			case "bubblewrap":
				require.NoError(t, unix.Kill(monitor[0], unix.SIGKILL))
			case "watchdog":
				require.NoError(t, unix.Kill(watchdog[0], unix.SIGKILL))
			default:
				failed = false
				close(cancel)
			}
			if err := testenv.Receive(t, done, "the run's end"); failed {
				assert.ErrorContains(t, err, "status 137")
			} else {
				assert.NoError(t, err, "it was killed, and no step has failed")
			}
			assert.Empty(t, running(mark), "when Run has returned")
			assert.Equal(t, before, leftNow(t))
		})
	}
}

// TestRunToBeKilled is nsrun in TestNothingWaitsForABubblewrapThatDied.
func TestRunToBeKilled(t *testing.T) {
	if os.Getenv(stuckVar) == "" {
		t.Skip("it is for TestNothingWaitsForABubblewrapThatDied")
	}
	t.Fatal("the run has ended first:", runStuck(t, nil))
}

// TestEveryFaultOfTheWatchdogFailsClosed makes each of its calls fail in turn. The command must not have run, but where the fault comes after
// it may have begun, and nothing may be left.
func TestEveryFaultOfTheWatchdogFailsClosed(t *testing.T) {
	if _, err := FindBwrap(); err != nil {
		require.Empty(t, os.Getenv("CI"), "CI must have bubblewrap")
		t.Skip(err)
	}
	p, marker := touch(t, func(pol *policy.Policy) { pol.Backend = policy.BackendBwrap })
	program := (*sys.Program)(nil)
	good := func() {
		_, err := Run(p, Options{Inject: func(now *sys.Program) { program = now }})
		require.NoError(t, err)
		require.FileExists(t, marker, "positive control")
		require.NoError(t, os.Remove(marker))
	}
	good()
	calls := testenv.Sample(t, program.Len(), func(i int) string { return program.Describe(i).String() + program.CallName(i) })
	testenv.Count(t, "fault points", len(calls))
	inBatches(t, calls, func(i int) {
		var step sys.Step
		tolerated := false
		_, err := Run(p, Options{Inject: func(now *sys.Program) {
			step, tolerated = now.Describe(i), now.Tolerates(i, unix.EIO)
			now.Inject(i, unix.EIO)
		}})
		ran := os.Remove(marker) == nil
		what := fmt.Sprintf("call %d (%s): %v", i, step, err)
		switch late := step.Stage == "watchdog" && strings.Contains("close all wait kill", step.Op); {
		case late && err != nil: // the command may have begun
			assert.True(t, !ran || assert.ErrorIs(t, err, ErrEnd), what)
		case tolerated || late:
			assert.True(t, err == nil && ran, what)
		default:
			assert.False(t, ran, what)
			assert.ErrorIs(t, err, unix.EIO, what)
		}
	}, func() {})
	good()
}

// TestTheWatchdogsGroup: what a run by bubblewrap consists of is in one process group, until the command makes a session, so that one kill ends it.
func TestTheWatchdogsGroup(t *testing.T) {
	dir, mark := stuckBwrap(t)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	done, cancel := make(chan error, 1), make(chan struct{})
	go func() { done <- runStuck(t, cancel) }()
	testenv.Eventually(t, func() bool { return len(running(mark)) == 2 }, "both processes")
	watchdog := childrenOf(t, os.Getpid())
	require.Len(t, watchdog, 1)
	for _, pid := range append(running(mark), watchdog...) {
		group, err := unix.Getpgid(pid)
		require.NoError(t, err)
		session, err := unix.Getsid(pid)
		require.NoError(t, err)
		assert.Equal(t, []int{watchdog[0], watchdog[0]}, []int{group, session}, strconv.Itoa(pid))
	}
	testenv.Eventually(t, func() bool { // it goes on when bubblewrap is executed
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", watchdog[0]))
		return err == nil && len(fds) == 2
	}, "the watchdog to hold nothing but its socket and its signalfd")
	close(cancel)
	testenv.Receive(t, done, "the run's end")
}
