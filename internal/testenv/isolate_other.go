//go:build !linux

package testenv

import "testing"

// Main runs a package's tests.
func Main(m *testing.M) int { return m.Run() }
