package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/e2e/vm"
	"github.com/nsrun/nsrun/e2e/vm/guest"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/facts"
)

// nsrunInVM is where a machine has nsrun.
const nsrunInVM = vm.BuiltDir + "/cmd/nsrun"

// talk is what nsrun is asked on every machine. There need be no other program: the command in the sandbox is nsrun itself.
var talk = []struct {
	name   string
	shared bool // see guest.Step
	args   []string
}{
	{"facts", false, []string{"doctor", "--json"}},
	{"doctor", false, []string{"doctor"}},
	{"run", false, []string{"run", "--chdir", "/", "--ro", vm.BuiltDir, "--", nsrunInVM, "--version"}},
	{"limits", true, []string{"run", "--fallback", "degrade", "--result", "FD:1", "--chdir", "/", "--ro", vm.BuiltDir, "--", nsrunInVM, "--version"}},
	{"degrade", false, []string{"run", "--fallback", "degrade", "--self-test", "--result", "FD:1", "--chdir", "/", "--ro", vm.BuiltDir, "--", nsrunInVM, "--version"}},
}

// talkSteps are the talk's as one user.
func talkSteps(user string, uid int) (steps []guest.Step) {
	for _, q := range talk {
		steps = append(steps, guest.Step{Name: user + "/talk/" + q.name, UID: uid, Argv: append([]string{nsrunInVM}, q.args...), Dir: "/", Seconds: 120, Shared: q.shared})
	}
	return steps
}

// golden is what a machine has said, beside what is expected of it.
type golden struct{ files []txtar.File }

func (g *golden) add(name, text string) {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	g.files = append(g.files, txtar.File{Name: name, Data: []byte(text)})
}

// record keeps what came of a step of the talk.
func (g *golden) record(t *testing.T, m machine, r *stepped) {
	t.Helper()
	user, question, _ := strings.Cut(r.step, "/talk/")
	text := r.out.String()
	switch question {
	case "facts":
		var f facts.Facts
		require.NoError(t, json.Unmarshal(r.out.Bytes(), &f), text)
		if m.plain {
			ageOf(t, m.line, f)
		}
		text = table(f)
	case "doctor":
		text, _, _ = strings.Cut(text, "\n\nkernel ")
	default:
		text = outcome(t, text)
	}
	g.add(user+"/"+question, fmt.Sprintf("exit code %d\n%s", r.code, text))
}

// table is the facts without what differs between two kernels of one line.
func table(f facts.Facts) string {
	var out strings.Builder
	fmt.Fprintf(&out, "uid %d, last capability %d, Landlock ABI %d refused %q\n", f.UID, f.LastCap, f.LandlockABI, f.LandlockRefused) // errata are fixed within a line
	fmt.Fprintf(&out, "distribution %s, surroundings %q\n", f.Distro.ID, f.Surroundings)
	for _, name := range slices.Sorted(maps.Keys(f.Answers)) {
		a := f.Answers[name]
		fmt.Fprintf(&out, "%s: %s", name, a.State)
		for _, words := range []string{a.Detail, a.Fix} {
			if words != "" {
				fmt.Fprintf(&out, "; %s", words)
			}
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// lateFeatures are those that a kernel of Debian's has not, though it is new enough.
var lateFeatures = map[facts.Name]string{
	facts.CgroupV1: "these hosts have version 2", facts.SystemdScope: "init is the test's", facts.Docker: "not installed", facts.Podman: "not installed",
}

// ageOf fails if a feature is absent from a kernel that is as old as the table says, or older.
func ageOf(t *testing.T, line string, f facts.Facts) {
	t.Helper()
	known, _ := vm.FindLine(line)
	assert.Equal(t, known.ABI, f.LandlockABI, "Landlock's ABI in %s", line)
	for _, row := range facts.Table {
		if _, late := lateFeatures[row.Name]; late || older(line, row.Since) {
			continue
		}
		if row.Name == facts.Overlay && slices.Contains([]string{"6.18", "7.0", "7.1"}, line) {
			continue // the cloud flavour of these has no module overlay
		}
		assert.Equal(t, facts.Yes, f.State(row.Name), "%s is there since %s: %+v", row.Name, row.Since, f.Answers[row.Name])
	}
}

// older compares lines of kernels.
func older(line, since string) bool {
	x, y := strings.Split(line, "."), strings.Split(since, ".")
	return slices.CompareFunc(x, y, func(a, b string) int {
		m, _ := strconv.Atoi(a)
		n, _ := strconv.Atoi(b)
		return m - n
	}) < 0
}

// outcome is what standard error had, and of the result the verdict, the backend, and what was lost.
func outcome(t *testing.T, text string) string {
	t.Helper()
	var result struct {
		Verdict string
		Receipt struct {
			Backend  string
			Lost     []string
			Limits   []struct{ Limit, By string }
			Landlock *struct{ ABI int }
			SelfTest []string `json:"self_test"`
		}
	}
	rest, found, err := testenv.CutResult(text, &result)
	require.NoError(t, err, text)
	if !found {
		return text
	}
	r := result.Receipt
	abi := 0
	if r.Landlock != nil {
		abi = r.Landlock.ABI
	}
	return fmt.Sprintf("%sverdict %s, backend %s, Landlock ABI %d, limits %v, self-test %v, lost %v\n", rest, result.Verdict, r.Backend, abi, r.Limits, r.SelfTest, r.Lost)
}

// fleeting is what is another the next time: pids, the version, and what a machine has of memory.
var fleeting = regexp.MustCompile(`(nsrun-probe-)\d+|(nsrun )\S+ linux/\S+ go\S+|(memory_mb=)\d+`)

// compare compares what was said with the machine's file, or writes it anew.
func (g *golden) compare(t *testing.T, m machine, whole bool) {
	t.Helper()
	name := filepath.Join("testdata", "vm", m.name+".txtar")
	got := &txtar.Archive{Files: g.files,
		Comment: fmt.Appendf(nil, "What nsrun says on TestVM's machine %s, and which tests are skipped there. Review it like code; it is written anew by\ngo test ./e2e -run 'TestVM/^%s$/^%s$' -update\n\n", m.name, m.bootName(), m.name)}
	for i := range got.Files {
		got.Files[i].Data = fleeting.ReplaceAll(got.Files[i].Data, []byte("$1${2}${3}N"))
	}
	want, err := txtar.ParseFile(name)
	if *updateVM {
		if err == nil && !whole { // what was not asked stays
			got.Files = merge(want.Files, got.Files)
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, txtar.Format(got), 0o644))
		return
	}
	require.NoError(t, err, "make it by -update")
	if whole {
		assert.Len(t, got.Files, len(want.Files), "all that %s has was asked", name)
	}
	for _, f := range got.Files {
		i := slices.IndexFunc(want.Files, func(w txtar.File) bool { return w.Name == f.Name })
		if assert.GreaterOrEqual(t, i, 0, "%s is in %s", f.Name, name) {
			assert.Equal(t, string(want.Files[i].Data), string(f.Data), "%s of %s", f.Name, name)
		}
	}
}

// merge puts files over others of the same names.
func merge(old, fresh []txtar.File) []txtar.File {
	out := slices.Clone(old)
	for _, f := range fresh {
		if i := slices.IndexFunc(out, func(o txtar.File) bool { return o.Name == f.Name }); i >= 0 {
			out[i] = f
		} else {
			out = append(out, f)
		}
	}
	return out
}
