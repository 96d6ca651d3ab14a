package docker_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// world is one user with a directory of its own, in which the tests' files lie and nsrun's private directories are made.
type world struct {
	id   int
	dir  string
	env  []string
	args []string // before the others
	own  bool     // each command has a mount namespace of its own, for an engine that mounts in its caller's
}

// each runs a test as root and as an ordinary user, and makes sure that nothing is left behind.
func each(t *testing.T, test func(t *testing.T, w *world)) {
	need(t)
	for name, id := range map[string]int{"root": 0, "user": userID} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, id)
			test(t, w)
			w.nothingLeft(t)
		})
	}
}

func newWorld(t *testing.T, id int) *world {
	dir, err := os.MkdirTemp(built.room, "w")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{id: id, dir: dir, args: []string{"run", "--backend", "docker"}}
	for _, name := range []string{"", "tmp", "work", "home"} {
		require.NoError(t, os.MkdirAll(w.path(name), 0o755))
		require.NoError(t, errors.Join(os.Chown(w.path(name), id, id), os.Chmod(w.path(name), 0o755)))
	}
	w.env = []string{"PATH=" + built.path, "HOME=" + w.path("home"), "TMPDIR=" + w.path("tmp"), "LANG=C.UTF-8", "DOCKER_HOST=" + built.daemon.Host}
	return w
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// write makes a file of the user's.
func (w *world) write(t *testing.T, name, text string) string {
	t.Helper()
	name = w.path(name)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	require.NoError(t, errors.Join(os.Chown(filepath.Dir(name), w.id, w.id), os.Chown(name, w.id, w.id)))
	return name
}

// outcome is what a run came to.
type outcome struct {
	code           int
	stdout, stderr string
}

// command is a call of nsrun as the user.
func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(built.nsrun, append(w.args[:len(w.args):len(w.args)], args...)...)
	cmd.Env, cmd.Dir = w.env, w.path("work")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(w.id), Gid: uint32(w.id)}, Setpgid: true}
	if w.own {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	return cmd
}

func (w *world) run(t *testing.T, args ...string) outcome {
	t.Helper()
	return finish(t, w.command(args...))
}

func finish(t *testing.T, cmd *exec.Cmd) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var err error
	testenv.Returns(t, fmt.Sprintf("%q", cmd.Args), func() { err = cmd.Run() })
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// probe runs the probe inside.
func (w *world) probe(t *testing.T, args ...string) outcome {
	t.Helper()
	return w.run(t, append([]string{"--ro", filepath.Dir(built.probe), "--", built.probe}, args...)...)
}

// shell runs a script inside, after flags, and expects it to end well.
func (w *world) shell(t *testing.T, script string, flags ...string) string {
	t.Helper()
	o := w.run(t, append(flags, "--", "sh", "-c", script)...)
	require.Equal(t, 0, o.code, "%s: %s%s", script, o.stdout, o.stderr)
	return o.stdout
}

// containers lists those of nsrun's, running or not.
func containers(t *testing.T) string {
	t.Helper()
	text, err := built.daemon.Docker("ps", "--all", "--quiet").CombinedOutput()
	require.NoError(t, err, "%s", text)
	return strings.TrimSpace(string(text))
}

// nothingLeft makes sure that a run has left no container, no client and no private directory.
func (w *world) nothingLeft(t *testing.T) {
	t.Helper()
	assert.Empty(t, containers(t), "a container is left")
	left, err := os.ReadDir(w.path("tmp"))
	require.NoError(t, err)
	assert.Empty(t, left, "a private directory is left")
	assert.Empty(t, clients(w.dir), "a client is left")
}

// clients lists the processes of the user's that have its directory in their environment.
func clients(mark string) (found []string) {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		if data, err := os.ReadFile(name); err == nil && bytes.Contains(data, []byte("TMPDIR="+mark)) {
			words, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
			found = append(found, strings.ReplaceAll(string(words), "\x00", " "))
		}
	}
	return found
}

// result is what --result tells.
type result struct {
	Verdict string
	Code    int
	Error   string
	Step    string
	Hint    string
	Receipt struct {
		Backend string
		Notes   []struct{ Feature, Loss, Fix string }
	}
}

func (w *world) result(t *testing.T, args ...string) (r result) {
	t.Helper()
	name := w.path("result.json")
	w.run(t, append([]string{"--result", name}, args...)...)
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &r))
	return r
}
