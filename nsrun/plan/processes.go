package plan

import (
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/rlimit"
)

// pids uses RLIMIT_NPROC, which the kernel counts for each user of a user namespace and does not hold root to (setrlimit(2);
// copy_process exempts INIT_USER).
func (c *compiler) pids(v uint64, byDefault bool) {
	loss := ""
	switch {
	case c.plan.Backend == BackendLandlock || c.plan.Backend == BackendNone:
		loss = "without a cgroup, or a user namespace of its own, RLIMIT_NPROC counts all processes of the caller's"
	case c.facts.UID == 0 && c.pidMax(v, byDefault):
		return
	case c.facts.UID == 0:
		loss = "RLIMIT_NPROC does not bind a sandbox that root starts, and no cgroup can be made here"
	default:
		c.limit(rlimit.Both("pids", v), byDefault)
		return
	}
	if byDefault {
		c.note(DefaultLimits, "the number of processes is not bounded unless asked for, as it takes a cgroup of version 2 whose children have the controller pids, or another user than root", "set pids")
		return
	}
	c.lose(Note{Feature: policy.Pids, Loss: loss, Found: c.noGroup(), Fix: c.facts.Fix(facts.CgroupV2)}, false)
}

// leastPidMax is what is worth bounding by kernel.pid_max: numbers below 300 are given once, so the bound is up to 300 lower than it says.
const leastPidMax = 1024

// pidMax bounds the numbers that processes and threads of the sandbox's pid namespace can have, which start at 1: pid_namespaces(7), since
// Linux 6.14.
func (c *compiler) pidMax(v uint64, byDefault bool) bool {
	most := min(int64(v)+c.ours()+1, 1<<22) // PID_MAX_LIMIT
	if c.plan.Bwrap != nil || c.plan.Backend != BackendNative || c.facts.State(facts.PidMax) != facts.Yes || v < leastPidMax ||
		c.facts.PidMaxLeast == 0 || most < int64(c.facts.PidMaxLeast) {
		return false
	}
	c.plan.PidMax = most
	c.enforce(policy.Limit{Name: policy.Pids, Value: int64(v)}, "kernel.pid_max", byDefault)
	if !byDefault {
		c.note("kernel.pid_max", "it refuses up to 300 processes too early: a number below 300 is not given twice", c.facts.Fix(facts.CgroupV2))
	}
	return true
}
