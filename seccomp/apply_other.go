//go:build !linux

package seccomp

import "errors"

// Apply is for Linux; here it returns [errors.ErrUnsupported].
func Apply(filters ...Filter) error { return errors.ErrUnsupported }

// Have is for Linux; here it returns [errors.ErrUnsupported].
func Have() error { return errors.ErrUnsupported }
