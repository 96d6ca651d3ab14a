package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// ContainerCLI is the command line client of a container engine.
type ContainerCLI struct {
	Path   string
	Podman bool
}

// Name returns "docker" or "podman".
func (c ContainerCLI) Name() string {
	if c.Podman {
		return "podman"
	}
	return "docker"
}

// ErrNoContainerCLI means that neither Docker nor Podman is installed.
var ErrNoContainerCLI = errors.New("neither docker nor podman is on PATH")

// The longest time that a client may take for an answer that takes milliseconds: at first, and once the daemon has answered. A daemon that
// hangs must not hang nsrun, which tries other backends after the first failure.
const (
	firstTimeout = 1500 * time.Millisecond
	cliTimeout   = 4 * time.Second
)

// errNoAnswer means that the daemon hangs.
var errNoAnswer = errors.New("no answer")

// FindContainerCLI returns the client to use: docker if its daemon answers, else podman, which needs none. If DOCKER_HOST or DOCKER_CONTEXT
// names a daemon, it returns docker, or an error with the reason. It takes some 15 ms, and 1.5 s at most.
func FindContainerCLI() (ContainerCLI, error) {
	docker, missing := lookCLI("docker")
	podman, second := lookCLI("podman")
	none := ErrNoContainerCLI
	for _, err := range []error{missing, second} {
		switch {
		case err == nil, errors.Is(err, exec.ErrNotFound):
		case errors.Is(err, fs.ErrPermission): // try the other client
			none = err
		default:
			return ContainerCLI{}, &Error{Stage: "docker", Op: "find", Err: err}
		}
	}
	switch {
	case missing != nil && second != nil:
		return ContainerCLI{}, &Error{Stage: "docker", Op: "find", Err: none, Hint: "install Docker or Podman, or use --backend native"}
	case missing != nil:
		return podman, nil
	case docker.Podman:
		return docker, nil
	}
	err := docker.answers()
	if err != nil && second == nil && os.Getenv("DOCKER_HOST") == "" && os.Getenv("DOCKER_CONTEXT") == "" {
		return podman, nil
	}
	return docker, err
}

// cliFor returns the client that the plan names.
func cliFor(p *plan.Plan) (ContainerCLI, error) {
	if p.Container == nil || p.Container.CLI == "" {
		return FindContainerCLI()
	}
	c, err := lookCLI(p.Container.CLI)
	if errors.Is(err, exec.ErrNotFound) {
		err = fmt.Errorf("%s is not on PATH", p.Container.CLI)
	}
	if err != nil {
		return c, &Error{Stage: "docker", Op: "find", Err: err, Hint: "install it, or use --backend native"}
	}
	if c.Podman && (os.Getenv("DOCKER_HOST") != "" || os.Getenv("DOCKER_CONTEXT") != "") { // they name a Docker daemon, so Podman is not meant
		return FindContainerCLI()
	}
	return c, nil
}

// DockerLosses resolves a plan on this host, as a run with the backend docker would, and returns its losses. It does not ask the daemon.
func DockerLosses(p *plan.Plan) ([]plan.Note, error) {
	cli, err := lookCLI(p.Container.CLI)
	if err != nil {
		cli = ContainerCLI{Path: p.Container.CLI, Podman: p.Container.CLI == "podman"}
	}
	box, err := RenderDocker(p, cli)
	if err != nil {
		return nil, err
	}
	return box.Losses, nil
}

// lookCLI looks up a client on PATH, and finds out whether it is Podman.
func lookCLI(name string) (ContainerCLI, error) {
	at, err := lookPath(name, func(string) bool { return true })
	return ContainerCLI{at, name == "podman" || err == nil && isPodman(at)}, err
}

// lookPath searches PATH for a program as execvp(3) does, and skips those that take refuses. [exec.ErrNotFound] means that there is none.
// Another error means that an earlier directory could not be searched, or that the file cannot be executed.
func lookPath(name string, take func(at string) bool) (string, error) {
	missing := exec.ErrNotFound
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		at, err := exec.LookPath(filepath.Join(dir, name))
		switch {
		case err == nil && filepath.IsAbs(at) && take(at):
			return at, nil
		case err == nil, mounts.Absent(err), errors.Is(err, syscall.EISDIR):
		case errors.Is(err, fs.ErrPermission):
			missing = err
		default:
			return "", err
		}
	}
	return "", missing
}

// isPodman reports whether a program named docker is Podman: the package podman-docker has a script or a link of that name.
func isPodman(at string) bool {
	if real, err := filepath.EvalSymlinks(at); err == nil && strings.HasPrefix(filepath.Base(real), "podman") {
		return true
	}
	f, err := os.Open(at)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 4096)
	n, _ := f.Read(head)
	return bytes.HasPrefix(head, []byte("#!")) && bytes.Contains(head[:max(n, 0)], []byte("podman"))
}

