package backend

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// running lists the processes with a word on their command line.
func running(word string) (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		data, _ := os.ReadFile(name)
		if pid, err := strconv.Atoi(strings.Split(name, "/")[2]); err == nil && strings.Contains(string(data), word) && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestNothingOutlivesTheSubreaper kills the subreaper from outside, as a limit on CPU time can: what has cleared its death signal and left the
// session dies all the same.
func TestNothingOutlivesTheSubreaper(t *testing.T) {
	known := probe.Quick()
	if known.LandlockABI < 6 {
		if os.Getenv("CI") != "" {
			t.Fatal("CI must have Landlock ABI 6")
		}
		t.Skip("needs Landlock ABI 6; before, the receipt says that kill_tree is weaker")
	}
	pol := policy.Default("/home/nobody")
	pol.Backend = policy.BackendLandlock
	mark := fmt.Sprintf("6%d.77", os.Getpid())
	p, err := plan.Compile(plan.Request{Policy: pol, Private: plan.PrivatePlace{Dir: filepath.Join(t.TempDir(), "private")}, Command: []string{"sh", "-c", "setsid sh -c 'sleep " + mark + " & sleep " + mark + "' & sleep " + mark}, Environ: os.Environ()}, known)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		out, err := Run(p, Options{})
		assert.NoError(t, err)
		assert.True(t, out.Status.Signaled(), "killed from outside")
	}()
	testenv.Eventually(t, func() bool { return len(running(mark)) >= 4 }, "the command to start all")
	subreaper := strings.Fields(children(t, "self"))
	require.Len(t, subreaper, 1)
	pid, err := strconv.Atoi(subreaper[0])
	require.NoError(t, err)
	require.NoError(t, unix.Kill(pid, unix.SIGKILL))
	<-done
	testenv.Eventually(t, func() bool { return len(running(mark)) == 0 }, "the end of all of it")
}
