package docker_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// processes lists those whose command line begins with some words.
func processes(words ...string) (found []string) {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		if data, err := os.ReadFile(name); err == nil && strings.HasPrefix(string(data), strings.Join(words, "\x00")) {
			found = append(found, name)
		}
	}
	return found
}

// saying starts a command whose output is read, and which is killed if it takes very long.
func saying(t *testing.T, cmd *exec.Cmd) *bufio.Reader {
	t.Helper()
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	late := time.AfterFunc(testenv.Limit(0), func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() { late.Stop() })
	return bufio.NewReader(out)
}

// says waits for a line.
func says(t *testing.T, out *bufio.Reader, line string) {
	t.Helper()
	got, err := out.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, line+"\n", got)
}

// sleepers lists the processes that sleep for so long.
func sleepers(long string) []string { return processes("sleep", long, "") }

// number is a length of sleep that no other test has.
func number(w *world, n int) string {
	return fmt.Sprintf("%d.%d%d", 1000+n, os.Getpid(), w.id)
}

func TestTimeoutLeavesNothing(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		sleep := number(w, 1)
		o := w.run(t, "--timeout", "1s", "--kill-grace", "500ms", "--", "sh", "-c",
			"trap '' TERM; (setsid setsid sleep "+sleep+" &) ; while :; do sleep "+sleep+"; done")
		assert.Equal(t, 124, o.code, o.stderr)
		assert.Empty(t, sleepers(sleep), "a daemon of the command's is left")
	})
}

func TestBackgroundEndsWithTheCommand(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		sleep := number(w, 2)
		o := w.run(t, "--", "sh", "-c", "(setsid sleep "+sleep+" >/dev/null 2>&1 &); exit 5")
		assert.Equal(t, 5, o.code)
		assert.Empty(t, sleepers(sleep))
	})
}

func TestSignalsArePassedOn(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for sig, want := range map[syscall.Signal]int{syscall.SIGTERM: 3, syscall.SIGUSR1: 4, syscall.SIGHUP: 6} {
			cmd := w.command("--", "sh", "-c", "trap 'exit 3' TERM; trap 'exit 4' USR1; trap 'exit 6' HUP; echo ready; while :; do sleep 0.05; done")
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			line := make([]byte, 6)
			_, err = out.Read(line)
			require.NoError(t, err)
			require.NoError(t, cmd.Process.Signal(sig))
			_ = cmd.Wait()
			assert.Equal(t, want, cmd.ProcessState.ExitCode(), sig)
		}
	})
}

func TestSecondInterruptKills(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		cmd := w.command("--kill-grace", "1h", "--", "sh", "-c", "trap 'echo first' INT; echo ready; while :; do sleep 0.05; done")
		out := saying(t, cmd)
		says(t, out, "ready")
		require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		says(t, out, "first") // two that wait to be seen are one
		require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		_ = cmd.Wait()
		assert.Equal(t, 130, cmd.ProcessState.ExitCode())
	})
}

// A signal that comes while the container is made is not lost, whenever that is.
func TestEarlySignal(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, delay := range []time.Duration{20, 80, 150, 250, 400} {
			cmd := w.command("--kill-grace", "300ms", "--", "sleep", "1000")
			require.NoError(t, cmd.Start())
			time.Sleep(delay * time.Millisecond)
			require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
			testenv.Returns(t, fmt.Sprintf("a run that was ended after %d ms", delay), func() { _ = cmd.Wait() })
			assert.NotEqual(t, 0, cmd.ProcessState.ExitCode())
			w.nothingLeft(t)
		}
	})
}

