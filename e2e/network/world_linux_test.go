package network

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/result"
	"github.com/stretchr/testify/require"
)

// world is one user with a project.
type world struct {
	name             string // root or user
	uid, gid         int
	home, work, from string // from is a directory for results
}

// testUser is the id of the ordinary user, unless NSRUN_TEST_USER names one.
const testUser = 65533

// eachUser runs a test as each user that this process can be. In a user namespace there is root alone, which is an ordinary user outside.
func eachUser(t *testing.T, test func(t *testing.T, w *world)) {
	users := map[string][2]int{"root": {0, 0}}
	if name := os.Getenv("NSRUN_TEST_USER"); name != "" && mapped() {
		u, err := user.Lookup(name)
		require.NoError(t, err)
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		users["user"] = [2]int{uid, gid}
	} else if mapped() {
		users["user"] = [2]int{testUser, testUser}
	}
	for name, ids := range users {
		t.Run(name, func(t *testing.T) { test(t, newWorld(t, name, ids[0], ids[1])) })
	}
}

// mapped reports whether there is more than one user here.
func mapped() bool {
	data, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !strings.HasSuffix(strings.TrimSpace(string(data)), " 1")
}

func newWorld(t *testing.T, name string, uid, gid int) *world {
	dir, err := os.MkdirTemp(built.room, name+"-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	w := &world{name: name, uid: uid, gid: gid, home: dir + "/home", work: dir + "/work", from: dir + "/from"}
	for _, d := range []string{w.home, w.work, w.from} {
		require.NoError(t, os.Mkdir(d, 0o755))
		require.NoError(t, os.Lchown(d, uid, gid))
	}
	return w
}

// command is one of the user's, in the project.
func (w *world) command(argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = w.work, []string{"HOME=" + w.home, "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/go/bin", "LANG=C.UTF-8", "XDG_STATE_HOME=" + w.home + "/.state"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() != w.uid {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.gid)}
	}
	return cmd
}

// outcome is what a run of nsrun came to, and all that it printed.
type outcome struct {
	result.Result
	out string
}

// run runs a script of the shell in a sandbox with these flags.
func (w *world) run(t *testing.T, flags []string, script string) outcome {
	t.Helper()
	return w.start(t, []string{built.nsrun}, append([]string{"--timeout", "60s"}, flags...), script).wait(t)
}

// running is a run of nsrun that has not ended.
type running struct {
	cmd  *exec.Cmd
	out  *bytes.Buffer
	file string // of the result
}

// start starts a script of the shell in a sandbox. nsrun is the program, with what starts it before.
func (w *world) start(t *testing.T, nsrun, flags []string, script string) running {
	t.Helper()
	r := running{out: &bytes.Buffer{}, file: filepath.Join(w.from, "result")}
	_ = os.Remove(r.file)
	argv := slices.Concat(nsrun, []string{"run", "--workspace", ".", "--ro", shared(), "--result", r.file}, flags, []string{"--", "sh", "-c", script})
	r.cmd = w.command(argv...)
	r.cmd.Stdout, r.cmd.Stderr = r.out, r.out
	require.NoError(t, r.cmd.Start())
	return r
}

// wait waits for the end of nsrun, and returns its result.
func (r running) wait(t *testing.T) outcome {
	t.Helper()
	testenv.Returns(t, "nsrun", func() { _ = r.cmd.Wait() })
	got := outcome{out: r.out.String()}
	data, err := os.ReadFile(r.file)
	require.NoError(t, err, got.out)
	require.NoError(t, json.Unmarshal(data, &got.Result), "%s %s", data, got.out)
	return got
}

// shared is what the sandboxes see besides: the certificate, and the client programs of these tests.
func shared() string { return filepath.Join(built.room, "shared") }

// allow is --net with rules.
func allow(rules ...string) []string { return []string{"--net", "allow:" + strings.Join(rules, ",")} }

// refusal finds a denial of the network.
func (o outcome) refusal(path string) (result.Denial, bool) {
	for _, d := range o.Denials {
		if d.Kind == "net" && d.Path == path {
			return d, true
		}
	}
	return result.Denial{}, false
}

// manifest writes one of the user's, and returns the flag that names it.
func manifest(t *testing.T, w *world, text string) []string {
	t.Helper()
	file := filepath.Join(w.from, "manifest.json")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	return []string{"--manifest", file}
}
