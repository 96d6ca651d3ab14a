package cgroup

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFit(t *testing.T) {
	own := Place{Version: 2, Dir: "/own", Controllers: []string{"memory", "pids"}, Enable: []string{"memory"}, Leave: true}
	cpu := Place{Version: 1, Dir: "/cpu", Controllers: []string{"cpu"}}
	trees, missing := Fit([]Place{own, cpu}, Limits{MemoryMB: 1, Pids: 2, CPUPercent: 50})
	assert.Empty(t, missing)
	assert.Equal(t, []Tree{
		{Version: 2, Dir: "/own", Enable: []string{"memory"}, Leave: true,
			Files: []File{{Name: "memory.max", Value: "1048576"}, {Name: "memory.swap.max", Value: "0", Optional: true}, {Name: "pids.max", Value: "2"}}},
		{Version: 1, Dir: "/cpu", Files: []File{{Name: "cpu.cfs_period_us", Value: "100000"}, {Name: "cpu.cfs_quota_us", Value: "50000"}}},
	}, trees)

	trees, missing = Fit([]Place{own}, Limits{Pids: 2, CPUPercent: 50})
	assert.Equal(t, []string{"cpu"}, missing)
	assert.Equal(t, []Tree{{Version: 2, Dir: "/own", Files: []File{{Name: "pids.max", Value: "2"}}}}, trees, "nothing to enable is nothing to leave for")

	disk := Place{Version: 2, Dir: "/io", Controllers: []string{"memory", "io"}, Enable: []string{"memory", "io"}}
	trees, missing = Fit([]Place{disk}, Limits{ReadMB: 3, WriteMB: 4})
	assert.Empty(t, missing)
	assert.Equal(t, []Tree{{Version: 2, Dir: "/io", Enable: []string{"io", "memory"},
		Files: []File{{Name: "io.max", Value: "rbps=3145728", Disk: true}, {Name: "io.max", Value: "wbps=4194304", Disk: true}}}}, trees)
	trees, _ = Fit([]Place{{Version: 1, Dir: "/blkio", Controllers: []string{"io"}}}, Limits{ReadMB: 3, WriteMB: 4})
	assert.Equal(t, []Tree{{Version: 1, Dir: "/blkio", Files: []File{{Name: "blkio.throttle.read_bps_device", Value: "3145728", Disk: true},
		{Name: "blkio.throttle.write_bps_device", Value: "4194304", Disk: true}}}}, trees)

	trees, missing = Fit(nil, Limits{})
	assert.Empty(t, append(missing, toStrings(trees)...))
}

func toStrings(trees []Tree) (dirs []string) {
	for _, t := range trees {
		dirs = append(dirs, t.Dir)
	}
	return dirs
}

func TestValue(t *testing.T) {
	for _, c := range []struct {
		text, word string
		n          int64
		ok         bool
	}{
		{"low 0\noom 3\noom_kill 2\noom_group_kill 0\n", "oom_kill", 2, true},
		{"oom_kill_disable 0\nunder_oom 0\noom_kill 7", "oom_kill", 7, true},
		{"1234\n", "", 1234, true},
		{"max\n", "", 0, false},
		{"-1\n", "", 0, false},
		{"", "", 0, false},
		{"max 5\n", "max", 5, true},
		{"maximum 5\n", "max", 0, false},
		{"max 99999999999999999999\n", "max", 0, false},
	} {
		n, ok := value(c.text, c.word)
		assert.Equal(t, c.ok, ok, "%q %q", c.text, c.word)
		if ok {
			assert.Equal(t, c.n, n, "%q %q", c.text, c.word)
		}
	}
}

func FuzzCgroup(f *testing.F) {
	f.Add("oom_kill 2\n", "oom_kill")
	f.Add("max 3", "max")
	f.Add("12\n", "")
	f.Fuzz(func(t *testing.T, text, word string) {
		if n, ok := value(text, word); ok && n < 0 {
			t.Fatal(n)
		}
	})
}

func TestSince(t *testing.T) {
	now := Evidence{OOMKills: 5, PidsMax: 7, Throttled: 9, PeakBytes: 100, PeakPids: 10}
	assert.Equal(t, Evidence{OOMKills: 1, PidsMax: 2, Throttled: 3, PeakBytes: 100, PeakPids: 10}, now.Since(Evidence{OOMKills: 4, PidsMax: 5, Throttled: 6, PeakBytes: 90, PeakPids: 9}))
}
