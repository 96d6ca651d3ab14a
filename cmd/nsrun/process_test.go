package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// started is one nsrun that runs.
type started struct {
	cmd    *exec.Cmd
	out    *bufio.Reader
	stderr bytes.Buffer
}

// start starts nsrun run with args and waits for the line "ready" of its command.
func start(t *testing.T, args ...string) *started {
	t.Helper()
	s := &started{cmd: exec.Command("nsrun", append([]string{"run"}, args...)...)}
	s.cmd.Dir = t.TempDir()
	s.cmd.Stderr = &s.stderr
	out, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	s.out = bufio.NewReader(out)
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			_ = s.cmd.Process.Kill()
			_ = s.cmd.Wait()
		}
	})
	require.Equal(t, "ready", s.line(t))
	return s
}

func (s *started) line(t *testing.T) string {
	t.Helper()
	late := time.AfterFunc(testenv.Limit(0), func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	line, err := s.out.ReadString('\n')
	require.NoError(t, err, "no line comes")
	return strings.TrimSuffix(line, "\n")
}

// end waits for nsrun and returns what was still written, and its exit code.
func (s *started) end(t *testing.T) (rest string, code int) {
	t.Helper()
	late := time.AfterFunc(testenv.Limit(0), func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	var all strings.Builder
	_, _ = s.out.WriteTo(&all)
	_ = s.cmd.Wait()
	return all.String(), s.cmd.ProcessState.ExitCode()
}

// loop is a command that says ready and then does nothing, with traps set before.
func loop(traps string) []string {
	return []string{"--", "sh", "-c", traps + "\necho ready; while :; do sleep 0.02; done"}
}

func TestSignalsAreForwarded(t *testing.T) {
	needSandbox(t)
	for _, c := range []struct {
		name    string
		send    syscall.Signal
		trap    string
		said    string
		code    int
		verdict string
	}{
		{"SIGTERM ends", syscall.SIGTERM, "", "", 143, "interrupted"},
		{"SIGTERM is caught", syscall.SIGTERM, "trap 'echo caught; exit 3' TERM", "caught\n", 3, "exit"},
		{"SIGINT ends", syscall.SIGINT, "", "", 130, "interrupted"},
		{"SIGINT is caught", syscall.SIGINT, "trap 'echo caught; exit 3' INT", "caught\n", 3, "exit"},
		{"SIGHUP ends", syscall.SIGHUP, "", "", 129, "signal"},
		{"SIGHUP is caught", syscall.SIGHUP, "trap 'echo caught; exit 3' HUP", "caught\n", 3, "exit"},
		{"SIGQUIT is caught", syscall.SIGQUIT, "trap 'echo caught; exit 4' QUIT", "caught\n", 4, "exit"},
		{"SIGUSR1 is caught", syscall.SIGUSR1, "trap 'echo caught; exit 5' USR1", "caught\n", 5, "exit"},
		{"SIGUSR2 ends", syscall.SIGUSR2, "", "", 140, "signal"},
		{"SIGWINCH is caught", syscall.SIGWINCH, "trap 'echo caught; exit 6' WINCH", "caught\n", 6, "exit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			result := filepath.Join(t.TempDir(), "result")
			s := start(t, append([]string{"--result", result}, loop(c.trap)...)...)
			require.NoError(t, s.cmd.Process.Signal(c.send))
			written, code := s.end(t)
			assert.Equal(t, c.said, written)
			assert.Equal(t, c.code, code, "stderr: %s", s.stderr.String())
			data, err := os.ReadFile(result)
			require.NoError(t, err)
			var r struct{ Verdict string }
			require.NoError(t, json.Unmarshal(data, &r))
			assert.Equal(t, c.verdict, r.Verdict)
		})
	}
}

func TestSignalGoesOnAndTheCommandToo(t *testing.T) {
	needSandbox(t)
	t.Parallel()
	s := start(t, loop("trap 'echo usr1' USR1; trap 'echo winch' WINCH; trap 'echo hup; exit 9' HUP")...)
	for range 3 {
		require.NoError(t, s.cmd.Process.Signal(syscall.SIGUSR1))
		assert.Equal(t, "usr1", s.line(t))
		require.NoError(t, s.cmd.Process.Signal(syscall.SIGWINCH))
		assert.Equal(t, "winch", s.line(t))
	}
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGHUP))
	written, code := s.end(t)
	assert.Equal(t, "hup\n", written)
	assert.Equal(t, 9, code)
}

