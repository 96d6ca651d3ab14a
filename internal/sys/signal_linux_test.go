package sys

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestSignalPipe sends signals to a process of its own, to any of its threads, while Go's collector and its own signals are busy.
func TestSignalPipe(t *testing.T) {
	switch os.Getenv("NSRUN_TEST_SIGNALS") {
	case "":
		for _, line := range []string{`exec "$0" -test.run '^TestSignalPipe$' -test.v`, `trap "" HUP; exec "$0" -test.run '^TestSignalPipe$' -test.v`} {
			mode := "all"
			if strings.HasPrefix(line, "trap") {
				mode = "ignored"
			}
			cmd := exec.Command("/bin/sh", "-c", line, "/proc/self/exe")
			cmd.Args[3], _ = os.Executable()
			cmd.Env = append(os.Environ(), "NSRUN_TEST_SIGNALS="+mode)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "--- PASS")
		}
	case "all":
		fd, err := SignalPipe(unix.SIGTERM, unix.SIGUSR1, unix.SIGHUP)
		require.NoError(t, err)
		want := map[byte]int{}
		for i := range 300 {
			sig := []unix.Signal{unix.SIGTERM, unix.SIGUSR1, unix.SIGHUP}[i%3]
			sendAndRead(t, fd, sig, want)
		}
		assert.Equal(t, map[byte]int{byte(unix.SIGTERM): 100, byte(unix.SIGUSR1): 100, byte(unix.SIGHUP): 100}, want)
		var b [1]byte
		_, err = Read(fd, b[:])
		assert.Equal(t, unix.EAGAIN, err, "none is there twice")
	case "ignored":
		fd, err := SignalPipe(unix.SIGHUP, unix.SIGTERM)
		require.NoError(t, err)
		require.NoError(t, unix.Kill(os.Getpid(), unix.SIGHUP))
		got := map[byte]int{}
		sendAndRead(t, fd, unix.SIGTERM, got)
		assert.Equal(t, map[byte]int{byte(unix.SIGTERM): 1}, got, "nohup's SIGHUP stays ignored")
	}
}

// sendAndRead sends a signal to this process, and counts what comes out of the pipe.
func sendAndRead(t *testing.T, fd int, sig unix.Signal, got map[byte]int) {
	t.Helper()
	garbage := make([][]byte, 0, 100)
	for range 100 {
		garbage = append(garbage, make([]byte, 10000))
	}
	require.NoError(t, unix.Kill(os.Getpid(), sig))
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(poll, 10_000)
		if err == unix.EINTR {
			continue
		}
		require.NoError(t, err)
		require.Equal(t, 1, n, "the signal has not come")
		break
	}
	var b [1]byte
	n, err := Read(fd, b[:])
	require.NoError(t, err)
	require.Equal(t, 1, n)
	got[b[0]]++
	require.Len(t, garbage, 100)
}
