package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestText(t *testing.T) {
	cause := errors.New("it is broken")
	for want, e := range map[string]Error{
		"mount (bind /a): it is broken (asked for by --ro)": {Stage: "mount", Index: 7, Op: "bind", Path: "/a", Origin: "--ro"},
		"mount (private): it is broken":                     {Stage: "mount", Op: "private"},
		"landlock: it is broken":                            {Stage: "landlock"},
		"/log: it is broken":                                {Path: "/log"},
		"it is broken":                                      {Hint: "mend it"},
	} {
		e.Err = cause
		assert.Equal(t, want, e.Error())
		assert.ErrorIs(t, &e, cause)
	}
}

// TestTheWireKeepsAnError: text, fields, and what callers ask with errors.Is are the same in another process.
func TestTheWireKeepsAnError(t *testing.T) {
	whole := Error{Stage: "mount", Index: 7, Op: "bind", Path: "/a \xff", Hint: "mend it", Origin: "--ro"}
	for _, cause := range []error{
		syscall.EPERM,
		errors.New("it is broken"),
		fmt.Errorf("look at /a: %w", syscall.ENOENT),
		fmt.Errorf("true: %w: %w", ErrNotFound, syscall.ENOENT),
		fmt.Errorf("/: %w: %w", ErrNotExecutable, syscall.EACCES),
		&Error{Op: "inner", Err: syscall.EIO},
	} {
		sent := whole
		sent.Err = cause
		data, err := json.Marshal(&sent)
		require.NoError(t, err)
		var got Error
		require.NoError(t, json.Unmarshal(data, &got))
		for _, is := range []error{syscall.EPERM, syscall.ENOENT, syscall.EACCES, syscall.EIO, ErrNotFound, ErrNotExecutable} {
			assert.Equal(t, errors.Is(&sent, is), errors.Is(&got, is), "%v: %v", cause, is)
		}
		got.Path = sent.Path // JSON has no strings that are not UTF-8
		assert.Equal(t, sent.Error(), got.Error())
		assert.Equal(t, cause.Error(), got.Err.Error())
		got.Err = cause
		assert.Equal(t, sent, got)
	}
}
