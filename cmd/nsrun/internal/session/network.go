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

// answers are what a client says to a question, each with what it means.
var answers = map[string]runner.Answer{runner.AnswerOnce: {Allow: true}, runner.AnswerSession: {Allow: true, Session: true}, runner.AnswerDeny: {}}

func (s *server) answerQuestion(c *call, req *request) (any, *Error) {
	b := c.sandbox
	b.questions.mu.Lock()
	defer b.questions.mu.Unlock()
	waiting := b.questions.waiting[req.question]
	if waiting == nil {
		return nil, gone("question", "", "no question %s waits for an answer", strconv.FormatInt(req.question, 10))
	}
	delete(b.questions.waiting, req.question)
	a := answers[req.allow]
	a.Reason = req.reason
	waiting <- a // there is room for one
	return nothing{}, nil
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
