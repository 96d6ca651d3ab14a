package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/internal/testenv"
	"golang.org/x/sys/unix"
)

// syncBuffer is a buffer that is read while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// lifeCases are attempts to outlive a run, and ways in which a run can end.
func lifeCases() []attackCase {
	return []attackCase{
		{id: "LI01", what: "leave a daemon behind", test: daemon},
		{id: "LI02", what: "survive the kill of nsrun, at any moment", test: killSweep},
		{id: "LI03", what: "have nsrun told to end", test: terminate},
		{id: "LI04", what: "survive the kill of nsrun's own caller", test: killCaller},
		{id: "LI05", what: "have codes and signals told apart", test: endings},
		{id: "LI06", what: "have the failures told apart", test: failures},
		{id: "LI07", what: "keep standard output open in the background", test: background},
		{id: "LI08", what: "leave something behind in many runs", test: manyRuns},
		{id: "LI09", what: "be confused with runs beside it", test: parallelRuns},
		{id: "LI10", what: "have a caller that ignores SIGCHLD", test: ignoredChild},
		{id: "LI14", what: "run without a layer that is required", test: missingLayer},
	}
}

// sleeper is a program of the host's shell that can be found by its arguments.
func (w *world) sleeper(id string) (script, mark string) {
	mark = "1000." + id + fmt.Sprint(os.Getpid()*10+w.uid&1)
	return "sleep " + mark, mark
}

// residue is what runs could leave on the host.
type residue struct{ mounts, files string }

func (w *world) residue(t *testing.T) residue {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	return residue{string(data), tree(t, w.home, w.grant, w.run, w.tmp)}
}

// clean asserts that nothing is left.
func (w *world) clean(t *testing.T, before residue, mark string) {
	t.Helper()
	gone(t, mark)
	after := w.residue(t)
	assert.Equal(t, before.mounts, after.mounts, "mounts of the host")
	assert.Equal(t, before.files, after.files, "files of the user")
}

func daemon(t *testing.T, w *world) {
	script, mark := w.sleeper("01")
	before := w.residue(t)
	e := w.in(t, nil, "sh", "-c", "(setsid sh -c '"+script+" & sleep "+mark+"' </dev/null >/dev/null 2>&1 &); sleep 0.1; echo main")
	assert.Equal(t, ending{0, "main\n", ""}, e)
	w.clean(t, before, mark)
}

// killSweep kills nsrun some time after its start, from its first steps to well into the command: however fast the machine is, it knows from
// a first run how long that takes.
func killSweep(t *testing.T, w *world) {
	script, mark := w.sleeper("02")
	before := w.residue(t)
	start := func() *started {
		return w.start(t, nil, w.nsrun(nil, "sh", "-c", "trap '' TERM HUP; echo began; "+script+" & setsid "+script)...)
	}
	kill := func(s *started) {
		require.NoError(t, s.cmd.Process.Kill())
		s.end(t)
	}
	first, since := start(), time.Now()
	first.wait(t, "began")
	whole := time.Since(since) * 3 / 2
	kill(first)
	kills, began := testenv.Times(60), 0
	for i := range kills {
		s := start()
		time.Sleep(whole * time.Duration(i) / time.Duration(kills))
		kill(s)
		if strings.Contains(s.stdout.String(), "began") {
			began++
		}
	}
	t.Logf("in %d of %d runs the command had begun", began, kills)
	assert.Less(t, began, kills, "some were killed before")
	w.clean(t, before, mark)
}

