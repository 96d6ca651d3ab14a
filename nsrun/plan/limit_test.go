package plan

import (
	"cmp"
	"slices"
	"strconv"
	"testing"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/rlimit"
	"github.com/nsrun/nsrun/rlimit/cgroup"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	all = []string{"memory", "pids", "cpu"}
	v2  = facts.Group{Version: 2, Dir: "/sys/fs/cgroup/own", Controllers: all}
)

func v1(controller string) facts.Group {
	return facts.Group{Version: 1, Dir: "/sys/fs/cgroup/" + controller, Controllers: []string{controller}}
}

// TestWhatHoldsALimit asks for each limit on the whole sandbox on hosts that have something else to hold it.
func TestWhatHoldsALimit(t *testing.T) {
	type want struct {
		held  []Enforcement
		trees []cgroup.Tree
		limit []rlimit.Limit
		note  string // the begin of one
		unmet string
	}
	file := func(name, value string) cgroup.File { return cgroup.File{Name: name, Value: value} }
	memory := policy.Limit{Name: "memory_mb", Value: 64}
	pids := policy.Limit{Name: "pids", Value: 10}
	cpu := policy.Limit{Name: "cpu_percent", Value: 150}
	weight := policy.Limit{Name: "cpu_weight", Value: 30}
	for name, c := range map[string]struct {
		limit   policy.Limit
		uid     int
		groups  []facts.Group
		backend policy.Backend
		want    want
	}{
		"memory by version 2": {memory, 1000, []facts.Group{v2}, "", want{held: []Enforcement{{"memory_mb=64", "cgroup v2", false}},
			trees: []cgroup.Tree{{Version: 2, Dir: v2.Dir, Files: []cgroup.File{file("memory.max", "67108864"), {Name: "memory.swap.max", Value: "0", Optional: true}}}}}},
		"memory by version 1": {memory, 0, []facts.Group{v1("cpu"), v1("memory")}, "", want{held: []Enforcement{{"memory_mb=64", "cgroup v1", false}},
			trees: []cgroup.Tree{{Version: 1, Dir: "/sys/fs/cgroup/memory", Files: []cgroup.File{file("memory.limit_in_bytes", "67108864"), {Name: "memory.memsw.limit_in_bytes", Value: "67108864", Optional: true}}}}}},
		"little memory": {policy.Limit{Name: "memory_mb", Value: littleMB - 1}, 1000, []facts.Group{v2}, "", want{held: []Enforcement{{"memory_mb=7", "cgroup v2", false}}, note: "little memory: so little may not hold",
			trees: []cgroup.Tree{{Version: 2, Dir: v2.Dir, Files: []cgroup.File{file("memory.max", "7340032"), {Name: "memory.swap.max", Value: "0", Optional: true}}}}}},
		"memory of each process":    {memory, 1000, nil, "", want{limit: []rlimit.Limit{rlimit.Both("data", 64<<20)}, note: "memory_mb: bounds the private memory of each process"}},
		"memory of a container":     {memory, 1000, []facts.Group{v2}, policy.BackendDocker, want{held: []Enforcement{{"memory_mb=64", "cgroup", false}}}},
		"memory under bubblewrap":   {memory, 1000, []facts.Group{v2}, policy.BackendBwrap, want{limit: []rlimit.Limit{rlimit.Both("data", 64<<20)}, note: "memory_mb: bounds"}},
		"processes by version 2":    {pids, 0, []facts.Group{v2}, "", want{held: []Enforcement{{"pids=10", "cgroup v2", false}}, trees: []cgroup.Tree{{Version: 2, Dir: v2.Dir, Files: []cgroup.File{file("pids.max", "11")}}}}},
		"processes with Landlock":   {pids, 0, []facts.Group{v2}, policy.BackendLandlock, want{held: []Enforcement{{"pids=10", "cgroup v2", false}}, trees: []cgroup.Tree{{Version: 2, Dir: v2.Dir, Files: []cgroup.File{file("pids.max", "12")}}}}},
		"as many as there can be":   {policy.Limit{Name: "pids", Value: 1 << 22}, 0, []facts.Group{v2}, "", want{held: []Enforcement{{"pids=4194304", "cgroup v2", false}}, trees: []cgroup.Tree{{Version: 2, Dir: v2.Dir, Files: []cgroup.File{file("pids.max", "4194304")}}}}},
		"processes of a user":       {pids, 1000, nil, "", want{limit: []rlimit.Limit{rlimit.Both("pids", 10)}}},
		"processes of root":         {pids, 0, nil, "", want{unmet: "RLIMIT_NPROC does not bind a sandbox that root starts"}},
		"processes, no namespace":   {pids, 1000, nil, policy.BackendLandlock, want{unmet: "RLIMIT_NPROC counts all processes of the caller's"}},
		"a controller is missing":   {pids, 0, []facts.Group{v1("memory")}, "", want{unmet: "RLIMIT_NPROC does not bind"}},
		"CPU by version 2":          {cpu, 1000, []facts.Group{v2}, "", want{held: []Enforcement{{"cpu_percent=150", "cgroup v2", false}}, trees: []cgroup.Tree{{Version: 2, Dir: v2.Dir, Files: []cgroup.File{file("cpu.max", "150000 100000")}}}}},
		"CPU by nothing":            {cpu, 1000, nil, "", want{unmet: "a CPU share takes a cgroup, and none can be made here"}},
		"CPU, enabled first":        {cpu, 0, []facts.Group{{Version: 2, Dir: "/c", Controllers: all, Enable: []string{"cpu", "pids"}, Leave: true}}, "", want{held: []Enforcement{{"cpu_percent=150", "cgroup v2", false}}, trees: []cgroup.Tree{{Version: 2, Dir: "/c", Enable: []string{"cpu"}, Leave: true, Files: []cgroup.File{file("cpu.max", "150000 100000")}}}}},
		"CPU, there already":        {cpu, 0, []facts.Group{{Version: 2, Dir: "/c", Controllers: all, Enable: []string{"pids"}, Leave: true}}, "", want{held: []Enforcement{{"cpu_percent=150", "cgroup v2", false}}, trees: []cgroup.Tree{{Version: 2, Dir: "/c", Files: []cgroup.File{file("cpu.max", "150000 100000")}}}}},
		"CPU without any sandbox":   {cpu, 1000, []facts.Group{v1("cpu")}, policy.BackendNone, want{held: []Enforcement{{"cpu_percent=150", "cgroup v1", false}}, trees: []cgroup.Tree{{Version: 1, Dir: "/sys/fs/cgroup/cpu", Files: []cgroup.File{file("cpu.cfs_period_us", "100000"), file("cpu.cfs_quota_us", "150000")}}}}},
		"a weight by version 2":     {weight, 1000, []facts.Group{v2}, "", want{held: []Enforcement{{"cpu_weight=30", "cgroup v2", false}}, trees: []cgroup.Tree{{Version: 2, Dir: v2.Dir, Files: []cgroup.File{file("cpu.weight", "30")}}}}},
		"a weight by version 1":     {weight, 0, []facts.Group{v1("cpu")}, "", want{unmet: "a CPU weight takes a cgroup of version 2"}},
		"a weight beside version 1": {weight, 0, []facts.Group{v1("cpu"), {Version: 2, Dir: "/c", Controllers: all, Enable: []string{"cpu"}}}, "", want{held: []Enforcement{{"cpu_weight=30", "cgroup v2", false}}, trees: []cgroup.Tree{{Version: 2, Dir: "/c", Enable: []string{"cpu"}, Files: []cgroup.File{file("cpu.weight", "30")}}}}},
		"a weight of a container":   {weight, 0, []facts.Group{v2}, policy.BackendDocker, want{unmet: "a CPU weight takes a cgroup of version 2"}},
		"the first place counts":    {cpu, 0, []facts.Group{v2, v1("cpu")}, "", want{held: []Enforcement{{"cpu_percent=150", "cgroup v2", false}}, trees: []cgroup.Tree{{Version: 2, Dir: v2.Dir, Files: []cgroup.File{file("cpu.max", "150000 100000")}}}}},
		"a disk by version 2": {policy.Limit{Name: "io_read_mb", Value: 2}, 1000, []facts.Group{{Version: 2, Dir: "/c", Controllers: []string{"io"}}}, "", want{held: []Enforcement{{"io_read_mb=2", "cgroup v2", false}},
			trees: []cgroup.Tree{{Version: 2, Dir: "/c", Files: []cgroup.File{{Name: "io.max", Value: "rbps=2097152", Disk: true}}}}}},
		"a disk by version 1": {policy.Limit{Name: "io_write_mb", Value: 2}, 0, []facts.Group{v1("io")}, "", want{held: []Enforcement{{"io_write_mb=2", "cgroup v1", false}}, note: "io_write_mb: what is written through the page cache is not bounded",
			trees: []cgroup.Tree{{Version: 1, Dir: "/sys/fs/cgroup/io", Files: []cgroup.File{{Name: "blkio.throttle.write_bps_device", Value: "2097152", Disk: true}}}}}},
		"a disk by version 2, whole": {policy.Limit{Name: "io_write_mb", Value: 2}, 1000, []facts.Group{{Version: 2, Dir: "/c", Controllers: []string{"memory", "io"}, Enable: []string{"memory", "io"}}}, "", want{held: []Enforcement{{"io_write_mb=2", "cgroup v2", false}},
			trees: []cgroup.Tree{{Version: 2, Dir: "/c", Enable: []string{"io", "memory"}, Files: []cgroup.File{{Name: "io.max", Value: "wbps=2097152", Disk: true}}}}}},
		"a disk without memory": {policy.Limit{Name: "io_write_mb", Value: 2}, 1000, []facts.Group{{Version: 2, Dir: "/c", Controllers: []string{"io"}}}, "", want{held: []Enforcement{{"io_write_mb=2", "cgroup v2", false}}, note: "io_write_mb: what is written through the page cache is not bounded",
			trees: []cgroup.Tree{{Version: 2, Dir: "/c", Files: []cgroup.File{{Name: "io.max", Value: "wbps=2097152", Disk: true}}}}}},
		"a disk by nothing":         {policy.Limit{Name: "io_write_mb", Value: 2}, 1000, nil, "", want{unmet: "the speed of disks takes a cgroup with the controller io"}},
		"a disk of a container's":   {policy.Limit{Name: "io_write_mb", Value: 2}, 1000, []facts.Group{v2}, policy.BackendDocker, want{unmet: "the speed of disks takes a cgroup"}},
		"of messages, by an rlimit": {policy.Limit{Name: "message_queues", Value: 0}, 1000, nil, "", want{limit: []rlimit.Limit{rlimit.Both("message_queues", 0)}}},
	} {
		t.Run(name, func(t *testing.T) {
			f := host("6.18.0", 7, c.uid)
			f.Groups = c.groups
			f = f.With(facts.CgroupClone, facts.Answer{State: facts.No}) // for the default ones to keep out of it
			p, err := Compile(Request{Private: spare, Policy: policy.Policy{Backend: c.backend, Limits: []policy.Limit{c.limit}}, Command: []string{"true"}}, f)
			if c.want.unmet != "" {
				require.ErrorContains(t, err, c.want.unmet)
				return
			}
			require.NoError(t, err)
			var enforced []Enforcement
			for _, h := range p.EnforcedBy {
				if !h.Default {
					enforced = append(enforced, h)
				}
			}
			assert.Equal(t, c.want.held, enforced)
			assert.Equal(t, c.want.trees, p.Cgroups)
			assert.Equal(t, c.want.limit, p.Limits)
			if c.want.note != "" {
				assert.Contains(t, p.String(), c.want.note)
			}
		})
	}
}

