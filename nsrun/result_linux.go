package nsrun

import (
	"errors"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// Error is a step that failed before the command ran: which, on what, why, and one action that helps.
type Error = backend.Error

// What an [Error] of the stage "exec" wraps.
var (
	ErrNotFound      = backend.ErrNotFound
	ErrNotExecutable = backend.ErrNotExecutable
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
	Memory        Verdict = "memory"         // failed, and the kernel had killed for want of memory in its cgroup
	Pids          Verdict = "pids"           // failed, and had been refused processes at the limit of its cgroup
	Output        Verdict = "output"         // it had written more than it may, and was ended, or than could be passed on
	Interrupted   Verdict = "interrupted"    // ended because nsrun was told to end, at once or after its grace
	Lost          Verdict = "lost"           // it has run, or may have; how it ended is not known
	NotFound      Verdict = "not-found"      // there is no such command
	NotExecutable Verdict = "not-executable" // it cannot be executed
	Setup         Verdict = "setup"          // the sandbox could not be made
	Refused       Verdict = "policy"         // the policy cannot be enforced here, or is wrong
)

// Verdicts lists them all.
var Verdicts = []Verdict{OK, Exit, Signal, Timeout, CPU, FileSize, Memory, Pids, Output, Interrupted, Lost, NotFound, NotExecutable, Setup, Refused}

// VerdictRow tells of a verdict: the exit code that goes with it, and what there is of evidence.
type VerdictRow struct {
	Verdict        Verdict
	Code, Evidence string
}

// VerdictTable has them all, in the order of [Verdicts].
var VerdictTable = []VerdictRow{
	{OK, "0", "it ended by itself with status 0"},
	{Exit, "its own", "it ended by itself with another status"},
	{Signal, "128+n", "signal n killed it"},
	{Timeout, "124", "its time was up"},
	{CPU, "152 or 137", "the kernel ended it at that limit: SIGXCPU, or SIGKILL with the CPU time used up; of a child behind a shell that is an " +
		"exit with 152"},
	{FileSize, "153", "the kernel ended it at that limit: SIGXFSZ; of a child behind a shell that is an exit with 153"},
	{Memory, "its own or 128+n", "it failed, and its cgroup had killed for want of memory; without a cgroup such a failure is an exit"},
	{Pids, "its own or 128+n", "it failed, and its cgroup had refused a process; without a cgroup such a failure is an exit"},
	{Output, "never 0", "it wrote more than it may, or more than could be passed on"},
	{Interrupted, "128+n", "nsrun was asked to end by signal n, SIGTERM or SIGINT, and the command died of that, or was killed after its grace"},
	{Lost, "255", "it has run, or may have; how it ended could not be learnt, and it was killed if it had not ended"},
	{NotFound, "127", "it has not run: there is no such program"},
	{NotExecutable, "126", "it has not run: it cannot be executed"},
	{Setup, "125", "it has not run: a step on the way to it failed"},
	{Refused, "125", "it has not run: the policy is wrong, does not allow it, or cannot be enforced here"},
}

// Exit codes of nsrun itself, beside the command's own and 128+n for signal n.
const (
	CodeTimeout       = 124
	CodeFailed        = 125
	CodeNotExecutable = 126
	CodeNotFound      = 127
	CodeLost          = 255
)

// Result is how a run ended and what was on.
type Result struct {
	// Version is that of this format, 1.
	Version int `json:"version"`
	// Verdict is how it ended, in a word: see nsrun help verdicts.
	Verdict Verdict `json:"verdict"`
	// Code is the exit code that nsrun ends with.
	Code int `json:"code"`
	// ExitStatus is the command's own; not given if a signal killed it, or it has not run.
	ExitStatus *int `json:"exit_status,omitempty"`
	// Signal is the name of the signal that killed it.
	Signal string `json:"signal,omitempty"`
	// Error says why it has not run.
	Error string `json:"error,omitempty"`
	// Step is the one that failed.
	Step string `json:"step,omitempty"`
	// Hint is one action that helps.
	Hint string `json:"hint,omitempty"`
	// Unmet lists what this host, or the backend, lacks of what was asked for; nothing has run then.
	Unmet []plan.Note `json:"unmet,omitempty"`
	// Started is when, by RFC 3339.
	Started string `json:"started,omitempty"`
	// WallMS is how long it took by the clock, in milliseconds.
	WallMS float64 `json:"wall_ms"`
	// UserMS is the CPU time that its processes spent in themselves, in milliseconds. It is not known, as a note of the receipt says, and nor
	// are SystemMS and MaxRSSKiB, if the sandbox's pid 1 was killed.
	UserMS float64 `json:"user_ms"`
	// SystemMS is the CPU time that they spent in the kernel, in milliseconds.
	SystemMS float64 `json:"system_ms"`
	// MaxRSSKiB is the most memory of the largest process.
	MaxRSSKiB int64 `json:"max_rss_kib"`
	// PeakKiB is the most memory that all processes had at once, page cache and tmpfs included, where a cgroup reports it. In a session it is that
	// of the session until now.
	PeakKiB int64 `json:"peak_kib,omitempty"`
	// PeakPids is the most processes and threads that there were at once, where a cgroup reports it; in a session, that of the session until
	// now.
	PeakPids int64 `json:"peak_pids,omitempty"`
	// Hit lists the limits of the cgroup that were reached, whatever the verdict: "memory_mb", "pids", "cpu_percent".
	Hit []string `json:"hit,omitempty"`
	// StdoutBytes counts what was passed on of standard output, where it was counted; of standard error, too, where both are one pipe.
	StdoutBytes *int64 `json:"stdout_bytes,omitempty"`
	// StderrBytes counts what was passed on of standard error, where it was counted.
	StderrBytes *int64 `json:"stderr_bytes,omitempty"`
	// Cut says that there was more than StdoutBytes and StderrBytes.
	Cut bool `json:"cut,omitempty"`
	// Receipt is what was really on.
	Receipt Receipt `json:"receipt"`
}

func failed(p *plan.Plan, err error) Result {
	r := Failure(err)
	if p != nil {
		r.Receipt = receipt(p, backend.Outcome{})
	}
	return r
}

// Failure is the result of a run that did not begin, or whose end is not known: err is what stood in its way.
func Failure(err error) Result {
	r := Result{Version: 1, Verdict: Refused, Code: CodeFailed, Error: err.Error()}
	var lacks *PolicyCompatibilityError
	if errors.As(err, &lacks) {
		r.Unmet = lacks.Unmet
	}
	var refused *RefusedError
	if errors.As(err, &refused) {
		r.Hint = refused.Fix
	}
	var step *Error
	if !errors.As(err, &step) {
		return r
	}
	r.Verdict, r.Step, r.Hint = Setup, step.Stage, step.Hint
	switch {
	case errors.Is(err, ErrNotFound):
		r.Verdict, r.Code = NotFound, CodeNotFound
	case step.Stage == backend.InterruptedStage && step.Op != "":
		r.Verdict, r.Code = Interrupted, 128+int(unix.SignalNum(step.Op))
	case errors.Is(err, ErrNotExecutable):
		r.Verdict, r.Code = NotExecutable, CodeNotExecutable
	case errors.Is(err, backend.ErrEnd):
		r.Verdict, r.Code = Lost, CodeLost
	}
	return r
}