// However nsrun dies, and whenever: the container, its client and the private directory are gone soon after.
func TestKilled(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		sleep := number(w, 3)
		for _, delay := range []time.Duration{30, 80, 110, 130, 150, 170, 190, 210, 230, 260, 300, 0} {
			cmd := w.command("--", "sh", "-c", "setsid sleep "+sleep)
			said, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
			require.NoError(t, err)
			cmd.Stderr = said
			require.NoError(t, cmd.Start())
			if delay == 0 {
				defer func() {
					if text, _ := os.ReadFile(said.Name()); t.Failed() {
						t.Logf("the last run said: %s", text)
					}
				}()
				testenv.Eventually(t, func() bool { return len(sleepers(sleep)) > 0 }, "the command runs")
				left, err := os.ReadDir(w.path("tmp"))
				require.NoError(t, err)
				assert.Empty(t, left, "the private directory is there while the command runs")
			} else {
				time.Sleep(delay * time.Millisecond)
			}
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Process.Release()
			testenv.Eventually(t, func() bool {
				left, err := os.ReadDir(w.path("tmp"))
				return err == nil && len(left) == 0 && containers(t) == "" && len(sleepers(sleep)) == 0 && len(clients(w.dir)) == 0
			}, fmt.Sprintf("all is gone, killed after %d ms", delay))
		}
	})
}

// An image that nsrun began to send when it was killed is whole, or is not there: the next run has the same image. The client kills nsrun here before it
// reads anything. What an image larger than a pipe comes to is internal/backend's test of whole.
func TestKilledWithTheImage(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const named = "reference=nsrun-root"
		images, err := built.daemon.Docker("image", "ls", "--quiet", "--filter", named).Output()
		require.NoError(t, err)
		if made := strings.Fields(string(images)); len(made) > 0 { // by other tests
			require.NoError(t, built.daemon.Docker(append([]string{"image", "rm", "--force"}, made...)...).Run())
		}
		client := w.write(t, "path/docker", "#!/bin/sh\n[ \"$1\" = import ] && { kill -KILL $PPID; sleep 0.2; }\nexec "+built.path+"/docker \"$@\"\n")
		require.NoError(t, os.Chmod(client, 0o755))
		args := []string{"--workspace", w.path("work")}
		cmd := w.command(append(args, "--", "true")...)
		cmd.Env = append(slices.Clip(cmd.Env), "PATH="+filepath.Dir(client)+":/usr/bin:/bin")
		testenv.Returns(t, "a run that its client kills", func() { _ = cmd.Run() })
		require.Equal(t, -1, cmd.ProcessState.ExitCode(), "nsrun was killed")
		testenv.Eventually(t, func() bool { return len(clients(w.dir)) == 0 }, "the client has ended")
		assert.Equal(t, "yes\n", w.shell(t, "echo yes", args...))
	})
}

// The client can die too.
func TestClientKilled(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		cmd := w.command("--workspace", w.path("work"), "--", "sh", "-c", "echo ready; while [ ! -e go ]; do sleep 0.05; done; echo done; exit 9")
		out := saying(t, cmd)
		says(t, out, "ready")
		clients := processes(built.path+"/docker", "run", "--name=nsrun-")
		assert.Len(t, clients, 1)
		for _, name := range clients {
			var pid int
			_, err := fmt.Sscanf(name, "/proc/%d/", &pid)
			if data, _ := os.ReadFile(filepath.Dir(name) + "/environ"); err == nil && bytes.Contains(data, []byte(w.dir)) {
				require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			}
		}
		w.write(t, "work/go", "")
		rest, err := io.ReadAll(out)
		require.NoError(t, err)
		_ = cmd.Wait()
		assert.Equal(t, 9, cmd.ProcessState.ExitCode())
		assert.Equal(t, "done\n", string(rest))
		testenv.Eventually(t, func() bool { return containers(t) == "" }, "the container is gone")
	})
}

func TestContainerRemovedUnderneath(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		cmd := w.command("--", "sh", "-c", "echo ready; exec sleep 1000")
		says(t, saying(t, cmd), "ready")
		require.NoError(t, built.daemon.Docker("rm", "--force", containers(t)).Run())
		_ = cmd.Wait()
		assert.Equal(t, 137, cmd.ProcessState.ExitCode())
	})
}
