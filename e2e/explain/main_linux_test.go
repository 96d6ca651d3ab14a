package explain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/result"
	"github.com/stretchr/testify/require"
)

// built is what TestMain makes: a directory that every user can enter, and in it the two programs.
var built struct{ room, nsrun, bin, hostile string }

func TestMain(m *testing.M) { os.Exit(testenv.Main(func() int { return run(m) })) }

func run(m *testing.M) int {
	dir, err := testenv.MakeDir("nsrun-explain-")
	if err == nil {
		defer os.RemoveAll(dir)
		built.room, built.nsrun, built.bin = dir, filepath.Join(dir, "nsrun"), filepath.Join(dir, "bin")
		built.hostile = filepath.Join(built.bin, "hostile") // alone in its directory, which sandboxes see
		for out, pkg := range map[string]string{built.nsrun: "../../cmd/nsrun", built.hostile: "./testdata/hostile"} {
			err = errors.Join(err, testenv.Build(out, pkg))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e/explain:", err)
		return 1
	}
	return m.Run()
}

// world is one user with a project, a directory that sandboxes do not see, and one that they see read-only, since above is granted.
type world struct {
	name                              string // root or user
	uid, gid                          int
	home, work, hidden, above, shared string
	aside                             string // for manifests and results
}

// worlds are the users that this test can be.
func worlds(t *testing.T) []*world {
	t.Helper()
	if os.Getuid() != 0 {
		return []*world{newWorld(t, "user", os.Getuid(), os.Getgid())}
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
	dir, err := os.MkdirTemp(built.room, name+"-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	w := &world{name: name, uid: uid, gid: gid, home: dir + "/home", work: dir + "/work", hidden: dir + "/hid den's",
		above: dir + "/above", shared: dir + "/above/shared", aside: dir + "/aside"}
	w.fresh(t)
	return w
}

// fresh makes the directories empty.
func (w *world) fresh(t *testing.T) {
	t.Helper()
	for _, dir := range []string{w.home, w.work, w.hidden, w.above, w.shared, w.aside} {
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.Mkdir(dir, 0o755))
		w.own(t, dir)
	}
}

func (w *world) own(t *testing.T, name string) {
	t.Helper()
	if os.Getuid() != w.uid {
		require.NoError(t, os.Lchown(name, w.uid, w.gid))
	}
}

// write writes a file of the user's.
func (w *world) write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, []byte(text), mode))
	require.NoError(t, os.Chmod(name, mode))
	w.own(t, name)
}

// environ is the user's, with the machine's programs alone.
func (w *world) environ() []string {
	return []string{"HOME=" + w.home, "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "XDG_STATE_HOME=" + w.home + "/.state"}
}

// command is a command of the user's, in the project.
func (w *world) command(argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = w.work, w.environ()
	if os.Getuid() == 0 { // in a process group of its own, which an autofs of the tests does not take for its daemon
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	}
	if os.Getuid() != w.uid {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.gid)}
	}
	return cmd
}

// outcome is what a run of nsrun came to.
type outcome struct {
	result.Result
	out string
}

// explained runs nsrun with words, of which a shell splits flags, and returns its result.
func (w *world) explained(t *testing.T, flags string, argv ...string) outcome {
	t.Helper()
	file := filepath.Join(w.aside, "result")
	script := `exec "$0" run --workspace . --ro "$1" --ro "$2" --result "$3" ` + flags + ` -- "${@:4}"`
	cmd := w.command(append([]string{"bash", "-c", script, built.nsrun, built.bin, w.above, file}, argv...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	testenv.Returns(t, "nsrun", func() { _ = cmd.Wait() })
	got := outcome{out: out.String()}
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &got.Result), "%s %s", data, got.out)
	return got
}

// need skips a test, or in CI fails it, unless the host has what it takes.
func need(t *testing.T, have bool, what string) {
	t.Helper()
	if have {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("this host lacks: " + what)
	}
	t.Skip("this host lacks: " + what)
}