func terminate(t *testing.T, w *world) {
	script, mark := w.sleeper("03")
	enough, little := time.Hour, 300*time.Millisecond
	for _, c := range []struct {
		what, trap   string
		grace, least time.Duration
		code         int
	}{{"ends it", "", enough, 0, 143}, {"is caught", "trap 'echo caught; exit 3' TERM; ", enough, 0, 3}, {"is ignored", "trap '' TERM; ", little, little, 143}} {
		s := w.start(t, nil, w.nsrun([]string{"--kill-grace", c.grace.String()}, "sh", "-c", c.trap+"echo ready; while :; do "+script+" & wait; done")...)
		s.wait(t, "ready")
		began := time.Now()
		require.NoError(t, s.cmd.Process.Signal(unix.SIGTERM))
		assert.Equal(t, c.code, s.end(t), "SIGTERM %s", c.what)
		assert.GreaterOrEqual(t, time.Since(began), c.least, "the command has its grace")
		assert.Equal(t, c.what == "is caught", strings.Contains(s.stdout.String(), "caught"))
		gone(t, mark)
	}
}

func killCaller(t *testing.T, w *world) {
	script, mark := w.sleeper("04")
	before := w.residue(t)
	words := append([]string{"sh", "-c", `"$@" & wait`, "caller"}, w.nsrun(nil, "sh", "-c", "echo ready; setsid "+script)...)
	s := w.start(t, func(c *exec.Cmd) { c.WaitDelay = 0 }, words...)
	s.wait(t, "ready")
	require.NoError(t, s.cmd.Process.Kill())
	s.end(t)
	w.clean(t, before, mark)
}

func endings(t *testing.T, w *world) {
	for _, code := range []int{0, 1, 2, 42, 124, 125, 126, 127, 128, 137, 143, 200, 255} {
		e, r := w.resulting(t, nil, "sh", "-c", fmt.Sprintf("exit %d", code))
		assert.Equal(t, code, e.code)
		require.NotNil(t, r.Status, "exit %d has a status of its own", code)
		assert.Equal(t, code, *r.Status)
		assert.Equal(t, map[bool]string{true: "ok", false: "exit"}[code == 0], r.Verdict)
		assert.Empty(t, r.Signal)
	}
	for _, s := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGABRT, unix.SIGKILL, unix.SIGSEGV, unix.SIGPIPE, unix.SIGTERM, unix.SIGUSR1} {
		e, r := w.resulting(t, nil, "sh", "-c", fmt.Sprintf("kill -%d $$", s))
		assert.Equal(t, 128+int(s), e.code)
		assert.Equal(t, unix.SignalName(s), r.Signal)
		assert.Equal(t, "signal", r.Verdict)
		assert.Nil(t, r.Status)
	}
}

func failures(t *testing.T, w *world) {
	w.write(t, w.work+"/plain", "no program")
	for _, c := range []struct {
		what    string
		flags   []string
		command string
		code    int
		verdict string
	}{
		{"the command's own 1", nil, "false", 1, "exit"},
		{"no such command", nil, "no-such-command", 127, "not-found"},
		{"not executable", nil, w.work + "/plain", 126, "not-executable"},
		{"a directory", nil, w.work, 126, "not-executable"},
		{"a grant that is missing", []string{"--ro", w.home + "/nowhere"}, "true", 125, "setup"},
		{"a wrong policy", []string{"--limit", "pids=0"}, "true", 125, "policy"},
	} {
		e, r := w.resulting(t, c.flags, c.command)
		assert.Equal(t, c.code, e.code, "%s\n%v", c.what, e)
		assert.Equal(t, c.verdict, r.Verdict, c.what)
		assert.Equal(t, c.code >= 125, strings.HasPrefix(e.stderr, "nsrun: "), "%s: nsrun says so\n%v", c.what, e)
	}
}

func background(t *testing.T, w *world) {
	script, mark := w.sleeper("07")
	e := w.do(t, nil, w.nsrun(nil, "sh", "-c", script+" & echo main; exit 4")...) // which waits for the end of the output, too
	assert.Equal(t, ending{4, "main\n", ""}, e)
	gone(t, mark)
}

