package runner

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/nsrun/netrule"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
)

// Question is nsrun.Question.
type Question struct {
	Name    string `json:"name,omitempty"`
	Address string `json:"address,omitempty"`
	Port    int    `json:"port"`
	Rule    string `json:"rule"`
}

// Answer is nsrun.Answer.
type Answer struct {
	Allow   bool
	Session bool
	Reason  string
}

// maxAsked is how many questions of one network are answered at once. Its helper asks no more, but one that was taken over might; and it knows nothing of a
// call that goes on when the question has been refused.
const maxAsked = 64

// maxHeard is how many refusals wait for the function that is called for them. Those above are left out: results have them.
const maxHeard = 64

// allowlist is the network allow of a session, as it has become: see [Session.SetAllow] and [Session.Ask].
type allowlist struct {
	mu      sync.Mutex
	rules   []string // instead of the plan's; nil while they are those
	ask     *netmessage.Asking
	answer  func(Question) Answer
	asked   int                  // calls of answer that go on
	refused chan<- result.Denial // nil while nobody listens
}

// errNoList says that a session has no allow-list.
func errNoList(field string) error {
	return &policy.Fault{Field: field, Text: "the session's network is not cut down to a list", Fix: `open it with "network": {"allow": [...]}, which may be empty`}
}

// networkOptions are those of the next sandbox's network.
func (s *Session) networkOptions() backend.NetworkOptions {
	l := &s.allowlist
	l.mu.Lock()
	defer l.mu.Unlock()
	return backend.NetworkOptions{Rules: l.rules, Ask: l.ask, Heard: s.heard}
}

// heard acts on an event of a network. It does not block.
func (s *Session) heard(e netmessage.Event, order func(netmessage.Order) bool) {
	l := &s.allowlist
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case e.Question != nil && l.answer != nil && l.asked < maxAsked: // those above are refused when their time is up
		if q, ok := questionOf(*e.Question); ok {
			l.asked++
			go s.answerTo(order, e.Question.Serial, q, l.answer)
		}
	case e.Refusal != nil && l.refused != nil:
		select {
		case l.refused <- netDenial(*e.Refusal):
		default:
		}
	}
}

// answerTo has a question answered. What is allowed for the session is a rule from then on.
func (s *Session) answerTo(order func(netmessage.Order) bool, serial int, q Question, answer func(Question) Answer) {
	defer func() {
		s.allowlist.mu.Lock()
		defer s.allowlist.mu.Unlock()
		s.allowlist.asked--
	}()
	a := answer(q)
	if a.Allow && a.Session {
		if err := s.addRule(q.Rule); err != nil {
			a = Answer{Reason: err.Error()}
		}
	}
	order(netmessage.Order{Answer: &netmessage.Answer{Serial: serial, Allow: a.Allow, Reason: reasonOf(a)}})
}

// questionOf is a question of a helper's, which may have been taken over: its rule has to allow what the question is about, and nothing else.
func questionOf(q netmessage.Question) (Question, bool) {
	addr, err := netip.ParseAddr(q.Address)
	if (err == nil) == (q.Name != "") || q.Port < 1 || q.Port > math.MaxUint16 {
		return Question{}, false
	}
	rule, _, err := netrule.Parse(q.Rule)
	if err != nil || rule.UDP() {
		return Question{}, false
	}
	rule.Scheme = "" // that of a ceiling
	return Question{Name: q.Name, Address: q.Address, Port: q.Port, Rule: q.Rule}, rule.String() == netrule.Suggest(q.Name, addr, uint16(q.Port), false)
}

// Allow returns the rules of the network allow that count now.
func (s *Session) Allow() []string {
	s.allowlist.mu.Lock()
	defer s.allowlist.mu.Unlock()
	if s.allowlist.rules != nil || s.plan.Allow == nil {
		return slices.Clone(s.allowlist.rules)
	}
	return slices.Clone(s.plan.Allow.Rules)
}

// steady keeps the sandbox from being exchanged, and the allow-list from being changed, until the function is called that it returns.
func (s *Session) steady() (free func()) {
	<-s.renewing
	return func() { s.renewing <- struct{}{} }
}

