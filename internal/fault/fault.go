// Package fault has the one error of a step that failed: what was being done, on what, why it failed, and what to do.
//
//	return &fault.Error{Stage: "mount", Op: "bind", Path: "/srv", Err: err, Hint: "create it, or leave it out", Origin: "--ro"}
//
// Processes of nsrun send it to each other as JSON. Of the cause its text survives that, and what errors.Is says of an errno, of
// [ErrNotFound] and of [ErrNotExecutable]. Every other error that the cause wraps is lost.
//
// The package does not protect against anything. An error may show paths of the host: give it to the caller, not to the sandbox.
package fault

import (
	"cmp"
	"encoding/json"
	"errors"
	"syscall"
)

// Error is a step that failed.
type Error struct {
	Stage  string // "namespaces", "mount", "exec"
	Index  int    // of the plan's mount, from 1; for front ends that have words of their own, and not part of the text
	Op     string // "bind"
	Path   string // its object
	Err    error  // the cause; never nil
	Hint   string // one action that helps
	Origin string // the flag or manifest key that asked for the step; empty if nothing did

	text string // of the cause, where that is what another process has sent
}

// Outcomes of exec, which have exit codes of their own.
var (
	// ErrNotFound means that there is no such command in the sandbox.
	ErrNotFound = errors.New("command not found in the sandbox")
	// ErrNotExecutable means that the command is there and cannot be executed.
	ErrNotExecutable = errors.New("command cannot be executed")
)

// Error gives "mount (bind /a): operation not permitted (asked for by --ro)".
func (e *Error) Error() string {
	text := cmp.Or(e.text, e.Err.Error())
	if step := e.step(); step != "" {
		text = step + ": " + text
	}
	if e.Origin != "" {
		text += " (asked for by " + e.Origin + ")"
	}
	return text
}

// step gives "mount (bind /a)", "exec (true)", "landlock", or the path alone without a stage.
func (e *Error) step() string {
	switch {
	case e.Stage == "":
		return e.Path
	case e.Op != "" && e.Path != "":
		return e.Stage + " (" + e.Op + " " + e.Path + ")"
	case e.Op != "":
		return e.Stage + " (" + e.Op + ")"
	}
	return e.Stage
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// wire is an Error on its way to another process.
type wire struct {
	Stage  string        `json:"stage,omitempty"`
	Index  int           `json:"index,omitempty"`
	Op     string        `json:"op,omitempty"`
	Path   string        `json:"path,omitempty"`
	Hint   string        `json:"hint,omitempty"`
	Origin string        `json:"origin,omitempty"`
	Text   string        `json:"text"`            // of the cause
	Errno  syscall.Errno `json:"errno,omitempty"` // that the cause wraps
	Exec   string        `json:"exec,omitempty"`  // the text of the outcome of exec that it wraps
}

// MarshalJSON keeps the text, the errno and the outcome of exec that the cause wraps.
func (e *Error) MarshalJSON() ([]byte, error) {
	w := wire{Stage: e.Stage, Index: e.Index, Op: e.Op, Path: e.Path, Hint: e.Hint, Origin: e.Origin, Text: e.Err.Error()}
	errors.As(e.Err, &w.Errno)
	for _, outcome := range []error{ErrNotFound, ErrNotExecutable} {
		if errors.Is(e.Err, outcome) {
			w.Exec = outcome.Error()
		}
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads what MarshalJSON has written.
func (e *Error) UnmarshalJSON(data []byte) error {
	var w wire
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*e = Error{Stage: w.Stage, Index: w.Index, Op: w.Op, Path: w.Path, Hint: w.Hint, Origin: w.Origin, Err: w.Errno}
	if w.Errno != 0 && w.Text == w.Errno.Error() {
		return nil
	}
	var wraps []error
	if w.Errno != 0 {
		wraps = append(wraps, w.Errno)
	}
	for _, outcome := range []error{ErrNotFound, ErrNotExecutable} {
		if w.Exec == outcome.Error() {
			wraps = append(wraps, outcome)
		}
	}
	e.Err = errors.New(w.Text)
	if len(wraps) > 0 {
		e.Err = &Error{Err: errors.Join(wraps...), text: w.Text}
	}
	return nil
}
