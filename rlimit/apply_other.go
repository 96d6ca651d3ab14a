//go:build !linux

package rlimit

import "errors"

// Apply works on Linux only. Elsewhere it returns [errors.ErrUnsupported].
func Apply(...Limit) error { return errors.ErrUnsupported }
