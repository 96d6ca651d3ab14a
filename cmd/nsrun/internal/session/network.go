package session

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/result"
)

// questions are those of a session's network that wait for the client's answers.
type questions struct {
	mu      sync.Mutex
	last    int64
	waiting map[int64]chan<- runner.Answer
}

// networkEvent is a line about a session's network. One of its parts is given.
type networkEvent struct {
	Session  string         `json:"session"`
	Refused  *result.Denial `json:"refused,omitempty"`
	Question *question      `json:"question,omitempty"`
}

type question struct {
	ID int64 `json:"id"`
	runner.Question
}

// listen has the client get what it has asked for when it opened a session.
func (b *sandbox) listen(s *server, req *request) error {
	if req.refusals {
		b.box.OnRefused(func(d result.Denial) { s.tell(b.ctx, networkEvent{Session: b.name, Refused: &d}) })
	}
	if req.ask > 0 {
		return b.box.Ask(req.ask, func(q runner.Question) runner.Answer { return s.question(b, q, req.ask) })
	}
	return nil
}

// tell writes an event of a session's, unless that ends first.
func (s *server) tell(ctx context.Context, e networkEvent) {
	s.out.send(line{event: append(marshal(e), '\n')}, ctx.Done())
}

// question asks the client, and waits for its answer until nobody does.
func (s *server) question(b *sandbox, q runner.Question, wait time.Duration) runner.Answer {
	answer := make(chan runner.Answer, 1)
	b.questions.mu.Lock()
	b.questions.last++
	number := b.questions.last
	if b.questions.waiting == nil {
		b.questions.waiting = map[int64]chan<- runner.Answer{}
	}
	b.questions.waiting[number] = answer
	b.questions.mu.Unlock()
	defer func() {
		b.questions.mu.Lock()
		defer b.questions.mu.Unlock()
		delete(b.questions.waiting, number)
	}()
	ctx, cancel := context.WithTimeout(b.ctx, wait)
	defer cancel()
	s.tell(ctx, networkEvent{Session: b.name, Question: &question{number, q}})
	select {
	case a := <-answer:
		return a
	case <-ctx.Done():
		return runner.Answer{Reason: "nobody has answered within " + wait.String()}
	}
}

// prepareAnswer finds the question in sessions that are being closed, too: a close waits for the commands that wait for the answer.
func (s *server) prepareAnswer(_ *call, req *request) (act, *Error) {
	for b := range s.living {
		if b.name == req.session && b.questions.answer(req) {
			return func() (any, *Error) { return nothing{}, nil }, nil
		}
	}
	return nil, gone("question", "", "no question %s of the session %q waits for an answer", strconv.FormatInt(req.question, 10), clip(req.session))
}

// answer answers a question. It reports false if that does not wait.
func (q *questions) answer(req *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := q.waiting[req.question]
	if waiting == nil {
		return false
	}
	delete(q.waiting, req.question)
	session := req.allow == runner.AnswerSession
	waiting <- runner.Answer{Allow: session || req.allow == runner.AnswerOnce, Session: session, Reason: req.reason} // there is room for one
	return true
}

// setRules answers with the rules that count from now on.
func (s *server) setRules(c *call, req *request) (any, *Error) {
	if err := c.sandbox.box.SetAllow(req.rules); err != nil {
		return nil, c.explain(err, "")
	}
	return ruled{Rules: append([]string{}, c.sandbox.box.Allow()...)}, nil
}

// ruled is what allow answers.
type ruled struct {
	Rules []string `json:"rules"`
}
