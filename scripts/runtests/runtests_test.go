package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/internal/testenv"
)

func stagesOf(t *testing.T, o options) ([]stage, []string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	r := &runner{users: []who{{name: "root"}, {name: ordinary}}, builder: newBuilder(root, t.TempDir())}
	all, err := r.stages(t.Context(), o.tier)
	require.NoError(t, err)
	return choose(all, o)
}

func named(stages []stage) (names []string) {
	for _, s := range stages {
		names = append(names, s.name)
	}
	return names
}

// TestEveryStageIsInOneSlice: what CI runs on nine commits in a row is everything.
func TestEveryStageIsInOneSlice(t *testing.T) {
	whole, _ := stagesOf(t, options{tier: all, slice: -1})
	quickly, _ := stagesOf(t, options{tier: fast, slice: -1})
	in := map[string]int{}
	for part := range parts {
		chosen, left := stagesOf(t, options{tier: all, slice: part})
		assert.NotEmpty(t, chosen, "slice %d", part)
		sum, longest := 0, 0
		for _, s := range chosen {
			in[s.name]++
			assert.NotContains(t, left, s.name)
			sum += s.seconds
			longest = max(longest, s.seconds)
		}
		assert.Less(t, max(longest, sum/2), 45*60, "slice %d has to fit into CI's 90 minutes, after the fast tier", part)
	}
	for _, s := range whole {
		if s.tier == all {
			assert.Equal(t, 1, in[s.name], s.name)
		} else {
			assert.Contains(t, named(quickly), s.name)
		}
	}
}

// TestNothingIsLostInAll: a stage of the fast tier is missing from the tier all only if another stage does the same and more.
func TestNothingIsLostInAll(t *testing.T) {
	whole, _ := stagesOf(t, options{tier: all, slice: -1})
	quickly, _ := stagesOf(t, options{tier: fast, slice: -1})
	covered := map[string]bool{}
	for _, s := range whole {
		covered[s.covers] = true
	}
	for _, s := range quickly {
		assert.NotEqual(t, covered[s.name], strings.Contains(strings.Join(named(whole), "\n")+"\n", s.name+"\n") && !covered[s.name], s.name)
		assert.Contains(t, append(named(whole), keys(covered)...), s.name)
	}
}

func keys(m map[string]bool) (list []string) {
	for k := range m {
		list = append(list, k)
	}
	return list
}

// TestPurePackagesHaveTests: on another processor each of them is a stage, and a stage without a test fails.
func TestPurePackagesHaveTests(t *testing.T) {
	for _, dir := range pure {
		files, err := filepath.Glob("../../" + dir + "/*_test.go")
		require.NoError(t, err)
		assert.NotEmpty(t, files, dir)
	}
}

func TestTheCommandLine(t *testing.T) {
	for words, problem := range map[string]string{
		"--quick --all": "exclude", "--all --slice 3": "exclude", "--slice 9": "0 to 8", "everything": "is no flag", "--slice -2": "0 to 8",
	} {
		_, err := parse(strings.Fields(words))
		assert.ErrorContains(t, err, problem, words)
	}
	o, err := parse([]string{"--all", "--resume"})
	require.NoError(t, err)
	assert.Equal(t, options{tier: all, slice: -1, resume: true}, o)
}

func TestInputs(t *testing.T) {
	in := inputs{tests: "nsrun/plan"}
	assert.True(t, in.counts("nsrun/plan/plan_test.go"))
	assert.True(t, in.counts("mounts/op.go"))
	assert.True(t, in.counts("mounts/testdata/x_test.txt"))
	assert.True(t, in.counts("README.md"), "tests run its commands")
	assert.True(t, in.counts("doc/limits.md"), "tests read its tables")
	assert.False(t, in.counts("doc/adr/001-policy-facts-plan-program.md"))
	assert.False(t, in.counts("mounts/op_test.go"))
	assert.False(t, in.counts("CHANGELOG.md"))
	assert.True(t, in.counts("Vagrantfile"), "e2e/vagrant reads it")
	assert.True(t, inputs{}.counts("mounts/op_test.go"), "a check of the tree looks at everything")
}

