//go:build !linux

package mounts

import "errors"

// Apply works on Linux only. Elsewhere it returns [errors.ErrUnsupported].
func Apply(Tree, Have) ([]Resolved, error) { return nil, errors.ErrUnsupported }
