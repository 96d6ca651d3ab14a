package backend

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// gate adds a call that waits until the writing end of a pipe is closed.
func gate(p *sys.Program, fd sys.Arg) {
	p.Add(unix.SYS_READ, fd, sys.Bytes(make([]byte, 1)), sys.Int(1))
}

// dead reports whether a process has ended; it may not have been waited for.
func dead(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, state, _ := strings.Cut(string(stat), ") ")
	return err != nil || strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}

// TestNoCommandAfterItsSubreaper kills the subreaper before the process that becomes the command has asked for a death signal. Without a domain
// that scopes signals the subreaper has no watchdog.
func TestNoCommandAfterItsSubreaper(t *testing.T) {
	if !probe.Quick().Can(facts.Landlock) {
		t.Skip("this kernel has no Landlock")
	}
	for name, killed := range map[string]bool{"positive control": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			require.NoError(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
			defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
			p, marker := touch(t, func(pol *policy.Policy) { pol.Backend = policy.BackendLandlock })
			p.KillScope = false
			shut, open, err := os.Pipe()
			require.NoError(t, err)
			defer open.Close()
			defer shut.Close()
			ch, err := openChannels()
			require.NoError(t, err)
			defer ch.close()
			var host mounts.Host
			defer host.Close()
			l := stages.New(p, &host, stages.FDs{Report: ch.childReport, Status: ch.childStatus}, false)
			for _, fd := range []uintptr{open.Fd(), uintptr(ch.report), uintptr(ch.status)} { // this process's ends, instead of all but the channels
				l.Program.Add(unix.SYS_CLOSE, sys.Int(fd))
			}
			spawn := slices.IndexFunc(verify.Init[:], func(s verify.Stage) bool { return s.ID == verify.Spawn })
			before := slices.DeleteFunc(slices.Clone(verify.Init[:spawn]), func(s verify.Stage) bool { return s.ID == verify.CloseInherited })
			require.NoError(t, l.Append(before, verify.Subreaper))
			require.NoError(t, l.Spawn(func() error { gate(l.Program, sys.Int(shut.Fd())); return l.Append(verify.Confinement[:], verify.Bare) }))
			require.NoError(t, l.Append(verify.Init[spawn+1:], verify.Subreaper))
			subreaper, pidfd, err := l.Program.Fork(0, ch.childReport)
			require.NoError(t, err)
			unix.Close(pidfd)
			ch.closeChild()
			require.NoError(t, sendRelease(ch.status), "this process lives, and has done all that it must")
			var command int
			testenv.Eventually(t, func() bool {
				command, _ = strconv.Atoi(children(t, strconv.Itoa(subreaper)))
				return command > 0
			}, "the process that becomes the command")
			if killed {
				require.NoError(t, unix.Kill(subreaper, unix.SIGKILL))
				_, err := unix.Wait4(subreaper, nil, 0, nil)
				require.NoError(t, err)
			}
			open.Close()
			reapEvery(t)
			if !killed {
				assert.FileExists(t, marker)
				return
			}
			assert.NoFileExists(t, marker, "the command has run without its subreaper")
			r := &run{ch: ch}
			r.readReport()
			require.NotNil(t, r.failure)
			assert.EqualValues(t, unix.ESRCH, r.failure.Errno)
		})
	}
}

// TestASessionsCommandDiesWithItsSubreaper by backend landlock, although nobody is left to kill it: the watchdog is stopped.
func TestASessionsCommandDiesWithItsSubreaper(t *testing.T) {
	for name, victim := range map[string]func(server, supervisor int) (stop, kill int){
		"the subreaper":  func(server, supervisor int) (int, int) { return supervisor, server },
		"the supervisor": func(server, supervisor int) (int, int) { return server, supervisor },
	} {
		t.Run(name, func(t *testing.T) {
			s, server := serving(t, policy.BackendLandlock)
			before := childrenOf(t, server)
			null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
			require.NoError(t, err)
			defer null.Close()
			process, err := s.Start(stages.Command{Args: []string{"sleep", "1000"}, Env: s.Plan.Env, Dir: s.Plan.Dir, Files: [3]*os.File{null, null, null}}, nil)
			require.NoError(t, err)
			defer process.Close()
			supervisor, command := commandBelow(t, server)
			for _, pid := range before { // one of them is the watchdog
				if pid != supervisor {
					require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
					defer func() { _ = unix.Kill(pid, unix.SIGKILL) }()
				}
			}
			stop, kill := victim(server, supervisor)
			require.NoError(t, unix.Kill(stop, unix.SIGSTOP))
			defer func() { _ = unix.Kill(stop, unix.SIGKILL) }()
			assert.False(t, dead(command), "positive control")
			require.NoError(t, unix.Kill(kill, unix.SIGKILL))
			testenv.Eventually(t, func() bool { return dead(command) }, "the end of the command")
		})
	}
}

// commandBelow waits for a command of a session, or for the process that becomes it, and returns its supervisor too.
func commandBelow(t *testing.T, server int) (supervisor, command int) {
	t.Helper()
	testenv.Eventually(t, func() bool {
		for _, pid := range childrenOf(t, server) {
			if own := childrenOf(t, pid); len(own) == 1 {
				supervisor, command = pid, own[0]
				return true
			}
		}
		return false
	}, "a command below the server")
	return supervisor, command
}

// TestNoSessionsCommandAfterItsSupervisor kills the supervisor before the process that becomes the command has asked for a death signal.
func TestNoSessionsCommandAfterItsSupervisor(t *testing.T) {
	for name, killed := range map[string]bool{"positive control": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			s, server := serving(t, policy.BackendLandlock)
			marker := filepath.Join(s.Plan.Dir, "marker")
			shut, open, err := os.Pipe()
			require.NoError(t, err)
			defer open.Close()
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
			require.NoError(t, err)
			defer unix.Close(pair[0])
			own := *s.Plan
			l := stages.New(&own, nil, stages.FDs{}, true)
			l.Program.ForRequests()
			gate(l.Program, sys.Of(sys.SlotIn))
			require.NoError(t, l.Append([]verify.Stage{{ID: verify.Directory, By: verify.Request}}, verify.Request))
			cut := l.Program.Len()
			require.NoError(t, l.Append([]verify.Stage{{ID: verify.Exec, By: verify.Request}}, verify.Request))
			shut.Fd() // from here on a read of it blocks
			require.NoError(t, s.send(l.Program.Request(cut, false, false), pair[1:], [3]*os.File{shut, os.Stderr, os.Stderr}, nil))
			unix.Close(pair[1])
			shut.Close()
			supervisor, command := commandBelow(t, server)
			if killed {
				require.NoError(t, unix.Kill(server, unix.SIGSTOP)) // which ends all when it finds the supervisor dead
				require.NoError(t, unix.Kill(supervisor, unix.SIGKILL))
				testenv.Eventually(t, func() bool { return dead(supervisor) }, "the end of the supervisor")
			}
			open.Close()
			testenv.Eventually(t, func() bool { return dead(command) }, "the end of the process")
			_, err = os.Stat(marker)
			assert.Equal(t, killed, errors.Is(err, os.ErrNotExist), "%v", err)
			if killed {
				require.NoError(t, unix.Kill(server, unix.SIGCONT))
				<-s.Done()
			}
		})
	}
}
