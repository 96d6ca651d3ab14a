package backend

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// monitorVar makes TestCallerToBeKilled the caller of TestNoCommandAfterTheCallersThread: a kind of sandbox, and the command's marker.
const monitorVar = "NSRUN_TEST_CALLER"

// TestNoCommandAfterTheCallersThread kills the caller before its sandbox has asked for a death signal, while something still holds the
// caller's end of the status socket.
//
// The threads of a process end one after another, and share their descriptors. If the thread that has forked the sandbox ends first, the
// sandbox gets another parent, and no signal if it asks for one only after that. The socket ends with the last thread (do_exit in
// kernel/exit.c calls exit_notify for the first thread before exit_files for the last one), so a sandbox that looks whether the socket has
// ended can still take its caller for alive. The test holds the socket in the place of the other threads, for as long as it needs.
func TestNoCommandAfterTheCallersThread(t *testing.T) {
	for _, kind := range []string{"compat", "compat, as pid 1", "compat, with a waiter", "native"} {
		t.Run(kind, func(t *testing.T) {
			_, marker := compatTouch(t)
			require.NoError(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
			defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
			gate, open, err := os.Pipe() // the sandbox begins when this has ended
			require.NoError(t, err)
			defer open.Close()
			ready, announce, err := os.Pipe()
			require.NoError(t, err)
			defer ready.Close()
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
			require.NoError(t, err)
			status, childStatus := os.NewFile(uintptr(pair[0]), "status"), os.NewFile(uintptr(pair[1]), "child's status")
			defer status.Close()
			cmd := exec.Command("/proc/self/exe", "-test.run=^TestCallerToBeKilled$")
			cmd.Env = append(os.Environ(), monitorVar+"="+kind+"\n"+marker, "TMPDIR="+t.TempDir()) // it cannot remove its own
			cmd.ExtraFiles, cmd.Stderr = []*os.File{gate, announce, status, childStatus}, os.Stderr
			require.NoError(t, cmd.Start())
			for _, f := range []*os.File{gate, announce, childStatus} {
				f.Close()
			}
			var thread int
			_, err = fmt.Fscan(ready, &thread)
			require.NoError(t, err, "the caller has forked")
			waits := func() bool { // it has sent all that it sends without an answer
				call, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/syscall", cmd.Process.Pid, thread))
				return strings.HasPrefix(string(call), fmt.Sprintf("%d ", unix.SYS_PPOLL))
			}
			testenv.Eventually(t, waits, "the caller to wait for its sandbox")
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait()
			open.Close()
			n, err := unix.Read(int(status.Fd()), make([]byte, sys.ExitSize+1))
			require.NoError(t, err)
			assert.Equal(t, 1, n, "the sandbox asks for an answer, and nobody gives one")
			status.Close()
			reapEvery(t)
			assert.NoFileExists(t, marker, "the command has run without its caller")
		})
	}
}

// TestCallerToBeKilled is the caller in TestNoCommandAfterTheCallersThread.
func TestCallerToBeKilled(t *testing.T) {
	kind, marker, _ := strings.Cut(os.Getenv(monitorVar), "\n")
	if kind == "" {
		t.Skip("it is for TestNoCommandAfterTheCallersThread")
	}
	const gate, announce, status, childStatus = 3, 4, 5, 6
	for fd := gate; fd <= childStatus; fd++ {
		unix.CloseOnExec(fd)
	}
	runtime.LockOSThread()
	ch, err := openChannels()
	require.NoError(t, err)
	ch.status, ch.childStatus = status, childStatus
	options := map[string][]string{"compat, as pid 1": {"--unshare-pid", "--unshare-user", "--as-pid-1"}, "compat, with a waiter": {"--unshare-pid", "--unshare-user"}}
	p := parse(t, append(append([]string{"--bind", "/", "/", "--die-with-parent"}, options[kind]...), "/usr/bin/touch", marker)...)
	if kind == "native" {
		p, _ = touch(t, func(pol *policy.Policy) { *pol = pol.Grant(filepath.Dir(marker), true, "test") })
		p.Command = []string{"touch", marker}
	}
	var host mounts.Host
	defer host.Close()
	l := stages.New(p, &host, stages.FDs{Report: ch.childReport, Status: childStatus, Theirs: []int{ch.report, status}}, false)
	l.Program.Add(unix.SYS_READ, sys.Int(gate), sys.Bytes(make([]byte, 1)), sys.Int(1))
	by := verify.Compat
	if kind == "native" {
		by = verify.Pid1
	}
	lowered, err := l.Lower(by)
	require.NoError(t, err)
	if kind == "native" {
		pid, pidfd, err := lowered.Program.Fork(lowered.Flags, ch.childReport)
		require.NoError(t, err)
		ch.closeChild()
		r := &run{plan: p, lowered: lowered, pid: pid, pidfd: pidfd, parent: -1, command: -1, ch: ch, pumps: &pumps{}}
		r.listen()
		os.NewFile(announce, "announce").WriteString(fmt.Sprintln(unix.Gettid()))
		_, err = r.finish()
		t.Fatal("the sandbox has ended first:", err)
	}
	m := &monitor{plan: p, lowered: lowered, ch: ch, parent: -1, pidfd: -1}
	m.listen()
	require.NoError(t, m.start())
	os.NewFile(announce, "announce").WriteString(fmt.Sprintln(unix.Gettid()))
	_, err = m.supervise()
	t.Fatal("the sandbox has ended first:", err)
}
