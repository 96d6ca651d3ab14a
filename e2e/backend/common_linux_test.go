package backend_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/internal/testenv"
	"golang.org/x/sys/unix"
)

// each runs a test by each backend as each user, and makes sure that nothing is left behind. Backends without their second line only count
// where that makes a difference.
func each(t *testing.T, alone bool, test func(t *testing.T, b box)) {
	users(t, func(t *testing.T, w *world) {
		for _, e := range backends {
			if strings.HasSuffix(e.name, "-alone") && !alone {
				continue
			}
			t.Run(e.name, func(t *testing.T) {
				b := newBox(t, w, e.name, e.flags)
				w.fresh(t)
				before := mounts(t)
				test(t, b)
				b.nothingLeft(t, before)
			})
		}
	})
}

// mounts lists the host's, but for the daemon's own, which come and go.
func mounts(t *testing.T) (lines []string) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		if !strings.Contains(line, filepath.Join(built.room, "d")+"/") && !strings.Contains(line, "/run/docker") {
			lines = append(lines, line)
		}
	}
	return lines
}

// nothingLeft looks for processes of the user's, files in its TMPDIR, and mounts.
func (b box) nothingLeft(t *testing.T, before []string) {
	t.Helper()
	testenv.Eventually(t, func() bool { return len(b.processes()) == 0 }, fmt.Sprintf("the end of %q", b.processes()))
	left, err := os.ReadDir(b.tmp)
	require.NoError(t, err)
	assert.Empty(t, left, "files are left in TMPDIR")
	assert.Equal(t, before, mounts(t), "mounts of the host")
}

// processes lists those with the user's TMPDIR, but for the bystander.
func (b box) processes() (found []string) {
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		if data, err := os.ReadFile(name); err == nil && bytes.Contains(data, []byte("TMPDIR="+b.tmp+"\x00")) {
			words, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
			if !bytes.Contains(words, []byte("bystander")) {
				found = append(found, string(words))
			}
		}
	}
	return found
}

func TestExitCodes(t *testing.T) {
	each(t, false, func(t *testing.T, b box) {
		b.write(t, b.work+"/script", "no header, not executable")
		missing := b.home + "/missing"
		for _, c := range []struct {
			what    string
			code    int
			verdict string
			flags   []string
			command string
		}{
			{"success", 0, "ok", nil, "true"}, {"the command's own", 7, "exit", nil, "sh -c exit${IFS}7"},
			{"SIGKILL", 137, "", nil, "sh -c kill${IFS}-9${IFS}$$"}, {"SIGTERM", 143, "", nil, "sh -c kill${IFS}-15${IFS}$$"},
			{"time is up", 124, "timeout", []string{"--timeout", "100ms"}, "sleep 20"},
			{"not executable", 126, "not-executable", b.shown(), b.work + "/script"}, {"a directory", 126, "not-executable", nil, "/usr"},
			{"not found", 127, "not-found", nil, "no-such-command"},
			{"a source that is missing", 125, "setup", []string{"--ro", missing}, "touch " + b.work + "/ran"},
			{"a wrong flag", 125, "policy", []string{"--net", "bogus"}, "touch " + b.work + "/ran"},
		} {
			if c.flags != nil && c.flags[0] == "--ro" && !b.confined() {
				continue // without a sandbox nobody looks at what is granted
			}
			r, e := b.runForResult(t, c.flags, strings.Fields(c.command)...)
			assert.Equal(t, c.code, e.code, "%s\n%v", c.what, e)
			assert.Equal(t, c.code, r.Code, "%s: the result has the same code", c.what)
			assert.Empty(t, e.stdout, c.what)
			if c.verdict != "" {
				assert.Equal(t, c.verdict, r.Verdict, "%s: %s", c.what, r.Error)
			}
		}
		assert.NoFileExists(t, b.work+"/ran")
		assert.NoFileExists(t, missing, "a source that is missing is not made")
		assert.NoDirExists(t, missing)
	})
}

func TestStreams(t *testing.T) {
	data := make([]byte, 1<<20+3)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	each(t, false, func(t *testing.T, b box) {
		for _, script := range []string{"cat", "cat >&2"} {
			e := b.do(t, b.change(func(c *exec.Cmd) { c.Stdin = bytes.NewReader(data) }), b.words(nil, "sh", "-c", script)...)
			require.Equal(t, 0, e.code, e.stderr[:min(len(e.stderr), 1000)])
			stream := e.stdout
			if script != "cat" {
				assert.Empty(t, e.stdout)
				stream = e.stderr
			}
			if !b.confined() { // there is a note to tell
				stream = stream[:min(len(stream), len(data))]
			}
			assert.True(t, stream == string(data), "%s: all bytes come through, and nothing else", script)
		}
		for _, closed := range []string{"<&-", ">&-", "2>&-", "<&- >&- 2>&-"} {
			e := b.do(t, b.change(nil), append([]string{"/bin/sh", "-c", `exec "$@" ` + closed, "sh"}, b.words(nil, "true")...)...)
			assert.Equal(t, 0, e.code, "with %s\n%v", closed, e)
		}
	})
}

