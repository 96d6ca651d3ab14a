//go:build !linux

package rlimit

import "errors"

// Apply is for Linux; elsewhere it gives [errors.ErrUnsupported].
func Apply(...Limit) error { return errors.ErrUnsupported }
