package testenv

import (
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// Slow names the environment variable that says how many times slower than hardware this machine is. Virtual machines without KVM set it.
const Slow = "NSRUN_TEST_SLOW"

func slowness() int {
	factor, err := strconv.Atoi(os.Getenv(Slow))
	if err != nil {
		return 1
	}
	return max(factor, 1)
}

// Scale returns how long a pause of d on hardware lasts on this machine. It is for a test that has to let time pass; a test that waits for
// an event uses [Limit] or [Eventually].
func Scale(d time.Duration) time.Duration { return d * time.Duration(slowness()) }

// generous is how long a test waits for an event that comes within milliseconds on an idle machine. Only a defect reaches it, so that a
// busy machine cannot fail a test.
const generous = 2 * time.Minute

// Limit returns how long a test waits for an event: two minutes, plus d for an event that takes d by design, on hardware. On an emulated
// machine it is six minutes, since a step of TestVM takes no more than some.
func Limit(d time.Duration) time.Duration {
	return generous*time.Duration(min(slowness(), 3)) + Scale(d)
}

// Eventually waits until done returns true, and fails the test after [Limit](0). what completes the sentence "waited for ...".
func Eventually(t testing.TB, done func() bool, what string) {
	t.Helper()
	for end := time.Now().Add(Limit(0)); !done(); time.Sleep(pollInterval) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", Limit(0), what)
		}
	}
}

const pollInterval = time.Millisecond

// Returns calls f, and fails the test if f has not returned after [Limit](0). what names the call.
func Returns(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(Limit(0)):
		t.Fatalf("%s has not returned after %v", what, Limit(0))
	}
}

// Receive returns the next value of a channel, and fails the test if none comes within [Limit](0). what completes the sentence "waited
// for ...".
func Receive[T any](t testing.TB, from <-chan T, what string) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(Limit(0)):
		t.Fatalf("waited %v for %s", Limit(0), what)
	}
	return value
}

// Settled returns a server's count of events, once the events that are under way have been counted.
func Settled(count *atomic.Int64) int64 {
	for {
		n := count.Load()
		time.Sleep(Scale(2 * time.Millisecond))
		if n == count.Load() {
			return n
		}
	}
}
