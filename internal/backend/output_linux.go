package backend

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// Passed is the output that one of nsrun's pipes has passed from a command to the caller.
type Passed struct {
	Counted bool   `json:"counted,omitempty"`
	Bytes   int64  `json:"bytes,omitempty"`
	Over    bool   `json:"over,omitempty"` // the output exceeded the limit, which ended the run
	Lost    string `json:"lost,omitempty"` // the error that kept the rest from being written
}

// pump counts the output that a command writes to standard output, standard error or both, and passes it on. The thread that waits for the
// sandbox serves it. A pump never blocks, even if the caller's descriptor would.
type pump struct {
	from, to int  // from is -1 once closed; to is the descriptor that the pipe replaces: if stdout and stderr are the same file, stdout
	plain    bool // to is a regular file
	left     int64
	passed   Passed
	full     bool // to is not ready: the reader has to read first
	last     *int // how many bytes are still to be passed on after the command's end: see stopBehind
	ended    bool // the pump passes nothing more on
}

// pumps are the pumps of one run.
type pumps struct {
	all   []*pump
	child [2]int // the pipe ends that become the command's standard output and error; 0 is none
	note  []plan.Note
}

// openPumps makes pipes for the standard descriptors whose output the plan bounds.
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
		case !p.Output.Pipes && !stages.IsNull(resolved[i]):
			s.note = append(s.note, plan.Note{Feature: "output_bytes", Loss: streamNames[i] + " is no pipe and no file, where nothing is counted",
				Fix: "use --tty on a terminal, or a pipe"})
		}
	}
	return s, nil
}

var streamNames = [2]string{"standard output", "standard error"}

// notes returns notes on descriptors whose output is not counted, and on files that did not take all of it.
func (s *pumps) notes() []plan.Note {
	notes := slices.Clone(s.note)
	for _, p := range s.all {
		notes = append(notes, p.passed.Notes(streamNames[p.to-1])...)
	}
	return notes
}

// Notes returns a note on the output that was not passed on. stream is the stream's name.
func (p Passed) Notes(stream string) []plan.Note {
	if p.Lost == "" {
		return nil
	}
	loss := fmt.Sprintf("%s: it took %d bytes, and the rest is lost: %s", stream, p.Bytes, p.Lost)
	fix := "run it again, with another file or pipe there"
	if p.Lost == unix.ENOSPC.Error() || p.Lost == unix.EDQUOT.Error() {
		fix = "make room there, or name another file"
	}
	return []plan.Note{{Feature: "output_bytes", Loss: loss, Fix: fix}}
}

// nameless reports whether a pipe is one of pipe(2). A FIFO can lose its last reader and get another one later; a pump would take that for
// the end.
func nameless(fd int) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(fd, &fs) == nil && fs.Type == unix.PIPEFS_MAGIC
}

// add makes a pipe and a pump for descriptor 1+i.
func (s *pumps) add(i int, limit int64, plain bool) error {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return os.NewSyscallError("pipe2", err)
	}
	s.child[i] = ends[1]
	s.all = append(s.all, &pump{from: ends[0], to: 1 + i, plain: plain, left: limit, passed: Passed{Counted: true}})
	return nil
}

// closeChild closes the command's ends in this process. Only then do the pumps' ends end when the last process has closed its own.
func (s *pumps) closeChild() {
	for i, fd := range s.child {
		if fd != 0 && (i == 0 || fd != s.child[0]) {
			unix.Close(fd)
		}
	}
	s.child = [2]int{}
}

// close closes all pipes.
func (s *pumps) close() {
	s.closeChild()
	for _, p := range s.all {
		p.end()
	}
}

// sources are the sources of a loop that serves the pumps: the command's output, or room for it, and the end of the reader, which a command
// may wait for. The loop calls tooMuch when the output exceeds the limit.
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
		reader.ready = func() bool { // the reader has closed its end; closing the pipe lets the command see that
			p.end()
			return next()
		}
		next()
		all = append(all, reader, data)
	}
	return all
}

// done reports whether every pump has ended.
func (s *pumps) done() bool {
	return !slices.ContainsFunc(s.all, func(p *pump) bool { return !p.ended })
}

// move passes on the data in the pipe, once. At the limit it only checks whether there is more.
func (p *pump) move() {
	n, err, most := 0, error(nil), p.left
	if p.last != nil {
		most = min(most, int64(*p.last))
	}
	switch {
	case p.left == 0:
		if n, err = unix.Read(p.from, make([]byte, 1)); n > 0 {
			p.passed.Over, p.ended = true, true // the pipe stays open: SIGPIPE must not end the command before the run kills it
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
		p.full = !p.full // one of the two ends was not ready: wait for the other one from now on
	case errors.Is(err, unix.EINTR):
	case n == 0 && err == nil, errors.Is(err, unix.EPIPE): // no writer is left; or no reader, which the command's next write shows it
		p.end()
	case err != nil: // the command's write has succeeded, so only a note can report this
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

// copy passes data on to a file: splice(2) refuses files that are open for appending.
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

// end closes the pipe.
func (p *pump) end() {
	if p.from >= 0 {
		unix.Close(p.from)
	}
	p.from, p.ended = -1, true
}

// stopBehind makes the pumps end after the data that is in the pipes now. It is for a command that has ended while processes that it has
// started may go on, and may keep the pipes open for ever.
func (s *pumps) stopBehind() {
	for _, p := range s.all {
		if p.ended {
			continue
		}
		n, err := unix.IoctlGetInt(p.from, unix.TIOCINQ)
		if err != nil {
			p.passed.Lost = os.NewSyscallError("ioctl(TIOCINQ)", err).Error()
		}
		if err != nil || n == 0 {
			p.end()
			continue
		}
		p.last = &n
	}
}

// rest passes on the data that an ended command has left in the pipes, as fast as the caller reads it. After the deadline, or once the
// output is not wanted any more, it passes on only what takes no waiting. If it cannot wait, the rest is lost, as where a file does not take it. It
// reports whether nothing is left to pass on.
func (s *pumps) rest(until time.Time, unwanted func() bool, signals *source) bool {
	err := loop(func(idle bool) (time.Duration, bool) {
		wait := 50 * time.Millisecond
		late := unwanted() || !until.IsZero() && time.Now().After(until)
		if late {
			wait = 0
		}
		return wait, !s.done() && !(late && idle)
	}, append(s.sources(func() {}), signals)...)
	for _, p := range s.all {
		if err != nil && !p.ended {
			p.passed.Lost = err.Error()
			p.end()
		}
	}
	return s.done()
}

// passed returns the counts of standard output and error.
func (s *pumps) passed() (out [2]Passed) {
	for _, p := range s.all { // a pipe for both is counted once, as standard output
		out[p.to-1] = p.passed
	}
	return out
}
