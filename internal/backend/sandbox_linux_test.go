package backend

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// forker is a thread that sandboxes are forked from until the test ends.
func forker(t *testing.T) func(func()) {
	t.Helper()
	work, done := make(chan func()), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
			done <- struct{}{}
		}
	}()
	t.Cleanup(func() { close(work) })
	return func(f func()) { work <- f; <-done }
}

func openSandbox(t *testing.T, p *plan.Plan) *Sandbox {
	t.Helper()
	o, err := Open(p, OpenOptions{Fork: forker(t)})
	require.NoError(t, err)
	s := NewSandbox(p, o.Info, o.Socket, o.Pidfd, nil)
	t.Cleanup(func() {
		s.Kill()
		_, _ = unix.Wait4(-1, nil, 0, nil)
		<-s.Done()
	})
	return s
}

// output runs a command and returns what it writes, and its status.
func output(t *testing.T, s *Sandbox, args ...string) (string, unix.WaitStatus) {
	t.Helper()
	in, err := os.Open("/dev/null")
	require.NoError(t, err)
	defer in.Close()
	out, w, err := os.Pipe()
	require.NoError(t, err)
	defer out.Close()
	process, err := s.Start(stages.Command{Args: args, Env: s.Plan.Env, Dir: s.Plan.Dir, Files: [3]*os.File{in, w, w}}, nil)
	w.Close()
	require.NoError(t, err)
	defer process.Close()
	data, err := io.ReadAll(out)
	require.NoError(t, err)
	end, err := process.Wait()
	require.NoError(t, err)
	assert.True(t, process.WaitGroupKilled(testenv.Limit(0)))
	return string(data), end.Status
}

func TestSandbox(t *testing.T) {
	p, marker := touch(t, nil)
	s := openSandbox(t, p)
	_, status := output(t, s, "touch", "marker")
	assert.Zero(t, status.ExitStatus())
	assert.FileExists(t, marker)
	text, status := output(t, s, "sh", "-c", "echo $$; cat /proc/self/status | grep -E 'Cap|NoNew|Seccomp|Sig'; ls -la /proc/self/fd; id; cat /proc/self/uid_map; readlink /proc/self/ns/user; exit 3")
	t.Log(text)
	assert.Equal(t, 3, status.ExitStatus())
}

// TestALastMessageIsReceived has the owner say that a command is to be killed, and go, with the supervisor's answer unread: the kernel tells the
// supervisor of that first (ECONNRESET), and only then what was said.
func TestALastMessageIsReceived(t *testing.T) {
	p, _ := touch(t, nil)
	s := openSandbox(t, p)
	out, w, err := os.Pipe()
	require.NoError(t, err)
	defer out.Close()
	request, err := stages.LowerRequest(s.Plan, stages.Command{Args: []string{"sh", "-c", "echo begun; exec sleep 1000"}, Env: p.Env, Dir: p.Dir, Files: [3]*os.File{w, w, w}})
	require.NoError(t, err)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, s.send(request.Program.Request(request.Cut, false, false), pair[1:], [3]*os.File{w, w, w}, nil))
	unix.Close(pair[1])
	w.Close()
	_, err = io.ReadFull(out, make([]byte, len("begun\n")))
	require.NoError(t, err)
	_, err = unix.Poll([]unix.PollFd{{Fd: int32(pair[0]), Events: unix.POLLIN}}, 5000) // the answer is there
	require.NoError(t, err)
	require.NoError(t, unix.Send(pair[0], []byte{'k'}, unix.MSG_NOSIGNAL))
	unix.Close(pair[0])
	require.NoError(t, out.SetReadDeadline(time.Now().Add(testenv.Limit(0))))
	_, err = io.ReadAll(out)
	assert.NoError(t, err, "the command lives")
}

// backends are those of which each server is tested, and how many children one has that waits for a request: the supervisor, and the watchdog
// of a subreaper.
var backends = map[policy.Backend]int{policy.BackendNative: 1, policy.BackendLandlock: 2}

