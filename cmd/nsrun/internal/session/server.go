package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nsrun/nsrun/internal/runner"
	"golang.org/x/sync/semaphore"
)

// The bounds on what a client can have in flight: requests of each kind, the bytes of all their lines, and processes. What is above is
// answered by an error.
const (
	maxFlying      = 256
	maxProcesses   = 256
	maxFlyingBytes = 64 << 20
)

// maxCollected is how many bytes of output may be held for all answers together that the client has not taken. A command that runs counts
// with as much as it may have collected: there is enough for all requests that ask for no more than usual. What is above waits to start.
const maxCollected = 2 * maxFlying * runner.DefaultMaxOutput

// kind is what a request is counted with.
type kind int

const (
	work    kind = iota
	waiting      // as long as a process lives: there may be one for each
	control      // what ends requests must get through, however many there are
	kinds
)

// idleTime is how long after the end of the last request this process gives back the memory that requests have taken, up to 5 MB, which Go's
// collector would keep for the next ones. The request after that takes 0.1 ms longer, so it is longer than an agent's pauses.
const idleTime = time.Minute

// finishTimeout is how long answers wait for the client to take them when all has ended.
const finishTimeout = time.Second

// ErrOutput says that nothing can be written to the client.
var ErrOutput = errors.New("the output is gone")

// server is one conversation.
type server struct {
	host    Host
	version string
	out     *output
	ctx     context.Context // ends when all is to end
	end     context.CancelCauseFunc
	life    context.Context // ends when all sessions are closed
	stop    context.CancelFunc
	work    sync.WaitGroup // requests

	collected *semaphore.Weighted // output; who wants much is not passed by
	trim      *time.Timer         // gives memory back when nothing has ended for idleTime

	turn    chan struct{} // to read: see awaitReading
	waiting atomic.Bool   // a goroutine does, for its turn

	untimedLimit, unreadLimit time.Duration // the constants, but in tests

	mu        sync.Mutex
	calls     map[id]*call
	unsent    map[*call]struct{}    // requests whose answers the client has not taken
	number    int64                 // of the last request
	drained   bool                  // the input has ended: see drain
	over      bool                  // nothing more is begun: see hold
	sandboxes map[string]*sandbox   // by the names that clients know
	living    map[*sandbox]struct{} // those that are being closed, too
	flying    [kinds]int
	bytes     int
	processes int // those that are being started, too, and those that have ended and still have their ids
}

// call is a request in flight, or a process that one has started.
type call struct {
	id      id
	op      string
	number  int64           // of requests, in the order of lines
	ctx     context.Context // ends when it is cancelled, and with its session
	cancel  context.CancelCauseFunc
	process *process // if op is start
	sandbox *sandbox // whose close waits for it
	holds   int64    // of what may be collected; not the server's to change

	after []*call // those that are answered first

	carriedOut chan struct{} // closed when its answer is known
	sent       chan struct{} // closed when the client has taken that, or will not
	lacksRoom  chan struct{} // closed when it waits for room to collect output in
	quiet      chan struct{} // closed when the process that it has waited for has nothing more to say; set before carriedOut is closed
}

func newServer(ctx context.Context, host Host, version string) *server {
	s := &server{host: host, version: version, out: newOutput(), calls: map[id]*call{}, unsent: map[*call]struct{}{}, sandboxes: map[string]*sandbox{},
		living: map[*sandbox]struct{}{}, turn: make(chan struct{}), collected: semaphore.NewWeighted(maxCollected),
		untimedLimit: untimedLimit, unreadLimit: unreadLimit}
	s.ctx, s.end = context.WithCancelCause(ctx)
	s.trim = time.AfterFunc(idleTime, debug.FreeOSMemory)
	s.life, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	return s
}

// await waits until a channel is closed, or the request is to end.
func (c *call) await(done <-chan struct{}) *Error {
	if !either(done, c.ctx.Done()) {
		return c.explain(nil, "")
	}
	return nil
}

