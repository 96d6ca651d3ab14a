package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// screen is a terminal with an nsrun on it.
type screen struct {
	cmd           *exec.Cmd
	master, slave *os.File
	before        *unix.Termios

	mu   sync.Mutex
	text string
}

// openPTY opens a terminal of 33 rows and 77 columns.
func openPTY(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { master.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 77}))
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

// onTerminal starts nsrun, with a terminal for the command, as a terminal emulator would: leader of a session, with the terminal as streams 0, 1
// and 2.
func onTerminal(t *testing.T, args ...string) *screen {
	t.Helper()
	return onScreen(t, append([]string{"run", "--tty"}, args...)...)
}

// onScreen does so without a terminal for the command.
func onScreen(t *testing.T, args ...string) *screen {
	t.Helper()
	needSandbox(t)
	s := &screen{cmd: exec.Command("nsrun", args...)}
	s.master, s.slave = openPTY(t)
	var err error
	s.before, err = unix.IoctlGetTermios(int(s.slave.Fd()), unix.TCGETS)
	require.NoError(t, err)
	s.cmd.Dir = t.TempDir()
	s.cmd.Env = append(os.Environ(), "PS1=$ ", "TERM=dumb")
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = s.slave, s.slave, s.slave
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			_ = s.cmd.Process.Kill()
			_ = s.cmd.Wait()
		}
	})
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := s.master.Read(buf)
			s.mu.Lock()
			s.text += string(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return s
}

func (s *screen) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}

// sees waits for text, and forgets what came up to it.
func (s *screen) sees(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(testenv.Limit(0)); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		_, rest, ok := strings.Cut(s.text, text)
		if ok {
			s.text = rest
		}
		s.mu.Unlock()
		if ok {
			return
		}
	}
	t.Fatalf("%q does not appear; the screen shows:\n%s", text, s.all())
}

func (s *screen) types(t *testing.T, keys string) {
	t.Helper()
	_, err := s.master.WriteString(keys)
	require.NoError(t, err)
}

// end waits for nsrun, and checks that the terminal is as before.
func (s *screen) end(t *testing.T) int {
	t.Helper()
	late := time.AfterFunc(testenv.Limit(0), func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	_ = s.cmd.Wait()
	after, err := unix.IoctlGetTermios(int(s.slave.Fd()), unix.TCGETS)
	require.NoError(t, err)
	assert.Equal(t, s.before, after, "the terminal's mode is restored")
	return s.cmd.ProcessState.ExitCode()
}

func (s *screen) resize(t *testing.T, rows, cols uint16) {
	t.Helper()
	require.NoError(t, unix.IoctlSetWinsize(int(s.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}))
}

func TestTerminalIsOneOfTheSandboxsOwn(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "--", "sh", "-c", "tty; stty size; test -t 0 && test -t 1 && test -t 2 && echo all three; echo x >/dev/tty; echo /dev/pts/*; exit 7")
	assert.Equal(t, 7, s.end(t))
	s.sees(t, "/dev/pts/0\r\n33 77\r\nall three\r\nx\r\n/dev/pts/0 /dev/pts/ptmx\r\n")
}

func TestTerminalIsResized(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "--", "sh", "-c", "trap 'stty size' WINCH; trap 'exit 0' USR1; echo ready; while :; do sleep 0.02; done")
	s.sees(t, "ready")
	s.resize(t, 40, 100)
	s.sees(t, "40 100")
	s.resize(t, 24, 80)
	s.sees(t, "24 80")
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGUSR1))
	assert.Equal(t, 0, s.end(t))
}

func TestTerminalControlCInterruptsTheCommand(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "--", "sh", "-c", "trap 'echo interrupted; exit 5' INT; echo ready; while :; do sleep 0.02; done")
	s.sees(t, "ready")
	s.types(t, "\x03")
	s.sees(t, "interrupted")
	assert.Equal(t, 5, s.end(t), "the command's own exit code: nsrun was not interrupted")

	// Without exec the signal could come between fork and exec of sleep, which dash would then wait for.
	s = onTerminal(t, "--", "sh", "-c", "echo ready; exec sleep 1000")
	s.sees(t, "ready")
	s.types(t, "\x03")
	assert.Equal(t, 130, s.end(t))
}

