package session

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"
)

// process is one that a request has started, and that others refer to by that one's id.
type process struct {
	server *server
	call   *call
	tty    bool
	ready  chan struct{} // closed when it runs, or cannot be started
	proc   Process       // nil if it cannot be
	// written is closed when the last write that was asked for is done: each waits for the one before. It is the server's to change.
	written   chan struct{}
	streams   []*stream
	open      sync.WaitGroup // streams
	forgotten chan struct{}  // closed when its id is free again; it is the server's to close
}

func newProcess(s *server, c *call) *process {
	written := make(chan struct{})
	close(written)
	return &process{server: s, call: c, ready: make(chan struct{}), forgotten: make(chan struct{}), written: written}
}

// started is what start answers.
type started struct {
	Started bool `json:"started"`
}

func (s *server) prepareStart(c *call, req *request) (act, *Error) {
	start, fault := inSession((*server).start)(s, c, req)
	c.process = newProcess(s, c)
	return func() (any, *Error) {
		defer close(c.process.ready)
		return start()
	}, fault
}

func (s *server) start(c *call, req *request) (any, *Error) {
	p := c.process
	argv, opts := req.argv(), req.options()
	p.tty = req.terminal != nil
	opts.Stdout = p.stream("stdout", req)
	if !p.tty {
		opts.Stderr = p.stream("stderr", req)
	}
	proc, err := c.sandbox.box.Start(c.ctx, argv, opts)
	if err != nil {
		return nil, c.explain(err, argv[0])
	}
	p.proc = proc
	return started{true}, nil
}

// stream is one that the process writes to. It waits until the start is answered.
func (p *process) stream(name string, req *request) *stream {
	s := p.server.stream(p.server.ctx, p.call.id, name, req)
	s.closed = p.open.Done
	s.mu.Lock()
	p.open.Add(1)
	p.streams = append(p.streams, s)
	return s
}

// answered lets the process's output pass, once its start has been answered.
func (p *process) answered() {
	for _, s := range p.streams {
		s.mu.Unlock()
	}
}

// wait waits until the process runs.
func (p *process) wait(c *call) *Error {
	if fault := c.await(p.ready); fault != nil {
		return fault
	}
	if p.proc == nil {
		return gone("of", "see the answer to its start", "the process could not be started")
	}
	return nil
}

// lookUp finds the request that another one refers to, and its process.
func (s *server) lookUp(req *request) (*call, *Error) {
	of := s.calls[req.of]
	switch {
	case of == nil:
		return nil, gone("of", "", "nothing with the id %s is in flight", clip(string(req.of)))
	case of.process == nil && req.op != "cancel":
		return nil, protocolError("of", "give the id of a start", "%s is no process", clip(string(req.of)))
	}
	return of, nil
}

// ofProcess prepares what is done with a process that runs.
func ofProcess(do func(*process, *request) (any, *Error)) prepare {
	return func(s *server, c *call, req *request) (act, *Error) {
		of, fault := s.lookUp(req)
		if fault != nil {
			return nil, fault
		}
		c.ctx, c.sandbox = of.ctx, of.sandbox
		return func() (any, *Error) {
			if fault := of.process.wait(c); fault != nil {
				return nil, fault
			}
			return do(of.process, req)
		}, nil
	}
}

// prepareWrite has writes done in the order of their lines.
func (s *server) prepareWrite(c *call, req *request) (act, *Error) {
	var before chan struct{}
	write, fault := ofProcess(func(p *process, req *request) (any, *Error) { return p.write(c, req, before) })(s, c, req)
	if fault != nil {
		return nil, fault
	}
	p, mine := s.calls[req.of].process, make(chan struct{})
	before, p.written = p.written, mine
	return func() (any, *Error) {
		defer close(mine)
		return write()
	}, nil
}

// prepareWait is for a request whose end is not the session's: its answer has how the process ended.
func (s *server) prepareWait(c *call, req *request) (act, *Error) {
	of, fault := s.lookUp(req)
	return func() (any, *Error) { return of.process.ended(c, req) }, fault
}

func (s *server) prepareCancel(c *call, req *request) (act, *Error) {
	of, fault := s.lookUp(req)
	return func() (any, *Error) { return cancel(c, of) }, fault
}

// nothing is the answer to what has nothing to tell.
type nothing struct{}

func done(err error) (any, *Error) {
	if err != nil {
		return nil, explain(err, "")
	}
	return nothing{}, nil
}

// cancel ends a command or a process with all that it has started, or whatever else has not been answered yet. The request that is
// cancelled is answered as well.
func cancel(c, of *call) (any, *Error) {
	if of.op == "write" {
		return nil, protocolError("of", "cancel its process", "a write cannot be cancelled")
	}
	if of.process == nil {
		of.cancel(context.Canceled)
		return nothing{}, nil
	}
	select {
	case <-of.process.ready:
	default:
		of.cancel(context.Canceled) // it is being started
	}
	if fault := of.process.wait(c); fault != nil {
		return nothing{}, nil
	}
	return done(of.process.proc.End())
}

func (p *process) write(c *call, req *request, before <-chan struct{}) (any, *Error) {
	if fault := c.await(before); fault != nil {
		return nil, fault
	}
	if p.tty && req.eof {
		return nil, protocolError("eof", "write \\u0004, which is what Ctrl-D sends", "a terminal has no end")
	}
	var err error
	if req.given["data"] {
		_, err = p.proc.Stdin().Write(req.data)
	}
	if err == nil && req.eof {
		err = p.proc.Stdin().Close()
	}
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EIO) || errors.Is(err, io.ErrClosedPipe) {
		return nil, gone("of", "", "the process does not read any more")
	}
	return done(err)
}

// ended waits until the process has. Once that is told its id is free again, when nobody holds its pipes any more.
func (p *process) ended(c *call, req *request) (any, *Error) {
	if fault := p.wait(c); fault != nil {
		return nil, fault
	}
	if !either(p.proc.Done(), c.ctx.Done()) && p.server.ctx.Err() == nil {
		return nil, c.explain(nil, "")
	}
	r, err := p.proc.Wait()
	c.quiet = p.forgotten
	p.server.work.Go(p.release)
	if r == nil {
		return done(err)
	}
	return endedOf(r.Result, req.receipt), nil
}

// endInput closes its standard input when all has been written: nobody can ask for more.
func (p *process) endInput() {
	if <-p.ready; p.proc == nil || p.tty {
		return
	}
	p.server.mu.Lock()
	written := p.written
	p.server.mu.Unlock()
	<-written
	_ = p.proc.Stdin().Close()
}

// release frees its id when nothing more will be told under it.
func (p *process) release() {
	p.open.Wait()
	s := p.server
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-p.forgotten:
	default:
		close(p.forgotten)
		delete(s.calls, p.call.id)
		s.processes--
		p.call.cancel(nil)
		if !p.tty {
			_ = p.proc.Stdin().Close()
		}
	}
}
