package session

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// output writes lines, one after the other. It has no queue: a sender waits until the client takes its line, and can give up waiting. So a
// client that does not read stops nobody but itself.
type output struct {
	lines  chan line
	gone   chan struct{} // closed when nothing more is written
	giveUp func()
	steps  atomic.Int64 // of writing: see counted
}

// line is an event, written as JSON, or an answer, and what is to be done when it is its turn. An answer is JSON only then, which takes more room.
type line struct {
	event  []byte
	answer answer
	taken  func()
}

func newOutput() *output {
	gone := make(chan struct{})
	return &output{lines: make(chan line), gone: gone, giveUp: sync.OnceFunc(func() { close(gone) })}
}

// run writes until that fails, or nothing more is to be written.
func (o *output) run(w io.Writer) error {
	w = counted{w, &o.steps}
	buffered := bufio.NewWriterSize(w, 64<<10)
	for {
		select {
		case <-o.gone:
			return nil
		case l := <-o.lines:
			if l.taken != nil {
				l.taken()
			}
			var err error
			if l.event != nil {
				_, err = w.Write(l.event)
			} else {
				err = l.answer.write(buffered)
			}
			if err != nil {
				o.giveUp()
				return err
			}
		}
	}
}

// send has a line written, and reports whether it was taken before stop was closed. It may not change until it is written.
func (o *output) send(l line, stop <-chan struct{}) bool {
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

// write writes the answer as a line, in one piece if it is short.
func (a answer) write(w *bufio.Writer) error {
	e, _ := a.OK.(ended)
	counts := e.counts
	if e.collected != nil { // it stands before the counts, and goes around encoding/json
		e.counts = nil
		a.OK = e
	}
	rest := marshal(a)
	if e.collected != nil {
		_, _ = w.Write(rest[:len(rest)-len("}}")])
		for i, name := range streamNames {
			_, _ = fmt.Fprintf(w, ",%q:", name)
			writeOutput(w, e.base64, e.collected[i])
		}
		_ = w.WriteByte(',')
		rest = append(marshal(counts)[len("{"):], '}')
	}
	_, _ = w.Write(append(rest, '\n'))
	return w.Flush() // the first error of all these
}

// streamNames are what the streams of a command are called, and their fields.
var streamNames = [2]string{"stdout", "stderr"}

// stream sends what is written to it as events. A character is never cut in two by that.
type stream struct {
	out    *output
	id     id
	name   string
	base64 bool
	stop   <-chan struct{}
	closed func() // of a process: called when the stream is closed, which the client gets as an event

	mu    sync.Mutex
	held  []byte // the beginning of a character
	ended bool
}

// Write sends p as one event, and waits until the client has taken that.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return 0, io.ErrClosedPipe
	}
	n := len(p)
	for len(s.held) > 0 && len(p) > 0 && !utf8.FullRune(s.held) {
		s.held, p = append(s.held, p[0]), p[1:]
	}
	if len(p) == 0 && !utf8.FullRune(s.held) {
		return n, nil
	}
	most := len(p)
	if !s.base64 {
		most = whole(p)
	}
	if !s.send(s.held, p[:most]) {
		return 0, io.ErrClosedPipe
	}
	s.held = append(s.held[:0], p[most:]...)
	return n, nil
}

// send sends an event of what was held and what comes after that, if there is anything.
func (s *stream) send(held, rest []byte) bool {
	if len(held)+len(rest) == 0 {
		return true
	}
	var b bytes.Buffer
	b.Grow(len(rest) + len(rest)/8 + 64)
	fmt.Fprintf(&b, `{"id":%s,%q:`, s.id, s.name)
	writeOutput(&b, s.base64, held, rest)
	b.WriteString("}\n")
	return s.out.send(line{event: b.Bytes()}, s.stop)
}

// Close sends what was held back. Nothing comes after it.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	s.ended = true
	s.send(s.held, nil)
	if s.closed != nil {
		s.out.send(line{event: fmt.Appendf(nil, "{\"id\":%s,\"closed\":%q}\n", s.id, s.name)}, s.stop)
		s.closed()
	}
	return nil
}
