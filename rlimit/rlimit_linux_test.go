package rlimit

import (
	"os"
	"os/exec"
	"testing"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestTableAgreesWithKernelHeaders(t *testing.T) {
	want := map[string]int{
		"cpu_seconds": unix.RLIMIT_CPU, "file_size": unix.RLIMIT_FSIZE, "data": unix.RLIMIT_DATA, "stack": unix.RLIMIT_STACK,
		"core": unix.RLIMIT_CORE, "rss": unix.RLIMIT_RSS, "pids": unix.RLIMIT_NPROC, "open_files": unix.RLIMIT_NOFILE,
		"locked": unix.RLIMIT_MEMLOCK, "address_space": unix.RLIMIT_AS, "locks": unix.RLIMIT_LOCKS,
		"pending_signals": unix.RLIMIT_SIGPENDING, "message_queues": unix.RLIMIT_MSGQUEUE, "nice": unix.RLIMIT_NICE,
		"realtime_priority": unix.RLIMIT_RTPRIO, "realtime_microseconds": unix.RLIMIT_RTTIME,
	}
	got := map[string]int{}
	for _, r := range Resources() {
		got[r.Name] = r.Number
	}
	assert.Equal(t, want, got)
}

func TestLowerReadsWell(t *testing.T) {
	p := sys.Program{Trace: true}
	require.NoError(t, Lower(&p, Both("open_files", 256), Limit{"core", 0, Infinity}))
	assert.Equal(t, `# limit (open_files=256)
   0  prlimit64(0, RLIMIT_NOFILE, {256, 256}, NULL)
# limit (core=0:unlimited)
   1  prlimit64(0, RLIMIT_CORE, {0, unlimited}, NULL)
`, p.String())
}

func TestLowerRefusesWhatMakesNoSense(t *testing.T) {
	var p sys.Program
	assert.ErrorContains(t, Lower(&p, Both("memory", 1)), "known are cpu_seconds, file_size")
	assert.ErrorContains(t, Lower(&p, Limit{"core", 2, 1}), "soft limit is above")
	assert.Zero(t, p.Len())
}

func TestKernelSpellingIsKnown(t *testing.T) {
	r, err := Lookup("RLIMIT_NOFILE")
	require.NoError(t, err)
	assert.Equal(t, "open_files", r.Name)
}

// TestApply limits a copy of this test binary and asks a program that it starts.
func TestApply(t *testing.T) {
	if os.Getenv("NSRUN_TEST_RLIMIT_CHILD") != "" {
		require.NoError(t, Apply(Both("open_files", 200), Both("file_size", 4096)))
		out, err := exec.Command("/bin/sh", "-c", "ulimit -Sn; ulimit -Hn; ulimit -f").CombinedOutput()
		require.NoError(t, err)
		assert.Equal(t, "200\n200\n8\n", string(out))
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestApply$")
	cmd.Env = append(os.Environ(), "NSRUN_TEST_RLIMIT_CHILD=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
