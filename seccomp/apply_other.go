//go:build !linux

package seccomp

import "errors"

// Apply works on Linux only. Elsewhere it returns [errors.ErrUnsupported].
func Apply(filters ...Filter) error { return errors.ErrUnsupported }

// Have works on Linux only. Elsewhere it returns [errors.ErrUnsupported].
func Have() error { return errors.ErrUnsupported }