// TestDefaultLimitsAreNoReasonToFail plans without a word on limits.
func TestDefaultLimitsAreNoReasonToFail(t *testing.T) {
	for name, f := range hosts {
		p, err := Compile(Request{Private: spare, Policy: policy.Policy{Backend: policy.BackendNone}, Command: []string{"true"}}, f)
		require.NoError(t, err, name)
		assert.Empty(t, p.SoftCaps, "%s: a command without a sandbox is as the caller would run it", name)
		p, err = Compile(Request{Private: spare, Policy: policy.Policy{}, Command: []string{"true"}}, f)
		if err != nil {
			continue
		}
		assert.Empty(t, p.Limits, name)
		for _, want := range []string{"open_files", "file_size", "cpu_seconds", "locked", "message_queues"} {
			assert.Contains(t, names(p.SoftCaps), want, name)
		}
		assert.Equal(t, &Output{Bytes: 10 << 30, Pipes: true}, p.Output, name)
		assert.Contains(t, p.Holds, "limits", "%s: what was asked for holds", name)
	}
}

func names(limits []rlimit.Limit) (all []string) {
	for _, l := range limits {
		all = append(all, l.Name)
	}
	return all
}

// TestDefaultLimitsTakeNoTime has them held by a cgroup only where the sandbox can be born in it.
func TestDefaultLimitsTakeNoTime(t *testing.T) {
	plan := func(change func(*facts.Facts)) *Plan {
		f := host("6.18.0", 7, 0)
		f.Groups, f.MemoryMB = []facts.Group{v2}, 4000
		change(&f)
		p, err := Compile(Request{Private: spare, Policy: policy.Policy{}, Command: []string{"true"}}, f)
		require.NoError(t, err)
		return p
	}
	p := plan(func(*facts.Facts) {})
	assert.Equal(t, []Enforcement{{"pids=4096", "cgroup v2", true}, {"memory_mb=3000", "cgroup v2", true}}, p.EnforcedBy)
	assert.True(t, p.Mechanisms.CgroupClone)
	assert.NotContains(t, p.String(), "default limits:")
	p = plan(func(f *facts.Facts) {
		f.Groups = []facts.Group{{Version: 2, Dir: "/c", Controllers: []string{"cpu", "io", "memory", "pids"}, Enable: []string{"cpu", "io"}, Leave: true}}
	})
	assert.Equal(t, []Enforcement{{"pids=4096", "cgroup v2", true}, {"memory_mb=3000", "cgroup v2", true}}, p.EnforcedBy, "what is enabled is, whatever else is not")
	assert.Empty(t, p.Cgroups[0].Enable)
	assert.False(t, p.Cgroups[0].Leave)
	for name, change := range map[string]func(*facts.Facts){
		"not born there":   func(f *facts.Facts) { *f = f.With(facts.CgroupClone, facts.Answer{State: facts.No}) },
		"nobody has asked": func(f *facts.Facts) { *f = f.With(facts.CgroupClone, facts.Answer{State: facts.Unknown}) },
		"version 1":        func(f *facts.Facts) { f.Groups = []facts.Group{v1("memory"), v1("pids")} },
		"to be enabled":    func(f *facts.Facts) { f.Groups = []facts.Group{{Version: 2, Dir: "/c", Controllers: all, Enable: all}} },
		"no place":         func(f *facts.Facts) { f.Groups = nil },
	} {
		p := plan(change)
		assert.Empty(t, p.EnforcedBy, name)
		assert.Empty(t, p.Cgroups, name)
		assert.Contains(t, p.String(), "default limits: memory is not bounded", name)
		assert.Contains(t, p.String(), "default limits: the number of processes is not bounded", name)
	}
}

