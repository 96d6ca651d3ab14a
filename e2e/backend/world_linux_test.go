package backend_test

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
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/internal/testenv"
	"golang.org/x/sys/unix"
)

// world is one user with files, sockets and another program: what a sandbox of that user could reach.
type world struct {
	name     string // root or user
	uid, gid int

	home, work, grant, tmp, run string // run is where results and sockets lie; no sandbox sees it
	secret, mark                string
	planted                     []string // files in the host's places for temporary ones

	pid              int // of the other program
	key, queue       string
	ids              []string // of its objects of System V, after a word
	tcp, udp         string
	stream, datagram string
	reached          atomic.Int64 // connections and datagrams that came to the host's servers
	fill             *strings.Replacer
	results          int
	times            string // of the host's devices, before an act
}

// spareGroup is a group that nobody else has, and the users here are in.
const spareGroup = 65531

func ordinary() (uid, gid int) {
	if u, err := user.Lookup(os.Getenv("NSRUN_TEST_USER")); err == nil {
		uid, _ = strconv.Atoi(u.Uid)
		gid, _ = strconv.Atoi(u.Gid)
		return uid, gid
	}
	return 65533, 65533
}

// names are the users that this test can be.
func names() []string {
	if os.Getuid() != 0 {
		return []string{"user"}
	}
	if os.Getenv("NSRUN_TEST_VM") != "" { // where the user has a run of its own
		return []string{"root"}
	}
	return []string{"root", "user"}
}

// temporary lists the host's places for temporary files, but for one that the tests' own directory lies in: of that sandboxes see more.
func temporary() []string {
	return slices.DeleteFunc([]string{"/tmp", "/var/tmp", "/dev/shm"}, func(dir string) bool { return strings.HasPrefix(built.room, dir+"/") })
}

func newWorld(t *testing.T, name string) *world {
	t.Helper()
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 && name == "user" {
		uid, gid = ordinary()
	}
	dir, err := os.MkdirTemp(built.room, "w")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{name: name, uid: uid, gid: gid, mark: fmt.Sprintf("nse%s%d", name, os.Getpid()+int(time.Now().UnixNano()%1e6)*1e7)}
	w.home, w.grant, w.tmp, w.run = filepath.Join(dir, "home"), filepath.Join(dir, "grant"), filepath.Join(dir, "tmp"), filepath.Join(dir, "run")
	w.work, w.secret = filepath.Join(w.home, "work"), filepath.Join(w.home, "secret")
	w.key, w.queue = strconv.Itoa(0x6e740000+os.Getpid()&0xffff+uid<<16&0xff0000), w.mark
	for _, d := range []string{w.home, w.tmp, w.run} {
		w.mkdir(t, d)
	}
	for _, d := range temporary() {
		name := filepath.Join(d, w.mark+"-planted")
		w.write(t, name, "planted")
		w.planted = append(w.planted, name)
		t.Cleanup(func() { os.Remove(name) })
	}
	w.serve(t)
	w.startBystander(t)
	space, _ := os.Readlink("/proc/self/ns/mnt")
	host, _ := os.Hostname()
	w.fill = strings.NewReplacer("{home}", w.home, "{work}", w.work, "{grant}", w.grant, "{secret}", w.secret, "{mark}", w.mark,
		"{half1}", w.mark[:6], "{half2}", w.mark[6:]+"-bystander", "{pid}", strconv.Itoa(w.pid), "{key}", w.key, "{mq}", w.queue, "{tcp}", w.tcp, "{udp}", w.udp,
		"{stream}", w.stream, "{datagram}", w.datagram, "{space}", space, "{host}", host, "{accounts}", strings.Join(accounts(t, uid), ","),
		"{shm}", w.ids[1], "{sem}", w.ids[2], "{msg}", w.ids[3], "{group}", strconv.Itoa(spareGroup), "{setid}", built.setID, "{nobody}", strconv.Itoa(nobodyElse))
	w.fresh(t)
	return w
}

// accounts lists the host's, but for those that every system has and the user's own.
func accounts(t *testing.T, uid int) (names []string) {
	t.Helper()
	data, err := os.ReadFile("/etc/passwd")
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		fields := strings.Split(line, ":")
		if len(fields) > 2 && fields[0] != "root" && fields[0] != "nobody" && fields[2] != strconv.Itoa(uid) {
			names = append(names, fields[0])
		}
	}
	return names
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

