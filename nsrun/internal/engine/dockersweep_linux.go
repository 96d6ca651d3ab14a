package engine

import (
	"errors"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// sweeper is a process that removes the private directory should this one be killed before it could.
type sweeper struct {
	pid, lifeline int
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
	unix.Close(pidfd)
	return &sweeper{pid: pid, lifeline: pipe[1]}, nil
}

// end lets it go. What it would remove is gone.
func (s *sweeper) end() {
	unix.Close(s.lifeline)
	for {
		if _, err := unix.Wait4(s.pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
