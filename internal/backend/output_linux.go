package backend

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// Passed is what has gone through a pipe of nsrun's from a command to the caller.
type Passed struct {
	Counted bool   `json:"counted,omitempty"`
	Bytes   int64  `json:"bytes,omitempty"`
	Over    bool   `json:"over,omitempty"` // there was more than allowed, and the run was ended for it
	Lost    string `json:"lost,omitempty"` // why the rest was not passed on
}

// pump counts what a command writes to a descriptor of this process's, standard output, error or both, and passes it on. The thread that
// waits for the sandbox serves it: it never blocks, whether what the caller has given would or not.
type pump struct {
	from, to int  // from is -1 when it is closed; to is the descriptor that it stands in for, of two that are one the first
	plain    bool // to is a regular file
	left     int64
	passed   Passed
	full     bool // the caller has to read first
	last     *int // how many bytes are still passed on, once what follows is not the command's any more: see stopBehind
	ended    bool // nothing more is passed on
}

type pumps struct {
	all   []*pump
	child [2]int // what becomes the command's standard output and error; 0 is none
	note  []plan.Note
}

// openPumps makes pipes in the place of those descriptors whose output is to be bounded.
func openPumps(p *plan.Plan) (*pumps, error) {
	s := &pumps{}
	if p.Output == nil || p.Terminal {
		return s, nil
	}
	var resolved [2]unix.Stat_t
	for i := range 2 {
		if unix.Fstat(1+i, &resolved[i]) != nil {
			continue // it is closed
		}
		kind := resolved[i].Mode & unix.S_IFMT
		switch {
		case i == 1 && s.child[0] != 0 && resolved[0].Dev == resolved[1].Dev && resolved[0].Ino == resolved[1].Ino: // one pipe keeps the order
			s.child[1] = s.child[0]
		case kind == unix.S_IFIFO && (!p.Output.Pipes || nameless(1+i)), kind == unix.S_IFREG && !p.Output.Pipes:
			if err := s.add(i, p.Output.Bytes, kind == unix.S_IFREG); err != nil {
				s.close()
				return nil, err
			}
		case !p.Output.Pipes && !isNull(resolved[i]):
			s.note = append(s.note, plan.Note{Feature: "output_bytes", Loss: streamNames[i] + " is no pipe and no file, where nothing is counted",
				Fix: "use --tty on a terminal, or a pipe"})
		}
	}
	return s, nil
}

var streamNames = [2]string{"standard output", "standard error"}

// notes are those on descriptors where nothing is counted, and on files that did not take all.
func (s *pumps) notes() []plan.Note {
	notes := slices.Clone(s.note)
	for _, p := range s.all {
		notes = append(notes, p.passed.Notes(streamNames[p.to-1])...)
	}
	return notes
}

// Notes says of the stream of that name what a file did not take.
func (p Passed) Notes(stream string) []plan.Note {
	if p.Lost == "" {
		return nil
	}
	loss := fmt.Sprintf("%s: it took %d bytes, and the rest is lost: %s", stream, p.Bytes, p.Lost)
	return []plan.Note{{Feature: "output_bytes", Loss: loss, Fix: "make room there, or name another file"}}
}

// nameless reports whether a pipe is one of pipe(2). Readers of a FIFO come and go; in between a pump would take the last one for gone.
func nameless(fd int) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(fd, &fs) == nil && fs.Type == unix.PIPEFS_MAGIC
}

func (s *pumps) add(i int, limit int64, plain bool) error {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return os.NewSyscallError("pipe2", err)
	}
	s.child[i] = ends[1]
	s.all = append(s.all, &pump{from: ends[0], to: 1 + i, plain: plain, left: limit, passed: Passed{Counted: true}})
	return nil
}

// closeChild closes the command's ends in this process: only then do ours end when the last process has.
func (s *pumps) closeChild() {
	for i, fd := range s.child {
		if fd != 0 && (i == 0 || fd != s.child[0]) {
			unix.Close(fd)
		}
	}
	s.child = [2]int{}
}

func (s *pumps) close() {
	s.closeChild()
	for _, p := range s.all {
		p.end()
	}
}

