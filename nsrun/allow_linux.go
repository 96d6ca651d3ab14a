package nsrun

import (
	"time"

	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/result"
)

// Question is a connection from a session that no rule of its network allows, and that waits for an [Answer]: see [Session.Ask].
type Question struct {
	Name    string // of the host; empty for one that is named by its address
	Address string // of a host without a name
	Port    int
	Rule    string // the rule that would allow it, such as "example.com:443"
}

// Answer says what becomes of a connection. The zero value refuses it.
type Answer struct {
	Allow   bool   // the connection, and those to the same host and port that wait for the same answer
	Session bool   // and later ones: adds the rule to the session's, as by [Session.SetAllow]
	Reason  string // of a refusal; the command's denials have it
}

// Ask has answer called for each connection that no rule of the session's allow-list allows, while the connection waits, for wait at most; then it is refused.
// Nothing leaves the host before: a name is not looked up. What an answer allows is checked like what a rule does, so an address of the host's own, of a
// private network or of a metadata service is not reached by it. answer is called from several goroutines, and at most 64 calls go on at once; what is
// above is refused. A wait of 0 asks no more. UDP is not asked about.
//
// Under an operator's ceiling there are no questions about what the ceiling does not allow. An error is a [*RefusedError] if the session's network has no
// list, or [ErrClosed].
func (s *Session) Ask(wait time.Duration, answer func(Question) Answer) error {
	return s.session.Ask(wait, func(q runner.Question) runner.Answer { return runner.Answer(answer(Question(q))) })
}

// Allow returns the rules of the session's allow-list that count now; nil if it has none.
func (s *Session) Allow() []string { return s.session.Allow() }

// SetAllow exchanges the rules of the session's allow-list, and returns when the new ones count: see package netrule. Connections that they do not allow
// are reset, but for those that an [Answer] has allowed. An error is a [*RefusedError] if a rule is none, is beyond the operator's ceiling, or names a port
// that nothing listens on, since no rule did when the session was opened: every port of UDP, and without nf_tables those of TCP.
func (s *Session) SetAllow(rules ...string) error { return s.session.SetAllow(rules) }

// OnRefused has f called when the session's allow-list refuses something for the first time. The denials of results have everything; f is not called for
// what comes while 64 calls wait, nor after the first 1000 of a sandbox. A second call of OnRefused replaces f.
func (s *Session) OnRefused(f func(result.Denial)) { s.session.OnRefused(f) }
