package explain

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/result"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// attack is what a hostile command does while it is watched.
type attack struct {
	name, act string // the words of the hostile program; {hidden} and {shared} are directories
	calls     int    // that it makes of what is watched, at the least
	path      string // what all of them ask for, if that does not change
	varies    bool   // whether a call succeeds depends on the moment
	none      bool   // nothing is refused
}

var attacks = []attack{
	{name: "a thread rewrites the path", act: "rewrite {hidden}/file {shared}/file 20000", calls: 20000, varies: true},
	{name: "a thread changes the directory", act: "chdirs {shared} {work} file 20000", calls: 20000, varies: true},
	{name: "100,000 calls", act: "flood {hidden}/file 100000", calls: 100000, path: "{hidden}/file"},
	{name: "20,000 calls for nothing", act: "flood {hidden}/none 20000", calls: 20000},
	{name: "20,000 spellings of a path", act: "spell {hidden} file 20000", calls: 20000},
	{name: "20,000 spellings of no path", act: "spell {hidden} none 20000", calls: 20000},
	{name: "the caller ends at once", act: "exits {hidden}/file 2000", calls: 2000, path: "{hidden}/file"},
	{name: "the caller is killed", act: "killed {hidden}/file 400", calls: 400},
	{name: "paths that cannot be read", act: "faults", calls: 50},
	{name: "a path that ends where memory does", act: "pageend {hidden}/file", calls: 3},
	{name: "files are made after they were asked for", act: "makes {work} 5000", calls: 10000, none: true},
	{name: "1,200 threads at once", act: "threads {hidden}/file 1200", calls: 12000, path: "{hidden}/file"},
	{name: "1,200 threads, of a file that is shown", act: "threads {shared}/file 1200", calls: 12000},
}

// TestAttacks runs each attack without and with --explain. The command has the same answers, nsrun comes to an end, and each call is counted.
func TestAttacks(t *testing.T) {
	for _, w := range worlds(t) {
		for _, a := range attacks {
			t.Run(w.name+"/"+a.name, func(t *testing.T) {
				a.prepare(t, w)
				a.run(t, w)
			})
		}
	}
}

func (a attack) prepare(t *testing.T, w *world) {
	w.fresh(t)
	for _, dir := range []string{w.hidden, w.shared} {
		w.write(t, dir+"/file", "text", 0o644)
	}
}

func (a attack) run(t *testing.T, w *world) {
	fill := strings.NewReplacer("{hidden}", w.hidden, "{shared}", w.shared, "{work}", w.work)
	words := []string{built.hostile}
	for _, word := range strings.Fields(a.act) {
		words = append(words, fill.Replace(word))
	}
	without := w.explained(t, "", words...)
	a.prepare(t, w)
	with := w.explained(t, "--explain=all", words...)
	require.Nil(t, without.Receipt.Explain)
	require.NotNil(t, with.Receipt.Explain)
	require.Zero(t, with.Code, with.out)
	before, after := answers(t, without.out), answers(t, with.out)
	if a.varies {
		sum := 0
		for name, n := range after {
			assert.Contains(t, []string{"OK", "ENOENT"}, name)
			sum += n
		}
		assert.Equal(t, a.calls, sum)
	} else {
		assert.Equal(t, before, after, "the answers are those without --explain")
	}
	how := with.Receipt.Explain
	assert.GreaterOrEqual(t, how.Calls, a.calls)
	assert.LessOrEqual(t, len(with.Denials), 100)
	known := how.NotLookedAt
	for _, d := range with.Denials {
		assert.LessOrEqual(t, d.Count, how.Calls)
		if d.Path == fill.Replace(a.path) {
			assert.LessOrEqual(t, d.Count, a.calls)
			known += d.Count
		}
	}
	t.Logf("%d calls, %d not looked at, %d kinds of denials", how.Calls, how.NotLookedAt, len(with.Denials))
	if a.none {
		assert.Empty(t, with.Denials)
	}
	if a.path != "" {
		assert.GreaterOrEqual(t, known, a.calls, "each call is a denial or not looked at: %+v", with.Denials)
	}
	if strings.HasPrefix(a.act, "pageend") {
		i := strings.Repeat("/", 4095-len(w.hidden+"/file")) + w.hidden + "/file"
		assert.True(t, has(with.Denials, i), "the longest path is reported: %+v", with.Denials)
	}
}

func has(denials []result.Denial, path string) bool {
	for _, d := range denials {
		if d.Path == path {
			return true
		}
	}
	return false
}

// answers reads what the hostile program prints.
func answers(t *testing.T, out string) map[string]int {
	t.Helper()
	found := map[string]int{}
	for line := range strings.Lines(out) {
		name, n, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(name, "nsrun:") {
			continue
		}
		count, err := strconv.Atoi(n)
		require.NoError(t, err, out)
		found[name] = count
	}
	require.NotEmpty(t, found)
	return found
}

// TestFloodMemory: 100,000 denials cost nsrun at most 16 MiB more than one, whether they are of one kind or each of its own.
func TestFloodMemory(t *testing.T) {
	const most = 16 << 10 // KiB
	for _, w := range worlds(t) {
		w.write(t, w.hidden+"/file", "text", 0o644)
		one := w.peak(t, "flood", w.hidden+"/file", "1")
		acts := []string{"flood {hidden}/file", "spell {hidden} file", "spell {hidden} none", "flood {hidden}/none"}
		if w.uid == 0 && !testenv.All() {
			acts = acts[:2]
		}
		for _, act := range acts {
			t.Run(w.name+"/"+act, func(t *testing.T) {
				var words []string
				for _, word := range strings.Fields(act) {
					words = append(words, strings.ReplaceAll(word, "{hidden}", w.hidden))
				}
				many := w.peak(t, append(words, "100000")...)
				t.Logf("%d KiB for one, %d KiB for 100,000", one, many)
				assert.LessOrEqual(t, many-one, most)
			})
		}
	}
}

// peak is the most memory, in KiB, that the process nsrun has had at the end of an act.
func (w *world) peak(t *testing.T, act ...string) int {
	t.Helper()
	cmd := w.command(append([]string{built.nsrun, "run", "--explain=all", "--workspace", ".", "--ro", built.bin, "--", built.hostile, "wait"}, act...)...)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	size := 0
	testenv.Returns(t, "nsrun", func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() && lines.Text() != "waiting" {
			continue
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		assert.NoError(t, err)
		_, after, _ := strings.Cut(string(status), "VmHWM:")
		_, _ = fmt.Sscan(after, &size)
		in.Close()
		assert.NoError(t, cmd.Wait())
	})
	require.NotZero(t, size)
	return size
}

// TestAnswersAtPaths: each way to ask for something in a hidden or shown directory has the same answer without and with --explain.
func TestAnswersAtPaths(t *testing.T) {
	for _, w := range worlds(t) {
		w.write(t, w.hidden+"/file", "text", 0o644)
		w.write(t, w.shared+"/file", "text", 0o644)
		for _, act := range []string{"open", "create", "exec", "unix"} {
			for _, name := range []string{w.hidden, w.hidden + "/file", w.hidden + "/none", w.shared, w.shared + "/file", w.shared + "/none", "/", ".", "/proc/self/mem"} {
				without, with := w.explained(t, "", built.hostile, act, name), w.explained(t, "--explain=all", built.hostile, act, name)
				assert.Equal(t, answers(t, without.out), answers(t, with.out), "%s %s", act, filepath.Base(name))
			}
		}
	}
}
