package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/internal/testenv"
	"golang.org/x/sys/unix"
)

// loadCases are attempts to use up what the host has, within what limits of processes can hold.
func loadCases() []attackCase {
	limit := func(l string) []string { return []string{"--limit", l} }
	// What an ordinary host does without a limit is known, and not tried on it.
	const known = noEqual
	return []attackCase{
		{id: "RE01", what: "fork 512 times", test: forkMany},
		{id: "RE02", what: "fork daemons with sessions of their own", test: forkDaemons},
		{id: "RE03", what: "touch 1 GiB", flags: limit("memory_mb=256"), tries: []try{{act: "memory 1024", want: "ENOMEM SIGKILL", lone: known}}},
		{id: "RE04", what: "fill /tmp", flags: limit("tmpfs_mb=8"), tries: []try{{act: "fill /tmp/big 16", want: "ENOSPC"}, {act: "fill /var/tmp/big 16", want: "ENOSPC"}}},
		{id: "RE05", what: "fill /dev/shm", flags: limit("tmpfs_mb=8"), tries: []try{{act: "fill /dev/shm/big 16", want: "ENOSPC"}}},
		{id: "RE06", what: "make a million files in /tmp", tries: []try{{act: "inodes /tmp 1000000", want: "ENOSPC", lone: known}}},
		{id: "RE07", what: "fill the workspace by one file", flags: limit("file_size_mb=2"), tries: []try{{act: "fill {work}/big 8", want: "SIGXFSZ EFBIG"}},
			after: notAbove("{work}/big", 2<<20)},
		{id: "RE08", what: "open 4096 descriptors", flags: limit("open_files=64"), tries: []try{{act: "fds 4096", want: "EMFILE", lone: "the host has limits too"}}},
		{id: "RE11", what: "leave zombies to pid 1", test: zombies},
		{id: "RE12", what: "sleep for ever", test: timeUp("sleep 1000")},
		{id: "RE13", what: "ignore SIGTERM", test: timeUp("trap '' TERM INT HUP; while :; do sleep 1000; done")},
		{id: "RE14", what: "stop itself", test: timeUp("kill -STOP $$; sleep 1000")},
		{id: "RE15", what: "spin", flags: limit("cpu_seconds=1"), tries: []try{{act: "spin", want: "SIGXCPU SIGKILL", lone: known}}},
		{id: "RE16", what: "leave a core dump", test: coreDump},
		{id: "RE18", what: "leave a tree too deep to remove", test: deepTree},
		{id: "RE19", what: "have the result written somewhere else", test: plantedResult},
	}
}

func notAbove(name string, size int64) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		t.Helper()
		if info, err := os.Stat(w.fill.Replace(name)); err == nil {
			assert.LessOrEqual(t, info.Size(), size)
		}
	}
}

// forkMany: a limit that cannot bind is refused, not ignored: without a cgroup, RLIMIT_NPROC does not hold for root.
func forkMany(t *testing.T, w *world) {
	e := w.probe(t, []string{"--limit", "pids=128"}, "forks 512")
	if w.uid == 0 && strings.Contains(e.stderr, "RLIMIT_NPROC") { // without a cgroup
		refusal(t, e, "pids")
		return
	}
	assert.True(t, try{want: "EAGAIN"}.stopped(e), e)
	assert.True(t, try{}.live(w.outside(t, "forks 512")), "the control")
}

func forkDaemons(t *testing.T, w *world) {
	mark := w.marker + "-daemons"
	flags := []string{"--limit", "pids=64"}
	if w.uid == 0 {
		flags = nil
	}
	// The workspace's own name cannot mark the children, but a word of their arguments can.
	e := w.in(t, flags, built.probe, "daemons", "200", mark)
	if w.uid != 0 {
		assert.True(t, try{want: "EAGAIN"}.stopped(e), e)
	}
	gone(t, mark)
}

func zombies(t *testing.T, w *world) {
	e := w.in(t, nil, "sh", "-c", "i=0; while [ $i -lt 400 ]; do (true &); i=$((i+1)); done; exec "+built.probe+" zombies")
	assert.True(t, strings.HasPrefix(e.stdout, "no zombies among "), e)
}

// result is what --result gives of a run.
type result struct {
	Verdict string `json:"verdict"`
	Code    int    `json:"code"`
	Signal  string `json:"signal"`
	Status  *int   `json:"exit_status"`
	Step    string `json:"step"`
}