// TestPassesAreRemembered in a tree of its own: by the content of the files that count, and not if one changes while the stage runs.
func TestPassesAreRemembered(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	root := t.TempDir()
	put := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
	out, err := exec.Command("git", "-c", "init.defaultBranch=main", "init", "-q", root).CombinedOutput()
	require.NoError(t, err, string(out))
	put("a/a.go", "package a")
	put("a/a_test.go", "package a")
	put("b/b_test.go", "package b")
	s := stage{name: "a as root", inputs: inputs{tests: "a"}}
	passed := func(s stage) bool {
		l, err := newLedger(t.Context(), root)
		require.NoError(t, err)
		return l.passed(t.Context(), s)
	}
	remember := func(change func()) {
		l, err := newLedger(t.Context(), root)
		require.NoError(t, err)
		change()
		require.NoError(t, l.remember(t.Context(), root, outcome{stage: s}))
	}
	assert.False(t, passed(s))
	remember(func() {})
	assert.True(t, passed(s))
	assert.False(t, passed(stage{name: "a as another", inputs: s.inputs}))
	put("b/b_test.go", "package b // changed")
	assert.True(t, passed(s), "another package's tests do not count")
	put("c/new.go", "package c")
	assert.False(t, passed(s), "a file that git does not track yet counts")
	remember(func() { put("a/a.go", "package a // changed") })
	assert.False(t, passed(s), "it was tested in part before the change")
	put("a/a.go", "package a")
	assert.False(t, passed(s), "and is not taken for tested afterwards")
}

func TestOutputOfFailedTests(t *testing.T) {
	var log bytes.Buffer
	r := newReader(&log)
	require.NoError(t, r.read(strings.NewReader(`{"Action":"run","Test":"TestA"}
{"Action":"output","Test":"TestA","Output":"fine\n"}
{"Action":"pass","Test":"TestA"}
{"Action":"output","Test":"TestB","Output":"    x_test.go:1: count: attack cases: 12\n"}
{"Action":"output","Test":"TestB","Output":"broken\n"}
{"Action":"fail","Test":"TestB"}
{"Action":"output","Test":"TestC","Output":"why not\n"}
{"Action":"skip","Test":"TestC"}
{"Action":"run","Test":"TestD"}
{"Action":"output","Test":"TestD","Output":"it hangs\n"}
no event
{"Action":"fail"}`)))
	assert.Equal(t, map[string]bool{"TestD": true}, r.running)
	assert.Equal(t, tally{passed: 1, failed: 1, skipped: 1, counts: map[string]int{"attack cases": 12}}, r.tally)
	assert.Contains(t, r.failures(), "broken")
	assert.Contains(t, r.failures(), "it hangs", "a test that has not ended")
	assert.Contains(t, r.failures(), "no event")
	assert.NotContains(t, r.failures(), "fine")
	assert.Contains(t, log.String(), "fine", "the log has everything")
}

func TestWhatIsCountedMayNotFall(t *testing.T) {
	t.Setenv("CI", "true")
	for _, f := range floors {
		enough := tally{counts: map[string]int{}}
		for _, other := range floors {
			if other.stage == f.stage {
				enough.counts[other.what] = other.least
			}
		}
		assert.NoError(t, stage{name: f.stage}.tooFew(enough), f.stage)
		enough.counts[f.what]--
		assert.ErrorContains(t, stage{name: f.stage}.tooFew(enough), f.what, f.stage)
	}
	assert.Error(t, stage{name: "e2e as somebody"}.tooFew(tally{}))
	assert.NoError(t, stage{name: "e2e/vm as root"}.tooFew(tally{}))
	t.Setenv("CI", "")
	assert.NoError(t, stage{name: "e2e as root"}.tooFew(tally{}), "a contributor's host may lack something")
}

