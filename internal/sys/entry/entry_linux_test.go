package entry_test

import (
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/internal/sys/entry"
)

// The test is in a package of its own: imports of an internal test would become imports of nofile and change the order.

// TestOriginalIsReadBeforeGoRaisesIt runs this test binary again under a low soft limit, which Go raises before main.
func TestOriginalIsReadBeforeGoRaisesIt(t *testing.T) {
	if os.Getenv("NSRUN_TEST_NOFILE") != "" {
		l, ok := entry.Nofile()
		require.True(t, ok)
		assert.EqualValues(t, 77, l.Soft)
		return
	}
	cmd := exec.Command("/bin/sh", "-c", `ulimit -S -n 77; exec "$0" -test.run TestOriginalIsReadBeforeGoRaisesIt -test.v`, os.Args[0])
	cmd.Env = append(os.Environ(), "NSRUN_TEST_NOFILE=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.True(t, strings.Contains(string(out), "--- PASS"), "%s", out)
}

func TestPressure(t *testing.T) {
	if text, err := os.ReadFile("/proc/pressure/cpu"); err == nil { // a kernel may not count it
		assert.Less(t, entry.Pressure(string(text)), 101)
	}
	for text, want := range map[string]int{"some avg10=14.57 avg60=18.65 avg300=14.38 total=1\n": 14, "some avg10=0.00 avg60=18.65": 0, "some avg10=99.99": 99,
		"some avg10=7": 100, "some avg10=.7": 100, "some avg10=x.7": 100, "some avg10= 7.1": 100, "some": 100, "": 100, "=3.": 3} {
		assert.Equal(t, want, entry.Pressure(text), "%q", text)
	}
}

func TestRunningProcesses(t *testing.T) {
	text, err := os.ReadFile("/proc/loadavg")
	require.NoError(t, err)
	assert.Positive(t, entry.Running(string(text)), "this one: %s", text)
	for text, want := range map[string]int{"0.20 0.18 0.12 1/80 11206\n": 1, "9.75 8.18 0.12 123/4567 11206\n": 123, "0.20 0.18 0.12 12": 0,
		"0.20 0.18 0.12": 0, "0.20 0.18 0.12 ": 0, "": 0, "0.20 0.18 0.12 /80": 0, "a b c d/e": 0, "0.20 0.18 0.12  7/80": 0} {
		assert.Equal(t, want, entry.Running(text), "%q", text)
	}
}

// TestOneOfTwoIsObeyed: the third process is asked by two at once, to fork the child and to end. One alone succeeds, and its request stands.
func TestOneOfTwoIsObeyed(t *testing.T) {
	const times = 100_000
	before := atomic.LoadUint32(entry.Forker)
	t.Cleanup(func() { atomic.StoreUint32(entry.Forker, before) })
	var turn, answered atomic.Int64
	var ends atomic.Bool
	go func() {
		for i := int64(1); i <= times; i++ {
			await(&turn, i)
			ends.Store(entry.TellForker(entry.ForkerQuits))
			answered.Store(i)
		}
	}()
	wrong := 0
	for i := int64(1); i <= times; i++ {
		atomic.StoreUint32(entry.Forker, entry.ForkerWaits)
		turn.Store(i)
		for range i % 256 { // a delay, so that each of the two is first at times
			turn.Load()
		}
		forks := entry.TellForker(entry.ForkerGo)
		await(&answered, i)
		want := uint32(entry.ForkerQuits)
		if forks {
			want = entry.ForkerGo
		}
		if forks == ends.Load() || atomic.LoadUint32(entry.Forker) != want {
			wrong++
		}
	}
	assert.Zero(t, wrong, "of %d times", times)
}

// await waits for n to become value. It sleeps after a while: the other thread may need this one's processor.
func await(n *atomic.Int64, value int64) {
	const spins = 10_000
	for i := 0; n.Load() != value; i++ {
		if i > spins {
			time.Sleep(time.Microsecond)
		}
	}
}