// resulting runs a command with --result.
func (w *world) resulting(t *testing.T, flags []string, command ...string) (ending, result) {
	t.Helper()
	name := filepath.Join(w.run, "result.json")
	defer os.Remove(name)
	e := w.in(t, append([]string{"--result", name}, flags...), command...)
	data, err := os.ReadFile(name)
	require.NoError(t, err, "%v", e)
	require.Equal(t, 1, strings.Count(string(data), "\n"), "one line")
	var r result
	require.NoError(t, json.Unmarshal(data, &r))
	assert.Equal(t, e.code, r.Code, "the result and the exit code agree")
	return e, r
}

func timeUp(script string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		e, r := w.resulting(t, []string{"--timeout", "200ms", "--kill-grace", "200ms"}, "sh", "-c", script+" # "+w.marker+"-time")
		assert.Equal(t, 124, e.code, e)
		assert.Equal(t, "timeout", r.Verdict)
		gone(t, w.marker+"-time")
	}
}

func coreDump(t *testing.T, w *world) {
	crash := "ulimit -c 0; ulimit -c unlimited 2>/dev/null; ulimit -c; kill -SEGV $$"
	e := w.in(t, nil, "sh", "-c", crash)
	assert.Equal(t, 139, e.code, e)
	assert.Equal(t, "0\n", e.stdout, "the limit cannot be raised")
	cores, err := filepath.Glob(w.work + "/core*")
	require.NoError(t, err)
	assert.Empty(t, cores)

	// The kernel runs the handler of a piping core_pattern at a limit of 0, and not at 1.
	var have unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_CORE, &have))
	limits := []string{"grep", "core", "/proc/self/limits"}
	for _, flags := range [][]string{nil, {"--limit", "core=0"}} {
		e = w.in(t, flags, limits...)
		assert.Regexp(t, fmt.Sprintf(` %[1]d +%[1]d `, min(1, have.Max)), e.stdout, "%q\n%v", flags, e)
		e = w.do(t, nil, append([]string{"sh", "-c", `ulimit -c 0; exec "$@"`, "sh"}, w.nsrun(flags, limits...)...)...)
		assert.Regexp(t, ` 0 +0 `, e.stdout, "%q: a hard limit of 0 cannot be raised, and is no reason to fail\n%v", flags, e)
	}
}

// childrenTime returns the CPU time of all processes that the tests have waited for, and of those that they have waited for.
func childrenTime(t *testing.T) time.Duration {
	t.Helper()
	var usage unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_CHILDREN, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func deepTree(t *testing.T, w *world) {
	before := childrenTime(t)
	e := w.probe(t, nil, "deep /tmp 5000")
	assert.True(t, try{want: "REACHED"}.stopped(e), e)
	assert.Less(t, childrenTime(t)-before, testenv.Scale(5*time.Second), "what is in memory goes at once")
	empty(t, w.tmp)
}

// plantedResult names a result file that an earlier run could have replaced.
func plantedResult(t *testing.T, w *world) {
	for _, dir := range []string{w.work, w.tmp} {
		plantedResultIn(t, w, dir+"/result")
	}
	at := w.tmp + "/result"
	defer os.Remove(at)
	require.NoError(t, os.WriteFile(at, nil, 0o666))
	w.own(t, at)
	require.NoError(t, os.Truncate(at, 1<<40), "a sparse file of 1 TiB")
	e := w.in(t, []string{"--result", at}, "true")
	assert.Equal(t, 0, e.code, e)
	info, err := os.Stat(at)
	require.NoError(t, err)
	assert.Less(t, info.Size(), int64(1<<16), "it is cut before it is written")
}

func plantedResultIn(t *testing.T, w *world, at string) {
	t.Helper()
	for _, c := range []struct {
		what  string
		plant func() error
	}{
		{"a symlink", func() error { return os.Symlink(w.secret, at) }},
		{"a dangling symlink", func() error { return os.Symlink(w.home+"/planted", at) }},
		{"a FIFO", func() error { return unix.Mkfifo(at, 0o666) }},
		{"a directory", func() error { return os.Mkdir(at, 0o777) }},
	} {
		require.NoError(t, c.plant())
		w.own(t, at)
		e := w.in(t, []string{"--result", at}, "echo", "ran")
		assert.Equal(t, 125, e.code, "%s\n%v", c.what, e)
		assert.NotContains(t, e.stdout, "ran", c.what)
		require.NoError(t, os.RemoveAll(at))
	}
	holds("{secret}", w.canary)(t, w)
	absent("{home}/planted")(t, w)
}