// explain sorts an error into one of the kinds. When the request was told to end, that is why.
func (c *call) explain(err error, name string) *Error {
	if c.ctx.Err() == nil {
		return explain(err, name)
	}
	switch cause := context.Cause(c.ctx); {
	case errors.Is(cause, runner.ErrClosed):
		return explain(cause, name)
	case errors.Is(cause, errNotOpened):
		return &Error{Kind: Closed, Text: errNotOpened.Error()}
	}
	return &Error{Kind: Closed, Text: "it was cancelled"}
}

// errNotOpened is what ends requests to a session that was still being opened, and was not.
var errNotOpened = errors.New("the session could not be opened: see the answer to its open")

// Serve answers requests, one a line of in, by lines of out, until in has ended and they are answered, which is no error; until out cannot
// be written to, or has answers that nobody reads when in has ended, which is [ErrOutput]; or until ctx ends, which is its cause. It returns
// when all sessions are closed, even if nobody reads out.
//
// left, if it is not nil, is closed when the client has closed the other end of in, which may be known before all of it is read.
func Serve(ctx context.Context, in io.Reader, out io.Writer, left <-chan struct{}, host Host, version string) error {
	return newServer(ctx, host, version).serve(in, out, left)
}

// serve is Serve.
func (s *server) serve(in io.Reader, out io.Writer, left <-chan struct{}) error {
	defer s.stop()
	defer s.trim.Stop()
	written := make(chan error, 1)
	go func() {
		err := s.out.run(out)
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrOutput, err)
			s.end(err)
		}
		written <- err
	}()
	go s.listen(in, left)
	<-s.ctx.Done()
	s.closeAll()
	lost := s.finishRequests(written)
	if err := context.Cause(s.ctx); !errors.Is(err, io.EOF) {
		return err
	}
	return lost // in has ended first, and that is no reason to be silent about answers that were not written
}

// listen takes lines until there are no more.
func (s *server) listen(in io.Reader, left <-chan struct{}) {
	stop, inputEnded := s.ctx.Done(), make(chan struct{})
	go func() {
		select {
		case <-left:
		case <-inputEnded:
		case <-stop:
		}
		s.watchReader() // a client that has gone without reading its answers must not keep us from noticing that
	}()
	s.follow(newLines(in, MaxLine), inputEnded)
}

// follow takes lines until there are no more. The goroutine that has read a request carries it out, and another one reads on: the command waits
// for no other thread to wake up. A goroutine that has carried out a request waits to read again: its stack has grown by then, and to grow that of a
// new one takes 30 us of a command.
func (s *server) follow(l *lines, inputEnded chan struct{}) {
	stop := s.ctx.Done()
	for s.ctx.Err() == nil {
		text, err := l.next()
		switch {
		case errors.Is(err, errLong):
			s.out.send(line{answer: answer{ID: idOf(text), Error: protocolError("", "write shorter ones, or a file in the workspace", "the line is longer than %d bytes", MaxLine)}}, stop)
		case err != nil:
			close(inputEnded) // whatever the error: nothing more will come
			if s.hold() {
				s.drain()
				s.work.Done()
			}
			s.end(io.EOF)
		default:
			if !s.hold() {
				return
			}
			carryOut := s.take(text, stop)
			if carryOut != nil {
				select {
				case s.turn <- struct{}{}:
				default:
					go s.follow(l, inputEnded)
				}
				carryOut()
			}
			if s.work.Done(); carryOut != nil && !s.awaitReading(inputEnded) {
				return
			}
		}
	}
}

// awaitReading waits until the goroutine that reads has a request to carry out, and reports whether the calling one is to read on. No more than one
// waits.
func (s *server) awaitReading(inputEnded <-chan struct{}) bool {
	if !s.waiting.CompareAndSwap(false, true) {
		return false
	}
	defer s.waiting.Store(false)
	select {
	case <-s.turn:
		return true
	case <-inputEnded:
	case <-s.ctx.Done():
	}
	return false
}

// hold makes what is being begun part of what is waited for in the end, unless that has come: see lastWords.
func (s *server) hold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.work.Add(1)
	}
	return !s.over
}

