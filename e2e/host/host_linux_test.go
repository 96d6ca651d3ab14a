package host

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/internal/testenv"
)

var update = flag.Bool("update", false, "write the goldens anew")

// built is what TestMain makes.
var built struct{ room, nsrun, lock string }

func TestMain(m *testing.M) { os.Exit(testenv.Main(func() int { return run(m) })) }

func run(m *testing.M) int {
	dir, err := testenv.MakeDir("nsrun-host-")
	if err == nil {
		defer os.RemoveAll(dir)
		built.room, built.nsrun, built.lock = dir, filepath.Join(dir, "nsrun"), filepath.Join(dir, "lock")
		for out, pkg := range map[string]string{built.nsrun: "../../cmd/nsrun", built.lock: "./testdata/lock"} {
			err = errors.Join(err, testenv.Build(out, pkg))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e/host:", err)
		return 1
	}
	return m.Run()
}

// hosts are the kinds of lock that make one host each, and what it is like.
var hosts = []struct{ name, kinds string }{
	{"as it is", ""},
	{"max_user_namespaces is 0", "no-user"},
	{"max_net_namespaces is 0", "no-net"},
	{"max_pid_namespaces is 0", "no-pid"},
	{"max_mnt_namespaces is 0", "no-mnt"},
	{"max_ipc_namespaces is 0", "no-ipc"},
	{"a filter like Docker's", "container"},
	{"a filter like Docker's, and a masked proc", "container,masked-proc"},
	{"a masked proc", "masked-proc"},
	{"hidepid", "pidns,hidepid"},
	{"no proc", "no-proc"},
	{"no sys", "no-sys"},
	{"a chroot", "chroot"},
	{"a mount over /", "overmounted"},
	{"Landlock that refuses nothing", "landlock-no-op"},
}

// other is the ordinary user: a number that nobody has.
const other = 61234

// TestLockedDownHosts makes each host for real, and asks three things of it: doctor's verdict, the error of a strict run, and what fallback
// degrade comes to. Root alone can make them.
func TestLockedDownHosts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make such hosts; its run of this test has an ordinary user in it")
	}
	for who, uid := range map[string]int{"root": 0, "user": other} {
		t.Run(who, func(t *testing.T) {
			file := filepath.Join("testdata", who+".txtar")
			got := &txtar.Archive{Comment: []byte("What " + who + " is told on locked-down hosts. go test ./e2e/host -update writes this file anew; review it like code.\n\n")}
			for _, h := range hosts {
				got.Files = append(got.Files, txtar.File{Name: h.name, Data: []byte(ask(t, h.kinds, uid))})
			}
			if *update {
				require.NoError(t, os.WriteFile(file, txtar.Format(got), 0o644))
				return
			}
			want, err := txtar.ParseFile(file)
			require.NoError(t, err)
			require.Len(t, got.Files, len(want.Files))
			for i := range want.Files {
				assert.Equal(t, string(want.Files[i].Data), string(got.Files[i].Data), want.Files[i].Name)
			}
		})
	}
}

// ask is the conversation with one host.
func ask(t *testing.T, kinds string, uid int) string {
	t.Helper()
	var out strings.Builder
	text, code := locked(t, kinds, uid, "doctor")
	verdict, _, _ := strings.Cut(text, "\n\nkernel ")
	fmt.Fprintf(&out, "$ nsrun doctor   # %d\n%s\n", code, verdict)
	text, code = locked(t, kinds, uid, "run", "--chdir", "/", "--", "true")
	fmt.Fprintf(&out, "$ nsrun run -- true   # %d\n%s", code, text)
	text, code = locked(t, kinds, uid, "run", "--fallback", "degrade", "--chdir", "/", "--result", "FD:1", "--", "true")
	fmt.Fprintf(&out, "$ nsrun run --fallback degrade -- true   # %d\n%s", code, settled(t, text))
	return ours.Replace(numbers.ReplaceAllString(out.String(), "N"))
}

var (
	numbers = regexp.MustCompile(`\b(` + strconv.Itoa(other) + `)\b`)
	ours    = strings.NewReplacer("/proc/acpi, /proc/tty", "...", "/proc/acpi, /proc/scsi, /proc/tty", "...", "/proc/tty", "...")
)

// settled is what the result says: the backend, and what was lost. What the command's standard error had stands before.
func settled(t *testing.T, text string) string {
	t.Helper()
	var result struct {
		Verdict string
		Receipt struct {
			Backend string
			Lost    []string
		}
	}
	rest, found, err := testenv.CutResult(text, &result)
	require.NoError(t, err, text)
	if !found {
		return text
	}
	lost := "nothing"
	if len(result.Receipt.Lost) > 0 {
		lost = strings.Join(result.Receipt.Lost, " ")
	}
	return fmt.Sprintf("%sverdict %s, backend %s, lost: %s\n", rest, result.Verdict, result.Receipt.Backend, lost)
}

// locked runs nsrun on a host that is locked down, without other backends on PATH.
func locked(t *testing.T, kinds string, uid int, args ...string) (string, int) {
	t.Helper()
	return lockedWith(t, "/usr/sbin:/usr/bin/no-engines", kinds, uid, args...)
}

func lockedWith(t *testing.T, path, kinds string, uid int, args ...string) (string, int) {
	t.Helper()
	return lockedIn(t, temporary(t), path, kinds, uid, args...)
}

