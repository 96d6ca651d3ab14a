package entry

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// Pressure is pressure.
func Pressure(text string) int { return pressure(unsafe.Pointer(unsafe.StringData(text)), len(text)) }

// Running is running, for tests of another package: see there.
func Running(text string) int { return running(unsafe.Pointer(unsafe.StringData(text)), len(text)) }

// TellForker asks a third process that waits, many times, from two threads at once: to fork the child, and to end. It counts the times in which
// one alone succeeded and its request stood afterwards, and of these the ones in which that was the request to fork.
func TellForker(times int) (one, forked int) {
	before := atomic.LoadUint32(&ahead.forker)
	defer atomic.StoreUint32(&ahead.forker, before)
	var turn, answered atomic.Int64
	var ends atomic.Bool
	wait := func(n *atomic.Int64, value int) {
		for n.Load() != int64(value) {
			if runtime.NumCPU() == 1 {
				runtime.Gosched()
			}
		}
	}
	go func() {
		for i := 1; i <= times; i++ {
			wait(&turn, i)
			ends.Store(tellForker(forkerQuits))
			answered.Store(int64(i))
		}
	}()
	for i := 1; i <= times; i++ {
		atomic.StoreUint32(&ahead.forker, forkerWaits)
		turn.Store(int64(i))
		for range i % 256 { // sometimes the other thread is first
			turn.Load()
		}
		forks := tellForker(forkerGo)
		wait(&answered, i)
		said := atomic.LoadUint32(&ahead.forker)
		switch {
		case forks && !ends.Load() && said == forkerGo:
			one, forked = one+1, forked+1
		case !forks && ends.Load() && said == forkerQuits:
			one++
		}
	}
	return one, forked
}
