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
	sinks   [2]*sink // nil where an *os.File is passed
	tty     bool
	counts  bool        // files, too
	discard bool        // what would be collected
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
	limit := opts.MaxOutput
	switch {
	case limit < 0:
		return nil, &policy.Fault{Field: "max_output", Text: fmt.Sprintf("%d is negative", limit), Fix: "give a number of bytes, or 0 for the default"}
	case limit == 0:
		limit = DefaultMaxOutput
	}
	if s.tty {
		s.sinks[0] = &sink{limit: limit, to: opts.Stdout, closes: s.closes(opts.Stdout)}
		if opts.Discard && opts.Stdout == nil {
			s.sinks[0].to = io.Discard
		}
		return s, nil
	}
	s.discard = opts.Discard
	err := s.openInput(opts.Stdin)
	if err == nil {
		err = s.openOutput(0, opts.Stdout, limit)
	}
	switch {
	case err != nil:
	case opts.Stderr != nil && (sameWriter(opts.Stderr, opts.Stdout) || s.sinks[0] != nil && sameFile(opts.Stderr, opts.Stdout)):
		// One pipe keeps the order, and nobody has to write to it at the same time.
		s.theirs[2] = s.theirs[1]
	default:
		err = s.openOutput(1, opts.Stderr, cmp.Or(opts.MaxStderr, limit))
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
		s.theirs[0], err = os.Open(os.DevNull)
		s.made = append(s.made, s.theirs[0])
	case *os.File:
		s.theirs[0] = in
		return given("stdin", in)
	default:
		s.theirs[0], s.stdin, err = pipe(false)
		s.made = append(s.made, s.theirs[0])
	}
	return channels(err)
}

func (s *streams) openOutput(i int, w io.Writer, limit int64) error {
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
	if w == nil && s.discard {
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		s.theirs[1+i], s.made = null, append(s.made, null)
		return channels(err)
	}
	ours, theirs, err := pipe(true)
	if err == nil {
		s.theirs[1+i], s.made = theirs, append(s.made, theirs)
		s.sinks[i] = &sink{from: ours, limit: limit, to: w, closes: s.closes(w)}
	}
	return channels(err)
}

// closes reports whether a writer is closed at the end of its stream: one that is a pipe here, or outlives the command.
func (s *streams) closes(w io.Writer) bool {
	_, piped := w.(*io.PipeWriter)
	return piped || s.lingers != nil
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

// pipe makes a pipe of which only one end, ours, is in the poller: the other one is a command's, who expects it to block.
func pipe(reading bool) (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	ours := fds[1]
	if reading {
		ours = fds[0]
	}
	if err := unix.SetNonblock(ours, true); err != nil {
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
	for _, k := range s.sinks {
		if k == nil {
			continue
		}
		if to, ok := k.to.(*io.PipeWriter); ok {
			to.Close() // which nobody may read from
		}
		if k.from != nil && !s.tty {
			k.from.Close()
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
	var from [2]*os.File
	for i, k := range s.sinks {
		if k != nil && k.to != nil {
			return false
		}
		if k != nil {
			from[i] = k.from
		}
	}
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	for end := time.Now().Add(quickExit); ; {
		left := time.Until(end)
		if left <= 0 {
			return false
		}
		ready := backend.Await(left, handle.Channel(), from[0], from[1])
		if ready[0] {
			return true
		}
		for i, k := range s.sinks {
			if ready[1+i] && !k.some(*b) {
				from[i] = nil
			}
		}
	}
}

// copy begins to copy. Terminal is the command's, if it has one.
func (s *streams) copy(terminal *os.File) {
	if s.tty {
		s.sinks[0].from = terminal
		if s.lingers == nil {
			go s.typeInto(terminal)
		}
	} else if s.stdin != nil {
		go func() {
			s.feed(s.stdin)
			s.stdin.Close()
		}()
	}
	for _, k := range s.sinks {
		if k != nil && !k.over {
			k.start()
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
		last := &lastByte{}
		s.feed(io.MultiWriter(terminal, last))
		if last.seen && last.b != '\n' { // after half a line the first one only sends that
			end = []byte{4, 4}
		}
	}
	_, _ = terminal.Write(end)
}

// lastByte is a writer that remembers the last byte.
type lastByte struct {
	b    byte
	seen bool
}

func (l *lastByte) Write(b []byte) (int, error) {
	if len(b) > 0 {
		l.b, l.seen = b[len(b)-1], true
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
	for _, k := range s.sinks {
		if k != nil {
			k.finish(until)
		}
	}
	return !s.cut
}

// failure is why something was not copied, if it was not. With delay a stream that was still open then is a failure.
func (s *streams) failure(delay time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.inputErr
	for _, k := range s.sinks {
		switch {
		case k == nil || err != nil:
		case k.failed != nil:
			err = k.failed
		case k.late && delay > 0:
			err = exec.ErrWaitDelay
		}
	}
	return err
}

func (s *streams) collect(r *ExecResult, delay time.Duration) {
	r.Copying = s.failure(delay)
	if k := s.sinks[0]; k != nil {
		r.Stdout, r.StdoutBytes, r.StdoutTruncated = k.kept, k.total.Load(), k.truncated()
	}
	if k := s.sinks[1]; k != nil {
		r.Stderr, r.StderrBytes, r.StderrTruncated = k.kept, k.total.Load(), k.truncated()
	}
}

// bound has excess called when one of the streams is longer than most.
func (s *streams) bound(most int64, excess func()) {
	for _, k := range s.sinks {
		if k != nil {
			k.most, k.excess = most, excess
		}
	}
}

// counted says how much there was, as the backend does for a single run, and notes what was lost.
func (s *streams) counted() (out [2]backend.Passed) {
	for i, k := range s.sinks {
		if k != nil {
			out[i] = backend.Passed{Counted: true, Bytes: k.total.Load(), Over: k.excessive(), Lost: k.lost}
			if k.excessive() {
				out[i].Bytes = k.most
			}
			s.notes = append(s.notes, out[i].Notes(streamNames[i])...)
		}
	}
	return out
}

// metered says where there is too much, read or not.
func (s *streams) metered() (out [2]backend.Passed) {
	for i, k := range s.sinks {
		if k != nil && k.most > 0 && k.total.Load()+k.unread() > k.most {
			out[i] = backend.Passed{Counted: true, Bytes: k.most, Over: true}
		}
	}
	return out
}

// wait waits until nobody can write any more, or the session is closed.
func (s *streams) wait() {
	for _, k := range s.sinks {
		if k != nil {
			<-k.done
		}
	}
}