func TestSecondInterruptKills(t *testing.T) {
	needSandbox(t)
	t.Parallel()
	s := start(t, append([]string{"--kill-grace", "1h"}, loop("trap 'echo first' INT")...)...)
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGINT))
	assert.Equal(t, "first", s.line(t))
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGINT))
	_, code := s.end(t)
	assert.Equal(t, 130, code)
}

func TestTermIgnoredKillsAfterGrace(t *testing.T) {
	needSandbox(t)
	t.Parallel()
	s := start(t, append([]string{"--kill-grace", "200ms"}, loop("trap '' TERM")...)...)
	began := time.Now()
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	_, code := s.end(t)
	assert.Equal(t, 143, code)
	assert.GreaterOrEqual(t, time.Since(began), 200*time.Millisecond, "the command has its grace")
}

// children lists the processes that pid has started.
func children(t *testing.T, pid int) (pids []int) {
	t.Helper()
	lists, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	require.NoError(t, err)
	for _, name := range lists {
		data, _ := os.ReadFile(name)
		for word := range strings.FieldsSeq(string(data)) {
			child, err := strconv.Atoi(word)
			require.NoError(t, err)
			pids = append(pids, child)
		}
	}
	return pids
}

// gone waits for a process to be gone, or a zombie that somebody else has to reap.
func gone(pid int) bool {
	for end := time.Now().Add(testenv.Limit(0)); ; time.Sleep(20 * time.Millisecond) {
		late := time.Now().After(end)
		data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || bytes.Contains(data, []byte(") Z ")) {
			return true
		}
		if late {
			return false
		}
	}
}

// A7: when nsrun is killed, nothing that it started survives.
func TestKilledNsrunLeavesNothing(t *testing.T) {
	needSandbox(t)
	t.Parallel()
	s := start(t, "--", "sh", "-c", "trap '' TERM HUP INT; setsid sleep 1000 & sleep 1000 & echo ready; wait")
	all := children(t, s.cmd.Process.Pid)
	require.Len(t, all, 1, "nsrun has one child: pid 1 of the sandbox")
	for i := 0; i < len(all); i++ {
		all = append(all, children(t, all[i])...)
	}
	require.GreaterOrEqual(t, len(all), 4, "pid 1, sh and two sleeps")
	require.NoError(t, s.cmd.Process.Kill())
	_ = s.cmd.Wait()
	for _, pid := range all {
		assert.True(t, gone(pid), "process %d survives", pid)
	}
}

// The sandbox also ends when the process that started nsrun is gone.
func TestParentGoneEndsNsrun(t *testing.T) {
	needSandbox(t)
	t.Parallel()
	// So that nsrun, orphaned, comes to this process, and can be waited for.
	require.NoError(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
	file := filepath.Join(t.TempDir(), "pid")
	cmd := exec.Command("sh", "-c", `nsrun run -- sh -c 'echo ready; sleep 1000' & echo $! >"$0"; wait`, file)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	pid := 0
	written := func() bool { // by the shell, which may be slower than its nsrun is
		data, _ := os.ReadFile(file)
		pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
		return err == nil
	}
	testenv.Eventually(t, written, "the pid in the file")
	require.NoError(t, cmd.Process.Kill())
	out.Close()
	_ = cmd.Wait()
	assert.True(t, gone(pid), "nsrun survives its parent")
	_, err = unix.Wait4(pid, nil, unix.WNOHANG, nil)
	assert.NoError(t, err)
}
