//go:build !linux

package mounts

import "errors"

// Apply is for Linux; elsewhere it gives [errors.ErrUnsupported].
func Apply(Tree) error { return errors.ErrUnsupported }
