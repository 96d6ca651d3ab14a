package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/internal/testenv"
)

// world is one user with a home directory, a workspace in it, and other programs: what a sandbox of that user could spoil.
type world struct {
	name     string // root or user
	uid, gid int

	home, work, grant, tmp, run string
	secret, tmpFile, shmFile    string
	canary                      string

	pid                int // of another program of the same user
	key, queue, marker string
	tcp, udp           string
	abstract, socket   string
	accepted           atomic.Int64 // connections and datagrams that came to the host's servers
	closers            []io.Closer
	host               *exec.Cmd
	missing            []fixture // that this host does not let the user make

	fill *strings.Replacer
}

// fixture is a thing of the host that acts of the probe try to reach: those that contain act.
type fixture struct{ what, act, reason string }

// fixtures are those that a host may not have, by the name that the probe's act host gives them.
var fixtures = map[string]fixture{
	"shm":      {what: "System V shared memory", act: "shm {key}"},
	"sem":      {what: "System V semaphores", act: "sem {key}"},
	"msg":      {what: "System V message queues", act: "msg {key}"},
	"mq":       {what: "POSIX message queues", act: "{mq}"},
	"/dev/shm": {what: "a directory /dev/shm", act: "{shm}"},
}

// lacks adds a fixture that could not be made.
func (w *world) lacks(name, reason string) {
	f := fixtures[name]
	f.reason = reason
	w.missing = append(w.missing, f)
}

// need skips the test of a case, or in CI fails it, if the case tries to reach what this host has not.
func (w *world) need(t *testing.T, r attackCase) {
	t.Helper()
	for _, f := range w.missing {
		for _, c := range r.tries {
			if strings.Contains(c.act, f.act) || strings.Contains(c.control, f.act) {
				need(t, false, fmt.Sprintf("%s, which %s needs: %s", f.what, r.id, f.reason))
			}
		}
	}
}

// worlds are the users that this test can be.
func worlds(t *testing.T) []*world {
	t.Helper()
	if os.Getuid() != 0 {
		return []*world{newWorld(t, "user", os.Getuid(), os.Getgid())}
	}
	if inVM { // where the user has a run of its own
		return []*world{newWorld(t, "root", 0, 0)}
	}
	uid, gid := 65533, 65533
	if name := os.Getenv("NSRUN_TEST_USER"); name != "" {
		u, err := user.Lookup(name)
		require.NoError(t, err)
		uid, _ = strconv.Atoi(u.Uid)
		gid, _ = strconv.Atoi(u.Gid)
	}
	return []*world{newWorld(t, "root", 0, 0), newWorld(t, "user", uid, gid)}
}

func newWorld(t *testing.T, name string, uid, gid int) *world {
	t.Helper()
	place := filepath.Join(built.room, name)
	w := &world{name: name, uid: uid, gid: gid, canary: fmt.Sprintf("canary-%s-%d", name, os.Getpid()),
		home: filepath.Join(place, "home"), grant: filepath.Join(place, "grant"), tmp: filepath.Join(place, "tmp"), run: filepath.Join(place, "run")}
	w.work, w.secret = filepath.Join(w.home, "project"), filepath.Join(w.home, ".ssh", "id_canary")
	w.marker = "marker-" + w.canary
	w.key, w.queue = strconv.Itoa(0x6e730000+os.Getpid()&0xffff+uid<<16), w.canary
	w.tmpFile, w.shmFile = filepath.Join(os.TempDir(), w.canary), filepath.Join("/dev/shm", w.canary)
	for _, dir := range []string{place, w.home, w.tmp, w.run} {
		w.mkdir(t, dir)
	}
	require.NoError(t, os.Chmod(w.home, 0o700))
	w.write(t, w.tmpFile, w.canary)
	t.Cleanup(func() { os.Remove(w.tmpFile) })
	info, err := os.Stat("/dev/shm")
	switch {
	case err == nil && info.IsDir():
		w.write(t, w.shmFile, w.canary)
		t.Cleanup(func() { os.Remove(w.shmFile) })
	case err == nil:
		w.lacks("/dev/shm", "it is no directory")
	default:
		w.lacks("/dev/shm", err.Error())
	}
	w.serve(t)
	w.startHost(t)
	w.fill = strings.NewReplacer("{home}", w.home, "{work}", w.work, "{grant}", w.grant, "{secret}", w.secret, "{probe}", built.probe,
		"{nsrun}", built.nsrun, "{tmpfile}", w.tmpFile, "{shm}", w.shmFile, "{pid}", strconv.Itoa(w.pid), "{key}", w.key, "{mq}", w.queue,
		"{marker}", w.marker, "{tcp}", w.tcp, "{udp}", w.udp, "{abstract}", w.abstract, "{socket}", w.socket, "{canary}", w.canary)
	w.fresh(t)
	return w
}

func (w *world) own(t *testing.T, name string) {
	t.Helper()
	if os.Getuid() != w.uid {
		require.NoError(t, os.Lchown(name, w.uid, w.gid))
	}
}

func (w *world) mkdir(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(name, 0o755))
	w.own(t, name)
}

func (w *world) write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	w.own(t, name)
}

func (w *world) symlink(t *testing.T, target, name string) {
	t.Helper()
	require.NoError(t, os.Symlink(target, name))
	w.own(t, name)
}

