package nsrun

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/internal/runner"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
	"golang.org/x/sys/unix"
)

// Error is a step that failed before the command ran: which, on what, why, and one action that helps.
type Error = backend.Error

// RefusedError says that a policy does not allow what was asked for. Nothing has run.
type RefusedError = policy.Fault

// PolicyCompatibilityError says that this host, or the backend that was asked for, cannot enforce a policy: every requirement that is not
// met, each with its fix.
type PolicyCompatibilityError = plan.CompatibilityError

var (
	// ErrNotFound means that there is no such program in the sandbox. If it was looked for in PATH the error is [exec.ErrNotFound], too.
	ErrNotFound = backend.ErrNotFound
	// ErrNotExecutable means that the program is there and cannot be executed.
	ErrNotExecutable = backend.ErrNotExecutable
	// ErrClosed is the error of a closed session, and of one whose sandbox has ended.
	ErrClosed = runner.ErrClosed
	// ErrNoInit is the error of a program that has not called [Init].
	ErrNoInit = runner.ErrNoInit
)

// ExitError says that a command ran, and did not end well. Besides an exit status that is not 0 this is a signal, or a limit that was reached.
type ExitError struct {
	// Result has the verdict, such as [result.Timeout], the exit status or signal, and the receipt.
	Result *result.Result
	// Stderr is what the command wrote to standard error, if [Cmd.Output] was used and Cmd.Stderr was nil.
	Stderr []byte

	cause error
}

// Error gives "exit status 3", "signal: killed" or "timeout: signal: terminated".
func (e *ExitError) Error() string {
	text := "exit status " + strconv.Itoa(e.ExitCode())
	if e.Result.Signal != "" {
		text = "signal: " + unix.SignalNum(e.Result.Signal).String()
	}
	if v := e.Result.Verdict; v != result.Exit && v != result.Signal {
		text = string(v) + ": " + text
	}
	return text
}

// Unwrap returns the cause of the context's end, if that has ended the command.
func (e *ExitError) Unwrap() error { return e.cause }

// ExitCode returns the command's own exit status, or -1 if a signal killed it.
func (e *ExitError) ExitCode() int {
	if e.Result.ExitStatus == nil {
		return -1
	}
	return *e.Result.ExitStatus
}

// lookupError is an error about a program that was looked for in PATH.
type lookupError struct{ error }

func (e lookupError) Unwrap() error { return e.error }

func (e lookupError) Is(target error) bool { return target == exec.ErrNotFound }

// explain adds what os/exec says of a program that was looked for in PATH and is not there.
func (c *Cmd) explain(err error) error {
	if errors.Is(err, ErrNotFound) && !strings.Contains(c.Args[0], "/") {
		return lookupError{err}
	}
	return err
}
