package backend

import (
	"errors"
	"os"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// sweeper is a process that removes the private directory if this process is killed before it could do so. It waits until no process holds
// the lifeline. This process holds it, and so does the client, which inherits it: Docker 20.10 refuses to start a container if the sources
// of its mounts have disappeared since it was created, and then neither removes the container nor lets the client end (ContainerStart in
// moby's daemon/start.go).
type sweeper struct {
	pid      int
	pidfd    int
	lifeline *os.File
}

// newSweeper starts a sweeper for files and their directory. It has its own session, and waits for the end of a pipe.
func newSweeper(dir string, files []string) (*sweeper, error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	defer unix.Close(pipe[0])
	var p sys.Program
	p.Add(unix.SYS_SETSID)
	for _, gap := range [][2]int{{0, pipe[0] - 1}, {pipe[0] + 1, 1<<31 - 1}} {
		p.Add(unix.SYS_CLOSE_RANGE, sys.Int(gap[0]), sys.Int(gap[1]), sys.Int(0)).Tolerate(sys.Any, 0)
	}
	p.Add(unix.SYS_CLOSE, sys.Int(pipe[1])).Tolerate(sys.Any, 0) // before Linux 5.9
	p.Add(unix.SYS_READ, sys.Int(pipe[0]), sys.Bytes(make([]byte, 1)), sys.Int(1))
	for _, name := range files {
		p.Add(unix.SYS_UNLINKAT, sys.AtCWD(), sys.Str(name), sys.Int(0)).Tolerate(sys.Any, 0)
	}
	p.Add(unix.SYS_UNLINKAT, sys.AtCWD(), sys.Str(dir), sys.Words(unix.AT_REMOVEDIR, "AT_REMOVEDIR")).Tolerate(sys.Any, 0)
	pid, pidfd, err := p.Fork(0, -1)
	if err != nil {
		unix.Close(pipe[1])
		return nil, err
	}
	return &sweeper{pid: pid, pidfd: pidfd, lifeline: os.NewFile(uintptr(pipe[1]), "lifeline")}, nil
}

// end ends the sweeper after the directory has been removed.
func (s *sweeper) end() {
	_ = unix.PidfdSendSignal(s.pidfd, unix.SIGKILL, nil, 0) // a kill, because the client may hold the lifeline for a while
	unix.Close(s.pidfd)
	s.lifeline.Close()
	for {
		if _, err := unix.Wait4(s.pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
