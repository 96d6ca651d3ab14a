package nethost

import (
	"fmt"
	"sync"
	"time"

	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/nsrun/netrule"
)

// maxQuestions is how many questions wait for their answers at once.
const maxQuestions = 64

// asking are the questions to nsrun about what no rule allows.
type asking struct {
	mu      sync.Mutex
	wait    time.Duration // 0 for none
	all     bool          // else nothing is asked about that most does not allow
	most    netrule.Rules
	serial  int
	waiting map[string]*question // by the rule that would allow it
}

// question is one for all connections to one target.
type question struct {
	serial int
	done   chan struct{} // closed when it is answered, or will not be
	answer netmessage.Answer
}

// set is what is asked about from now on.
func (a *asking) set(what *netmessage.Asking) error {
	if what == nil {
		return nil
	}
	most, err := parse(what.Most)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wait, a.all, a.most = time.Duration(what.MS)*time.Millisecond, what.All, most
	return nil
}

// SetAsking is what is asked about from now on.
func (s *Server) SetAsking(what netmessage.Asking) error { return s.asking.set(&what) }

// about reports whether a connection to a name may be asked about, whatever its port.
func (a *asking) about(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wait > 0 && name != "" && (a.all || a.most.Lists(name))
}

// covers returns how long a question about t may wait, and reports whether t may be asked about. within is the rule of most that allows it, if there is most.
func (a *asking) covers(t target) (wait time.Duration, within netrule.Rule, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.all:
		ok = true
	case t.name != "":
		within, ok = a.most.Name(t.name, t.port, t.udp)
	default:
		within, ok = a.most.Addr(t.addr, t.port, t.udp)
	}
	return a.wait, within, ok
}

// permit decides on the client's connection to a target, and asks nsrun if no rule allows it.
func (c *client) permit(t target) (netrule.Rule, *netmessage.Refusal) {
	rule, refused := c.decide(opConnect, t)
	if refused == nil || refused.Rule == "" || refused.Reason != netmessage.Unlisted && refused.Reason != netmessage.Port || c.options.Event == nil {
		return rule, refused
	}
	wait, within, ok := c.asking.covers(t)
	if wait <= 0 {
		return rule, refused
	}
	if !ok {
		refused.Detail, refused.Rule = refused.Detail+", and the operator's ceiling allows none", ""
		return rule, refused
	}
	if narrower, _, err := netrule.Parse(refused.Rule); err == nil && within.Scheme != "" { // what the ceiling permits as TLS alone, or as HTTP, is asked for as that
		narrower.Scheme = within.Scheme
		refused.Rule = narrower.String()
	}
	answer := c.ask(t, refused.Rule, wait)
	if !answer.Allow {
		refused.Detail += ", and " + answer.Reason
		return rule, refused
	}
	if rule, again := c.decide(opConnect, t); again == nil { // a rule has come with the answer
		return rule, nil
	}
	rule, _, err := netrule.Parse(refused.Rule)
	if err != nil {
		refused.Detail += ": bug: " + err.Error()
		return rule, refused
	}
	c.asked = true
	return rule, nil
}

// ask asks nsrun about a target, or waits for the answer to the same question.
func (s *Server) ask(t target, rule string, wait time.Duration) netmessage.Answer {
	q, first := s.asking.question(rule)
	if q == nil {
		return netmessage.Answer{Reason: fmt.Sprintf("%d questions wait for an answer already", maxQuestions)}
	}
	if first {
		asked := netmessage.Question{Serial: q.serial, Name: t.name, Port: int(t.port), Rule: rule}
		if t.name == "" {
			asked.Address = t.addr.String()
		}
		s.options.Event(netmessage.Event{Question: &asked})
		late := time.AfterFunc(wait, func() {
			s.Answer(netmessage.Answer{Serial: q.serial, Reason: "nobody has answered within " + wait.String()})
		})
		defer late.Stop()
	}
	select {
	case <-q.done:
		return q.answer
	case <-s.ending:
	case <-s.ctx.Done():
	}
	return netmessage.Answer{Reason: "the sandbox has ended"}
}

// question returns the one that waits for the rule, or a new one; nil if there are too many.
func (a *asking) question(rule string) (q *question, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if q = a.waiting[rule]; q != nil {
		return q, false
	}
	if len(a.waiting) >= maxQuestions {
		return nil, false
	}
	if a.waiting == nil {
		a.waiting = map[string]*question{}
	}
	a.serial++
	q = &question{serial: a.serial, done: make(chan struct{})}
	a.waiting[rule] = q
	return q, true
}

// Answer answers a question. One that does not wait any more is left alone.
func (s *Server) Answer(answer netmessage.Answer) {
	a := &s.asking
	a.mu.Lock()
	defer a.mu.Unlock()
	for rule, q := range a.waiting {
		if q.serial == answer.Serial {
			delete(a.waiting, rule)
			q.answer = answer
			close(q.done)
		}
	}
}
