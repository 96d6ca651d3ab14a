//go:build !linux

package landlock

import "errors"

// Apply works on Linux only. Elsewhere it returns [errors.ErrUnsupported].
func Apply(Ruleset) error { return errors.ErrUnsupported }

// ABI works on Linux only. Elsewhere it returns [errors.ErrUnsupported].
func ABI() (int, error) { return 0, errors.ErrUnsupported }