// TestADefaultLimitGivesWay lets what is asked for stand alone.
func TestADefaultLimitGivesWay(t *testing.T) {
	p, err := Compile(Request{Private: spare, Policy: policy.Policy{}.WithLimit("open_files", 100000).WithLimit("output_bytes", 5), Command: []string{"true"}}, hosts["kernel 6.18, user"])
	require.NoError(t, err)
	assert.Equal(t, []rlimit.Limit{rlimit.Both("open_files", 100000)}, p.Limits)
	assert.NotContains(t, names(p.SoftCaps), "open_files")
	assert.Equal(t, &Output{Bytes: 5}, p.Output)
}

// TestProcessesOfRootByTheirNumbers bounds those of whom nothing else does.
func TestProcessesOfRootByTheirNumbers(t *testing.T) {
	const many = 2000
	yes := facts.Answer{State: facts.Yes}
	for name, c := range map[string]struct {
		pids    int64 // 0 is the default number
		change  func(*facts.Facts)
		backend policy.Backend
		want    int64
	}{
		"asked for":           {many, nil, "", many + 2},
		"default":             {0, nil, "", 4098},
		"too few to be exact": {leastPidMax - 1, nil, "", 0},
		"not its own":         {many, func(f *facts.Facts) { *f = f.With(facts.PidMax, facts.Answer{State: facts.No}) }, "", 0},
		"nobody has asked":    {many, func(f *facts.Facts) { *f = f.With(facts.PidMax, facts.Answer{State: facts.Unknown}) }, "", 0},
		"many processors":     {many, func(f *facts.Facts) { f.PidMaxLeast = 2400 }, "", 0},
		"who knows how many":  {many, func(f *facts.Facts) { f.PidMaxLeast = 0 }, "", 0},
		"more than there are": {1 << 22, nil, "", 1 << 22},
		"a cgroup is better":  {many, func(f *facts.Facts) { f.Groups = []facts.Group{v2} }, "", 0},
		"a user":              {many, func(f *facts.Facts) { f.UID = 1000 }, "", 0},
		"no pid namespace":    {many, nil, policy.BackendLandlock, 0},
		"another's sandbox":   {many, nil, policy.BackendBwrap, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := host("6.18.0", 7, 0).With(facts.PidMax, yes)
			f.PidMaxLeast = 301
			if c.change != nil {
				c.change(&f)
			}
			pol := policy.Policy{Backend: c.backend, Fallback: policy.Degrade}
			if c.pids > 0 {
				pol = pol.WithLimit("pids", c.pids)
			}
			p, err := Compile(Request{Private: spare, Policy: pol, Command: []string{"true"}}, f)
			require.NoError(t, err)
			assert.Equal(t, c.want, p.PidMax)
			if c.want > 0 {
				assert.Contains(t, p.EnforcedBy, Enforcement{"pids=" + strconv.FormatInt(cmp.Or(c.pids, 4096), 10), "kernel.pid_max", c.pids == 0})
				assert.Equal(t, c.pids > 0, slices.ContainsFunc(p.Notes, func(n Note) bool { return n.Feature == "kernel.pid_max" }), "who asks is told that it is not exact")
				assert.Contains(t, p.Holds, "limits")
			}
		})
	}
}
