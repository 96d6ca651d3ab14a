package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// roleVariable makes this binary one of the processes below.
const roleVariable = "AUDIT_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := roles[role](os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(testenv.Main(m.Run))
}

var roles = map[string]func(path, arg string) error{
	"runs": func(path, arg string) error { // so many runs, one after the other
		n, _ := strconv.Atoi(arg)
		for i := range n {
			if err := oneRun(path, arg, strconv.Itoa(i)); err != nil {
				return err
			}
		}
		return nil
	},
	"hang": func(path, arg string) error { // start, say so, and wait to be killed
		log, err := Open(path)
		if err == nil {
			err = log.Start(Start{Argv: Texts([]string{"hang", arg})})
		}
		if err != nil {
			return err
		}
		fmt.Println("started")
		time.Sleep(time.Hour)
		return nil
	},
	"full": fullDisk,
	"readonly": func(path, _ string) error {
		if err := unix.Mount("tmpfs", path, "tmpfs", unix.MS_RDONLY, ""); err != nil {
			return err
		}
		_, err := Open(path + "/a.jsonl")
		return expectError(err, unix.EROFS, "read-only; name a file on another one")
	},
}

func expectError(err, want error, hint string) error {
	var failed *fault.Error
	if !errors.Is(err, want) || !errors.As(err, &failed) || !strings.Contains(failed.Hint, hint) {
		return fmt.Errorf("got %v, want %v and the hint %q", err, want, hint)
	}
	return nil
}

// fullDisk fills a small file system and finds that a start is refused, that nothing of it is left, and that with room again all goes on.
func fullDisk(path, _ string) error {
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, "size=64k"); err != nil {
		return err
	}
	name, ballast := path+"/a.jsonl", path+"/ballast"
	if err := oneRun(name, "before"); err != nil {
		return err
	}
	_ = os.WriteFile(ballast, make([]byte, 1<<20), 0o600)
	before, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	err = nil
	for i := 0; err == nil && i < 100; i++ { // the page that the file has is not full yet
		before, _ = os.ReadFile(name)
		err = oneRun(name, strings.Repeat("x", 1000))
	}
	if err := expectError(err, unix.ENOSPC, "make room"); err != nil {
		return err
	}
	after, _ := os.ReadFile(name)
	if !bytes.HasPrefix(after, before) || !bytes.HasSuffix(after, []byte("\n")) {
		return errors.New("a half row was left")
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	if err := oneRun(name, "after"); err != nil {
		return err
	}
	r, err := report(name)
	if err == nil && r.Fault != nil {
		err = fmt.Errorf("line %d: %w", r.Line, r.Fault)
	}
	return err
}

func oneRun(path string, argv ...string) error {
	log, err := Open(path)
	if err != nil {
		return err
	}
	defer log.Close()
	if err := log.Start(Start{Argv: Texts(argv), Cwd: "/"}); err != nil {
		return err
	}
	zero := 0
	return log.End(End{Verdict: "ok", Code: &zero})
}

func report(path string) (Report, error) {
	r, err := Read(path)
	if err != nil {
		return Report{}, err
	}
	defer r.Close()
	return Verify(r)
}

func role(t *testing.T, name, path, arg string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe, path, arg)
	cmd.Env = append(os.Environ(), roleVariable+"="+name)
	cmd.Stderr = os.Stderr
	return cmd
}

func mustVerify(t *testing.T, path string) Report {
	t.Helper()
	r, err := report(path)
	require.NoError(t, err)
	require.NoErrorf(t, r.Fault, "line %d", r.Line)
	return r
}

func rows(t *testing.T, path string) (all []Row) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range bytes.Lines(data) {
		r, err := ParseRow(bytes.TrimSuffix(line, []byte("\n")))
		require.NoError(t, err, "%s", line)
		all = append(all, r)
	}
	return all
}

func newLog(t *testing.T) string { return filepath.Join(t.TempDir(), "audit.jsonl") }