// take begins what a line asks for, and returns what carries it out; nil if it is answered already.
func (s *server) take(text []byte, stop <-chan struct{}) (carryOut func()) {
	req, fault := decode(text)
	if fault == nil {
		carryOut, fault = s.begin(req, len(text))
	}
	if fault == nil {
		return carryOut
	}
	if fault.Field == "id" {
		req.id = "" // that of another request, which must not take this for its answer
	}
	s.out.send(line{answer: answer{ID: req.id, Error: fault}}, stop)
	return nil
}

// begin returns what carries a request out. What that refers to is looked up in the order of lines; everything else is done concurrently.
func (s *server) begin(req *request, size int) (carryOut func(), fault *Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil { // what began now would not be closed
		return nil, gone("", "", "the conversation is ending")
	}
	if s.calls[req.id] != nil {
		return nil, protocolError("id", "choose another, or wait for its answer", "%s is in flight already", clip(string(req.id)))
	}
	k := req.does.counts
	if s.flying[k] >= maxFlying || s.bytes+size > maxFlyingBytes {
		return nil, protocolError("", "wait for answers first", "%d requests of %d bytes are in flight", s.flying[k], s.bytes)
	}
	if req.op == "start" && s.processes >= maxProcesses {
		return nil, protocolError("", "end one of them and wait for it, by the op wait, or close its session", "there are %d processes that run or were not waited for", s.processes)
	}
	c := &call{id: req.id, op: req.op, ctx: s.life, carriedOut: make(chan struct{}), sent: make(chan struct{}), lacksRoom: make(chan struct{})}
	act, fault := req.does.prepare(s, c, req)
	if fault != nil {
		return nil, fault
	}
	c.ctx, c.cancel = context.WithCancelCause(c.ctx)
	s.number++
	c.number = s.number
	s.calls[c.id], s.unsent[c] = c, struct{}{}
	if c.process != nil {
		s.processes++
	}
	s.flying[k]++
	s.bytes += size
	several := len(s.calls) > 1
	return func() {
		if several {
			s.host.Busy()
		}
		s.carryOut(c, act, k, size)
	}, nil
}

// carryOut does what a request asks for and answers it.
func (s *server) carryOut(c *call, act act, k kind, size int) {
	ok, fault := act()
	s.trim.Reset(idleTime)
	close(c.carriedOut)
	lives := c.process != nil && fault == nil
	if !lives {
		c.cancel(nil)
		s.mu.Lock()
		delete(s.calls, c.id) // before the answer: the client may use the id again once it has that
		if c.process != nil {
			s.processes--
		}
		s.mu.Unlock()
	}
	taken := func() {
		s.collected.Release(c.holds)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.unsent, c)
		close(c.sent)
		s.bytes -= size
		s.flying[k]--
	}
	s.awaitTurn(c)
	if !s.out.send(line{answer: answer{c.id, ok, fault}, taken: taken}, nil) {
		taken()
	}
	if lives {
		c.process.answered()
	}
}

// closeAll closes all sessions and returns when nothing of them is alive.
func (s *server) closeAll() {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.living))
	s.mu.Unlock()
	_ = s.closeThese(all) // nobody is left who could act on what it says
	s.stop()
}

// errUnread says that the client does not take its answers.
var errUnread error = notRead{}

type notRead struct{}

func (notRead) Error() string { return ErrOutput.Error() + ": nobody reads it" }

func (notRead) Unwrap() error { return ErrOutput }

// finishRequests lets the requests that have ended by that tell so, if there is someone who listens. It returns what was wrong with writing.
func (s *server) finishRequests(written <-chan error) error {
	var all, silent atomic.Bool
	silence := time.AfterFunc(finishTimeout, func() {
		silent.Store(!all.Load())
		s.out.giveUp()
	})
	defer silence.Stop()
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	go func() {
		s.work.Wait()
		all.Store(true)
		s.out.giveUp()
	}()
	<-s.out.gone
	select {
	case err := <-written:
		if err == nil && silent.Load() {
			return errUnread
		}
		return err
	case <-time.After(finishTimeout): // it is stuck in a line
		return errUnread
	}
}
