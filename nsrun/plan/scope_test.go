package plan

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/rlimit"
	"github.com/nsrun/nsrun/rlimit/cgroup"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// managed is a host with a service manager whose scopes can have the controllers, and places for groups.
func managed(uid int, controllers []string, groups ...facts.Group) facts.Facts {
	f := host("6.18.0", 7, uid)
	f.Manager = &facts.Manager{Socket: "/run/user/1000/systemd/private", Tree: "/sys/fs/cgroup", Controllers: controllers}
	f.Groups = groups
	return f
}

// TestWhenAScopeIsAskedFor changes one thing at a time of a plan that has one.
func TestWhenAScopeIsAskedFor(t *testing.T) {
	const in = "cgroup v2, in a systemd scope"
	memory := []Enforcement{{"memory_mb=50", in, false}}
	limited := func(names ...string) func(*Request, *facts.Facts) {
		return func(r *Request, _ *facts.Facts) {
			r.Policy.Limits = nil
			for _, name := range names {
				r.Policy = r.Policy.WithLimit(name, 50)
			}
		}
	}
	known := func(change func(*facts.Facts)) func(*Request, *facts.Facts) {
		return func(_ *Request, f *facts.Facts) { change(f) }
	}
	answered := func(state facts.State) func(*Request, *facts.Facts) {
		return known(func(f *facts.Facts) { *f = f.With(facts.SystemdScope, facts.Answer{State: state}) })
	}
	for name, c := range map[string]struct {
		change func(*Request, *facts.Facts)
		held   []Enforcement // by more than each process's limits
		unmet  string
	}{
		"all three": {limited("memory_mb", "pids", "cpu_percent"),
			[]Enforcement{{"memory_mb=50", in, false}, {"pids=50", in, false}, {"cpu_percent=50", in, false}}, ""},
		"memory":            {nil, memory, ""},
		"by a bus":          {known(func(f *facts.Facts) { f.Manager.Bus = true }), memory, ""},
		"Landlock alone":    {func(r *Request, _ *facts.Facts) { r.Policy.Backend = policy.BackendLandlock }, memory, ""},
		"asked":             {answered(facts.Unknown), memory, ""},
		"version 1 is away": {known(func(f *facts.Facts) { f.Groups = []facts.Group{v1("cpu")} }), memory, ""},
		"and version 1": {func(r *Request, f *facts.Facts) {
			r.Policy = r.Policy.WithLimit("cpu_percent", 50)
			f.Groups = []facts.Group{v1("cpu")}
		},
			[]Enforcement{{"memory_mb=50", in, false}, {"cpu_percent=50", "cgroup v1", false}}, ""},

		"default limits":      {limited(), nil, ""},
		"of each process":     {limited("open_files"), nil, ""},
		"a session":           {func(r *Request, _ *facts.Facts) { r.Session, r.Command = true, nil }, nil, ""},
		"a program of others": {func(r *Request, _ *facts.Facts) { r.Sole = false }, nil, ""},
		"no backend":          {func(r *Request, _ *facts.Facts) { r.Policy.Backend = policy.BackendNone }, nil, ""},
		"bubblewrap":          {func(r *Request, _ *facts.Facts) { r.Policy.Backend = policy.BackendBwrap }, nil, ""},
		"a container": {func(r *Request, _ *facts.Facts) { r.Policy.Backend = policy.BackendDocker },
			[]Enforcement{{"memory_mb=50", "cgroup", false}, {"pids=4096", "cgroup", true}}, ""},
		"nobody answers": {answered(facts.No), nil, ""},
		"no manager":     {known(func(f *facts.Facts) { f.Manager = nil }), nil, ""},
		"version 1 has it": {known(func(f *facts.Facts) { f.Groups = []facts.Group{v1("memory")} }),
			[]Enforcement{{"memory_mb=50", "cgroup v1", false}}, ""},
		"version 2 has it": {known(func(f *facts.Facts) { f.Groups = []facts.Group{v2} }), []Enforcement{{"memory_mb=50", "cgroup v2", false}}, ""},
		"version 2, by halves": {known(func(f *facts.Facts) {
			f.Groups = []facts.Group{{Version: 2, Dir: "/own", Controllers: []string{"pids"}}}
		}), nil, ""},
		"the manager lacks it": {known(func(f *facts.Facts) { f.Manager.Controllers = []string{"pids"} }), nil, ""},
		"it lacks one of two": {func(r *Request, f *facts.Facts) {
			f.Manager.Controllers = []string{"memory"}
			r.Policy = r.Policy.WithLimit("cpu_percent", 50)
		}, nil, "cpu_percent: a CPU share takes a cgroup"},
	} {
		t.Run(name, func(t *testing.T) {
			r, f := Request{Policy: policy.Policy{}.WithLimit("memory_mb", 50), Command: []string{"true"}, Sole: true}, managed(1000, all)
			f = f.With(facts.CgroupClone, facts.Answer{State: facts.No}) // for the default ones to keep out of it
			if c.change != nil {
				c.change(&r, &f)
			}
			p, err := Compile(r, f)
			if c.unmet != "" {
				require.ErrorContains(t, err, c.unmet)
				return
			}
			require.NoError(t, err)
			var enforced []Enforcement
			scoped := false
			for _, h := range p.EnforcedBy {
				if h.By != "tmpfs" {
					enforced = append(enforced, h)
				}
				scoped = scoped || h.By == in
			}
			assert.Equal(t, c.held, enforced)
			assert.Equal(t, scoped, p.Scope != nil)
			assert.Equal(t, scoped, strings.Contains(p.String(), "\nscope       "), p.String())
		})
	}
}