func TestSchedule(t *testing.T) {
	var running, most atomic.Int32
	broken := errors.New("broken")
	stages := []stage{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d"}}
	report := &reporter{out: io.Discard, all: len(stages)}
	ended := schedule(t.Context(), stages, 2, func(s stage) outcome {
		n := running.Add(1)
		defer running.Add(-1)
		most.Store(max(most.Load(), n))
		time.Sleep(5 * time.Millisecond)
		if s.name == "b" {
			return outcome{stage: s, err: broken}
		}
		return outcome{stage: s}
	}, report)
	assert.Len(t, ended, 4, "a failure does not keep other stages from running")
	assert.LessOrEqual(t, most.Load(), int32(2))

	ctx, cancel := context.WithCancel(t.Context())
	ended = schedule(ctx, stages, 1, func(s stage) outcome { cancel(); return outcome{stage: s} }, report)
	assert.Len(t, ended, 1, "nothing starts after an interrupt")
}

func TestChangesOfTheMachine(t *testing.T) {
	before := machine{"mode /proc dr-xr-xr-x", "mount / / ext4"}
	after := machine{"mode /proc drwxrwxrwx", "mount / / ext4", "mount /tmp/x tmpfs"}
	assert.Equal(t, []string{"+ mode /proc drwxrwxrwx", "+ mount /tmp/x tmpfs", "- mode /proc dr-xr-xr-x"}, after.changes(before, "run"))
	assert.Empty(t, before.changes(before, "run"))
	assert.NotEmpty(t, look(), "this machine has mounts")
	assert.Empty(t, look().changes(look(), "run"))
	if os.Getuid() == 0 {
		assert.Regexp(t, `^[0-7]{3,4}$`, queueMode())
	}
}

// TestEveryBootIsAStage reads the machines of TestVM: each boot that is not of the full set matches one pattern.
func TestEveryBootIsAStage(t *testing.T) {
	text, err := os.ReadFile("../../e2e/vmset_linux_test.go")
	require.NoError(t, err)
	boots := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\t\{name: "([^"]+)",(?: boot: "([^"]+)",)?.*$`).FindAllStringSubmatch(string(text), -1) {
		if name := cmp.Or(m[2], m[1]); !strings.Contains(m[0], "full: true") {
			boots[name] = true
		}
	}
	require.Len(t, boots, 13, "a boot more or less: say so in CONTRIBUTING.md and CHANGELOG.md")
	for boot := range boots {
		n := 0
		for _, g := range guests {
			if regexp.MustCompile(g.pattern).MatchString(boot) {
				n++
			}
		}
		assert.Equal(t, 1, n, "stages with the boot %s", boot)
	}
}

// TestLeavingTheFastTierNeedsARow in internal/testenv/slow.go, for whole packages as for tests.
func TestLeavingTheFastTierNeedsARow(t *testing.T) {
	for dir, p := range table {
		has := slices.ContainsFunc(testenv.SlowTests, func(r testenv.SlowRow) bool { return r.Package == dir && r.Test == "" })
		assert.Equal(t, p.leaves, has, dir)
	}
}

// TestWhatIsRepeatedHasItsStage: what a package's tests repeat less, or sample, in the fast tier, they do in full somewhere.
func TestWhatIsRepeatedHasItsStage(t *testing.T) {
	less := regexp.MustCompile(`\btestenv\.(Times|Sample)\(`)
	for dir, p := range table {
		files, err := filepath.Glob("../../" + dir + "/*_test.go")
		require.NoError(t, err)
		require.NotEmpty(t, files, dir)
		serial := p.serial == ""
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			serial = serial || strings.Contains(string(text), "func "+p.serial+"(t *testing.T)")
			assert.True(t, p.slow > 0 || !less.Match(text), "%s does less in the fast tier, and the row of %s has no stage that does all", f, dir)
		}
		assert.True(t, serial, "%s has no test %s", dir, p.serial)
	}
}

func TestProcessesOfARunAreFound(t *testing.T) {
	before := processes()
	dir := t.TempDir()
	cmd := exec.Command("sleep", "1000")
	cmd.Dir, cmd.Env = dir, []string{}
	require.NoError(t, cmd.Start())
	go func() { // it ends while it is waited for
		for !strings.Contains(comm(cmd.Process.Pid), "sleep") {
			time.Sleep(time.Millisecond)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	assert.Empty(t, leftovers(before, "no-such-run", dir, nil), "a process that is ending is waited for")
}

func comm(pid int) string {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return string(data)
}
