package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"unsafe"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/seccomp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// perThreadSignal is what Go's runtime sends each thread of a program that makes a system call on all of them.
const perThreadSignal = 33

// TestASignalIgnoredByPosixSpawn: glibc's posix_spawn(3) starts programs with its own signals ignored. Where no seccomp filter can be set, the start
// as bubblewrap asks every thread by one of them.
func TestASignalIgnoredByPosixSpawn(t *testing.T) {
	if nsrun := os.Getenv("NSRUN_TEST_SPAWN"); nsrun != "" {
		ignoreAndRefuse(t)
		require.NoError(t, unix.Exec(nsrun, []string{"bwrap", "--ro-bind", "/", "/", "/bin/sh", "-c", "while read -r line; do echo \"$line\"; done </proc/self/status"}, os.Environ()))
	}
	nsrun := realBinary(t)
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Limit(0))
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run", "^TestASignalIgnoredByPosixSpawn$")
	cmd.Env = append(os.Environ(), "NSRUN_TEST_SPAWN="+nsrun, "TMPDIR="+t.TempDir()) // it becomes nsrun, and removes nothing that it has made
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Regexp(t, `SigIgn:\t[0-9a-f]{7}[13579bdf]`, string(out), "the command has it ignored, as its caller wants it")
}

// ignoreAndRefuse ignores the signal, and refuses all further filters.
func ignoreAndRefuse(t *testing.T) {
	runtime.LockOSThread()  // the filter is this thread's, which becomes nsrun
	ignore := [4]uintptr{1} // SIG_IGN, struct sigaction of the kernel
	_, _, e := unix.RawSyscall6(unix.SYS_RT_SIGACTION, perThreadSignal, uintptr(unsafe.Pointer(&ignore)), 0, 8, 0, 0)
	require.Zero(t, e)
	require.NoError(t, seccomp.Apply(seccomp.Filter{{Code: loadWord}, {Code: jumpEqual, Jf: 1, K: unix.SYS_SECCOMP},
		{Code: returnK, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}, {Code: returnK, K: unix.SECCOMP_RET_ALLOW}}))
}