func TestRunHasAStartAndAnEnd(t *testing.T) {
	path := newLog(t)
	old := unix.Umask(0o777)
	log, err := Open(path)
	unix.Umask(old)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode(), "whatever the umask")
	require.NoError(t, log.Start(Start{Argv: Texts([]string{"cat", "--token", "hunter2", "\xff\x1b[31m$(reboot)"}), Cwd: "/w", Policy: "p",
		ManifestSHA256: strings.Repeat("a", 64), Env: Texts([]string{"HOME"}), Backend: "native"}))
	r := mustVerify(t, path)
	assert.Equal(t, 1, r.Rows)
	assert.Len(t, r.Open, 1, "the run is open")
	require.NoError(t, log.End(End{Verdict: "exit", Code: new(int), Error: "curl --token abc", Notes: []Text{"a"}, Receipt: json.RawMessage(`{"backend":"native"}`)}))
	require.NoError(t, log.Close())
	all := rows(t, path)
	require.Len(t, all, 2)
	assert.Equal(t, Texts([]string{"cat", "--token", "[redacted]", "\xff\x1b[31m$(reboot)"}), all[0].Argv)
	assert.Equal(t, 1, all[0].Redacted)
	assert.Equal(t, Text("curl --token [redacted]"), all[1].Error)
	assert.Equal(t, all[0].ID, all[1].ID)
	assert.Equal(t, Genesis, all[0].Prev)
	assert.Empty(t, mustVerify(t, path).Open)
	data, _ := os.ReadFile(path)
	assert.NotContains(t, string(data), "hunter2")
	assert.NotContains(t, string(data), "\x1b")
	assert.NotContains(t, string(data), "$(", "a shell finds nothing to expand")
	assert.Contains(t, string(data), `"denials":[]`)
}

func TestManyProcessesAppendAtOnce(t *testing.T) {
	path := newLog(t)
	const processes, each = 12, 8
	var all sync.WaitGroup
	for range processes {
		cmd := role(t, "runs", path, strconv.Itoa(each))
		all.Go(func() { assert.NoError(t, cmd.Run()) })
	}
	for i := range 4 { // and some of one process
		all.Go(func() { assert.NoError(t, oneRun(path, "here", strconv.Itoa(i))) })
	}
	all.Wait()
	r := mustVerify(t, path)
	assert.Equal(t, 2*(processes*each+4), r.Rows, "each run has its two rows")
	assert.Empty(t, r.Open)
}

func TestKilledRunIsToldAsAborted(t *testing.T) {
	path := newLog(t)
	hang := func(name string) *exec.Cmd {
		cmd := role(t, "hang", path, name)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "started\n", line)
		return cmd
	}
	dies, lives := hang("dies"), hang("lives")
	require.NoError(t, oneRun(path, "between"))
	assert.Len(t, mustVerify(t, path).Open, 2, "runs whose processes live are open")
	require.NoError(t, dies.Process.Kill())
	_ = dies.Wait()
	require.NoError(t, oneRun(path, "after"))
	r := mustVerify(t, path)
	require.Len(t, r.Open, 1)
	all := rows(t, path)
	assert.Equal(t, all[1].ID, r.Open[0].ID, "the one that lives")
	var ends []string
	for _, row := range all {
		if row.Kind == "end" {
			ends = append(ends, row.ID+" "+row.Verdict)
		}
	}
	assert.Contains(t, ends, all[0].ID+" "+Aborted)
	assert.Equal(t, 0, all[5].Slot, "the slot of the dead is used again")
	require.NoError(t, lives.Process.Kill())
	_ = lives.Wait()
	require.NoError(t, oneRun(path, "last"))
	assert.Empty(t, mustVerify(t, path).Open)
}

