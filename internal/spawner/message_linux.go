package spawner

import (
	"errors"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/nsrun/plan"
)

// Request asks for a sandbox.
type Request struct {
	Plan      *plan.Plan `json:"plan"`
	Protected []string   `json:"protected,omitempty"`
	// Command and Env are the plan's, byte for byte: JSON has no strings that are not UTF-8.
	Command [][]byte `json:"command,omitempty"`
	Env     [][]byte `json:"env,omitempty"`
	// Home is the caller's home directory, for a plan that explains.
	Home string `json:"home,omitempty"`
}

// NewRequest is a request for p.
func NewRequest(p *plan.Plan, protected []string) Request {
	return Request{Plan: p, Protected: protected, Command: words[[]byte](p.Command), Env: words[[]byte](p.Env)}
}

// Whole returns the plan as it was requested.
func (o *Request) Whole() *plan.Plan {
	p := *o.Plan
	p.Command, p.Env = words[string](o.Command), words[string](o.Env)
	return &p
}

func words[To, From []byte | string](in []From) []To {
	out := make([]To, len(in))
	for i, w := range in {
		out[i] = To(w)
	}
	return out
}

// Answer reports what came of a Request. Of its parts one is given.
type Answer struct {
	Info    *backend.Info    `json:"info,omitempty"`    // of a sandbox that serves
	Outcome *backend.Outcome `json:"outcome,omitempty"` // of a command that has run
	Failure *fault.Error     `json:"failure,omitempty"`
}

// failed answers with what stood in the way.
func failed(err error) Answer {
	failure := &fault.Error{Stage: "spawner", Err: err}
	errors.As(err, &failure)
	return Answer{Failure: failure}
}