// fresh empties home, workspace and grant, and plants them anew.
func (w *world) fresh(t *testing.T) {
	t.Helper()
	for _, dir := range []string{w.home, w.grant} {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	for _, dir := range []string{w.work, w.grant, filepath.Dir(w.secret), w.home + "/other", w.work + "/dir", w.work + "/conf", w.grant + "/dir"} {
		w.mkdir(t, dir)
	}
	w.write(t, w.secret, w.canary)
	w.write(t, w.home+"/.bashrc", "# "+w.canary)
	w.write(t, w.work+"/dir/inner", "inner\n")
	w.write(t, w.work+"/conf/leaf", "leaf\n")
	w.write(t, w.grant+"/file", "granted\n")
}

// serve starts the host's servers: what runs on loopback, and sockets in directories.
func (w *world) serve(t *testing.T) {
	t.Helper()
	accept := func(l net.Listener) string {
		w.closers = append(w.closers, l)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				w.accepted.Add(1)
				c.Close()
			}
		}()
		return l.Addr().String()
	}
	listen := func(network, addr string) net.Listener {
		l, err := net.Listen(network, addr)
		require.NoError(t, err)
		return l
	}
	w.socket, w.abstract = filepath.Join(w.run, "bus"), "@"+w.canary
	w.tcp = accept(listen("tcp", "127.0.0.1:0"))
	accept(listen("unix", w.abstract))
	accept(listen("unix", w.socket))
	w.own(t, w.socket)
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	w.udp, w.closers = conn.LocalAddr().String(), append(w.closers, conn)
	go func() {
		buf := make([]byte, 16)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			w.accepted.Add(1)
			_, _ = conn.WriteTo(buf[:n], from)
		}
	}()
	t.Cleanup(func() {
		for _, c := range w.closers {
			c.Close()
		}
	})
}

// startHost starts the user's other program.
func (w *world) startHost(t *testing.T) {
	t.Helper()
	cmd := w.command(context.Background(), built.probe, "host", w.key, w.queue, w.marker)
	cmd.Dir = "/"
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	for err == nil && strings.HasPrefix(line, "missing ") {
		name, reason, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "missing ")), ": ")
		require.Contains(t, fixtures, name, "the host's program")
		w.lacks(name, reason)
		line, err = lines.ReadString('\n')
	}
	require.Equal(t, "ready\n", line, "the host's program")
	w.pid, w.host = cmd.Process.Pid, cmd
}

// command is one that the user starts, in the workspace, with canaries in its environment. On a kernel without Landlock runs of nsrun do
// without it.
func (w *world) command(ctx context.Context, argv ...string) *exec.Cmd {
	if i := slices.Index(argv, built.nsrun) + 1; i > 0 && i < len(argv) && (argv[i] == "run" || argv[i] == "plan") {
		argv = slices.Concat(argv[:i+1], testenv.WithoutLandlock(), argv[i+1:])
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = waitLimit
	cmd.Dir = w.work
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.home, "TMPDIR=" + w.tmp}
	for _, name := range strings.Fields(canaryVariables) {
		cmd.Env = append(cmd.Env, name+"="+w.run+"/"+w.canary)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if w.uid != os.Getuid() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.gid)}
	}
	return cmd
}

// canaryVariables are what callers have that no command should see: FE05 to FE07.
const canaryVariables = "API_TOKEN CANARY_VARIABLE LD_LIBRARY_PATH BASH_ENV ENV GCONV_PATH PYTHONPATH PYTHONSTARTUP NODE_OPTIONS " +
	"PERL5OPT RUBYOPT GIT_DIR GIT_SSH_COMMAND SSH_AUTH_SOCK DBUS_SESSION_BUS_ADDRESS DOCKER_HOST XDG_RUNTIME_DIR AWS_SECRET_ACCESS_KEY"

// ending is how a program ended.
type ending struct {
	code           int // 128+n for signal n
	stdout, stderr string
}

func (e ending) String() string {
	return fmt.Sprintf("code %d\nstdout: %s\nstderr: %s", e.code, e.stdout, e.stderr)
}

// waitLimit bounds every program that the tests start.
var waitLimit = testenv.Limit(0)

// do runs a program; change may alter how.
func (w *world) do(t *testing.T, change func(*exec.Cmd), argv ...string) ending {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	cmd := w.command(ctx, argv...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if change != nil {
		change(cmd)
	}
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Errorf("%q takes more than %v", argv, waitLimit)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%q: %v", argv, err)
	}
	said := stderr.String()
	if testenv.Landlock() == 0 { // the note is there because of command
		said = strings.Replace(said, "nsrun: note: landlock: switched off by the policy\n", "", 1)
	}
	return ending{codeOf(cmd.ProcessState), stdout.String(), said}
}

func codeOf(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// nsrun gives the words that run a command in a sandbox with flags beside the default policy, the workspace and the probe.
func (w *world) nsrun(flags []string, command ...string) []string {
	words := []string{built.nsrun, "run", "--workspace", w.work, "--ro", filepath.Dir(built.probe)}
	for _, f := range flags {
		words = append(words, w.fill.Replace(f))
	}
	return append(append(words, "--"), command...)
}

// in runs a command in a sandbox.
func (w *world) in(t *testing.T, flags []string, command ...string) ending {
	t.Helper()
	return w.do(t, nil, w.nsrun(flags, command...)...)
}

// probe runs one act in a sandbox.
func (w *world) probe(t *testing.T, flags []string, act string) ending {
	t.Helper()
	return w.in(t, flags, append([]string{built.probe}, strings.Fields(w.fill.Replace(act))...)...)
}

// outside runs one act without a sandbox.
func (w *world) outside(t *testing.T, act string) ending {
	t.Helper()
	return w.do(t, nil, append([]string{built.probe}, strings.Fields(w.fill.Replace(act))...)...)
}
