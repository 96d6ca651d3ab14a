package backend

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/seccomp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestWaitFilterRefusesAllButTheWait judges the filter of root's monitor by the interpreter.
func TestWaitFilterRefusesAllButTheWait(t *testing.T) {
	arch, err := seccomp.Host()
	require.NoError(t, err)
	var filter seccomp.Filter
	instructions := waitFilter(nil, arch)
	assert.LessOrEqual(t, len(instructions), maxWaitFilter)
	for _, i := range instructions {
		filter = append(filter, seccomp.Instruction{Code: i.Code, Jt: i.Jt, Jf: i.Jf, K: i.K})
	}
	require.NoError(t, filter.Check())
	decide := func(machine uint32, nr int, args ...uint64) seccomp.Action {
		d := seccomp.Data{NR: uint32(nr), Arch: machine}
		copy(d.Args[:], args)
		action, err := seccomp.Interpret(filter, d)
		require.NoError(t, err)
		return action
	}
	self := uint64(os.Getpid())
	refused := seccomp.Errno(uint16(unix.EPERM))
	for _, nr := range waitCalls {
		assert.Equal(t, seccomp.Allow, decide(arch.Audit(), int(nr)), "call %d", nr)
		assert.Equal(t, refused, decide(0x40000003, int(nr)), "i386's call %d", nr)
	}
	for _, nr := range []int{unix.SYS_OPENAT, unix.SYS_OPENAT2, unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_PTRACE, unix.SYS_MOUNT, unix.SYS_BPF,
		unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_GETFD, unix.SYS_SOCKET, unix.SYS_CONNECT, unix.SYS_SETNS, unix.SYS_UNSHARE,
		unix.SYS_IO_URING_SETUP, unix.SYS_IOCTL, unix.SYS_CAPSET, unix.SYS_SETRESUID, unix.SYS_INIT_MODULE, unix.SYS_PRCTL,
		unix.SYS_RECVMSG, unix.SYS_SHUTDOWN} {
		assert.Equal(t, refused, decide(arch.Audit(), nr), "call %d", nr)
	}
	for _, nr := range []int{unix.SYS_KILL, unix.SYS_TGKILL} {
		assert.Equal(t, seccomp.Allow, decide(arch.Audit(), nr, self))
		assert.Equal(t, refused, decide(arch.Audit(), nr, 1), "a signal to another process")
		assert.Equal(t, refused, decide(arch.Audit(), nr, ^uint64(0)), "a signal to all")
	}
	assert.Equal(t, seccomp.Allow, decide(arch.Audit(), unix.SYS_CLONE, newThread|threadIDs))
	assert.Equal(t, seccomp.Allow, decide(arch.Audit(), unix.SYS_CLONE, newThread))
	assert.Equal(t, refused, decide(arch.Audit(), unix.SYS_CLONE, newThread|unix.CLONE_NEWNET))
	assert.Equal(t, refused, decide(arch.Audit(), unix.SYS_CLONE, uint64(unix.SIGCHLD)), "a process")
	for cmd, want := range map[uint64]seccomp.Action{unix.F_GETFD: seccomp.Allow, unix.F_SETFD: seccomp.Allow, unix.F_GETFL: seccomp.Allow, unix.F_SETFL: seccomp.Allow,
		unix.F_SETOWN: refused, unix.F_SETSIG: refused, unix.F_SETOWN_EX: refused, unix.F_SETLEASE: refused, unix.F_NOTIFY: refused} {
		assert.Equal(t, want, decide(arch.Audit(), unix.SYS_FCNTL, 3, cmd), "fcntl command %d", cmd)
	}
	assert.Equal(t, seccomp.Errno(uint16(unix.ENOSYS)), decide(arch.Audit(), unix.SYS_CLONE3))
}

// TestGiveUpReachesEveryThread gives up in a process of its own, in which Go's runtime must go on: new threads, timers, the collector.
func TestGiveUpReachesEveryThread(t *testing.T) {
	if os.Getenv("NSRUN_TEST_GIVE_UP") == "" {
		require.NoError(t, unix.Access("/etc/passwd", unix.R_OK))
		cmd := exec.Command("/proc/self/exe", "-test.run", "^TestGiveUpReachesEveryThread$", "-test.v")
		cmd.Env = append(os.Environ(), "NSRUN_TEST_GIVE_UP=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS", "%s", out)
		return
	}
	statuses := openStatuses(t) // before: root's filter opens nothing
	require.Greater(t, len(statuses), 1, "one thread proves nothing")
	root := unix.Geteuid() == 0
	reaches := sys.AllThreads(unix.SYS_GETPPID) == nil // no C library is linked
	elsewhere(giveUp)
	first := fmt.Sprintf("/proc/self/task/%d/status", os.Getpid())
	for _, f := range statuses {
		text := make([]byte, 1<<14)
		n, err := unix.Pread(int(f.Fd()), text, 0)
		require.NoError(t, err)
		assert.Contains(t, string(text[:n]), "NoNewPrivs:\t1")
		assert.Contains(t, string(text[:n]), "Seccomp:\t2")
		if root && reaches && f.Name() == first {
			assert.Contains(t, string(text[:n]), "CapEff:\t0000000000000000")
		}
	}
	opened := make(chan error, 8)
	for range cap(opened) {
		go func() {
			runtime.LockOSThread() // a thread for each, new ones among them
			time.Sleep(time.Millisecond)
			runtime.GC()
			fd, err := unix.Open("/etc/passwd", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err == nil {
				unix.Close(fd)
			}
			opened <- err
		}()
	}
	for range cap(opened) {
		if err := <-opened; root {
			assert.Equal(t, unix.EPERM, err)
		} else {
			assert.NoError(t, err)
		}
	}
}

// elsewhere calls f on another thread than the first.
func elsewhere(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if unix.Gettid() == unix.Getpid() {
			elsewhere(f)
			return
		}
		f()
	}()
	<-done
}

// openStatuses opens the status of each thread of this process.
func openStatuses(t *testing.T) (files []*os.File) {
	started := make(chan struct{})
	t.Cleanup(func() { close(started) })
	for range 4 {
		go func() { runtime.LockOSThread(); <-started }()
	}
	require.Eventually(t, func() bool {
		tasks, err := filepath.Glob("/proc/self/task/*/status")
		return err == nil && len(tasks) > 4
	}, 10*time.Second, time.Millisecond)
	tasks, err := filepath.Glob("/proc/self/task/*/status")
	require.NoError(t, err)
	for _, task := range tasks {
		if f, err := os.Open(task); err == nil && !strings.Contains(task, "thread-self") {
			files = append(files, f)
			t.Cleanup(func() { f.Close() })
		}
	}
	return files
}