func TestTornLineIsEndedAndReported(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(string) string
	}{
		{"half an end", func(s string) string { return s[:len(s)-30] }},
		{"half a start", func(s string) string { return s + s[:40] }},
		{"one byte", func(s string) string { return s + "{" }},
		{"zeros", func(s string) string { return s + strings.Repeat("\x00", 5000) }},
		{"a foreign line", func(s string) string { return s + "hello\n" }},
		{"an endless line", func(s string) string { return s + strings.Repeat("x", 3*MaxRow) }},
		{"the first line", func(s string) string { return s[:20] }},
		{"less than the first words", func(s string) string { return s[:5] }},
	} {
		path := newLog(t)
		require.NoError(t, oneRun(path, "before"))
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		spoilt := c.spoil(string(data))
		require.NoError(t, os.WriteFile(path, []byte(spoilt), 0o600))
		require.NoError(t, oneRun(path, "after"), "%s: a torn line must not stop all runs", c.name)
		require.NoError(t, oneRun(path, "and again"), c.name)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(after, []byte(spoilt)), "%s: what was there is left as it was", c.name)
		r, err := report(path)
		require.NoError(t, err)
		assert.Error(t, r.Fault, "%s: and told", c.name)
		assert.Equal(t, 1+strings.Count(strings.TrimSuffix(spoilt, "\n"), "\n"), r.Line, c.name)
		torn, last := 0, Row{}
		for line := range bytes.Lines(after) {
			if row, err := ParseRow(bytes.TrimSuffix(line, []byte("\n"))); err == nil {
				last = row
				if row.Kind == "torn" {
					torn++
				}
			}
		}
		assert.Equal(t, 1, torn, "%s: one row tells of it", c.name)
		assert.Empty(t, last.Open, c.name)
	}
}

func TestWhatIsNoLogIsRefused(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string, mode os.FileMode) {
		require.NoError(t, os.WriteFile(at(name), []byte(text), mode))
		require.NoError(t, os.Chmod(at(name), mode))
	}
	write("real", "", 0o600)
	require.NoError(t, os.Symlink("real", at("symlink")))
	require.NoError(t, os.Symlink("nowhere", at("dangling")))
	require.NoError(t, unix.Mkfifo(at("fifo"), 0o600))
	require.NoError(t, os.Mkdir(at("dir"), 0o700))
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(socket)
	require.NoError(t, unix.Bind(socket, &unix.SockaddrUnix{Name: at("socket")}))
	write("linked", "", 0o600)
	require.NoError(t, os.Link(at("linked"), at("link")))
	write("wide", "", 0o640)
	write("sticky", "", 0o600|os.ModeSetuid)
	write("keys", "ssh-ed25519 AAAA me\n", 0o600)
	write("newer", `{"nsrun_audit":2,"row":"start"}`+"\n", 0o600)
	for _, c := range []struct{ name, says, hint string }{
		{"symlink", "symbolic links", "name the file itself"}, {"dangling", "symbolic links", "name the file itself"},
		{"fifo", "not a regular file", "another"}, {"dir", "is a directory", "a file in it"}, {"socket", "no such device", "another"},
		{"link", "2 names", "hard links"}, {"wide", "mode is 0640", "chmod 600"}, {"sticky", "mode is 4600", "chmod 600"},
		{"keys", "not an audit log", "new file"}, {"newer", "not an audit log of this version", "new file"}, {"none/log", "directory does not exist", "mkdir -p"},
	} {
		var before []byte
		if c.name != "fifo" {
			before, _ = os.ReadFile(at(c.name))
		}
		_, err := Open(at(c.name))
		var failed *fault.Error
		if assert.ErrorAs(t, err, &failed, c.name) {
			assert.Contains(t, failed.Err.Error()+failed.Hint, c.says, c.name)
			assert.Contains(t, failed.Err.Error()+failed.Hint, c.hint, c.name)
			assert.Contains(t, err.Error(), at(c.name))
		}
		if c.name != "fifo" {
			after, _ := os.ReadFile(at(c.name))
			assert.Equal(t, before, after, c.name)
		}
	}
	_, err = Open("/dev/null")
	assert.Error(t, err, "a device")
	_, err = os.Lstat(at("nowhere"))
	assert.ErrorIs(t, err, os.ErrNotExist, "nothing was made where a symlink leads")
	if os.Getuid() == 0 {
		write("others", "", 0o600)
		require.NoError(t, os.Chown(at("others"), 12345, 12345))
		_, err = Open(at("others"))
		assert.ErrorContains(t, err, "belongs to user 12345")
	}
}