// TestAPlanSaysAllOfAScope is what its reader sees, and what the backend is given.
func TestAPlanSaysAllOfAScope(t *testing.T) {
	r := Request{Policy: policy.Policy{}.WithLimit("memory_mb", 50).WithLimit("pids", 20), Command: []string{"true"}, Sole: true}
	p, err := Compile(r, managed(1000, all))
	require.NoError(t, err)
	assert.Equal(t, &Scope{Socket: "/run/user/1000/systemd/private", Tree: "/sys/fs/cgroup",
		Description: "nsrun run", Delegate: true, CollectMode: "inactive-or-failed"}, p.Scope)
	assert.Equal(t, []cgroup.Tree{{Version: 2, Dir: InScope, Enable: []string{"memory", "pids"}, Leave: true, Files: []cgroup.File{
		{Name: "memory.max", Value: "52428800"}, {Name: "memory.swap.max", Value: "0", Optional: true},
		{Name: "pids.max", Value: "21"}}}}, p.Cgroups)
	assert.Contains(t, p.String(), `
      memory_mb=50 (cgroup v2, in a systemd scope)
      pids=20 (cgroup v2, in a systemd scope)
`)
	assert.Contains(t, p.String(), `
scope       a transient unit of systemd's for this process, by /run/user/1000/systemd/private: Delegate=yes, CollectMode=inactive-or-failed
cgroup      v2, made below the scope
`)
	assert.Contains(t, p.Holds, "limits")
	data, err := json.Marshal(p)
	require.NoError(t, err)
	var back Plan
	require.NoError(t, json.Unmarshal(data, &back))
	assert.Equal(t, p.Scope, back.Scope)
	bus := *p.Scope
	bus.Bus = true
	assert.NotEqual(t, p.Scope.String(), bus.String())
}

// TestAScopeThatWasRefused is planned for after a start has shown that there is none.
func TestAScopeThatWasRefused(t *testing.T) {
	f := managed(1000, all)
	f.Manager.Refused = "scope (enter): Access denied"
	compile := func(change func(*policy.Policy)) (*Plan, error) {
		pol := policy.Policy{}.WithLimit("memory_mb", 50).WithLimit("pids", 20)
		change(&pol)
		return Compile(Request{Private: spare, Policy: pol, Command: []string{"true"}, Sole: true}, f)
	}
	p, err := compile(func(*policy.Policy) {})
	require.NoError(t, err)
	assert.Nil(t, p.Scope)
	assert.Empty(t, p.Cgroups)
	assert.Equal(t, []rlimit.Limit{rlimit.Both("data", 50<<20), rlimit.Both("pids", 20)}, p.Limits)
	assert.Contains(t, p.String(), "systemd_scope: none could be had for memory_mb, pids; found: scope (enter): Access denied")
	assert.Contains(t, p.String(), "memory_mb: bounds the private memory of each process")
	assert.Contains(t, p.String(), "(systemd-run --user --scope true may say more)")
	f.UID = 0
	p, err = compile(func(p *policy.Policy) { p.Limits = p.Limits[:1] })
	require.NoError(t, err)
	assert.Contains(t, p.String(), "(systemd-run --scope true may say more)", "root's manager is the system's")
	f.UID = 1000
	_, err = compile(func(p *policy.Policy) { p.Require = []string{"limits"} })
	require.ErrorContains(t, err, "limits: not all limits hold as they were asked for; found: scope (enter): Access denied")
	_, err = compile(func(p *policy.Policy) { *p = p.WithLimit("cpu_percent", 50) })
	require.ErrorContains(t, err, "cpu_percent: a CPU share takes a cgroup, and none can be made here; found: scope (enter): Access denied")
	f.Groups = []facts.Group{v2}
	p, err = compile(func(*policy.Policy) {})
	require.NoError(t, err)
	assert.NotContains(t, p.String(), "systemd_scope", "who has a place needs nobody")
}