func TestPlaceAndWords(t *testing.T) {
	each(t, false, func(t *testing.T, b box) {
		long := strings.Repeat("x", 100<<10)
		script := `pwd; echo "$ONE|$TWO|${#3}"; printf '%s|' "$@" | head -c 20`
		e := b.run(t, b.shown("--setenv", "ONE=a b", "--setenv", "TWO=$x\"'"), "sh", "-c", script, "sh", "", "a  b\n", long)
		assert.Equal(t, b.work+"\na b|$x\"'|102400\n|a  b\n|xxxxxxxxxxxxx", e.stdout, "directory, variables and words\n%.1000s", e.stderr)
		e = b.run(t, b.shown("--chdir", b.work+"/kept"), "pwd")
		assert.Equal(t, b.work+"/kept\n", e.stdout, e.stderr)
		r, e := b.runForResult(t, b.shown("--limit", "file_size_mb=1"), "dd", "if=/dev/zero", "of="+b.work+"/big", "bs=1M", "count=2")
		assert.Equal(t, 153, e.code, "SIGXFSZ\n%v", e)
		assert.Equal(t, 153, r.Code)
		info, err := os.Stat(b.work + "/big")
		require.NoError(t, err)
		assert.EqualValues(t, 1<<20, info.Size())
	})
}

// TestTheCallersOpenFiles: a command has the limits on open files that nsrun was started with, of which Go raises the soft one for nsrun
// itself. The hard one of a sandbox is at most what policies have where they name no other.
func TestTheCallersOpenFiles(t *testing.T) {
	each(t, false, func(t *testing.T, b box) {
		script := append([]string{"sh", "-c", `ulimit -S -n 500; exec "$@"`, "sh"}, b.words(b.shown(), "sh", "-c", "ulimit -S -n; ulimit -H -n")...)
		hard, err := strconv.Atoi(strings.TrimSpace(b.do(t, nil, "sh", "-c", "ulimit -H -n").stdout))
		require.NoError(t, err)
		require.Greater(t, hard, 500, "control")
		if e := b.do(t, b.change(nil), script...); b.backend != "docker" { // which has limits of its own
			if b.confined() {
				hard = min(hard, 65536)
			}
			assert.Equal(t, fmt.Sprintf("500\n%d\n", hard), e.stdout, e)
		}
	})
}

// TestBootID: a backend that mounts a procfs covers the id of the host's boot in it, and doc/security.md names those that do not.
func TestBootID(t *testing.T) {
	const name = "/proc/sys/kernel/random/boot_id"
	host, err := os.ReadFile(name)
	require.NoError(t, err)
	each(t, false, func(t *testing.T, b box) {
		e := b.run(t, b.shown(), "cat", name)
		assert.Len(t, e.stdout, len(host), "a UUID\n%v", e)
		covers := b.backend == "native" || b.backend == "bwrap"
		assert.Equal(t, covers, e.stdout != string(host), "%v", e)
	})
}

func TestSignalsAndTime(t *testing.T) {
	each(t, false, func(t *testing.T, b box) {
		for sig, code := range map[unix.Signal]int{unix.SIGTERM: 3, unix.SIGINT: 4} {
			s := b.start(t, nil, "sh", "-c", `trap "echo caught; exit 3" TERM; trap "echo caught; exit 4" INT; echo ready; while :; do sleep 0.05; done`)
			s.wait(t, "ready")
			require.NoError(t, s.cmd.Process.Signal(sig))
			assert.Equal(t, code, s.end(t), "%v is passed on: %s", sig, s.out)
			assert.Contains(t, s.out.String(), "caught")
			b.results++
			name := fmt.Sprintf("%s/result-%d", b.world.run, b.results)
			s = b.start(t, []string{"--result", name}, "sh", "-c", "echo ready; exec sleep 1000")
			s.wait(t, "ready")
			require.NoError(t, s.cmd.Process.Signal(sig))
			code = s.end(t)
			assert.Equal(t, 128+int(sig), code, "%s", s.out)
			assert.Equal(t, "interrupted", readResult(t, name, ending{code: code}).Verdict, "%v", sig)
		}
		word := b.word("ignore")
		script := built.act + " ignore " + word + " & " + built.act + " ignore " + word + " & trap '' TERM; while :; do wait; done"
		e := b.run(t, b.shown("--timeout", max(time.Second, testenv.Scale(300*time.Millisecond)).String(), "--kill-grace", "100ms"), "sh", "-c", script)
		assert.Equal(t, 124, e.code, "%v", e)
		assert.Empty(t, remains(t, word, testenv.Limit(0)), "what ignores SIGTERM is killed")
	})
}

func TestSideBySide(t *testing.T) {
	each(t, false, func(t *testing.T, b box) {
		var all sync.WaitGroup
		for _, text := range []string{"one", "two", "three"} {
			all.Go(func() {
				e := b.do(t, b.change(func(c *exec.Cmd) { c.Stdin = strings.NewReader(text) }), b.words(nil, "sh", "-c", "sleep 0.1; cat")...)
				assert.Equal(t, text, e.stdout, e.stderr)
				assert.Equal(t, 0, e.code)
			})
		}
		all.Wait()
	})
}

func TestSelfTest(t *testing.T) {
	each(t, true, func(t *testing.T, b box) {
		r, e := b.runForResult(t, []string{"--self-test"}, "echo", "ran")
		if !b.confined() {
			assert.Equal(t, 125, e.code, "there is no sandbox to test\n%v", e)
			assert.Empty(t, e.stdout)
			return
		}
		assert.Equal(t, "ran\n", e.stdout, e.stderr)
		for _, act := range []string{"read-outside", "write-outside", "mount"} {
			assert.Contains(t, r.Receipt.SelfTest, act)
		}
		trace := b.backend != "bwrap-alone" // whose pid 1 can be looked into, as the receipt says
		assert.Equal(t, trace, slices.Contains(r.Receipt.SelfTest, "trace"))
	})
}
