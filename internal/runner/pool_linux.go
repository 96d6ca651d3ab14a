package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// Pool keeps sandboxes of one policy ready, and hands each out once: for commands that must not find anything that another one has left.
type Pool struct {
	open   func(context.Context) (*Session, error)
	ready  chan *Session
	wanted chan struct{} // one token for each session to build
	ctx    context.Context
	stop   context.CancelFunc
	group  sync.WaitGroup
}

// NewPool is nsrun.NewPool.
func NewPool(p policy.Policy, n int, protected ...string) (*Pool, error) {
	if n < 1 {
		return nil, &policy.Fault{Field: "n", Text: fmt.Sprintf("a pool of %d", n), Fix: "keep at least one"}
	}
	open := func(ctx context.Context) (*Session, error) { return Open(ctx, p, protected...) }
	first, err := open(context.Background())
	if err != nil {
		return nil, err
	}
	pool := &Pool{open: open, ready: make(chan *Session, n), wanted: make(chan struct{}, n)}
	pool.ctx, pool.stop = context.WithCancel(context.Background())
	pool.ready <- first
	for range n - 1 {
		pool.wanted <- struct{}{}
	}
	pool.group.Add(1)
	go pool.build()
	return pool, nil
}

// build builds what is wanted, one after the other. What fails is tried again after a while; meanwhile [Pool.Get] builds for itself, and
// has somebody to tell.
func (p *Pool) build() {
	defer p.group.Done()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.wanted:
		}
		s, err := p.open(p.ctx)
		for err != nil {
			select {
			case <-p.ctx.Done():
				return
			case <-time.After(time.Second):
				s, err = p.open(p.ctx)
			}
		}
		p.ready <- s // there is room: a token was taken for it
	}
}

// Get hands out a session, which the caller closes. If none is ready it builds one.
func (p *Pool) Get(ctx context.Context) (*Session, error) {
	for {
		if p.ctx.Err() != nil {
			return nil, ErrClosed
		}
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		select {
		case s := <-p.ready:
			p.wanted <- struct{}{}
			if s.Alive() && s.lookAgain() { // the spawner may have died meanwhile
				return s, nil
			}
			s.Close()
		default:
			return p.open(ctx)
		}
	}
}

// Close closes the sessions that were not handed out, and returns when nothing of them is alive.
func (p *Pool) Close() error {
	p.stop()
	p.group.Wait()
	var faults []error
	for {
		select {
		case s := <-p.ready:
			faults = append(faults, s.Close())
		default:
			return errors.Join(faults...)
		}
	}
}
