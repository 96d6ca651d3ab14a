package main

import (
	"slices"
	"testing"

	"github.com/nsrun/nsrun/nsrun/bwrap"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/manifest"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/rlimit"
	"github.com/nsrun/nsrun/rlimit/cgroup"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// addLimit adds a row to the table of limits, for one test.
func addLimit(t *testing.T, row policy.LimitRow) {
	table := policy.LimitTable
	t.Cleanup(func() { policy.LimitTable = table })
	policy.LimitTable = append(slices.Clone(table), row)
}

// limited is the policy of a flag --limit.
func limited(t *testing.T, limit string) policy.Policy {
	f := flags{limits: stringList{limit}}
	pol, err := f.apply(policy.Default("/home/me"))
	require.NoError(t, err)
	return pol
}

func planned(t *testing.T, pol policy.Policy, groups ...facts.Group) (*plan.Plan, error) {
	f := facts.Facts{Kernel: "6.18.0", Arch: "amd64", UID: 1000, GID: 1000, LandlockABI: 7, Groups: groups}
	for _, row := range facts.Table {
		f = f.With(row.Name, facts.Answer{State: facts.Yes})
	}
	return plan.Compile(plan.Request{Policy: pol, Command: []string{"true"}}, f)
}

// TestANewLimitIsARow adds limits that nsrun does not have, and asks everything that reads the table.
func TestANewLimitIsARow(t *testing.T) {
	addLimit(t, policy.LimitRow{Name: "huge_mb", Unit: "MiB", Help: "huge pages of all processes together", Min: 2, Max: 100, Scale: 1 << 20, EnforcedBy: "a cgroup",
		Aliases: "hugetlb", Controller: "hugetlb", V2: []policy.ControlFile{{Name: "hugetlb.2MB.max", Value: "%d"}}, Flags: []string{"--huge=%d"},
		Lack: "huge pages take a cgroup"})
	pol := limited(t, "huge_mb=4")
	p, err := planned(t, pol, facts.Group{Version: 1, Dir: "/one", Controllers: []string{"hugetlb"}}, facts.Group{Version: 2, Dir: "/two", Controllers: []string{"hugetlb"}})
	require.NoError(t, err)
	assert.Contains(t, p.EnforcedBy, plan.Enforcement{Limit: "huge_mb=4", By: "cgroup v2"}, "receipts have this")
	assert.Equal(t, []cgroup.Tree{{Version: 2, Dir: "/two", Files: []cgroup.File{{Name: "hugetlb.2MB.max", Value: "4194304"}}}}, p.Cgroups)
	assert.Contains(t, p.String(), "huge_mb=4 (cgroup v2)")
	_, err = planned(t, pol)
	assert.ErrorContains(t, err, "huge_mb: huge pages take a cgroup")
	pol.Backend = policy.BackendDocker
	p, err = planned(t, pol)
	require.NoError(t, err)
	assert.Contains(t, p.Container.Flags, "--huge=4194304")

	cut, err := policy.Normalize(pol, policy.Operator{Ceilings: []policy.Ceiling{{Limits: []policy.Limit{{Name: "huge_mb", Value: 3}}, Fallback: policy.Degrade}}})
	require.NoError(t, err)
	value, _ := cut.Limit("huge_mb")
	assert.EqualValues(t, 3, value)
	assert.NotEmpty(t, cut.Notes)
	layers, err := bwrap.ParseLayers("limits=huge_mb=4")
	require.NoError(t, err)
	assert.Equal(t, []policy.Limit{{Name: "huge_mb", Value: 4}}, layers.Limits)
	for name, text := range map[string]string{"run": helpTexts()["run"], "limits": limitsHelp(), "doc/limits.md": plan.LimitMarkdown(),
		"manifests": string(manifest.Schema()), "ceilings": string(manifest.CeilingSchema())} {
		assert.Contains(t, text, "huge_mb", name)
	}
}

// TestANewLimitInAManifest reads one by its name, and by another word for it.
func TestANewLimitInAManifest(t *testing.T) {
	addLimit(t, policy.LimitRow{Name: "resident_mb", Unit: "MiB", Help: "memory of each process", Max: 100, Scale: 1 << 20, Aliases: "rss_mb", Rlimit: "rss", Grace: 5})
	m, err := manifest.Parse("m", []byte(`{"limits": {"resident_mb": 4}}`))
	require.NoError(t, err)
	pol, err := m.Policy(manifest.Context{Home: "/home/me"})
	require.NoError(t, err)
	p, err := planned(t, pol)
	require.NoError(t, err)
	assert.Contains(t, p.Limits, rlimit.Limit{Name: "rss", Soft: 4 << 20, Hard: 4<<20 + 5})
	_, err = manifest.Parse("m", []byte(`{"limits": {"resident_mb": 101}}`))
	assert.ErrorContains(t, err, "give 0 to 100")
	_, err = manifest.Parse("m", []byte(`{"rss_mb": 4}`))
	assert.ErrorContains(t, err, "did you mean limits.resident_mb?")
	assert.ErrorContains(t, policy.Limit{Name: "rss-mb", Value: 1}.Check(), "did you mean resident_mb?")
}
