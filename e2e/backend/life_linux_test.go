package backend_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/internal/testenv"
	"golang.org/x/sys/unix"
)

// mknod makes a device that everybody may open: FUSE's, of which an open descriptor does nothing.
func mknod(name string) error {
	if err := unix.Mknod(name, unix.S_IFCHR|0o666, int(unix.Mkdev(10, 229))); err != nil {
		return err
	}
	return os.Chmod(name, 0o666)
}

// deviceTimes tells when the host's devices were changed last, be it to what they were.
func (w *world) deviceTimes() (times string) {
	for _, name := range strings.Fields("null zero full random urandom") {
		var st unix.Stat_t
		if err := unix.Stat("/dev/"+name, &st); err == nil {
			times += fmt.Sprintln(name, st.Ctim)
		}
	}
	return times
}

// tests are the rows that are more than an act in a run with others.
func tests() []row {
	return []row{
		{guarantee: "places", test: elsewhere}, {guarantee: "places", test: readOnlyInside},
		{guarantee: "private_tmp", test: goneAfterwards}, {guarantee: "tmp_bounds", test: filled},
		{guarantee: "kill_tree", test: leftBehind}, {guarantee: "kill_tree", test: daemonAfterKill}, {guarantee: "kill_tree", test: daemonWithoutParent},
		{guarantee: "limits", test: openFiles}, {guarantee: "limits", test: processes}, {guarantee: "limits", test: memory},
		{guarantee: "terminal", test: terminal}, {guarantee: "status", test: killed},
	}
}

// elsewhere has the workspace shown at a place that the host has not.
func elsewhere(t *testing.T, b box, _ receipt) sight {
	data, err := json.Marshal(map[string]any{"workspace": b.work, "workspace_at": "/elsewhere", "extra_ro": []string{filepath.Dir(built.act)}})
	require.NoError(t, err)
	name := b.world.run + "/manifest.json"
	b.write(t, name, string(data))
	e := b.run(t, []string{"--manifest", name}, built.act, "write", "/elsewhere/made")
	_, err = os.Lstat(b.work + "/made")
	return sight{kept: err == nil, what: "the workspace at another place: " + e.String()}
}

func readOnlyInside(t *testing.T, b box, _ receipt) sight {
	e := b.run(t, b.shown("--ro", b.work+"/kept"), built.act, "write", b.work+"/kept/made")
	_, err := os.Lstat(b.work + "/kept/made")
	return sight{kept: e.code == 0 && err != nil, what: "read-only inside a workspace: " + e.String()}
}

// goneAfterwards looks for what an earlier run has written.
func goneAfterwards(t *testing.T, b box, _ receipt) sight {
	var list [][]string
	for _, d := range temporary() {
		list = append(list, []string{"private", d, b.mark + "-again"})
	}
	s := sight{kept: true}
	for range 2 {
		for _, r := range replies(t, b.run(t, b.shown(), batch(t, list)...)) {
			s.kept, s.what = s.kept && r.Done, s.what+r.String()+"; "
		}
	}
	for _, l := range list {
		name := filepath.Join(l[1], l[2])
		if os.Remove(name) == nil {
			s.kept, s.what = false, s.what+name+" is on the host; "
		}
	}
	return s
}

func filled(t *testing.T, b box, _ receipt) sight {
	r, e := b.act(t, []string{"--limit", "tmpfs_mb=4"}, "fill", "/tmp")
	if e.code == 125 {
		return sight{untried: "filling it: nsrun refuses the limit: " + strings.TrimSpace(e.stderr)}
	}
	var written int
	_ = json.Unmarshal(r.Found, &written)
	return sight{kept: r.Done && written <= 4, what: "filling /tmp of 4 MB: " + r.String()}
}

