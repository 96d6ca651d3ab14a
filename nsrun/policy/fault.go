package policy

import (
	"fmt"
	"strings"
)

// Fault is a value that is wrong, or that a policy does not allow: which it is, where it is written, why, and what to do.
type Fault struct {
	File         string // it is in, if it is in one: the name given to the reader
	Line, Column int    // in the file, counted from 1, columns in characters; 0 if the place is not known
	Field        string // "fs[3].source", "capabilities[2].mode", "args"; empty for a whole file
	Text         string // what is wrong
	Fix          string // what to do about it
	Why          string // the word of the front end that asked for an entry: [FS.Why]
	Err          error  // the cause, if there is one
}

// Error gives "field: text", and of a file "file:line:column: field: text (fix)".
func (f *Fault) Error() string {
	var parts []string
	if f.Line > 0 {
		parts = append(parts, fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column))
	} else if f.File != "" {
		parts = append(parts, f.File)
	}
	for _, part := range []string{f.Field, f.Text} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	text := strings.Join(parts, ": ")
	if f.File != "" && f.Fix != "" {
		text += " (" + f.Fix + ")"
	}
	return text
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }
