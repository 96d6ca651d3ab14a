package wire

import (
	"errors"
	"syscall"
)

// Failure is a step that failed, as a backend.Error has it.
type Failure struct {
	Stage string `json:"stage"`
	Index int    `json:"index,omitempty"`
	Op    string `json:"op,omitempty"`
	Path  string `json:"path,omitempty"`
	Text  string `json:"text"`
	Hint  string `json:"hint,omitempty"`
	// Errno is what the text comes from, if it comes from one; Kind is a word for what else callers ask of an error.
	Errno int    `json:"errno,omitempty"`
	Kind  string `json:"kind,omitempty"`
}

// Cause is the failure's text as an error, which wraps its errno and what else is given.
func (f *Failure) Cause(more ...error) error {
	errno := syscall.Errno(f.Errno)
	if f.Errno != 0 && len(more) == 0 && errno.Error() == f.Text {
		return errno
	}
	if f.Errno != 0 {
		more = append(more, errno)
	}
	return &cause{f.Text, more}
}

// SetErrno keeps the errno that err wraps.
func (f *Failure) SetErrno(err error) {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		f.Errno = int(errno)
	}
}

type cause struct {
	text  string
	wraps []error
}

func (c *cause) Error() string   { return c.text }
func (c *cause) Unwrap() []error { return c.wraps }