// fresh empties home and grant, and plants them anew.
func (w *world) fresh(t *testing.T) {
	t.Helper()
	for _, dir := range []string{w.home, w.grant} {
		require.NoError(t, os.RemoveAll(dir))
	}
	for _, dir := range []string{w.home, w.work, w.work + "/kept", w.grant, w.home + "/other"} {
		w.mkdir(t, dir)
	}
	w.write(t, w.secret, w.mark)
	for _, name := range []string{"cut", "unlink", "rename", "write", "mode"} {
		w.write(t, w.home+"/other/"+name, "host")
	}
	w.write(t, w.grant+"/file", "granted")
	require.NoError(t, os.Symlink(w.secret, w.work+"/symlink"))
	w.own(t, w.work+"/symlink")
}

// serve starts the host's servers.
func (w *world) serve(t *testing.T) {
	t.Helper()
	closing := func(c io.Closer) { t.Cleanup(func() { c.Close() }) }
	accept := func(network, address string) string {
		l, err := net.Listen(network, address)
		require.NoError(t, err)
		closing(l)
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				w.reached.Add(1)
				c.Close()
			}
		}()
		return l.Addr().String()
	}
	receive := func(network, address string) string {
		c, err := net.ListenPacket(network, address)
		require.NoError(t, err)
		closing(c)
		go func() {
			buf := make([]byte, 16)
			for n, from, err := c.ReadFrom(buf); err == nil; n, from, err = c.ReadFrom(buf) {
				w.reached.Add(1)
				if network == "udp" {
					_, _ = c.WriteTo(buf[:n], from)
				}
			}
		}()
		return c.LocalAddr().String()
	}
	w.tcp, w.udp = accept("tcp", "127.0.0.1:0"), receive("udp", "127.0.0.1:0")
	w.stream, w.datagram = w.run+"/stream", w.run+"/datagram"
	accept("unix", w.stream)
	accept("unix", "@"+w.mark)
	receive("unixgram", w.datagram)
	receive("unixgram", "@"+w.mark+"-datagram")
	w.own(t, w.stream)
	w.own(t, w.datagram)
}

func (w *world) startBystander(t *testing.T) {
	t.Helper()
	skipLowPIDs()
	pid, line := w.holding(t, func(c *exec.Cmd) { c.Dir = "/" }, built.act, "bystander", w.key, w.queue, w.mark+"-bystander")
	w.ids = strings.Fields(line)
	require.Len(t, w.ids, 4, "the caller's other program: %s", line)
	w.pid = pid
}

// holding starts a program that prints a line and then holds something until its standard input ends, which it does with the test.
func (w *world) holding(t *testing.T, change func(*exec.Cmd), argv ...string) (pid int, line string) {
	t.Helper()
	cmd := w.command(context.Background(), argv...)
	if change != nil {
		change(cmd)
	}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	line, _ = bufio.NewReader(out).ReadString('\n')
	return cmd.Process.Pid, line
}

// skipLowPIDs goes on to ids that no process in a sandbox has, with a PID namespace of its own: a host that has just been booted gives the
// bystander one that is then another process's inside. Each thread takes the next id, and ends.
func skipLowPIDs() {
	for id := 0; id < 2000; {
		ids := make(chan int)
		go func() {
			runtime.LockOSThread()
			ids <- unix.Gettid()
		}()
		id = <-ids
	}
}

// command is one that the user starts, with what its environment should keep to itself.
func (w *world) command(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay, cmd.Dir = testenv.Scale(5*time.Second), w.work // a backend that kills no trees leaves processes that hold the output
	cmd.Env = []string{"PATH=" + openPath(), "HOME=" + w.home, "TMPDIR=" + w.tmp, "LANG=C.UTF-8", "PLAIN_VARIABLE=" + w.mark, "SERVICE_TOKEN=" + w.mark}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.gid), Groups: []uint32{spareGroup}}
	}
	return cmd
}

// ending is how a program ended.
type ending struct {
	code           int // 128+n for signal n
	stdout, stderr string
}

func (e ending) String() string {
	return fmt.Sprintf("code %d\nstdout: %.2000s\nstderr: %.2000s", e.code, e.stdout, e.stderr)
}

// waitLimit bounds every program that the tests start.
var waitLimit = testenv.Limit(0)

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
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("%.200q: %v", argv, err)
	}
	if ctx.Err() != nil {
		t.Errorf("%.200q takes more than %v", argv, waitLimit)
	}
	said := stderr.String()
	if testenv.Landlock() == 0 { // the note is there because of newBox
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

// openPath is PATH without root's own directories: execvp(3) answers EACCES for a program that is not found, if an ordinary user may not search one.
func openPath() string {
	dirs := slices.DeleteFunc(filepath.SplitList(os.Getenv("PATH")), func(dir string) bool { return strings.HasPrefix(dir, "/root/") })
	return strings.Join(dirs, ":")
}
