package sys

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestRunKeepsResultsForLaterCalls(t *testing.T) {
	dir := t.TempDir()
	var p Program
	fd := p.Slot()
	p.Add(unix.SYS_OPENAT, AtCWD(), Str(dir), Int(unix.O_DIRECTORY|unix.O_CLOEXEC)).Keep(fd)
	p.Add(unix.SYS_MKDIRAT, Of(fd), Str("made"), Int(0o755))
	p.Add(unix.SYS_CLOSE, Of(fd))
	require.NoError(t, p.Run())
	assert.DirExists(t, filepath.Join(dir, "made"), "the call must have used the kept descriptor")
}

func TestErrorCarriesStepAndErrno(t *testing.T) {
	var p Program
	p.At(Step{Stage: "mount", Index: 1, Op: "bind", Path: "/a"})
	p.Add(unix.SYS_GETPPID)
	p.At(Step{Stage: "mount", Index: 2, Op: "bind", Path: "/b"})
	p.Add(unix.SYS_CHDIR, Str("/no/such/dir"))
	err := p.Run()
	var e *fault.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, &fault.Error{Stage: "mount", Index: 2, Op: "bind", Path: "/b", Err: unix.ENOENT}, e)
}

func TestToleratedErrnoSkips(t *testing.T) {
	dir := t.TempDir()
	var p Program
	p.Add(unix.SYS_CHDIR, Str("/no/such/dir")).Tolerate(unix.EACCES, 0).Tolerate(unix.ENOENT, 1)
	p.Fail(unix.EIO)
	p.Add(unix.SYS_MKDIRAT, AtCWD(), Str(dir+"/x"), Int(0o700))
	require.NoError(t, p.Run())
	assert.DirExists(t, dir+"/x")
}

func TestRepeatCountsAndTolerates(t *testing.T) {
	var p Program
	p.Add(unix.SYS_CLOSE, Counter()).Repeat(100000, 100003).Tolerate(unix.EBADF, 0)
	p.Fail(unix.EXDEV)
	require.ErrorIs(t, p.Run(), unix.EXDEV, "every repetition must be tolerated and the next call reached")
}

func TestMinTurnsShortResultsIntoErrors(t *testing.T) {
	var fds [2]int
	require.NoError(t, unix.Pipe2(fds[:], unix.O_CLOEXEC))
	unix.Close(fds[1])
	defer unix.Close(fds[0])
	var p Program
	p.Add(unix.SYS_READ, Int(fds[0]), Bytes(make([]byte, 1)), Int(1)).Min(1)
	require.ErrorIs(t, p.Run(), unix.EPIPE)
}

func TestInjectedFaultsRespectTolerance(t *testing.T) {
	var p Program
	p.Add(unix.SYS_GETPID).Tolerate(unix.ENOENT, 0)
	p.Inject(0, unix.ENOENT)
	require.NoError(t, p.Run())
	p.Inject(0, unix.EIO)
	require.ErrorIs(t, p.Run(), unix.EIO)
}

func TestTextReadsLikeStrace(t *testing.T) {
	p := Program{Trace: true}
	fd, pid := p.Slot(), p.Slot()
	p.At(Step{Stage: "root"})
	p.Add(unix.SYS_OPENAT, AtCWD(), Str("/"), Words(unix.O_PATH, "O_PATH")).Keep(fd)
	p.Add(unix.SYS_PRCTL, Words(unix.PR_CAPBSET_DROP, "PR_CAPBSET_DROP"), Counter()).Repeat(0, 40).Tolerate(unix.EINVAL, 0)
	p.Spawn(pid, nil, func() {
		p.Add(unix.SYS_EXECVE, Str("/bin/a"), List([]string{"a", "b c"}), List(nil)).Tolerate(unix.ENOENT, 2)
	})
	p.Reap(pid, 4, false, "")
	p.Fail(unix.EIO)
	assert.Equal(t, `# root
   0  openat(AT_FDCWD, "/", O_PATH) = $1
   1  prctl(PR_CAPBSET_DROP, 0..40), or EINVAL
   2  spawn(1 calls) = $2
   3      execve("/bin/a", ["a" "b c"], []), or ENOENT: skip 2
   4  reap(until $2, status to 4)
   5  fail(EIO)
`, p.String())
}

