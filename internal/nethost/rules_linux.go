package nethost

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nsrun/nsrun/nsrun/netrule"
)

// rules are those of now.
type rules struct{ list atomic.Pointer[netrule.Rules] }

func (r *rules) now() netrule.Rules { return *r.list.Load() }

func (r *rules) set(texts []string) error {
	list, err := parse(texts)
	if err == nil {
		r.list.Store(&list)
	}
	return err
}

func parse(texts []string) (list netrule.Rules, err error) {
	for _, text := range texts {
		rule, _, err := netrule.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("rule %q: %w", text, err)
		}
		list = append(list, rule)
	}
	return list, nil
}

// SetRules exchanges the rules. Connections that the new ones do not allow are reset, but for those that an answer has allowed. It is not called at the
// same time as [Server.AddRules].
func (s *Server) SetRules(texts []string) error {
	if err := s.rules.set(texts); err != nil {
		return err
	}
	s.relays.cut(func(c *client) bool { return !c.allowed() })
	s.flows.mu.Lock()
	defer s.flows.mu.Unlock()
	for _, f := range s.flows.list {
		if !f.allowed(s) {
			f.end()
		}
	}
	return nil
}

// AddRules adds rules.
func (s *Server) AddRules(texts []string) error {
	more, err := parse(texts)
	if err == nil && len(more) > 0 {
		list := slices.Concat(s.rules.now(), more)
		s.rules.list.Store(&list)
	}
	return err
}

// relays are the connections that are carried, each with what resets it.
type relays struct {
	mu   sync.Mutex
	list map[*client]func()
}

// add lists a connection until done is called.
func (r *relays) add(c *client, reset func()) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.list == nil {
		r.list = map[*client]func(){}
	}
	r.list[c] = reset
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.list, c)
	}
}

// cut resets those for which refused is true.
func (r *relays) cut(refused func(*client) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c, reset := range r.list {
		if refused(c) {
			reset()
		}
	}
}
