package cgroup

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
)

func pids(n int) Limit {
	files := []File{{Name: "pids.max", Value: strconv.Itoa(n)}}
	return Limit{Controller: "pids", V1: files, V2: files}
}

func writes(bytes int) Limit {
	return Limit{Controller: "io", V1: []File{{Name: "blkio.throttle.write_bps_device", Value: strconv.Itoa(bytes), Disk: true}},
		V2: []File{{Name: "io.max", Value: "wbps=" + strconv.Itoa(bytes), Disk: true}}}
}

func TestFit(t *testing.T) {
	memory := Limit{Controller: "memory", V1: []File{{Name: "memory.limit_in_bytes", Value: "1"}}, V2: []File{{Name: "memory.max", Value: "1"}}}
	quota := Limit{Controller: "cpu", V1: []File{{Name: "cpu.cfs_quota_us", Value: "50000"}}, V2: []File{{Name: "cpu.max", Value: "50000 100000"}}}
	own := Place{Version: 2, Dir: "/own", Controllers: []string{"memory", "pids"}, Enable: []string{"memory"}, Leave: true}
	cpu := Place{Version: 1, Dir: "/cpu", Controllers: []string{"cpu"}}
	assert.Equal(t, []Tree{
		{Version: 2, Dir: "/own", Enable: []string{"memory"}, Leave: true, Files: []File{{Name: "memory.max", Value: "1"}, {Name: "pids.max", Value: "2"}}},
		{Version: 1, Dir: "/cpu", Files: []File{{Name: "cpu.cfs_quota_us", Value: "50000"}}},
	}, Fit([]Place{own, cpu}, []Limit{memory, pids(2), quota}))
	assert.Equal(t, []Tree{{Version: 2, Dir: "/own", Files: []File{{Name: "pids.max", Value: "2"}}}}, Fit([]Place{own}, []Limit{pids(2), quota}),
		"nothing to enable is nothing to leave for")

	quota.V1 = nil
	_, placed := quota.At([]Place{cpu})
	assert.False(t, placed, "version 1 has no file for it")
	place, _ := quota.At([]Place{cpu, {Version: 2, Dir: "/two", Controllers: []string{"cpu"}}})
	assert.Equal(t, "/two", place.Dir)

	disk := Place{Version: 2, Dir: "/io", Controllers: []string{"memory", "io"}, Enable: []string{"memory", "io"}}
	assert.Equal(t, []Tree{{Version: 2, Dir: "/io", Enable: []string{"io", "memory"}, Files: []File{{Name: "io.max", Value: "wbps=4", Disk: true}}}},
		Fit([]Place{disk}, []Limit{writes(4)}))
	assert.Equal(t, []Tree{{Version: 1, Dir: "/blkio", Files: []File{{Name: "blkio.throttle.write_bps_device", Value: "4", Disk: true}}}},
		Fit([]Place{{Version: 1, Dir: "/blkio", Controllers: []string{"io"}}}, []Limit{writes(4)}))
	assert.Empty(t, Fit(nil, []Limit{pids(1)}))
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
