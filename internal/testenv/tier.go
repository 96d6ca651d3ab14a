package testenv

import (
	"os"
	"strings"
	"testing"
)

// TierVar names the environment variable with the test tier: "fast", the default, or "all".
const TierVar = "NSRUN_TEST_TIER"

// All reports whether this run is of the tier all: every test, and every repetition of a test that looks for a rare moment.
func All() bool { return os.Getenv(TierVar) == "all" }

// Times returns how often to repeat, in this tier and on this machine, what the tier all repeats n times on hardware to meet a rare moment.
// The tier fast repeats it a twentieth as often, but at least ten times if n is.
func Times(n int) int {
	least := min(n, 10)
	if !All() {
		n = max(n/20, least)
	}
	return max(n/slowness(), least)
}

// SlowTest skips the test unless the tier is all. The test needs a row in [SlowTests].
func SlowTest(t *testing.T) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	for _, row := range SlowTests {
		if row.Test == name && row.Part == "" {
			if !All() {
				t.Skipf("in the tier all (%s=all); %s guards %s in this one", TierVar, row.Guard, row.Promise)
			}
			return
		}
	}
	t.Fatalf("%s leaves the fast tier without a row in internal/testenv/slow.go", name)
}

// Count reports a number that the test runner adds up, such as attack cases, and that may not fall: see scripts/runtests/counts.go.
func Count(t *testing.T, what string, n int) {
	t.Helper()
	t.Logf("count: %s: %d", what, n)
}