// answers asks the daemon for its version.
func (c ContainerCLI) answers() error {
	_, err := c.ask(firstTimeout, nil, "version", "--format={{.Server.Version}}")
	return c.unanswered(err)
}

// unanswered returns an error that explains that the daemon does not answer.
func (c ContainerCLI) unanswered(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Stage: "docker", Op: "ask the daemon", Err: err, Hint: "start the daemon, or set DOCKER_HOST to one on this machine; or use --backend native"}
}

// environ returns the variables that a client needs to find its engine, and no others of the caller.
func (c ContainerCLI) environ() (env []string) {
	prefixes := []string{"DOCKER_", "CONTAINERS_", "CONTAINER_", "XDG_"}
	names := []string{"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "DBUS_SESSION_BUS_ADDRESS", "_CONTAINERS_USERNS_CONFIGURED", "STORAGE_DRIVER", "STORAGE_OPTS"}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if slices.Contains(names, name) || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			env = append(env, v)
		}
	}
	return append(env, "LC_ALL=C")
}

// command returns a call of the client in its own process group. A terminal's signals do not reach that group, and one kill ends the client
// with all that it has started.
func (c ContainerCLI) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.Path, args...)
	cmd.Env = c.environ()
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd
}

// ask runs the client for a quick answer. If the client fails, ask returns its message as an error. stdin is there before the client is: it would
// take input for complete that ends because this process was killed.
func (c ContainerCLI) ask(timeout time.Duration, stdin []byte, args ...string) (string, error) {
	ctx, stop := context.WithTimeout(context.Background(), timeout)
	defer stop()
	cmd := c.command(ctx, args...)
	if stdin != nil {
		file, err := whole(stdin)
		if err != nil {
			return "", err
		}
		defer file.Close()
		cmd.Stdin = file
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", fmt.Errorf("%s %s: %w within %v", c.Name(), args[0], errNoAnswer, timeout)
	}
	if err != nil {
		return "", c.lastError(stderr.Bytes(), err)
	}
	return strings.TrimSpace(stdout.String()), nil
}

// whole returns a file that has all of data to read. It is a pipe where one can hold so much (pipe(7): 1 MiB, as a rule): AppArmor lets a client
// that it confines, such as a snap's, inherit that, and replaces other files by /dev/null.
func whole(data []byte) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if size, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, len(data)); err == nil && size >= len(data) {
		if _, err := w.Write(data); err == nil {
			return r, nil
		}
	}
	r.Close()
	return sys.MemoryFile(data)
}

// lastError returns the error that a client printed, without the words that all its messages have.
func (c ContainerCLI) lastError(text []byte, fallback error) error {
	var lines []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		for _, prefix := range []string{c.Name() + ": ", "Error: ", "Error response from daemon: ", "nsrun: "} {
			line = strings.TrimPrefix(line, prefix)
		}
		if line == "" || strings.HasPrefix(line, "See '") || strings.HasPrefix(line, "Run '") || strings.HasPrefix(line, "WARNING: ") {
			continue
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return fmt.Errorf("%s: %w", c.Name(), fallback)
	}
	if len(lines) > 5 {
		lines = lines[:5]
	}
	return errors.New(strings.TrimSuffix(strings.Join(lines, "; "), "."))
}

// speakable returns an error if a path cannot be part of this client's --mount.
func (c ContainerCLI) speakable(name string) error {
	switch {
	case strings.Contains(name, "\r"):
		return fmt.Errorf("%s cannot take a path with a carriage return", c.Name())
	case strings.TrimSpace(name) != name:
		return fmt.Errorf("%s cannot take a path with white space at its ends", c.Name())
	case c.Podman && strings.ContainsAny(name, ",\"\n"):
		return fmt.Errorf("podman cannot take a path with a comma, quote or newline")
	}
	return nil
}

// bind returns the option for a bind mount. It is never -v, which creates a missing path on the host. It is not recursive, because mounts
// below the source would stay writable in a read-only mount.
func (c ContainerCLI) bind(source, dest string, readOnly bool) string {
	fields := []string{"type=bind", "src=" + source, "dst=" + dest, "bind-nonrecursive"}
	if readOnly {
		fields = append(fields, "readonly")
	}
	for i, f := range fields { // quoted for encoding/csv, which reads it
		if strings.ContainsAny(f, ",\"\n") {
			fields[i] = `"` + strings.ReplaceAll(f, `"`, `""`) + `"`
		}
	}
	return "--mount=" + strings.Join(fields, ",")
}
