package nsrun

import (
	"errors"
	"time"

	"github.com/nsrun/nsrun/nsrun/internal/engine"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// Error is a step that failed before the command ran: which, on what, why, and one action that helps.
type Error = engine.Error

// What an [Error] of the stage "exec" wraps.
var (
	ErrNotFound      = engine.ErrNotFound
	ErrNotExecutable = engine.ErrNotExecutable
)

// Verdict is how a run ended, in one word.
type Verdict string

// The verdicts.
const (
	OK            Verdict = "ok"             // the command ended with status 0
	Exit          Verdict = "exit"           // with another status
	Signal        Verdict = "signal"         // killed by a signal
	Timeout       Verdict = "timeout"        // its time was up
	CPU           Verdict = "cpu"            // killed at its limit on CPU time
	FileSize      Verdict = "file-size"      // killed at its limit on file size
	Interrupted   Verdict = "interrupted"    // ended because nsrun was told to end
	NotFound      Verdict = "not-found"      // there is no such command
	NotExecutable Verdict = "not-executable" // it cannot be executed
	Setup         Verdict = "setup"          // the sandbox could not be made
	Refused       Verdict = "policy"         // the policy cannot be enforced here, or is wrong
)

// Exit codes of nsrun itself, beside the command's own and 128+n for signal n.
const (
	CodeTimeout       = 124
	CodeFailed        = 125
	CodeNotExecutable = 126
	CodeNotFound      = 127
)

// Result is how a run ended and what was on.
type Result struct {
	Version int     `json:"version"`
	Verdict Verdict `json:"verdict"`
	// Code is the exit code that nsrun ends with.
	Code int `json:"code"`
	// ExitStatus is the command's own, and Signal the name of the signal that killed it; at most one of them is given.
	ExitStatus *int   `json:"exit_status,omitempty"`
	Signal     string `json:"signal,omitempty"`
	Error      string `json:"error,omitempty"`
	Step       string `json:"step,omitempty"`
	Hint       string `json:"hint,omitempty"`
	// Unmet lists what this host, or the engine, lacks of what was asked for; nothing has run then.
	Unmet     []plan.Note `json:"unmet,omitempty"`
	Started   string      `json:"started,omitempty"` // RFC 3339
	WallMS    float64     `json:"wall_ms"`
	UserMS    float64     `json:"user_ms"`
	SystemMS  float64     `json:"system_ms"`
	MaxRSSKiB int64       `json:"max_rss_kib"` // of the largest process
	Receipt   Receipt     `json:"receipt"`
}

func ended(p *plan.Plan, out engine.Outcome) Result {
	milliseconds := func(t unix.Timeval) float64 { return float64(t.Nano()) / 1e6 }
	r := Result{Version: 1, Started: out.Started.UTC().Format(time.RFC3339Nano), WallMS: float64(out.Wall.Microseconds()) / 1e3,
		UserMS: milliseconds(out.Usage.Utime), SystemMS: milliseconds(out.Usage.Stime), MaxRSSKiB: out.Usage.Maxrss, Receipt: receipt(p, out)}
	if out.Status.Signaled() {
		sig := out.Status.Signal()
		r.Signal, r.Code, r.Verdict = unix.SignalName(sig), 128+int(sig), Signal
		switch sig {
		case unix.SIGXCPU:
			r.Verdict = CPU
		case unix.SIGXFSZ:
			r.Verdict = FileSize
		}
	} else {
		status := out.Status.ExitStatus()
		r.ExitStatus, r.Code, r.Verdict = &status, status, Exit
		if status == 0 {
			r.Verdict = OK
		}
	}
	switch {
	case out.TimedOut:
		r.Verdict, r.Code = Timeout, CodeTimeout
	case out.Killed != 0:
		r.Verdict, r.Code = Interrupted, 128+int(out.Killed)
	}
	return r
}

func failed(p *plan.Plan, err error) Result {
	r := Failure(err)
	if p != nil {
		r.Receipt = receipt(p, engine.Outcome{})
	}
	return r
}

// Failure is the result of a run that did not begin: err is what stood in its way.
func Failure(err error) Result {
	r := Result{Version: 1, Verdict: Refused, Code: CodeFailed, Error: err.Error()}
	var lacks *PolicyCompatibilityError
	if errors.As(err, &lacks) {
		r.Unmet = lacks.Unmet
	}
	var step *Error
	if !errors.As(err, &step) {
		return r
	}
	r.Verdict, r.Step, r.Hint = Setup, step.Stage, step.Hint
	switch {
	case errors.Is(err, ErrNotFound):
		r.Verdict, r.Code = NotFound, CodeNotFound
	case errors.Is(err, ErrNotExecutable):
		r.Verdict, r.Code = NotExecutable, CodeNotExecutable
	}
	return r
}
