package runner

import (
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
	"github.com/nsrun/nsrun/rlimit"
	"github.com/nsrun/nsrun/rlimit/cgroup"
	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

// TestDenialsOfAnEnding has a row for each limit and signal that is evidence, and rows for what is none. The test script explain_limit has real ones.
func TestDenialsOfAnEnding(t *testing.T) {
	limit := func(name, op, flag, manifest string) result.Denial {
		d := result.Denial{Kind: "limit", Op: op, Rule: name, Count: 1}
		if flag != "" {
			d.Change = &result.Change{Flag: flag, Manifest: `"limits": {` + manifest + `}`}
		}
		return d
	}
	found := result.Denial{Kind: "fs", Op: "openat", Rule: "view", Count: 3}
	over := [2]backend.Passed{1: {Counted: true, Over: true}}
	grouped := func(limits ...plan.Enforcement) *plan.Plan {
		return &plan.Plan{Explain: &plan.Explain{}, EnforcedBy: limits}
	}
	cut := grouped(plan.Enforcement{Limit: "pids=8"})
	cut.Notes = []plan.Note{{Feature: "limits", Loss: "pids 99 is beyond the ceiling; it is 8"}}
	failed := unix.WaitStatus(1 << 8)
	for name, c := range map[string]struct {
		plan *plan.Plan
		out  backend.Outcome
		want []result.Denial
	}{
		"nothing": {grouped(), backend.Outcome{Status: failed}, nil},
		"memory": {grouped(plan.Enforcement{Limit: "memory_mb=64"}), backend.Outcome{Status: 9, Evidence: cgroup.Evidence{OOMKills: 1}},
			[]result.Denial{limit(policy.MemoryMB, "memory_mb=64", "--limit memory_mb=128", `"memory_mb": 128`)}},
		"memory of the host": {grouped(plan.Enforcement{Limit: "memory_mb=64", Default: true}), backend.Outcome{Status: 9, Evidence: cgroup.Evidence{OOMKills: 1}},
			[]result.Denial{limit(policy.MemoryMB, "memory_mb=64", "", "")}},
		"processes, before what the listener found": {grouped(plan.Enforcement{Limit: "pids=8"}), backend.Outcome{Status: failed, Evidence: cgroup.Evidence{PidsMax: 2}, Denials: []result.Denial{found}},
			[]result.Denial{limit(policy.Pids, "pids=8", "--limit pids=16", `"pids": 16`), found}},
		"the most processes": {grouped(plan.Enforcement{Limit: "pids=4194304"}), backend.Outcome{Status: failed, Evidence: cgroup.Evidence{PidsMax: 2}},
			[]result.Denial{limit(policy.Pids, "pids=4194304", "", "")}},
		"a ceiling's processes": {cut, backend.Outcome{Status: failed, Evidence: cgroup.Evidence{PidsMax: 2}}, []result.Denial{limit(policy.Pids, "pids=8", "", "")}},
		"slower, and well": {grouped(plan.Enforcement{Limit: "cpu_percent=50"}), backend.Outcome{Evidence: cgroup.Evidence{Throttled: 1}},
			[]result.Denial{limit(policy.CPUPercent, "cpu_percent=50", "--limit cpu_percent=100", `"cpu_percent": 100`)}},
		"CPU time": {&plan.Plan{Explain: &plan.Explain{}, SoftCaps: []rlimit.Limit{{Name: "cpu_seconds", Soft: 3}}}, backend.Outcome{Status: unix.WaitStatus(unix.SIGXCPU)},
			[]result.Denial{limit(policy.CPUSeconds, "cpu_seconds=3", "--limit cpu_seconds=6", `"cpu_seconds": 6`)}},
		"output":         {&plan.Plan{Explain: &plan.Explain{}, Output: &plan.Output{Bytes: 5}}, backend.Outcome{Status: 9, Output: over}, []result.Denial{limit(policy.OutputBytes, "output_bytes=5", "--limit output_bytes=10", `"output_bytes": 10`)}},
		"a full reader":  {&plan.Plan{Explain: &plan.Explain{}, Output: &plan.Output{Bytes: 5}}, backend.Outcome{Output: [2]backend.Passed{{Counted: true, Lost: "full"}}}, nil},
		"time":           {&plan.Plan{Explain: &plan.Explain{}, Timeout: plan.Duration(time.Minute)}, backend.Outcome{Status: 15, TimedOut: true}, []result.Denial{limit("timeout", "timeout=1m0s", "--timeout 2m0s", `"timeout": "2m0s"`)}},
		"not explained":  {&plan.Plan{Timeout: plan.Duration(time.Minute)}, backend.Outcome{Status: 15, TimedOut: true}, nil},
		"a foreign call": {&plan.Plan{Explain: &plan.Explain{}, Seccomp: &plan.Seccomp{Filter: "default"}}, backend.Outcome{Status: unix.WaitStatus(unix.SIGSYS)}, []result.Denial{{Kind: "foreign-arch", Op: "a call of another architecture", Rule: "seccomp", Count: 1}}},
		"a given filter": {&plan.Plan{Explain: &plan.Explain{}, Seccomp: &plan.Seccomp{Filter: "default", Raw: []byte{0}}}, backend.Outcome{Status: unix.WaitStatus(unix.SIGSYS)}, []result.Denial{{Kind: "syscall", Op: "a call that a filter kills for", Rule: "seccomp", Count: 1}}},
		"no filter":      {&plan.Plan{Explain: &plan.Explain{}}, backend.Outcome{Status: unix.WaitStatus(unix.SIGSYS)}, nil},
		"SIGSEGV":        {&plan.Plan{Explain: &plan.Explain{}, Seccomp: &plan.Seccomp{Filter: "default"}}, backend.Outcome{Status: unix.WaitStatus(unix.SIGSEGV)}, nil},
	} {
		if c.plan.Explain != nil {
			c.out.Explain = &result.Explained{Level: "on"}
		}
		assert.Equal(t, c.want, ended(c.plan, c.out).Denials, name)
	}
	many := backend.Outcome{Explain: &result.Explained{}, Status: failed, Evidence: cgroup.Evidence{PidsMax: 1}, Denials: make([]result.Denial, 100)}
	all := ended(grouped(plan.Enforcement{Limit: "pids=8"}), many).Denials
	assert.Len(t, all, 100, "a result has no more")
	assert.Equal(t, "limit", all[0].Kind)
}