// sources are what the pumps wait for: the command's output, or room for it, and the end of whoever reads, for which a command can wait, too.
// tooMuch is called when there is too much.
func (s *pumps) sources(tooMuch func()) (all []*source) {
	for _, p := range s.all {
		data, reader := &source{}, &source{events: unix.POLLHUP}
		next := func() bool {
			data.fd, data.events, reader.fd = p.from, unix.POLLIN, p.to
			if p.full {
				data.fd, data.events = p.to, unix.POLLOUT
			}
			if p.ended {
				data.fd, reader.fd = -1, -1
			}
			return true
		}
		data.ready = func() bool {
			if p.move(); p.passed.Over {
				tooMuch()
			}
			return next()
		}
		reader.ready = func() bool { // nobody reads any more, and now the command can see it
			p.end()
			return next()
		}
		next()
		all = append(all, reader, data)
	}
	return all
}

// done reports whether nothing more is passed on.
func (s *pumps) done() bool {
	return !slices.ContainsFunc(s.all, func(p *pump) bool { return !p.ended })
}

// move moves what lies in the pipe, once. At the limit it looks whether there is more.
func (p *pump) move() {
	n, err, most := 0, error(nil), p.left
	if p.last != nil {
		most = min(most, int64(*p.last))
	}
	switch {
	case p.left == 0:
		if n, err = unix.Read(p.from, make([]byte, 1)); n > 0 {
			p.passed.Over, p.ended = true, true // but the pipe stays: the command is to be killed, and not by SIGPIPE before that
			return
		}
	case p.plain:
		n, err = p.copy(most)
	default:
		var moved int64
		moved, err = unix.Splice(p.from, nil, p.to, nil, int(min(most, 1<<20)), unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
		n = int(moved)
	}
	switch {
	case errors.Is(err, unix.EAGAIN):
		p.full = !p.full // one of the two ends was not ready, and poll tells which
	case errors.Is(err, unix.EINTR):
	case n == 0 && err == nil, errors.Is(err, unix.EPIPE): // nobody writes; or nobody reads any more, which the command's next write tells it
		p.end()
	case err != nil: // which the command, whose write has succeeded, cannot know
		p.passed.Lost = err.Error()
		p.end()
	default:
		p.full = false
		p.left -= int64(n)
		p.passed.Bytes += int64(n)
		if p.last == nil {
			return
		}
		if *p.last -= n; *p.last == 0 {
			p.end()
		}
	}
}

// copy is for files, which splice(2) refuses where they are appended to.
func (p *pump) copy(most int64) (int, error) {
	b := make([]byte, min(most, 64<<10))
	n, err := unix.Read(p.from, b)
	done := 0
	for err == nil && done < n {
		m := 0
		m, err = unix.Write(p.to, b[done:n])
		done += max(m, 0)
		if errors.Is(err, unix.EINTR) {
			err = nil
		}
	}
	if done < n {
		p.passed.Bytes, p.passed.Lost = p.passed.Bytes+int64(done), err.Error()
	}
	return n, err
}

func (p *pump) end() {
	if p.from >= 0 {
		unix.Close(p.from)
	}
	p.from, p.ended = -1, true
}

// stopBehind has no more passed on than what is in the pipes now. It is for a command that has ended where processes that it has started may
// live on: they may keep the pipes open for ever.
func (s *pumps) stopBehind() {
	for _, p := range s.all {
		if p.ended {
			continue
		}
		n, err := unix.IoctlGetInt(p.from, unix.TIOCINQ)
		if err != nil || n == 0 {
			p.end()
			continue
		}
		p.last = &n
	}
}

// rest passes on what a command that has ended has left in the pipes, as fast as the caller reads it. After the time, or when what is left is
// not wanted any more, that is only what need not be waited for. It reports whether it came to the end.
func (s *pumps) rest(until time.Time, unwanted func() bool) bool {
	_ = loop(func(idle bool) (time.Duration, bool) {
		wait := 50 * time.Millisecond
		late := unwanted() || !until.IsZero() && time.Now().After(until)
		if late {
			wait = 0
		}
		return wait, !s.done() && !(late && idle)
	}, s.sources(func() {})...)
	return s.done()
}

// passed says how much there was, of standard output and error.
func (s *pumps) passed() (out [2]Passed) {
	for _, p := range s.all { // what is for both is counted once
		out[p.to-1] = p.passed
	}
	return out
}

// takeOutput puts the pipes in the place of the standard descriptors.
func (l *lowering) takeOutput() error {
	for i, fd := range l.fds.output {
		if fd > 0 {
			l.step("descriptors", "count output")
			l.p.Add(unix.SYS_DUP3, sys.Int(fd), sys.Int(1+i), sys.Int(0))
		}
	}
	return nil
}