// SetAllow is that of nsrun.Session.
func (s *Session) SetAllow(rules []string) error {
	defer s.steady()()
	return s.setRules(rules)
}

func (s *Session) addRule(rule string) error {
	defer s.steady()()
	return s.setRules(append(s.Allow(), rule))
}

func (s *Session) setRules(texts []string) error {
	if s.plan.Allow == nil {
		return errNoList("rules")
	}
	rules := []string{}
	var parsed netrule.Rules
	for i, text := range texts {
		r, _, err := netrule.Parse(text)
		if err == nil {
			err = policy.CheckRule(text)
		}
		if err != nil {
			fault := &policy.Fault{Field: fmt.Sprintf("rules[%d]", i), Text: err.Error(), Err: err}
			if f := (*netrule.Fault)(nil); errors.As(err, &f) {
				fault.Text, fault.Fix = fmt.Sprintf("the rule %q: %s", text, f.Text), f.Fix
			}
			return fault
		}
		parsed, rules = append(parsed, r), append(rules, r.String())
	}
	if err := backend.CheckRules(rules); err != nil { // before they are kept for the next sandbox
		return &policy.Fault{Field: "rules", Text: err.Error(), Fix: "name fewer", Err: err}
	}
	if err := s.permitted(parsed); err != nil {
		return err
	}
	s.allowlist.mu.Lock()
	s.allowlist.rules = rules
	s.allowlist.mu.Unlock()
	sandbox, expired, err := s.current()
	if err != nil || expired { // the next one has them
		return err
	}
	return sandbox.Network().SetRules(rules)
}

// permitted refuses rules that are beyond the operator's ceiling, or that the session's sockets cannot serve.
func (s *Session) permitted(rules netrule.Rules) error {
	if s.spec.AllowMost != nil {
		most, err := netrule.ParseAll(s.spec.AllowMost)
		if err != nil {
			return err
		}
		if _, lost := rules.Cut(most); len(lost) > 0 {
			return &policy.Fault{Field: "rules", Text: fmt.Sprintf("the rule %s is beyond the operator's ceiling", lost[0]), Fix: "leave it out, or ask the operator"}
		}
	}
	if port, ok := s.plan.Allow.Lacks(rules); ok {
		return &policy.Fault{Field: "rules", Text: "nothing listens on the port " + port + ", since no rule named it when the session was opened",
			Fix: "open the session with the rule, or another session"}
	}
	return nil
}

// Ask is that of nsrun.Session.
func (s *Session) Ask(wait time.Duration, answer func(Question) Answer) error {
	if s.plan.Allow == nil {
		return errNoList("ask")
	}
	defer s.steady()()
	ask := netmessage.Asking{MS: max(wait.Milliseconds(), 0), Most: s.spec.AllowMost, All: s.spec.AllowMost == nil}
	if wait > 0 && ask.MS == 0 {
		ask.MS = 1
	}
	s.allowlist.mu.Lock()
	s.allowlist.ask, s.allowlist.answer = &ask, answer
	s.allowlist.mu.Unlock()
	sandbox, expired, err := s.current()
	if err != nil || expired {
		return err
	}
	return sandbox.Network().SetAsking(ask)
}

// OnRefused is that of nsrun.Session.
func (s *Session) OnRefused(f func(result.Denial)) {
	denials := make(chan result.Denial, maxHeard)
	s.allowlist.mu.Lock()
	s.allowlist.refused = denials
	s.allowlist.mu.Unlock()
	go func() {
		for {
			select {
			case d := <-denials:
				f(d)
			case <-s.done:
				return
			}
		}
	}()
}

// withNetwork is a receipt of the session's for one command.
func (s *Session) withNetwork(from result.Receipt, out backend.Outcome) result.Receipt {
	if from.Allow != nil {
		from.Allow = allowReceipt(&plan.Allow{Rules: s.Allow(), Step: from.Allow.Step}, out)
	}
	from.Notes = slices.Concat(from.Notes, out.Losses)
	return from
}
