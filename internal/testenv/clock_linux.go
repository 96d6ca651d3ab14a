package testenv

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime returns the CPU time that f takes on its own thread (clock_gettime(2), CLOCK_THREAD_CPUTIME_ID). The time for which other
// processes have the CPU is not part of it. Goroutines that f starts are not measured.
func CPUTime(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin := threadTime()
	f()
	return threadTime() - begin
}

func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err) // every Linux that Go supports has this clock
	}
	return time.Duration(ts.Nano())
}
