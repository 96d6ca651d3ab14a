package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// actVar makes this binary run an act instead of tests, by Main; dirVar is a directory for it.
const actVar, dirVar = "TESTENV_ACT", "TESTENV_DIR"

func TestMain(m *testing.M) {
	if act := acts[os.Getenv(actVar)]; act != nil {
		survivorLimit = 100 * time.Millisecond
		os.Exit(Main(func() int { return act(os.Getenv(dirVar)) }))
	}
	os.Exit(m.Run()) // not isolated: the tests look at what isolation keeps from the machine
}

var acts = map[string]func(dir string) int{
	"exit 7": func(string) int { return 7 },
	"die":    func(string) int { _ = unix.Kill(os.Getpid(), unix.SIGKILL); select {} },
	"leave": func(string) int {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			return 2
		}
		fmt.Println(cmd.Process.Pid)
		return 0
	},
	"mount": func(dir string) int {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
			return 2
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
			return 3
		}
		return 0
	},
	"look": func(string) int {
		processes, _ := filepath.Glob("/proc/[0-9]*")
		fmt.Println(len(processes), os.Getpid(), os.Getppid())
		return 0
	},
}

// run runs an act. With asTests the binary takes itself for isolated: the control.
func run(t *testing.T, act, dir string, asTests bool) (out string, code int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), actVar+"="+act, dirVar+"="+dir, isolated+"=")
	if asTests {
		cmd.Env = append(cmd.Env, isolated+"="+pidNamespace())
	}
	text, err := cmd.CombinedOutput()
	if err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError), string(text))
	}
	return string(text), cmd.ProcessState.ExitCode()
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 || os.Getenv("NSRUN_TEST_VM") != "" {
		t.Skip("only root's tests are isolated")
	}
}

func TestIsolatedTestsKeepTheirExitCode(t *testing.T) {
	needRoot(t)
	_, code := run(t, "exit 7", "", false)
	assert.Equal(t, 7, code)
	_, code = run(t, "die", "", false)
	assert.Equal(t, 128+int(unix.SIGKILL), code)
}

func TestIsolatedTestsSeeTheirOwnProcessesOnly(t *testing.T) {
	needRoot(t)
	var processes, pid, parent int
	out, code := run(t, "look", "", false)
	require.Zero(t, code, out)
	_, err := fmt.Sscan(out, &processes, &pid, &parent)
	require.NoError(t, err)
	assert.Equal(t, 2, processes, "pid 1 and the tests")
	assert.Equal(t, 1, parent)
}

// TestAProcessThatIsLeftFailsThePackage, and is gone; without isolation it would stay.
func TestAProcessThatIsLeftFailsThePackage(t *testing.T) {
	needRoot(t)
	out, code := run(t, "leave", "", false)
	assert.Equal(t, 1, code)
	assert.Contains(t, out, `they left processes behind`)
	assert.Contains(t, out, `sleep "sleep\x001000\x00"`)

	out, code = run(t, "leave", "", true)
	require.Zero(t, code, out)
	var pid int
	_, err := fmt.Sscan(out, &pid)
	require.NoError(t, err)
	require.NoError(t, unix.Kill(pid, unix.SIGKILL), "the control: it is there")
}

// TestAMountDoesNotReachTheMachine, nor its caller's namespace, which the control's mount does.
func TestAMountDoesNotReachTheMachine(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	out, code := run(t, "mount", dir, false)
	require.Zero(t, code, out)
	assert.NoFileExists(t, filepath.Join(dir, "file"))

	self, err := os.Executable()
	require.NoError(t, err)
	control := exec.Command("sh", "-c", `mount --make-rprivate / && "$0" && test -e "$1/file"`, self, dir)
	control.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	control.Env = append(os.Environ(), actVar+"=mount", dirVar+"="+dir, isolated+"="+pidNamespace())
	text, err := control.CombinedOutput()
	require.NoError(t, err, string(text))
	assert.NoFileExists(t, filepath.Join(dir, "file"))
}

// TestAnInheritedVariableIsNotIsolation: it names a pid namespace, and another one's name does not count.
func TestAnInheritedVariableIsNotIsolation(t *testing.T) {
	needRoot(t)
	for _, value := range []string{"init", "tests", "pid:[1]"} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), actVar+"=look", isolated+"="+value)
		out, err := cmd.Output()
		require.NoError(t, err)
		assert.Equal(t, "2", strings.Fields(string(out))[0], value)
	}
}