// TestControlCGoesToTheCommand: no process of nsrun's or of bubblewrap's between nsrun and the command gets the terminal's signals, and ends the
// command for that.
func TestControlCGoesToTheCommand(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"native", "bwrap", "landlock"} {
		if _, err := os.Stat("/usr/bin/bwrap"); backend == "bwrap" && err != nil {
			require.Empty(t, os.Getenv("CI"), "CI must have bubblewrap")
			continue
		}
		s := onScreen(t, "run", "--backend", backend, "--", "sh", "-c", "trap 'echo interrupted; exit 5' INT; echo ready; while :; do sleep 0.02; done")
		s.sees(t, "ready")
		s.types(t, "\x03")
		s.sees(t, "interrupted")
		assert.Equal(t, 5, s.end(t), backend)
	}
}

func TestTerminalKeysArriveAsTheyAre(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "--", "sh", "-c", "stty raw -echo; echo ready; dd bs=1 count=6 2>/dev/null | od -An -tx1; stty sane")
	s.sees(t, "ready")
	s.types(t, "\x03\x1a\x1c\x13\x11\r")
	s.sees(t, "03 1a 1c 13 11 0d")
	assert.Equal(t, 0, s.end(t))
}

func TestTerminalJobControl(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		require.Empty(t, os.Getenv("CI"), "CI must have bash")
		t.Skip("needs bash")
	}
	t.Parallel()
	s := onTerminal(t, "--setenv", "PS1=ok> ", "--", "bash", "--norc", "--noprofile", "-i")
	s.sees(t, "ok> ")
	const job = `sh -c 'echo in""front; exec sleep 100'` // it says so when it has the foreground, and the echo of what is typed does not
	s.types(t, "set -m; "+job+"\n")
	s.sees(t, "infront")
	s.types(t, "\x1a")
	s.sees(t, "Stopped")
	s.types(t, "jobs; bg; kill %1; wait %1; echo term $?\n")
	s.sees(t, "term 143")
	assert.NotContains(t, s.all(), "no job control")
	s.types(t, job+"\n")
	s.sees(t, "infront")
	s.types(t, "\x03")
	s.types(t, "echo code $?\n")
	s.sees(t, "code 130")
	s.types(t, "exit 3\n")
	assert.Equal(t, 3, s.end(t))
}

func TestTerminalEndOfInput(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "--", "sh", "-c", "echo ready; cat; exit 4")
	s.sees(t, "ready")
	s.types(t, "line\n\x04")
	assert.Equal(t, 4, s.end(t))
}

func TestTerminalIsRestored(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "--timeout", "100ms", "--", "sleep", "100")
	assert.Equal(t, 124, s.end(t), "when time is up")

	s = onTerminal(t, "--", "sh", "-c", "echo ready; exec sleep 100")
	s.sees(t, "ready")
	require.NoError(t, s.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 143, s.end(t), "when nsrun is told to end")

	s = onTerminal(t, "--", "sh", "-c", "stty raw -echo; kill -9 $$")
	assert.Equal(t, 137, s.end(t), "when the command is killed with its terminal in disorder")

	s = onTerminal(t, "--", "no-such-command")
	assert.Equal(t, 127, s.end(t), "when there is no command")
	s.sees(t, "command not found")
}

func TestTerminalAllOutputArrives(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "--", "sh", "-c", "seq 1 20000; echo the end")
	assert.Equal(t, 0, s.end(t))
	s.sees(t, "\n20000\r\nthe end\r\n")
}

// Without --tty the command has no way to the caller's terminal: no controlling one, CVE-2017-5226.
func TestNoTerminalWithoutFlag(t *testing.T) {
	needSandbox(t)
	t.Parallel()
	master, slave := openPTY(t)
	out := filepath.Join(t.TempDir(), "out")
	cmd := exec.Command("nsrun", "run", "--", "sh", "-c", "(echo pushed >/dev/tty) 2>/dev/null && echo tty; ps -o tty= -p $$ 2>/dev/null; exit 6")
	f, err := os.Create(out)
	require.NoError(t, err)
	defer f.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, f, f
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Run()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 6, exit.ExitCode())
	data, err := os.ReadFile(out)
	require.NoError(t, err)
	assert.NotContains(t, string(data), "tty\n")
	_ = master
}
