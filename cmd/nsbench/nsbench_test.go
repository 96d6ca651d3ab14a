package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	nsrun.Init()
	os.Exit(testenv.Main(m.Run))
}

func TestQuantilesInterpolate(t *testing.T) {
	four := []float64{1, 2, 4, 8}
	for _, c := range []struct {
		sorted  []float64
		q, want float64
	}{
		{[]float64{7}, 0, 7}, {[]float64{7}, 0.95, 7}, {four, 0, 1}, {four, 1, 8}, {four, 0.5, 3}, {four, 0.25, 1.75}, {[]float64{1, 2, 9}, 0.5, 2},
	} {
		assert.InDelta(t, c.want, quantile(c.sorted, c.q), 1e-9, "%v of %v", c.q, c.sorted)
	}
}

func samples(values ...float64) (all []sample) {
	for _, v := range values {
		all = append(all, sample{value: v, usage: usage{CPU: v / 2}})
	}
	return all
}

// TestRatiosAreToTheBases compares times by their minima and rates by their maxima.
func TestRatiosAreToTheBases(t *testing.T) {
	all := []*contender{{name: "ours", samples: samples(30, 10, 20)}, {name: "theirs", base: true, samples: samples(40, 5, 50)}}
	times := contest{unit: unitTime, contenders: all}.result("g")
	assert.Equal(t, []ratio{{"theirs", 0.5, 2}}, times.Contenders[0].Ratios)
	assert.Empty(t, times.Contenders[1].Ratios, "no ratio of the base to itself")
	rates := contest{unit: unitRate, contenders: all}.result("g")
	assert.Equal(t, []ratio{{"theirs", 0.5, 0.6}}, rates.Contenders[0].Ratios)
	assert.Equal(t, &usage{CPU: 10}, rates.Contenders[0].Usage)
	assert.Equal(t, quantiles{10, 11, 15, 20, 25, 29, 30}, rates.Contenders[0].Quantiles)
}

func TestShareOfTheRounds(t *testing.T) {
	for _, c := range []struct{ rounds, part, want int }{{200, 1, 200}, {200, 8, 25}, {40, 8, 10}, {2, 20, 2}} {
		b := &bench{options: options{rounds: c.rounds}}
		assert.Equal(t, c.want, b.share(c.part), "1 in %d of %d", c.part, c.rounds)
	}
}

func TestProcFilesAreParsed(t *testing.T) {
	pid, p, err := parseStat("42 (a) b (c) S 7 42 42 0\n")
	require.NoError(t, err)
	assert.Equal(t, 42, pid)
	assert.Equal(t, process{"a) b (c", 7}, p)
	_, _, err = parseStat("42 S 7")
	assert.Error(t, err)

	rollup := "00400000-7fff [rollup]\nRss: 100 kB\nPss:  60 kB\nPss_Dirty:  9 kB\nPrivate_Clean:  3 kB\nPrivate_Dirty:  4 kB\nPrivate_Hugetlb:  8 kB\n"
	for field, want := range map[string]float64{"Private_": 7, "Pss:": 60} {
		kib, err := sumField(rollup, field)
		require.NoError(t, err)
		assert.Equal(t, want, kib, field)
	}
	_, err = sumField("00400000-7fff [rollup]\n", "Pss:")
	assert.Error(t, err, "a field that is not there is not 0")

	assert.Equal(t, "A B", cpuModel("processor\t: 0\nmodel name\t: A B\nmodel name\t: C\n"))
	assert.Empty(t, cpuModel("processor\t: 0\nCPU part\t: 0xd0c\n"))
}

func TestMisspeltFlagsAreErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--only", "bwrap,sesions"}, "--only sesions: no group has this name; the groups are bwrap, run, binds,"},
		{[]string{"--only", ""}, "no group has this name"},
		{[]string{"--rounds", "0"}, "take a number from 1 on"},
		{[]string{"--workers", "0"}, "take a number from 1 on"},
		{[]string{"bwrap"}, `"bwrap" is not a flag`},
		{[]string{"--round", "3"}, "see nsbench --help"},
	} {
		_, err := parse(c.args, io.Discard)
		assert.ErrorContains(t, err, c.want, c.args)
	}
	o, err := parse([]string{"-only", "bwrap,run", "-nsrun", "/n", "-program", "/p", "--against", "/a", "--against", "/b"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, options{nsrun: "/n", program: "/p", only: []string{"bwrap", "run"}, against: []string{"/a", "/b"}, rounds: 200, workers: 2}, o)
}

func TestHelpListsGroups(t *testing.T) {
	var out bytes.Buffer
	_, err := parse([]string{"--help"}, &out)
	require.ErrorIs(t, err, flag.ErrHelp)
	for _, g := range groups {
		assert.Contains(t, out.String(), "\n  "+g.name+" ")
	}
}

