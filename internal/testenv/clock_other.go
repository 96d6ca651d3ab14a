//go:build !linux

package testenv

import "time"

// CPUTime returns the time that f takes. Only Linux has a clock for the CPU time of one thread that this package uses.
func CPUTime(f func()) time.Duration {
	begin := time.Now()
	f()
	return time.Since(begin)
}