// forkOne runs p in a child and returns what came over its report and status pipes, and its wait status.
func forkOne(t *testing.T, build func(p *Program, status int)) (Failure, bool, Exit, bool, unix.WaitStatus) {
	t.Helper()
	var report, status [2]int
	require.NoError(t, unix.Pipe2(report[:], unix.O_CLOEXEC))
	require.NoError(t, unix.Pipe2(status[:], unix.O_CLOEXEC))
	var p Program
	build(&p, status[1])
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, pidfd, err := p.Fork(0, report[1])
	require.NoError(t, err)
	unix.Close(report[1])
	unix.Close(status[1])
	defer unix.Close(report[0])
	defer unix.Close(status[0])
	defer unix.Close(pidfd)
	f, failed := ParseFailure(drain(report[0]))
	e, ended := ParseExit(drain(status[0]))
	var ws unix.WaitStatus
	_, err = unix.Wait4(pid, &ws, 0, nil)
	require.NoError(t, err)
	return f, failed, e, ended, ws
}

func drain(fd int) []byte {
	b := make([]byte, 1024)
	n, _ := unix.Read(fd, b)
	return b[:max(n, 0)]
}

func TestForkSpawnReap(t *testing.T) {
	_, failed, e, ended, ws := forkOne(t, func(p *Program, status int) {
		pid := p.Slot()
		var pidfd int32 = -1
		p.Spawn(pid, &pidfd, func() {
			p.Add(unix.SYS_EXECVE, Str("/no/such"), List([]string{"sh"}), List(nil)).Tolerate(unix.ENOENT, 0)
			p.Add(unix.SYS_EXECVE, Str("/bin/sh"), List([]string{"sh", "-c", "exit 7"}), List(nil))
		})
		p.Reap(pid, status, false, "/proc")
	})
	require.False(t, failed)
	require.True(t, ended)
	assert.Equal(t, 7, unix.WaitStatus(e.Status).ExitStatus())
	assert.EqualValues(t, unix.PROC_SUPER_MAGIC, e.Place.Type)
	assert.NotEqual(t, e.Place.Type, e.Root.Type)
	assert.Equal(t, 0, ws.ExitStatus())
}

func TestForkReportsWhereItFailed(t *testing.T) {
	f, failed, _, _, ws := forkOne(t, func(p *Program, status int) {
		p.Add(unix.SYS_GETPID)
		p.Add(unix.SYS_CHDIR, Str("/no/such/dir"))
	})
	require.True(t, failed)
	assert.EqualValues(t, 1, f.Index)
	assert.EqualValues(t, unix.ENOENT, f.Errno)
	assert.Equal(t, 127, ws.ExitStatus())
}

func TestSpawnedChildReportsWithGlobalIndex(t *testing.T) {
	f, failed, _, ended, _ := forkOne(t, func(p *Program, status int) {
		pid := p.Slot()
		p.Spawn(pid, nil, func() {
			p.Add(unix.SYS_GETPID)
			p.Add(unix.SYS_EXECVE, Str("/no/such"), List(nil), List(nil))
		})
		p.Reap(pid, status, false, "")
	})
	require.True(t, failed)
	assert.EqualValues(t, 2, f.Index)
	assert.True(t, ended, "the parent still reports the end of its child")
}

func TestForkRefusedByKernel(t *testing.T) {
	var p Program
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, _, err := p.Fork(unix.CLONE_NEWNS|unix.CLONE_FS, -1) // a pair that clone(2) documents as EINVAL
	require.True(t, errors.Is(err, unix.EINVAL), "got %v", err)
}

// TestForkUnderLoad forks while the collector and other goroutines are busy: the child must need nothing of either.
func TestForkUnderLoad(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	for range 4 {
		go func() {
			var keep [][]byte
			for {
				select {
				case <-stop:
					return
				default:
					if keep = append(keep, make([]byte, 1<<12)); len(keep) > 1000 {
						keep = nil
					}
				}
			}
		}()
	}
	for range testenv.Times(1000) {
		_, failed, _, _, ws := forkOne(t, func(p *Program, status int) {
			p.Add(unix.SYS_EXECVE, Str("/bin/true"), List([]string{"true"}), List(os.Environ()))
		})
		require.False(t, failed)
		require.Equal(t, 0, ws.ExitStatus())
	}
}
