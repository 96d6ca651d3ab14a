package session

import (
	"bufio"
	"bytes"
	"io"
	"sync"
	"sync/atomic"
)

// output writes lines for whoever has one, in turn. There is hardly a queue: who has a line waits until the client takes it, and can give
// up waiting, so that a client that does not read stops nobody but itself.
type output struct {
	lines  chan line
	gone   chan struct{} // closed when nothing more is written
	giveUp func()
	steps  atomic.Int64 // of writing: see counted
}

// line is what makes one line, and what is to be done when it is its turn. It is JSON only then, which takes more room.
type line struct {
	value any
	taken func()
}

func newOutput() *output {
	gone := make(chan struct{})
	return &output{lines: make(chan line), gone: gone, giveUp: sync.OnceFunc(func() { close(gone) })}
}

// run writes until that fails, or nothing more is to be written.
func (o *output) run(w io.Writer) error {
	buffered := bufio.NewWriterSize(counted{w, &o.steps}, 64<<10)
	for {
		select {
		case <-o.gone:
			return nil
		case l := <-o.lines:
			if l.taken != nil {
				l.taken()
			}
			if err := l.write(buffered); err != nil {
				o.giveUp()
				return err
			}
		}
	}
}

// write writes the line, in one piece if it is short.
func (l line) write(w *bufio.Writer) error {
	rest := marshal(l.value)
	for _, b := range bulks(l.value) {
		before, after, _ := bytes.Cut(rest, []byte(gap))
		_, _ = w.Write(before)
		b.write(w)
		rest = after
	}
	_, _ = w.Write(rest)
	_ = w.WriteByte('\n')
	return w.Flush() // the first error of all these
}

// bulks are what a value has of collected output.
func bulks(v any) (all []*bulk) {
	a, _ := v.(answer)
	if e, ok := a.OK.(ended); ok && e.Stdout != nil {
		all = []*bulk{e.Stdout, e.Stderr}
	}
	return all
}

// send has a line written, and reports whether it was taken before stop was closed. v may not change until it is written.
func (o *output) send(v any, stop <-chan struct{}, taken func()) bool {
	l := line{v, taken}
	select {
	case o.lines <- l:
		return true
	case <-stop:
	case <-o.gone:
	}
	return false
}

// answer is the one that each request gets.
type answer struct {
	ID    id     `json:"id"`
	OK    any    `json:"ok,omitempty"`
	Error *Error `json:"error,omitempty"`
}

// event is something that a running command or process has written, or that it writes no more.
type event struct {
	ID     id     `json:"id"`
	Stdout any    `json:"stdout,omitempty"`
	Stderr any    `json:"stderr,omitempty"`
	Closed string `json:"closed,omitempty"` // "stdout" or "stderr"
}

// maxEvent is how many bytes of output go into one line at most.
const maxEvent = 32 << 10

// stream sends what is written to it as events. A character is never cut in two by that.
type stream struct {
	out    *output
	id     id
	name   string
	base64 bool
	stop   <-chan struct{}

	mu    sync.Mutex
	held  []byte
	ended bool
	bytes int64
}

// Write sends p, and waits until the client has taken it.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return 0, io.ErrClosedPipe
	}
	s.bytes += int64(len(p))
	for rest := p; len(rest) > 0; {
		n := min(len(rest), maxEvent)
		s.held, rest = append(s.held, rest[:n]...), rest[n:]
		most := len(s.held)
		if !s.base64 {
			most = whole(s.held)
		}
		if !s.send(s.held[:most]) {
			return 0, io.ErrClosedPipe
		}
		s.held = append(s.held[:0], s.held[most:]...)
	}
	return len(p), nil
}

func (s *stream) send(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	e := event{ID: s.id}
	if s.name == "stderr" {
		e.Stderr = textOrBase64(b, s.base64)
	} else {
		e.Stdout = textOrBase64(b, s.base64)
	}
	return s.out.send(e, s.stop, nil)
}

// end sends what was held back. Nothing comes after it.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended = true
		s.send(s.held)
	}
}