// keys counts the keys and keyrings of a user, as far as this one may see.
func keys(uid int) (n int) {
	data, _ := os.ReadFile("/proc/key-users")
	for line := range strings.Lines(string(data)) {
		var id int
		var counts string
		if _, err := fmt.Sscanf(strings.TrimSpace(line), "%d: %d %s", &id, &n, &counts); err == nil && id == uid {
			return n
		}
	}
	return 0
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

func manyRuns(t *testing.T, w *world) {
	runs := testenv.Times(200)
	if os.Getenv("NSRUN_E2E_LONG") != "" {
		runs = 1000
	}
	_, mark := w.sleeper("08")
	before, hadKeys, hadFiles := w.residue(t), keys(w.uid), openFiles(t)
	for i := range runs {
		e := w.in(t, nil, "sh", "-c", "echo "+mark)
		require.Equal(t, ending{0, mark + "\n", ""}, e, "run %d", i)
	}
	w.clean(t, before, mark)
	assert.LessOrEqual(t, openFiles(t), hadFiles+2, "open descriptors of the caller")
	// The kernel collects keyrings of ended processes by itself, a little later.
	testenv.Eventually(t, func() bool { return keys(w.uid) <= hadKeys+5 }, fmt.Sprintf("at most %d keys: %d now", hadKeys+5, keys(w.uid)))
}

func parallelRuns(t *testing.T, w *world) {
	_, mark := w.sleeper("09")
	before := w.residue(t)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			script := fmt.Sprintf("echo %d >/tmp/same; sleep 0.05; cat /tmp/same; ls /tmp | wc -l; exit %d # %s", i, i, mark)
			e := w.in(t, nil, "sh", "-c", script)
			assert.Equal(t, ending{i, fmt.Sprintf("%d\n1\n", i), ""}, e)
		})
	}
	all.Wait()
	w.clean(t, before, mark)
}

// ignoredChild: with SIGCHLD ignored children are reaped by the kernel, and their status is lost, unless one says otherwise.
func ignoredChild(t *testing.T, w *world) {
	for _, code := range []int{0, 7, 255} {
		words := append([]string{built.probe, "signal-state"}, w.nsrun(nil, "sh", "-c", fmt.Sprintf("sh -c 'exit 9'; echo $?; exit %d", code))...)
		e := w.do(t, nil, words...)
		assert.Equal(t, ending{code, "9\n", ""}, e)
	}
	assert.False(t, signal.Ignored(unix.SIGCHLD), "this test itself does not")
}

// missingLayer takes user namespaces away, in a namespace that is a host for it.
func missingLayer(t *testing.T, w *world) {
	e := w.inHost(t, "no-spaces", "-", "echo", "ran")
	refusal(t, e, "user")
	e = w.inHost(t, "no-spaces", "-", "echo", "ran")
	assert.NotContains(t, e.stdout, "ran")
	need(t, testenv.Landlock() > 0, "Landlock")
	degraded := func(flags ...string) ending {
		flags = append(flags, "--fallback", "degrade", "--result", "FD:1")
		return w.do(t, nil, append([]string{built.probe, "namespace", "no-spaces", "-"}, w.nsrun(flags, "echo", "ran")...)...)
	}
	e = degraded()
	assert.Equal(t, 0, e.code, "%v", e)
	assert.Contains(t, e.stdout, "ran\n")
	assert.Contains(t, e.stdout, `"backend":"landlock"`, "the strongest backend that works")
	inResult, inNote := `"lost":["view"`, "nsrun: note: backend landlock in place of native; lost: view, "
	if testenv.Landlock() < 3 { // which has the right to truncate
		inResult, inNote = `"lost":["files","view"`, "nsrun: note: backend landlock in place of native; lost: files, view, "
	}
	assert.Contains(t, e.stdout, inResult, "and the result says what is lost")
	assert.Contains(t, e.stderr, inNote, "as standard error does")
	e = degraded("--require", "view")
	assert.Equal(t, 125, e.code, "%v", e)
	assert.NotContains(t, e.stdout, "ran\n")
}
