package sys

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// marks appends a call that leaves a mark: a byte written to a pipe.
func marks(p *Program, fd int, mark byte) {
	p.Add(unix.SYS_WRITE, Int(fd), Bytes([]byte{mark}), Int(1)).Min(1)
}

// trail runs what build writes and returns the marks that it left.
func trail(t *testing.T, build func(p *Program, fd int)) string {
	t.Helper()
	var fds [2]int
	require.NoError(t, unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
	defer unix.Close(fds[0])
	var p Program
	build(&p, fds[1])
	require.NoError(t, p.Run())
	unix.Close(fds[1])
	return string(drain(fds[0]))
}

func TestThenAndElse(t *testing.T) {
	lookFor := func(p *Program, name string) { p.Add(unix.SYS_FACCESSAT, AtCWD(), Str(name), Int(unix.F_OK)) }
	for name, want := range map[string]string{"/": "there, done", "/no/such": "missing, done"} {
		got := trail(t, func(p *Program, fd int) {
			lookFor(p, name)
			p.Then(func() { p.Add(unix.SYS_WRITE, Int(fd), Bytes([]byte("there, ")), Int(7)) }, unix.ENOENT)
			lookFor(p, name)
			p.Else(func() { p.Add(unix.SYS_WRITE, Int(fd), Bytes([]byte("missing, ")), Int(9)) }, unix.ENOENT)
			p.Add(unix.SYS_WRITE, Int(fd), Bytes([]byte("done")), Int(4))
		})
		assert.Equal(t, want, got, name)
	}
}

func TestAnyErrnoIsTolerated(t *testing.T) {
	got := trail(t, func(p *Program, fd int) {
		p.Add(unix.SYS_CLOSE, Int(-1)).Tolerate(Any, 1)
		marks(p, fd, 'a')
		p.Add(unix.SYS_CHDIR, Str("/no/such")).Tolerate(Any, 0)
		marks(p, fd, 'b')
	})
	assert.Equal(t, "b", got)
}

func TestCompareFindsAnExchangedFile(t *testing.T) {
	compare := func(a, b string) error {
		var st unix.Stat_t
		require.NoError(t, unix.Stat(b, &st))
		buf := make([]byte, 144+8)
		for i := range 8 {
			buf[144+i] = byte(uint64(st.Dev) >> (8 * i))
		}
		var p Program
		fd := p.Slot()
		p.Add(unix.SYS_OPENAT, AtCWD(), Str(a), Int(unix.O_PATH|unix.O_CLOEXEC)).Keep(fd)
		p.Add(unix.SYS_FSTAT, Of(fd), Bytes(buf))
		p.Add(unix.SYS_CLOSE, Of(fd))
		p.Compare(buf, 8, unix.ESTALE)
		return p.Run()
	}
	require.NoError(t, compare("/", "/"))
	require.ErrorIs(t, compare("/", "/proc"), unix.ESTALE)
}

// TestReplace: the program that a list is given sees the last text, in a child alone.
func TestReplace(t *testing.T) {
	var p Program
	env := List([]string{"A=1", "B=2", "C=3"})
	p.Replace(env, 1, "B=a longer one")
	p.Add(unix.SYS_CHDIR, Str("/no/such"))
	p.Else(func() { p.Replace(env, 2, "C=4") }, unix.ENOENT)
	p.Add(unix.SYS_CHDIR, Str("/"))
	p.Else(func() { p.Replace(env, 0, "A=5") }, unix.ENOENT)
	var out [2]int
	require.NoError(t, unix.Pipe2(out[:], unix.O_CLOEXEC))
	p.Add(unix.SYS_DUP3, Int(out[1]), Int(1), Int(0))
	p.Add(unix.SYS_EXECVE, Str("/bin/sh"), List([]string{"sh", "-c", "echo A=$A B=$B C=$C"}), env)
	for range 2 {
		pid, pidfd, err := p.Fork(0, out[1])
		require.NoError(t, err)
		unix.Close(pidfd)
		_, err = unix.Wait4(pid, nil, 0, nil)
		require.NoError(t, err)
		buf := make([]byte, 100)
		n, err := unix.Read(out[0], buf)
		require.NoError(t, err)
		assert.Equal(t, "A=1 B=a longer one C=4\n", string(buf[:n]))
	}
	unix.Close(out[0])
	unix.Close(out[1])
}

func TestJoinHandsOverToASibling(t *testing.T) {
	f, failed, _, _, ws := forkOne(t, func(p *Program, _ int) {
		p.Join()
		p.Add(unix.SYS_CHDIR, Str("/no/such"))
	})
	require.True(t, failed, "the sibling goes on")
	assert.EqualValues(t, 1, f.Index)
	assert.Equal(t, 0, ws.ExitStatus(), "the first one has ended well")
	var sibling unix.WaitStatus
	_, err := unix.Wait4(-1, &sibling, 0, nil)
	require.NoError(t, err, "the sibling is a child of ours")
	assert.Equal(t, 127, sibling.ExitStatus())
}

func TestReapAllWaitsForEveryChild(t *testing.T) {
	_, failed, e, ended, ws := forkOne(t, func(p *Program, status int) {
		p.Add(unix.SYS_PRCTL, Int(unix.PR_SET_CHILD_SUBREAPER), Int(1))
		pid := p.Slot()
		p.Spawn(pid, nil, func() {
			p.Add(unix.SYS_EXECVE, Str("/bin/sh"), List([]string{"sh", "-c", "(sleep 0.2; exit 4) & exit 3"}), List([]string{"PATH=/usr/bin:/bin"}))
		})
		p.Reap(pid, status, true, "")
	})
	require.False(t, failed)
	require.True(t, ended)
	assert.Equal(t, 3, unix.WaitStatus(e.Status).ExitStatus(), "the first one's status is told")
	assert.Equal(t, 3, ws.ExitStatus(), "and is the last word of the process that waited")
}

func TestTextOfBranches(t *testing.T) {
	p := Program{Trace: true}
	pid := p.Slot()
	p.Add(unix.SYS_CHDIR, Str("/a"))
	p.Then(func() { p.Add(unix.SYS_GETPID) }, Any)
	p.Compare(make([]byte, 32), 16, unix.ESTALE)
	p.Join()
	p.Reap(pid, 4, true, "")
	p.Replace(List([]string{"A=1", "B=2"}), 1, "B=3")
	assert.Equal(t, `   0  chdir("/a"), or any: skip 1
   1  getpid()
   2  compare(16 bytes), else ESTALE
   3  clone(CLONE_PARENT|SIGCHLD), and end
   4  reap(until $1, status to 4), then all
   5  replace(entry 1 by "B=3")
`, p.String())
}

func TestCopyReadsToTheEnd(t *testing.T) {
	var from [2]int
	require.NoError(t, unix.Pipe2(from[:], unix.O_CLOEXEC))
	want := make([]byte, 3*copySize+5)
	for i := range want {
		want[i] = byte(i * 7)
	}
	go func() {
		for rest := want; len(rest) > 0; {
			n, err := unix.Write(from[1], rest[:min(len(rest), 5000)])
			if err != nil {
				break
			}
			rest = rest[n:]
		}
		unix.Close(from[1])
	}()
	fd, err := unix.MemfdCreate("copy", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	defer unix.Close(fd)
	var p Program
	to := p.Slot()
	p.Add(unix.SYS_FCNTL, Int(fd), Int(unix.F_DUPFD_CLOEXEC), Int(0)).Keep(to)
	p.Copy(from[0], to)
	p.Add(unix.SYS_CLOSE, Of(to))
	require.NoError(t, p.Run())
	unix.Close(from[0])
	got := make([]byte, len(want)+1)
	n, err := unix.Pread(fd, got, 0)
	require.NoError(t, err)
	assert.Equal(t, want, got[:n])

	var bad Program
	to = bad.Slot()
	bad.Copy(-1, to)
	require.ErrorIs(t, bad.Run(), unix.EBADF)
}
