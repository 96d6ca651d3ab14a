//go:build !linux

package landlock

import "errors"

// Apply is for Linux; elsewhere it gives [errors.ErrUnsupported].
func Apply(Ruleset) error { return errors.ErrUnsupported }

// ABI is for Linux; elsewhere it gives [errors.ErrUnsupported].
func ABI() (int, error) { return 0, errors.ErrUnsupported }
