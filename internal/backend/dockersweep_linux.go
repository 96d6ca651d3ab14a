package backend

import (
	"errors"
	"os"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// sweeper is a process that removes the private directory should this one be killed before it could. It waits until nobody has the
// lifeline: this process, and the client, which inherits it. For Docker 20.10 refuses to start a container whose sources of mounts have
// gone since it was made, and then neither removes it nor lets the client end (ContainerStart in moby's daemon/start.go).
type sweeper struct {
	pid      int
	pidfd    int
	lifeline *os.File
}

// newSweeper starts one for files and the directory that they are in. It is in a session of its own, and waits for the end of a pipe.
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

// end lets it go, what it would remove being gone.
func (s *sweeper) end() {
	_ = unix.PidfdSendSignal(s.pidfd, unix.SIGKILL, nil, 0) // the client may have the lifeline for a while
	unix.Close(s.pidfd)
	s.lifeline.Close()
	for {
		if _, err := unix.Wait4(s.pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