// TestPlot draws a rate as a time, and each bubblewrap's bars.
func TestPlot(t *testing.T) {
	r := &report{Programs: []program{{Name: "nsrun", Version: "nsrun 1"}, {Name: "bubblewrap 2"}, {Name: "bubblewrap 3"}}}
	for _, c := range []contest{
		{title: "a <case>", unit: unitTime, contenders: []*contender{{name: "n", plotted: true, samples: samples(3)}, {name: "bubblewrap 2", base: true, samples: samples(4)},
			{name: "bubblewrap 3, covered", base: true, samples: samples(1)}}},
		{title: "rate", unit: unitRate, contenders: []*contender{{name: "n", plotted: true, samples: samples(8)}, {name: "m", plotted: true, samples: samples(2)},
			{name: "bubblewrap 2", base: true, samples: samples(4)}, {name: "no bubblewrap", base: true, samples: samples(1)}}},
	} {
		r.Cases = append(r.Cases, c.result("g"))
	}
	assert.Equal(t, []bar{{"a <case>", 0.75, 0}, {"", 3, 1}, {"rate: n, time per run", 0.5, 0}, {"rate: m, time per run", 2, 0}},
		plotBars(r, []string{"bubblewrap 2", "bubblewrap 3"}))
	text := plot(r)
	assert.NoError(t, xml.Unmarshal([]byte(text), new(struct{})), "it is XML")
	assert.Contains(t, text, "a &lt;case&gt;")
}

// fakeBwrap makes a bubblewrap that runs the last word, which is the command in all cases. The shell waits for it, as a monitor does.
func fakeBwrap(t *testing.T, dir string) string {
	name := filepath.Join(dir, "fake")
	require.NoError(t, os.WriteFile(name, []byte(`#!/bin/sh
test "$1" = --version && { echo bubblewrap 9.9; exit; }
for last; do :; done
"$last"
exit $?
`), 0o755))
	return name
}

// groupsHere are groups for a test: one alone if there are no sandboxes here.
func groupsHere(t *testing.T, nsrun string) []string {
	if out, err := exec.Command(nsrun, "run", "--", "/bin/true").CombinedOutput(); err != nil {
		require.Empty(t, os.Getenv("CI"), "CI must be able to run sandboxes: %s", out)
		t.Logf("no sandbox here, so only group version: %s", out)
		return []string{"version"}
	}
	return []string{"bwrap", "explain", "network", "version", "throughput", "memory", "sessions", "pool", "ndjson"}
}

// TestLikeView compares the mounts of nsrun run with those of the bubblewrap that it is measured against.
func TestLikeView(t *testing.T) {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		require.Empty(t, os.Getenv("CI"), "CI must have bwrap")
		t.Skip("no bwrap")
	}
	nsrun := filepath.Join(t.TempDir(), "nsrun")
	require.NoError(t, testenv.Build(nsrun, "../nsrun"))
	if !slices.Contains(groupsHere(t, nsrun), "bwrap") {
		require.Empty(t, os.Getenv("CI"), "CI must make sandboxes")
		t.Skip("no sandbox here")
	}
	b := &bench{options: options{nsrun: nsrun}, theirs: []program{{Name: "bubblewrap", copied: bwrap}}, env: os.Environ()}
	b.covers, err = b.readCovers()
	require.NoError(t, err)
	points := func(of sandbox) (at []string) {
		cmd := exec.Command(of.argv[0], append(of.argv[1:], "/bin/cat", "/proc/self/mountinfo")...)
		cmd.Dir = runDir
		out, err := cmd.Output()
		require.NoError(t, err, of.name)
		view, err := mounts.ParseMountinfo(out)
		require.NoError(t, err)
		for _, m := range view {
			at = append(at, m.Point)
		}
		slices.Sort(at)
		return slices.Compact(at)
	}
	all := b.layered(nil)
	assert.Equal(t, points(all[0]), points(all[2]))
	assert.Less(t, len(points(all[1])), len(points(all[2])), "the bare one")
}

// TestEndToEnd measures with few rounds, against a bubblewrap of its own making.
func TestEndToEnd(t *testing.T) {
	dir, err := testenv.MakeDir("nsrun-nsbench-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	ours, theirs := filepath.Join(dir, "nsrun"), fakeBwrap(t, dir)
	require.NoError(t, testenv.Build(ours, "../nsrun"))
	require.NoError(t, testenv.Build(filepath.Join(dir, "nsrun-helper"), "../nsrun-helper"))
	only := groupsHere(t, ours)
	before := explainPrograms
	t.Cleanup(func() { explainPrograms = before })
	explainPrograms = slices.DeleteFunc(slices.Clone(before), func(p explainProgram) bool { return p.title != "find" }) // the others take seconds
	results, svg := filepath.Join(dir, "out.json"), filepath.Join(dir, "out.svg")
	var out bytes.Buffer
	err = run([]string{"--nsrun", ours, "--against", theirs, "--against", theirs, "--rounds", "2", "--only", strings.Join(only, ","), "--json", results, "--plot", svg}, &out)
	require.NoError(t, err, out.String())

	var got report
	data, err := os.ReadFile(results)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &got))
	assert.Equal(t, os.Getuid(), got.Machine.UID)
	assert.NotEmpty(t, got.Machine.Kernel)
	assert.Equal(t, []string{"nsrun", "bubblewrap 9.9", "bubblewrap 9.9 of " + theirs}, []string{got.Programs[0].Name, got.Programs[1].Name, got.Programs[2].Name})
	var measured []string
	for _, c := range got.Cases {
		measured = append(measured, c.Group)
		for _, line := range c.Contenders {
			assert.Positive(t, line.Quantiles.Min, "%s: %s", c.Title, line.Name)
			assert.LessOrEqual(t, line.Quantiles.Median, line.Quantiles.P95, "%s: %s", c.Title, line.Name)
		}
		assert.Contains(t, out.String(), "\n"+c.Title+": "+c.Unit)
	}
	assert.Equal(t, only, slices.Compact(measured))
	drawn, err := os.ReadFile(svg)
	require.NoError(t, err)
	assert.Contains(t, string(drawn), "against bubblewrap 9.9")
}