// temporary makes a directory like /tmp, with one of state for root.
func temporary(t *testing.T) string {
	t.Helper()
	dir, err := testenv.MakeDir("nsrun-host-")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Mkdir(filepath.Join(dir, "state"), 0o700))
	require.NoError(t, os.Chmod(dir, 0o777|os.ModeSticky))
	return dir
}

func lockedIn(t *testing.T, tmp, path, kinds string, uid int, args ...string) (string, int) {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.Chmod(root, 0o755))
	cmd := exec.Command(built.lock, append([]string{kinds, strconv.Itoa(uid), built.nsrun}, args...)...)
	cmd.Env = []string{"PATH=" + path, "HOME=/nonexistent", "LOCK_ROOT=" + root, "TMPDIR=" + tmp}
	if uid == 0 {
		cmd.Env = append(cmd.Env, "XDG_STATE_HOME="+filepath.Join(tmp, "state"))
	}
	cmd.Dir = "/"
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	if err != nil {
		require.NotNil(t, cmd.ProcessState, "%v", err)
	}
	code := cmd.ProcessState.ExitCode()
	require.NotEqual(t, 111, code, "the host could not be made: %s", out.String())
	return out.String(), code
}

// TestAUserWithoutAHome has the private directory of a run by Landlock in /tmp, unless another user has taken the name there.
func TestAUserWithoutAHome(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make such a host")
	}
	run := func(tmp string) (string, int) {
		return lockedIn(t, tmp, "/usr/bin:/bin", "container", other, "run", "--fallback", "degrade", "--quiet", "--chdir", "/", "--", "sh", "-c", "echo $HOME; touch ~/f && ls ~")
	}
	tmp := temporary(t)
	text, code := run(tmp)
	assert.Zero(t, code, text)
	assert.Regexp(t, "^"+tmp+"/nsrun-61234/[0-9a-f]{16}\nf\n$", text)
	left, err := os.ReadDir(filepath.Join(tmp, "nsrun-61234"))
	assert.NoError(t, err)
	assert.Empty(t, left, "it is removed")
	taken := temporary(t)
	require.NoError(t, os.Mkdir(filepath.Join(taken, "nsrun-61234"), 0o777))
	text, code = run(taken)
	assert.Equal(t, 125, code, text)
	assert.Contains(t, text, "/nsrun-61234: it belongs to user 0, not to 61234")
}

// TestLandlockThatRefusesNothingIsNoBackend: what that backend confines, nothing would.
func TestLandlockThatRefusesNothingIsNoBackend(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make such a host")
	}
	text, code := locked(t, "landlock-no-op", other, "run", "--backend", "landlock", "--chdir", "/", "--", "true")
	assert.Equal(t, 125, code)
	assert.Contains(t, text, "Landlock answers, and refuses nothing")
	_, code = locked(t, "container,landlock-no-op", other, "run", "--fallback", "degrade", "--chdir", "/", "--", "true")
	assert.Equal(t, 125, code, "where namespaces are refused too, nothing is left")
	_, code = locked(t, "container", other, "run", "--fallback", "degrade", "--chdir", "/", "--", "true")
	assert.Zero(t, code, "positive control")
}

// TestOneListenerForAProcess: a filter with a listener, as WSL 2 has one on every process in its mirrored networking mode, leaves no room for
// another. It is not why a namespace is refused.
func TestOneListenerForAProcess(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make such a host")
	}
	text, code := locked(t, "listener", other, "doctor", "--require", "seccomp_notify")
	assert.Equal(t, 1, code)
	assert.Contains(t, text, "seccomp (new listener): device or resource busy; another filter on this process has a listener, and the kernel allows one")
	_, code = locked(t, "listener", other, "doctor")
	assert.Zero(t, code, "the default policy needs none")
	_, code = locked(t, "", other, "doctor", "--require", "seccomp_notify")
	assert.Zero(t, code, "positive control")
}

// TestChrootToDotDotEntersAMountOverRoot: what doctor says helps below such a mount.
func TestChrootToDotDotEntersAMountOverRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make such a host")
	}
	cmd := exec.Command(built.lock, "overmounted", "0", "/usr/sbin/chroot", "/..", built.nsrun, "doctor", "--require", "user_namespace,mount_namespace")
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin", "HOME=/nonexistent"}
	out, err := cmd.CombinedOutput()
	assert.NoError(t, err, string(out))
}

// TestABackendThatLies has a bubblewrap that passes every probe and makes no sandbox: a run that may degrade goes on to the next backend, one
// that names it fails.
func TestABackendThatLies(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make such a host")
	}
	dir := filepath.Join(built.room, "lies")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bwrap"), []byte(`#!/bin/sh
case "$*" in
--version) echo bubblewrap 0.11.0 ;;
*nsrun-no-such-program) echo "bwrap: execvp /nsrun-no-such-program: No such file or directory" >&2; exit 1 ;;
*) echo "bwrap: not today" >&2; exit 1 ;;
esac
`), 0o755))
	path := dir // and no other engine: podman, if it is tried, leaves directories in /tmp
	text, code := lockedWith(t, path, "container", other, "run", "--fallback", "degrade", "--chdir", "/", "--result", "FD:1", "--", "true")
	require.Zero(t, code, text)
	assert.Contains(t, text, `"backend":"landlock"`)
	text, code = lockedWith(t, path, "container", other, "run", "--backend", "bwrap", "--chdir", "/", "--", "true")
	assert.Equal(t, 125, code)
	assert.Contains(t, text, "not today")
}
