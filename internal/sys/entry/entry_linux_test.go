package entry_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

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

// TestOneOfTwoIsObeyed: the child is forked by one process, though one asks the third process to fork it while another one dismisses it.
func TestOneOfTwoIsObeyed(t *testing.T) {
	const times = 20_000
	one, forked := entry.TellForker(times)
	assert.Equal(t, times, one)
	t.Logf("%d of %d times the third process was to fork", forked, times)
}
