package session

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/result"
)

// sandbox is an open session, or one that is being opened.
type sandbox struct {
	name   string
	ctx    context.Context // ends when it is closed, or is not to be opened any more
	cancel context.CancelCauseFunc
	ready  chan struct{} // closed when it is open, or cannot be
	box    Sandbox       // nil if it cannot be

	questions questions
}

// wait waits until the session is open.
func (b *sandbox) wait(c *call) *Error {
	if fault := c.await(b.ready); fault != nil {
		return fault
	}
	if b.box == nil {
		return gone("session", "see the answer to its open", "the session %q could not be opened", clip(b.name))
	}
	return nil
}

// close returns when nothing of it is alive.
func (b *sandbox) close() error {
	defer b.cancel(runner.ErrClosed) // for what still waits for the client to take its output
	select {
	case <-b.ready:
	default:
		b.cancel(runner.ErrClosed)
		<-b.ready
	}
	if b.box == nil {
		return nil
	}
	return b.box.Close()
}

// dead reports whether it has ended by itself.
func (b *sandbox) dead() bool {
	select {
	case <-b.ready:
		return b.box == nil || !b.box.Alive()
	default:
		return false
	}
}

// inSession prepares what is done in an open session.
func inSession(do func(*server, *call, *request) (any, *Error)) prepare {
	return func(s *server, c *call, req *request) (act, *Error) {
		b := s.sandboxes[req.session]
		if b == nil {
			return nil, gone("session", "open it first", "the session %q is not open", clip(req.session))
		}
		c.ctx, c.sandbox = b.ctx, b
		return func() (any, *Error) {
			if fault := b.wait(c); fault != nil {
				return nil, fault
			}
			return do(s, c, req)
		}, nil
	}
}

func (s *server) preparePing(*call, *request) (act, *Error) {
	return func() (any, *Error) { return pong{Protocol: 1, Version: s.version}, nil }, nil
}

type pong struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"`
}

// opened is what open answers.
type opened struct {
	Session string         `json:"session"`
	Dir     string         `json:"dir"` // where commands start
	Backend string         `json:"backend"`
	Receipt result.Receipt `json:"receipt"`
}

func (s *server) prepareOpen(c *call, req *request) (act, *Error) {
	name := req.session
	if old := s.sandboxes[name]; old != nil && !old.dead() {
		return nil, protocolError("session", "give it another name, or close that one first", "the session %q is open already", clip(name))
	} else if old != nil {
		s.work.Go(func() {
			_ = s.closeThese([]*sandbox{old})
			s.forgetProcesses(old)
		})
	}
	b := &sandbox{name: name, ready: make(chan struct{})}
	b.ctx, b.cancel = context.WithCancelCause(s.life)
	c.ctx, c.sandbox = b.ctx, b
	s.sandboxes[name], s.living[b] = b, struct{}{}
	return func() (any, *Error) { return s.open(c, b, req) }, nil
}

func (s *server) open(c *call, b *sandbox, req *request) (any, *Error) {
	box, err := s.host.Open(c.ctx, Asked{Manifest: req.manifest, Policy: req.policy, Dir: req.dir})
	if err != nil {
		return nil, s.notOpened(b, c.explain(err, ""))
	}
	b.box = box
	if err := b.listen(s, req); err != nil {
		fault := c.explain(err, "")
		_ = box.Close()
		b.box = nil
		return nil, s.notOpened(b, fault)
	}
	close(b.ready)
	r := box.Receipt()
	return opened{Session: b.name, Dir: box.WorkingDir(), Backend: r.Backend, Receipt: r}, nil
}

// notOpened forgets a session that could not be opened.
func (s *server) notOpened(b *sandbox, fault *Error) *Error {
	s.mu.Lock()
	if s.sandboxes[b.name] == b {
		delete(s.sandboxes, b.name)
	}
	delete(s.living, b)
	s.mu.Unlock()
	b.cancel(errNotOpened)
	close(b.ready)
	return fault
}

// closed is what close answers: the names of the sessions that were open, or were to be, and what makes the host run something that has changed.
type closed struct {
	Closed           []string                 `json:"closed"`
	ProtectedChanged []result.ProtectedChange `json:"protected_changed,omitempty"`
}

// prepareClose closes sessions when the requests before it have been carried out: a client may write all its lines at once.
func (s *server) prepareClose(c *call, req *request) (act, *Error) {
	var all []*sandbox
	for name, b := range s.sandboxes {
		if !req.given["session"] || name == req.session {
			all = append(all, b)
		}
	}
	if len(all) == 0 && req.given["session"] {
		return nil, gone("session", "", "the session %q is not open", clip(req.session))
	}
	slices.SortFunc(all, func(a, b *sandbox) int { return strings.Compare(a.name, b.name) })
	names := []string{}
	for _, b := range all {
		delete(s.sandboxes, b.name)
		names = append(names, b.name)
	}
	if !req.now {
		c.after = s.inFlight(func(of *call) bool { // those of a session that could not be opened, too
			return of.sandbox != nil && (!req.given["session"] || of.sandbox.name == req.session)
		})
	}
	return func() (any, *Error) {
		s.settle(c.ctx, c.after)
		if err := s.closeThese(all); err != nil {
			return nil, explain(err, "")
		}
		answer := closed{Closed: names}
		for _, b := range all {
			s.forgetProcesses(b)
			if b.box != nil {
				answer.ProtectedChanged = append(answer.ProtectedChanged, b.box.ProtectedChanged()...)
			}
		}
		return answer, nil
	}, nil
}

// closeThese closes sessions at the same time.
func (s *server) closeThese(all []*sandbox) error {
	errs := make([]error, len(all))
	var closing sync.WaitGroup
	for i, b := range all {
		closing.Go(func() { errs[i] = b.close() })
	}
	closing.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range all {
		delete(s.living, b)
	}
	return errors.Join(errs...)
}

// forgetProcesses frees the ids of a closed session's processes, once all that they have written is told.
func (s *server) forgetProcesses(b *sandbox) {
	var all []*process
	s.mu.Lock()
	for _, c := range s.calls {
		if c.process != nil && c.sandbox == b {
			all = append(all, c.process)
		}
	}
	s.mu.Unlock()
	for _, p := range all {
		if <-p.ready; p.proc != nil {
			p.release()
		}
	}
}

func (s *server) resolve(c *call, req *request) (any, *Error) {
	access := runner.ForReading
	if req.access == "write" {
		access = runner.ForWriting
	}
	path, err := c.sandbox.box.ResolvePath(req.path, access)
	if err != nil {
		return nil, explain(err, "")
	}
	return resolved{path.Path}, nil
}

// resolved is what resolve answers.
type resolved struct {
	Path string `json:"path"`
}
