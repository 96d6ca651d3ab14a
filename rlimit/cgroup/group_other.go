//go:build !linux

package cgroup

import "errors"

// Group works on Linux only.
type Group struct{}

// Make works on Linux only. Elsewhere it returns [errors.ErrUnsupported].
func Make([]Tree) (*Group, error) { return nil, errors.ErrUnsupported }