// The full and the read-only file system are mounts in a namespace of the test's own, which takes root.
func TestDiskThatTakesNothing(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("to mount a small file system takes root")
	}
	for _, name := range []string{"full", "readonly"} {
		cmd := role(t, name, t.TempDir(), "")
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		err := cmd.Run()
		if errors.Is(err, unix.EPERM) {
			t.Skip("no mount namespace is to be had here: " + err.Error())
		}
		assert.NoError(t, err, name)
	}
}

// Who keeps the lock does not keep a start waiting for ever.
func TestBusyLogIsAnErrorInTheEnd(t *testing.T) {
	path := newLog(t)
	require.NoError(t, oneRun(path, "x"))
	other, err := os.Open(path)
	require.NoError(t, err)
	defer other.Close()
	holder := &Log{file: other}
	require.NoError(t, holder.lock(unix.F_RDLCK))
	testenv.Returns(t, "a start", func() { err = oneRun(path, "y") })
	assert.ErrorIs(t, err, errBusy)
	holder.unlock()
	require.NoError(t, oneRun(path, "z"))
	assert.Equal(t, 4, mustVerify(t, path).Rows)
}

func TestTwoLogsOfOneFileAreTheSame(t *testing.T) {
	path := newLog(t)
	a, err := Open(path)
	require.NoError(t, err)
	defer a.Close()
	t.Chdir(filepath.Dir(path))
	b, err := Open(filepath.Base(path))
	require.NoError(t, err)
	defer b.Close()
	assert.True(t, a.Same(b))
	assert.Equal(t, a.Path(), b.Path(), "the real path")
}

// TestNoLogBehindAPlantedLink has a directory's name where an earlier sandbox could have put a symlink.
func TestNoLogBehindAPlantedLink(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, errors.Join(os.Mkdir(dir+"/victim", 0o755), os.Symlink("victim", dir+"/planted")))
	_, err := Open(dir + "/planted/audit.jsonl")
	var failed *fault.Error
	require.ErrorAs(t, err, &failed)
	assert.ErrorContains(t, err, "could have planted")
	assert.Equal(t, "name "+dir+"/victim instead, if that is what you mean", failed.Hint)
	left, err := os.ReadDir(dir + "/victim")
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestRunsAreShown(t *testing.T) {
	path := newLog(t)
	require.NoError(t, oneRun(path, "make", "a b", "\x1b]0;x\a\xff\u202e"))
	log, err := Open(path)
	require.NoError(t, err)
	defer log.Close()
	require.NoError(t, log.Start(Start{Argv: Texts([]string{"sleep"})}))
	show := func(f Filter) (got []string) {
		r, err := Read(path)
		require.NoError(t, err)
		defer r.Close()
		damaged, err := Runs(r, f, func(reported RunRows) error {
			got = append(got, reported.Verdict()+" "+reported.Command())
			return nil
		})
		require.NoError(t, err)
		assert.Zero(t, damaged)
		return got
	}
	const first = `ok make "a b" \u001b]0;x\u0007\xff\u202e`
	assert.Equal(t, []string{first, "running sleep"}, show(Filter{}))
	assert.Equal(t, []string{first}, show(Filter{Verdicts: []string{"ok"}}))
	assert.Equal(t, []string{"running sleep"}, show(Filter{Command: "lee"}))
	assert.Empty(t, show(Filter{Since: time.Now().Add(time.Hour)}))
	assert.Len(t, show(Filter{Since: time.Now().Add(-time.Hour)}), 2)
}
