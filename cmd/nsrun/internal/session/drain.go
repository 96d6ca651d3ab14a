package session

import (
	"cmp"
	"context"
	"io"
	"slices"
	"sync/atomic"
	"time"
)

// untimedLimit is how long requests that have no timeout of their own, a wait and a write, may hold up a close or the end of the input.
const untimedLimit = 30 * time.Second

// unreadLimit is how long the client may take none of the answers that are left when its input has ended.
const unreadLimit = 10 * time.Second

// drain lets the requests that were read before the end of the input be carried out and answered. A client may write all its lines at once
// and close its end, as a shell's pipe does.
func (s *server) drain() {
	s.mu.Lock()
	s.drained = true
	all := s.inFlight(func(*call) bool { return true })
	for _, c := range s.calls {
		if c.process != nil {
			s.work.Go(c.process.endInput)
		}
	}
	s.mu.Unlock()
	s.settle(s.ctx, all)
	for _, c := range all {
		select {
		case <-c.carriedOut:
		default:
			continue // the end of its process answers it
		}
		select {
		case <-c.sent:
		case <-s.ctx.Done():
			return
		}
	}
}

// inFlight returns the requests of a kind that are not answered yet, in the order of their lines. The caller holds s.mu.
func (s *server) inFlight(is func(*call) bool) (all []*call) {
	for c := range s.unsent {
		if is(c) {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *call) int { return cmp.Compare(a.number, b.number) })
	return all
}

// settle returns when the requests are carried out, or ctx ends. A command has a timeout; a wait and a write have only untimedLimit.
func (s *server) settle(ctx context.Context, all []*call) {
	var untimed []*call
	for _, c := range all {
		if c.op == "wait" || c.op == "write" {
			untimed = append(untimed, c)
		} else if !either(c.carriedOut, ctx.Done()) {
			return
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.untimedLimit)
	defer cancel()
	for _, c := range untimed {
		if either(c.carriedOut, ctx.Done()) && c.quiet != nil {
			either(c.quiet, ctx.Done())
		}
	}
}

// either waits for the first of two channels to be closed, and reports whether it was done.
func either(done, stop <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-stop:
		return false
	}
}

// awaitTurn holds an answer back until those before it are out: for a close, those that it has waited for, and once the input has ended all. One
// that waits for room to collect output in is passed by, since the answers behind it may hold that room.
func (s *server) awaitTurn(c *call) {
	before := c.after
	s.mu.Lock()
	if s.drained {
		before = s.inFlight(func(of *call) bool { return of.number < c.number })
	}
	s.mu.Unlock()
	for _, of := range before {
		select {
		case <-of.sent:
		case <-of.lacksRoom:
		case <-s.ctx.Done():
		}
	}
}

// watchReader ends the conversation if the client takes nothing for unreadLimit although there is something to take.
func (s *server) watchReader() {
	for {
		before := s.out.steps.Load()
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(s.unreadLimit):
		}
		if before%2 == 1 && before == s.out.steps.Load() {
			s.end(errUnread)
			return
		}
	}
}

// counted counts the beginnings and the ends of writes: an odd number is a write that waits.
type counted struct {
	io.Writer
	steps *atomic.Int64
}

func (w counted) Write(p []byte) (int, error) {
	w.steps.Add(1)
	defer w.steps.Add(1)
	return w.Writer.Write(p)
}
