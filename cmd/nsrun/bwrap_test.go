package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// marked lists the processes that have a word in their command line: sandboxes in the making have bubblewrap's, with all its arguments.
func marked(t *testing.T, word string) (pids []int, states []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, f := range files {
		line, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(line, []byte(word)) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		comm, _ := os.ReadFile(filepath.Dir(f) + "/comm")
		pids, states = append(pids, pid), append(states, strings.TrimSpace(string(comm)))
	}
	return pids, states
}

// sweep ends what a test has left on purpose.
func sweep(t *testing.T, word string) {
	t.Helper()
	for end := time.Now().Add(testenv.Limit(0)); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		pids, _ := marked(t, word)
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	t.Errorf("something with %s does not end", word)
}

// endOf starts a command whose standard output is a pipe, and returns what tells whether every process that holds the pipe has ended. Unlike a
// command line, which is empty for a moment in execve(2), the pipe misses none.
func endOf(t *testing.T, cmd *exec.Cmd) (ended func() bool) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	cmd.Stdout = w
	require.NoError(t, cmd.Start())
	w.Close()
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, r)
		close(done)
	}()
	return func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
}

// TestKilledMonitorLeavesNoHalfMadeSandbox kills the monitor at many moments of a start. With --die-with-parent nothing may be left; without,
// nothing but a command that runs and the process that waits for it: never a half-made sandbox, which upstream leaves waiting for ever.
func TestKilledMonitorLeavesNoHalfMadeSandbox(t *testing.T) {
	needSandbox(t)
	for name, options := range map[string][]string{
		"die with parent":                   {"--die-with-parent", "--unshare-pid", "--dev", "/dev", "--proc", "/proc"},
		"die with parent, as pid 1":         {"--die-with-parent", "--unshare-pid", "--as-pid-1"},
		"die with parent, no pid namespace": {"--die-with-parent"},
		"die with parent, second users":     {"--die-with-parent", "--unshare-pid", "--unshare-user", "--disable-userns"},
		"alone":                             {"--unshare-pid", "--dev", "/dev"},
		"alone, no pid namespace":           nil,
	} {
		t.Run(name, func(t *testing.T) {
			alone := len(options) == 0 || options[0] != "--die-with-parent"
			for i := range testenv.Times(60) {
				moment := time.Duration(i) * 6 * time.Millisecond / time.Duration(testenv.Times(60)) // of the six that a start takes
				word := fmt.Sprintf("1000.%d%03d", os.Getpid(), i)
				cmd := exec.Command("bwrap", append(append([]string{"--ro-bind", "/", "/"}, options...), "sleep", word)...)
				ended := endOf(t, cmd)
				time.Sleep(testenv.Scale(moment))
				require.NoError(t, cmd.Process.Kill())
				_ = cmd.Wait()
				for ends := time.Now().Add(testenv.Limit(0)); !ended(); time.Sleep(2 * time.Millisecond) {
					pids, states := marked(t, word)
					if alone && strings.Contains(strings.Join(states, " "), "sleep") {
						break
					}
					if time.Now().After(ends) {
						t.Errorf("killed after %v: %v %v is left", testenv.Scale(moment), pids, states)
						break
					}
				}
				testenv.Eventually(t, func() bool { sweep(t, word); return ended() }, "the end of all that was started")
			}
		})
	}
}

// TestBwrapEndsWithWhoCalledIt: --die-with-parent ends the sandbox when the process that started bwrap is killed.
func TestBwrapEndsWithWhoCalledIt(t *testing.T) {
	needSandbox(t)
	word := fmt.Sprintf("1001.%d", os.Getpid())
	exe, err := exec.LookPath("bwrap")
	require.NoError(t, err)
	caller := exec.Command("sh", "-c", `"$@" & wait`, "sh", exe, "--die-with-parent", "--ro-bind", "/", "/", "--unshare-pid", "sleep", word)
	require.NoError(t, caller.Start())
	started := func() bool {
		_, states := marked(t, word)
		return strings.Contains(strings.Join(states, " "), "sleep")
	}
	testenv.Eventually(t, started, "the command to run")
	require.NoError(t, caller.Process.Kill())
	_ = caller.Wait()
	left := func() bool {
		pids, _ := marked(t, word)
		return len(pids) == 0
	}
	testenv.Eventually(t, left, "the end of the sandbox")
	sweep(t, word)
}

// TestDataMayComeAfterTheInformation: a caller reads what --info-fd says before it writes the content of a file.
func TestDataMayComeAfterTheInformation(t *testing.T) {
	needSandbox(t)
	infoOut, infoIn, err := os.Pipe()
	require.NoError(t, err)
	dataOut, dataIn, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.Command("bwrap", "--ro-bind", "/", "/", "--tmpfs", "/tmp", "--info-fd", "3", "--file", "4", "/tmp/x", "cat", "/tmp/x")
	cmd.ExtraFiles = []*os.File{infoIn, dataOut}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	infoIn.Close()
	dataOut.Close()
	late := time.AfterFunc(testenv.Limit(0), func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	info := make([]byte, 4096)
	n, err := infoOut.Read(info)
	require.NoError(t, err)
	assert.Contains(t, string(info[:n]), "child-pid")
	_, err = dataIn.WriteString(strings.Repeat("late ", 50000))
	require.NoError(t, err)
	dataIn.Close()
	require.NoError(t, cmd.Wait(), out.String())
	assert.Equal(t, strings.Repeat("late ", 50000), out.String())
}
