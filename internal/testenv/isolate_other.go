//go:build !linux

package testenv

// Main runs a package's tests by run.
func Main(run func() int) int { return run() }
