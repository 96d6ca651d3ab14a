package sys

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// subreaper writes a process that keeps a shell: signals over a descriptor, a subreaper, and the shell's end told over fd.
func subreaper(fd int, group bool, script string) *Program {
	p := &Program{Trace: true}
	pid, signals, child := p.Slot(), p.Slot(), make([]byte, 8)
	child[(unix.SIGCHLD-1)/8] = 1 << ((unix.SIGCHLD - 1) % 8)
	p.Add(unix.SYS_RT_SIGPROCMASK, Words(unix.SIG_SETMASK, "SIG_SETMASK"), Bytes(child), Null(), Int(8))
	p.Add(unix.SYS_PRCTL, Words(unix.PR_SET_CHILD_SUBREAPER, "PR_SET_CHILD_SUBREAPER"), Int(1), Int(0), Int(0), Int(0))
	p.Add(unix.SYS_SIGNALFD4, Int(-1), Bytes(child), Int(8), Words(unix.SFD_CLOEXEC, "SFD_CLOEXEC")).Keep(signals)
	p.Spawn(pid, nil, func() {
		p.Add(unix.SYS_SETSID)
		p.Add(unix.SYS_EXECVE, Str("/bin/sh"), List([]string{"sh", "-c", script}), List([]string{"PATH=/usr/bin:/bin"}))
	})
	p.Guard(pid, fd, signals, group)
	p.Drain()
	return p
}

// start forks a subreaper, and returns our end of its socket.
func start(t *testing.T, group bool, script string) (ours, pid int) {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	p := subreaper(pair[1], group, script)
	assert.Contains(t, p.String(), "guard(until $")
	assert.Contains(t, p.String(), "drain(")
	pid, pidfd, err := p.Fork(0, pair[1])
	require.NoError(t, err)
	unix.Close(pidfd)
	unix.Close(pair[1])
	t.Cleanup(func() { unix.Close(pair[0]) })
	return pair[0], pid
}

func waitFor(t *testing.T, pid int) unix.WaitStatus {
	t.Helper()
	var status unix.WaitStatus
	_, err := unix.Wait4(pid, &status, 0, nil)
	require.NoError(t, err)
	return status
}

func TestGuardTellsHowItsChildEnded(t *testing.T) {
	ours, pid := start(t, false, "for i in 1 2 3; do (sleep 0.01 &) ; done; exit 7")
	buf := make([]byte, ExitSize)
	n, err := unix.Read(ours, buf)
	require.NoError(t, err)
	exit, ok := ParseExit(buf[:n])
	require.True(t, ok)
	assert.Equal(t, 7, unix.WaitStatus(exit.Status).ExitStatus())
	assert.Equal(t, 0, waitFor(t, pid).ExitStatus(), "orphans are waited for too")
}

func TestGuardKillsTheGroup(t *testing.T) {
	ours, pid := start(t, true, "sleep 1000 & exit 0")
	_, err := unix.Read(ours, make([]byte, ExitSize))
	require.NoError(t, err)
	began := time.Now()
	waitFor(t, pid)
	assert.Less(t, time.Since(began), testenv.Limit(0), "the sleeper in the group has been killed")
}

func TestGuardNoticesThatNobodyReads(t *testing.T) {
	ours, pid := start(t, true, "sleep 60")
	require.NoError(t, unix.Shutdown(ours, unix.SHUT_RDWR))
	waitFor(t, pid)
}

func TestBesideGoesItsOwnWay(t *testing.T) {
	dir := t.TempDir()
	p := &Program{Trace: true}
	p.Beside(func() {
		p.Add(unix.SYS_MKDIRAT, AtCWD(), Str(dir+"/child"), Int(0o700))
		p.Fail(unix.EPERM) // in silence
	})
	p.Add(unix.SYS_MKDIRAT, AtCWD(), Str(dir+"/parent"), Int(0o700))
	p.Drain()
	assert.Contains(t, p.String(), "fork(2 calls)")
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, pidfd, err := p.Fork(0, -1)
	require.NoError(t, err)
	unix.Close(pidfd)
	assert.Equal(t, 0, waitFor(t, pid).ExitStatus(), "the child's failure is not the parent's")
	assert.DirExists(t, dir+"/child")
	assert.DirExists(t, dir+"/parent")
}

func TestExpect(t *testing.T) {
	for _, tt := range []struct {
		name   string
		child  func(p *Program)
		killed bool
		want   int
	}{
		{"as it should", func(p *Program) { p.Add(unix.SYS_EXIT_GROUP, Int(0)) }, false, 0},
		{"another code", func(p *Program) { p.Add(unix.SYS_EXIT_GROUP, Int(3)) }, false, 127},
		{"a failure", func(p *Program) { p.Fail(unix.EPERM) }, true, 127},
		{"killed", suicide, false, 127},
		{"killed, which is as good", suicide, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
			require.NoError(t, err)
			defer null.Close()
			p := &Program{Trace: true}
			pid := p.Slot()
			p.Spawn(pid, nil, func() { tt.child(p) })
			p.Expect(pid, tt.killed, unix.ECHILD)
			assert.Equal(t, tt.killed, strings.Contains(p.String(), "a signal is as good"))
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			forked, pidfd, err := p.Fork(0, int(null.Fd()))
			require.NoError(t, err)
			unix.Close(pidfd)
			assert.Equal(t, tt.want, waitFor(t, forked).ExitStatus())
		})
	}
}

func suicide(p *Program) {
	self := p.Slot()
	p.Add(unix.SYS_GETPID).Keep(self)
	p.Add(unix.SYS_KILL, Of(self), Int(int(unix.SIGKILL)))
}

// TestForeign makes the call where nothing forbids it: it comes back, or the kernel has no such calls and ends the process.
func TestForeign(t *testing.T) {
	var p Program
	p.Foreign()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, pidfd, err := p.Fork(0, -1)
	require.NoError(t, err)
	unix.Close(pidfd)
	status := waitFor(t, pid)
	assert.True(t, status.Exited() && status.ExitStatus() == 0 || status.Signal() == unix.SIGSEGV, "%v", status)
}

// TestSpawnApartSharesNoMemory has a child write what its parent would see if the memory were the same, which that of Spawn is.
func TestSpawnApartSharesNoMemory(t *testing.T) {
	for apart, want := range map[bool]bool{true: false, false: true} {
		var written int32
		p := &Program{}
		child := p.Slot()
		body := func() {
			p.Add(unix.SYS_GETPID).Into(&written)
			p.Add(unix.SYS_EXIT_GROUP, Int(0))
		}
		if apart {
			p.SpawnApart(child, body)
		} else {
			p.Spawn(child, nil, body)
		}
		p.Expect(child, false, unix.ECHILD)
		require.NoError(t, p.Run())
		assert.Equal(t, want, written != 0, "apart: %v", apart)
	}
}
