//go:build !linux

package cgroup

import "errors"

// Group is for Linux.
type Group struct{}

// Make is for Linux; elsewhere it gives [errors.ErrUnsupported].
func Make([]Tree) (*Group, error) { return nil, errors.ErrUnsupported }
