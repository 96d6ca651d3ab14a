package runner

import (
	"errors"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
	"golang.org/x/sys/unix"
)

// Error is a step that failed before the command ran: which, on what, why, and one action that helps.
type Error = backend.Error

// What an [Error] of the stage "exec" wraps.
var (
	ErrNotFound      = backend.ErrNotFound
	ErrNotExecutable = backend.ErrNotExecutable
)

func failed(p *plan.Plan, err error) result.Result {
	r := Failure(err)
	if p != nil {
		r.Receipt = receipt(p, backend.Outcome{})
	}
	return r
}

// Failure is the result of a run that did not begin, or whose end is not known: err is what stood in its way.
func Failure(err error) result.Result {
	r := result.Result{Version: 1, Verdict: result.Refused, Code: result.CodeFailed, Error: err.Error()}
	var lacks *plan.CompatibilityError
	if errors.As(err, &lacks) {
		r.Unmet = lacks.Unmet
	}
	var refused *policy.Fault
	if errors.As(err, &refused) && refused.File == "" { // of a file the text has it
		r.Hint = refused.Fix
	}
	var step *Error
	if !errors.As(err, &step) {
		return r
	}
	r.Verdict, r.Step, r.Hint = result.Setup, step.Stage, step.Hint
	switch {
	case errors.Is(err, ErrNotFound):
		r.Verdict, r.Code = result.NotFound, result.CodeNotFound
	case step.Stage == backend.InterruptedStage && step.Op != "":
		r.Verdict, r.Code = result.Interrupted, 128+int(unix.SignalNum(step.Op))
	case errors.Is(err, ErrNotExecutable):
		r.Verdict, r.Code = result.NotExecutable, result.CodeNotExecutable
	case errors.Is(err, backend.ErrEnd):
		r.Verdict, r.Code = result.Lost, result.CodeLost
	}
	return r
}
