package runner

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"golang.org/x/sys/unix"
)

// streams are a command's standard descriptors, and what is done on this side of them.
type streams struct {
	theirs  [3]*os.File
	made    []*os.File // of theirs, those to be closed here
	input   io.Reader
	stdin   *os.File // our end of a pipe, or nil
	meters  []*meter // of what is no *os.File that is passed
	tty     bool
	counts  bool        // files, too
	lingers *Running    // whose streams these are, if they outlive it
	notes   []plan.Note // where that cannot be

	mu       sync.Mutex
	cut      bool // closed before all was read
	inputErr error
	released bool // nobody closes them but who reads
}

// close is for a session that ends: it keeps a reader from waiting.
func (s *streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.released {
		s.cut = true
		s.closeOurs()
		if s.lingers != nil && s.lingers.input != nil {
			s.lingers.input.Close()
		}
	}
}

var streamNames = [2]string{"stdout", "stderr"}

// openStreams makes pipes for what is not passed as it is, and for files where most bounds what may be written to them. A terminal's is made
// with the command.
func openStreams(opts *ExecOptions, most *plan.Output) (*streams, error) {
	s := &streams{tty: opts.Terminal != nil, input: opts.Stdin, counts: most != nil && !most.Pipes}
	if opts.linger {
		s.lingers = opts.running
	}
	limit := cmp.Or(opts.MaxOutput, DefaultMaxOutput)
	if limit < 0 {
		return nil, &policy.Fault{Field: "max_output", Text: fmt.Sprintf("%d is negative", limit), Fix: "give a number of bytes, or 0 for the default"}
	}
	if s.tty {
		m := s.meter(0, opts.Stdout, limit)
		if opts.Discard && opts.Stdout == nil {
			m.to = io.Discard
		}
		return s, nil
	}
	err := s.openInput(opts.Stdin)
	if err == nil {
		err = s.openOutput(0, opts.Stdout, limit, opts.Discard)
	}
	switch {
	case err != nil:
	case opts.Stderr != nil && (sameWriter(opts.Stderr, opts.Stdout) || len(s.meters) > 0 && sameFile(opts.Stderr, opts.Stdout)):
		// One pipe keeps the order, and nobody has to write to it at the same time.
		s.theirs[2] = s.theirs[1]
	default:
		err = s.openOutput(1, opts.Stderr, cmp.Or(opts.MaxStderr, limit), opts.Discard)
	}
	if err != nil {
		s.closeTheirs()
		s.closeOurs()
		return nil, err
	}
	return s, nil
}

// sameWriter reports whether two writers are one, if that can be told.
func sameWriter(a, b any) bool {
	defer func() { _ = recover() }() // of types that cannot be compared
	return a == b
}

// sameFile reports whether two writers are one file.
func sameFile(a, b any) bool {
	var infos [2]os.FileInfo
	for i, w := range []any{a, b} {
		f, ok := w.(*os.File)
		if !ok {
			return false
		}
		var err error
		if infos[i], err = f.Stat(); err != nil {
			return false
		}
	}
	return os.SameFile(infos[0], infos[1])
}

func (s *streams) openInput(r io.Reader) (err error) {
	switch in := r.(type) {
	case nil:
		s.theirs[0], err = s.openNull(unix.O_RDONLY)
	case *os.File:
		s.theirs[0] = in
		return given("stdin", in)
	default:
		s.theirs[0], s.stdin, err = pipe()
		s.made = append(s.made, s.theirs[0])
	}
	return channels(err)
}

func (s *streams) openOutput(i int, w io.Writer, collects int64, discard bool) error {
	if f, ok := w.(*os.File); ok {
		name := streamNames[i]
		if err := given(name, f); err != nil {
			return err
		}
		if !s.counts || !plainFile(f) {
			s.theirs[1+i] = f
			if s.counts {
				s.notes = append(s.notes, plan.Note{Feature: policy.OutputBytes, Loss: name + " is an *os.File and no regular file, where nothing is counted",
					Fix: "give another io.Writer, or nil"})
			}
			return nil
		}
	}
	if w == nil && discard {
		null, err := s.openNull(unix.O_WRONLY)
		s.theirs[1+i] = null
		return channels(err)
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return channels(os.NewSyscallError("pipe2", err))
	}
	theirs := os.NewFile(uintptr(fds[1]), "pipe")
	s.theirs[1+i], s.made = theirs, append(s.made, theirs)
	ours, err := backend.NewEnd(fds[0])
	if err == nil {
		s.meter(i, w, collects).from = ours
	}
	return channels(err)
}

// meter adds the meter of a stream. A writer is closed at the end of its stream if it is a pipe here, or outlives the command.
func (s *streams) meter(stream int, to io.Writer, collects int64) *meter {
	_, piped := to.(*io.PipeWriter)
	m := &meter{stream: stream, to: to, collects: collects, closes: piped || s.lingers != nil}
	s.meters = append(s.meters, m)
	return m
}

// plainFile reports whether a file is a regular one, which takes what is written without keeping the writer waiting.
func plainFile(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

func given(field string, f *os.File) error {
	if f == nil {
		return &policy.Fault{Field: field, Text: "it is an *os.File that is nil", Fix: "give an open file, or an untyped nil"}
	}
	return nil
}

func channels(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Stage: "channels", Err: err}
}

// openNull opens /dev/null for a command. Package os would offer it to the poller, which does not take it.
func (s *streams) openNull(flags int) (*os.File, error) {
	fd, err := unix.Open(os.DevNull, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: os.DevNull, Err: err}
	}
	f := os.NewFile(uintptr(fd), os.DevNull)
	s.made = append(s.made, f)
	return f, nil
}