// serving opens a sandbox by one of them, which waits for its first request.
func serving(t *testing.T, backend policy.Backend) (s *Sandbox, server int) {
	t.Helper()
	if backend == policy.BackendLandlock && !probe.Quick().Can(facts.Landlock) {
		require.Empty(t, os.Getenv("CI"), "CI must have Landlock")
		t.Skip("this kernel has no Landlock")
	}
	p, _ := touch(t, func(pol *policy.Policy) { pol.Backend = backend })
	if !p.Serves() {
		require.Empty(t, os.Getenv("CI"), "CI must have Landlock's scopes")
		t.Skip("this kernel's Landlock has no scopes, without which there are no sessions")
	}
	s = openSandbox(t, p)
	server = pidOf(t, s)
	testenv.Eventually(t, func() bool { return len(childrenOf(t, server)) == backends[backend] }, "the end of what the commands have started")
	return s, server
}

// childrenOf lists a process's children.
func childrenOf(t *testing.T, pid int) (pids []int) {
	t.Helper()
	for word := range strings.FieldsSeq(children(t, strconv.Itoa(pid))) {
		child, err := strconv.Atoi(word)
		require.NoError(t, err)
		pids = append(pids, child)
	}
	return pids
}

// ended closes the owner's end of a sandbox's socket, which has to be enough: a subreaper has no death signal.
func ended(t *testing.T, s *Sandbox) {
	t.Helper()
	require.NoError(t, s.socket.Close())
	select {
	case <-s.Done():
	case <-time.After(testenv.Limit(0)):
		t.Error("the server does not notice that its owner is gone")
	}
}

// TestAServerWhoseSupervisorIsStopped sees itself that its owner has gone.
func TestAServerWhoseSupervisorIsStopped(t *testing.T) {
	for backend := range backends {
		t.Run(string(backend), func(t *testing.T) {
			s, server := serving(t, backend)
			all := childrenOf(t, server)
			for _, pid := range all {
				require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
			}
			ended(t, s)
			for _, pid := range all {
				assert.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH)
			}
		})
	}
}

// TestAServerWithoutRoomForASupervisor sees it, too.
func TestAServerWithoutRoomForASupervisor(t *testing.T) {
	for backend := range backends {
		t.Run(string(backend), func(t *testing.T) {
			s, server := serving(t, backend)
			require.NoError(t, unix.Prlimit(server, unix.RLIMIT_AS, &unix.Rlimit{}, nil)) // where none can be mapped
			null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
			require.NoError(t, err)
			defer null.Close()
			process, err := s.Start(stages.Command{Args: []string{"sleep", "1000"}, Env: s.Plan.Env, Dir: s.Plan.Dir, Files: [3]*os.File{null, null, null}}, nil)
			require.NoError(t, err)
			defer process.Close()
			ended(t, s)
		})
	}
}

// TestARequestThatThereIsNoMemoryFor has the server give up, since it cannot even refuse: nobody waits for ever.
func TestARequestThatThereIsNoMemoryFor(t *testing.T) {
	for backend := range backends {
		t.Run(string(backend), func(t *testing.T) {
			s, server := serving(t, backend)
			require.NoError(t, unix.Prlimit(server, unix.RLIMIT_AS, &unix.Rlimit{}, nil))
			null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
			require.NoError(t, err)
			defer null.Close()
			sleep := stages.Command{Args: []string{"sleep", "1000"}, Env: s.Plan.Env, Dir: s.Plan.Dir, Files: [3]*os.File{null, null, null}}
			process, err := s.Start(sleep, nil) // the supervisor that is there takes it
			require.NoError(t, err)
			defer process.Close()
			give := time.AfterFunc(testenv.Limit(0), func() { t.Error("it waits"); _ = unix.Kill(server, unix.SIGKILL) })
			defer give.Stop()
			_, err = s.Start(sleep, nil)
			assert.ErrorIs(t, err, ErrLost)
			<-s.Done()
		})
	}
}

// pidOf is the pid of a sandbox's first process.
func pidOf(t *testing.T, s *Sandbox) (pid int) {
	t.Helper()
	conn, err := s.pidfd.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, conn.Control(func(fd uintptr) {
		data, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
		require.NoError(t, err)
		_, rest, _ := strings.Cut(string(data), "\nPid:")
		_, err = fmt.Sscan(rest, &pid)
		require.NoError(t, err)
	}))
	return pid
}