// found lists the processes whose command line has a word.
func found(word string) (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		if data, err := os.ReadFile(name); err == nil && slices.ContainsFunc(bytes.Split(data, []byte{0}), func(w []byte) bool { return string(w) == word }) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// remains gives what is left of a daemon after so long at most, and ends it.
func remains(t *testing.T, word string, within time.Duration) (pids []int) {
	t.Helper()
	for end := time.Now().Add(within); len(found(word)) > 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	pids = found(word)
	for _, pid := range pids { // the helper's: no other process has this word
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	return pids
}

func (b box) word(what string) string { return fmt.Sprintf("%s-%s-%s", b.mark, b.backend, what) }

// leftBehind leaves a daemon behind.
func leftBehind(t *testing.T, b box, r receipt) sight {
	word := b.word("daemon")
	one, e := b.act(t, nil, "daemon", word)
	require.True(t, one.Done, "%v\n%v", one, e)
	left := remains(t, word, b.spell(r))
	return sight{kept: len(left) == 0, what: fmt.Sprintf("a daemon: left %v", left)}
}

// spell is how long what must end may live on.
func (b box) spell(r receipt) time.Duration {
	if slices.Contains(r.Holds, "kill_tree") {
		return testenv.Limit(0)
	}
	return 300 * time.Millisecond
}

// daemonAfterKill leaves one behind and has nsrun killed.
func daemonAfterKill(t *testing.T, b box, r receipt) sight {
	word := b.word("kill")
	s := b.start(t, b.shown(), built.act, "daemon", word, "stay")
	s.wait(t, `"done":true`)
	require.NoError(t, s.cmd.Process.Kill())
	assert.Equal(t, 137, s.end(t))
	left := remains(t, word, b.spell(r))
	return sight{kept: len(left) == 0, what: fmt.Sprintf("a daemon, and a command that ignores signals, when nsrun is killed: left %v", left)}
}

// daemonWithoutParent has the command kill what has started it, where that should be of no avail.
func daemonWithoutParent(t *testing.T, b box, r receipt) sight {
	if !slices.Contains(r.Holds, "kill_tree") {
		return sight{untried: "killing the parent process: nobody says that it cannot be done"}
	}
	word := b.word("parent")
	one, e := b.act(t, nil, "daemon", word, "parent")
	left := remains(t, word, testenv.Limit(0))
	return sight{kept: one.Done && e.code == 0 && len(left) == 0, what: fmt.Sprintf("a daemon whose maker kills its parent: left %v, %v", left, e)}
}

func openFiles(t *testing.T, b box, _ receipt) sight {
	one, e := b.act(t, []string{"--limit", "open_files=55"}, "limit", "55")
	return sight{kept: one.Done, what: one.String() + e.stderr}
}

// processes starts more than are allowed.
func processes(t *testing.T, b box, _ receipt) sight {
	if b.alone() {
		return sight{untried: "pids and memory_mb: as with Landlock and filter"}
	}
	r, e := b.runForResult(t, []string{"--limit", "pids=30"}, "sh", "-c", "i=0; while [ $i -lt 40 ]; do sleep 20 >/dev/null 2>&1 & i=$((i+1)); done; echo all")
	if e.code == 125 {
		return sight{untried: "pids: nsrun refuses it: " + strings.TrimSpace(e.stderr)}
	}
	if !slices.Contains(r.Receipt.Holds, "limits") { // as it says itself of this one
		return sight{untried: fmt.Sprintf("pids: the receipt says that it does not hold: %.200v", r.Receipt.Notes)}
	}
	return sight{kept: e.code != 0 && !strings.Contains(e.stdout, "all"), what: "40 processes where 30 are allowed: " + e.String()}
}

func memory(t *testing.T, b box, _ receipt) sight {
	if b.alone() {
		return sight{untried: "pids and memory_mb: as with Landlock and filter"}
	}
	words := []string{"dd", "if=/dev/zero", "of=/dev/null", "bs=200M", "count=1"}
	free := b.do(t, nil, words...)
	require.Equal(t, 0, free.code, free)
	r, e := b.runForResult(t, []string{"--limit", "memory_mb=100"}, words...)
	if e.code == 125 {
		return sight{untried: "memory_mb: nsrun refuses it: " + strings.TrimSpace(e.stderr)}
	}
	if !slices.Contains(r.Receipt.Holds, "limits") {
		return sight{untried: fmt.Sprintf("memory_mb: the receipt says that it does not hold: %.200v", r.Receipt.Notes)}
	}
	return sight{kept: e.code != 0, what: "200 MB where 100 are allowed: " + e.String()}
}

func terminal(t *testing.T, b box, _ receipt) sight {
	one, e := b.act(t, []string{"--tty"}, "tty")
	return sight{kept: one.Done, what: one.String() + " " + e.stderr}
}

func killed(t *testing.T, b box, _ receipt) sight {
	r, e := b.runForResult(t, nil, "sh", "-c", "kill -9 $$")
	assert.Equal(t, 137, e.code)
	return sight{kept: r.Verdict == "signal" && r.Signal == "SIGKILL",
		what: fmt.Sprintf("killed by SIGKILL: verdict %s, signal %q, code %d", r.Verdict, r.Signal, r.Code)}
}