// pipe makes a pipe for a command's input. Only the end to write to, ours, is in the poller: the other one is the command's, which expects it
// to block.
func pipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	if err := unix.SetNonblock(fds[1], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe"), nil
}

func (s *streams) closeTheirs() {
	for _, f := range s.made {
		f.Close()
	}
	s.made = nil
}

func (s *streams) closeOurs() {
	if s.stdin != nil {
		s.stdin.Close()
	}
	for _, m := range s.meters {
		if to, ok := m.to.(*io.PipeWriter); ok {
			to.Close() // which nobody may read from
		}
		if m.from != nil && !s.tty {
			m.from.Close()
		}
	}
}

// quickExit is how long a command may run before the program is to do something else meanwhile.
const quickExit = 5 * time.Millisecond

// quick copies here what a command writes that ends soon, and reports whether it has ended, or has something to say. Most commands of an agent's
// do, and three goroutines cost more than the command. Nobody waits for its time or its context meanwhile, so nothing of the caller's is called
// here, which may not return.
func (s *streams) quick(handle *backend.Process) bool {
	if s.tty || s.stdin != nil {
		return false
	}
	ends := []*backend.End{handle.Channel()}
	for _, m := range s.meters {
		if m.to != nil {
			return false
		}
		ends = append(ends, m.from)
	}
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	for end := time.Now().Add(quickExit); ; {
		left := time.Until(end)
		if left <= 0 {
			return false
		}
		ready := backend.Await(left, ends...)
		if ready[0] {
			return true
		}
		for i, m := range s.meters {
			if ready[1+i] && !m.read(*b, false) {
				ends[1+i] = nil
			}
		}
	}
}

// copy begins to copy. Terminal is the command's, if it has one.
func (s *streams) copy(terminal *os.File) {
	if s.tty {
		s.meters[0].from = backend.FileEnd(terminal)
		if s.lingers == nil {
			go s.typeInto(terminal)
		}
	} else if s.stdin != nil {
		go func() {
			s.feed(s.stdin)
			s.stdin.Close()
		}()
	}
	for _, m := range s.meters {
		m.from.File() // from now on the session may close it
		if !m.over {
			m.start()
		}
	}
}

// feed copies the input, and ends a pipe that it comes from with what has kept it from being copied. A command that does not read all of its
// input is no failure.
func (s *streams) feed(to io.Writer) {
	_, err := io.Copy(to, s.input)
	var writing *os.PathError
	unread := errors.As(err, &writing) && writing.Op == "write"
	if from, ok := s.input.(*io.PipeReader); ok {
		if unread {
			err = unix.EPIPE // where the pipe was closed here, too
		}
		from.CloseWithError(err)
	}
	if err != nil && !unread && !errors.Is(err, io.ErrClosedPipe) {
		s.mu.Lock()
		s.inputErr = err
		s.mu.Unlock()
	}
}

// typeInto writes input to a terminal. Its end is ^D to a terminal in its usual mode.
func (s *streams) typeInto(terminal *os.File) {
	end := []byte{4}
	if s.input != nil {
		last := lastByte('\n')
		s.feed(io.MultiWriter(terminal, &last))
		if last != '\n' { // after half a line the first one only sends that
			end = []byte{4, 4}
		}
	}
	_, _ = terminal.Write(end)
}

// lastByte is a writer that remembers the last byte.
type lastByte byte

func (l *lastByte) Write(b []byte) (int, error) {
	if len(b) > 0 {
		*l = lastByte(b[len(b)-1])
	}
	return len(b), nil
}

// finish takes what the command has left in its pipes, now that it has ended. It reports whether that was all.
//
// What the command has left running may write for that long.
func (s *streams) finish(delay time.Duration) bool {
	s.mu.Lock()
	s.released = true
	s.mu.Unlock()
	until := time.Unix(1, 0)
	if delay > 0 {
		until = time.Now().Add(delay)
	}
	for _, m := range s.meters {
		m.finish(until)
	}
	return !s.cut
}

// failure is why something was not copied, if it was not. With delay a stream that was still open then is a failure.
func (s *streams) failure(delay time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.inputErr
	for _, m := range s.meters {
		switch {
		case err != nil:
		case m.failed != nil:
			err = m.failed
		case m.late && delay > 0:
			err = exec.ErrWaitDelay
		}
	}
	return err
}

func (s *streams) collect(r *ExecResult, delay time.Duration) {
	r.Copying = s.failure(delay)
	for _, m := range s.meters {
		if m.stream == 0 {
			r.Stdout, r.StdoutTruncated = m.kept, m.truncated()
		} else {
			r.Stderr, r.StderrTruncated = m.kept, m.truncated()
		}
	}
}

// bound has exceeded called when one of the streams is longer than limit.
func (s *streams) bound(limit int64, exceeded func()) {
	for _, m := range s.meters {
		m.limit, m.exceeded = limit, exceeded
	}
}

// passed is how much of each stream was passed on, as the backend counts it for a single run; what was lost is noted. Where streams outlive their
// command that is known only if there is too much already, read or not.
func (s *streams) passed() (out [2]backend.Passed) {
	for _, m := range s.meters {
		if s.lingers == nil {
			out[m.stream] = m.passed(0)
			s.notes = append(s.notes, out[m.stream].Notes(streamNames[m.stream])...)
		} else if p := m.seen(); p.Over {
			out[m.stream] = p
		}
	}
	return out
}

// wait waits until nobody can write any more, or the session is closed.
func (s *streams) wait() {
	for _, m := range s.meters {
		<-m.done
	}
}
