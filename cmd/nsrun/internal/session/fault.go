package session

import (
	"errors"
	"fmt"
	"os"

	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// The kinds of errors. How a command ended that ran is never one of them.
const (
	Refused  = "refused"   // the policy does not allow it, or cannot be enforced
	NotFound = "not-found" // there is no such program in the sandbox
	Setup    = "setup"     // a step on the way to the command failed
	Protocol = "protocol"  // the line is no request
	Closed   = "closed"    // what it is about is not there, or no longer
)

// Error is the part of an answer that says why a request was not carried out.
type Error struct {
	Kind  string `json:"kind"`
	Text  string `json:"text"`
	Field string `json:"field,omitempty"` // of the request, or of the policy
	Fix   string `json:"fix,omitempty"`   // one action that helps
	Name  string `json:"name,omitempty"`  // of the program that was not found
	Step  string `json:"step,omitempty"`  // that failed
	// Unmet lists what this host lacks of what the policy asks for.
	Unmet []plan.Note `json:"unmet,omitempty"`
}

// protocolError says what is wrong with a line.
func protocolError(field, fix, format string, args ...any) *Error {
	return &Error{Kind: Protocol, Field: field, Fix: fix, Text: fmt.Sprintf(format, args...)}
}

// gone says that what a request is about is not there.
func gone(field, fix, format string, args ...any) *Error {
	return &Error{Kind: Closed, Field: field, Fix: fix, Text: fmt.Sprintf(format, args...)}
}

// explain sorts an error of the library's into one of the kinds. name is the program that was to run.
func explain(err error, name string) *Error {
	var refused *policy.Fault
	var lacks *plan.CompatibilityError
	var step *runner.Error
	switch {
	case errors.As(err, &refused):
		return &Error{Kind: Refused, Field: fieldOf(refused), Text: refused.Text, Fix: refused.Fix}
	case errors.As(err, &lacks):
		e := &Error{Kind: Refused, Text: err.Error(), Unmet: lacks.Unmet}
		if len(lacks.Unmet) > 0 {
			e.Fix = lacks.Unmet[0].Fix
		}
		return e
	case errors.Is(err, runner.ErrClosed):
		return &Error{Kind: Closed, Text: runner.ErrClosed.Error(), Fix: "open it again"}
	case errors.As(err, &step):
		e := &Error{Kind: Setup, Text: err.Error(), Step: step.Stage, Fix: step.Hint}
		if errors.Is(err, runner.ErrNotFound) {
			e.Kind, e.Name, e.Step = NotFound, name, ""
		}
		return e
	case errors.Is(err, os.ErrInvalid):
		return protocolError("of", "start it with terminal", "the process has no terminal")
	case errors.Is(err, os.ErrProcessDone), errors.Is(err, os.ErrClosed):
		return &Error{Kind: Closed, Text: "the process has ended"}
	}
	return &Error{Kind: Setup, Text: err.Error()}
}

// fieldOf is what the field of a fault is called here: that of a command's options is "cwd", that of a policy is its own.
func fieldOf(f *policy.Fault) string {
	if f.Field == "dir" && f.Why != OfPolicy {
		return "cwd"
	}
	return f.Field
}

// OfPolicy is the [policy.Fault.Why] of faults of the policy that a request asks for.
const OfPolicy = "policy"
