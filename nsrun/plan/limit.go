package plan

import (
	"fmt"
	"slices"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/rlimit"
	"github.com/nsrun/nsrun/rlimit/cgroup"
)

// Enforcement is a limit that something else than the kernel's limits of each process enforces, and what that is.
type Enforcement struct {
	Limit string `json:"limit"` // "memory_mb=256"
	By    string `json:"by"`    // "cgroup v2"
	// Default says that it was not asked for: see [policy.DefaultLimits].
	Default bool `json:"default,omitempty"`
}

// String gives "memory_mb=256 (cgroup v2)".
func (h Enforcement) String() string { return h.Limit + " (" + h.By + ")" }

// DefaultLimits is the feature of notes on limits that were not asked for, and do not hold: see [policy.DefaultLimits].
const DefaultLimits = "default limits"

// limits turns the policy's limits, and the default ones that it does not name, into what enforces them.
func (c *compiler) limits() error {
	if c.pol.Isolation.Level() == policy.Permissive {
		return nil
	}
	c.scope()
	for _, l := range c.pol.Limits {
		if err := c.bound(l, false); err != nil {
			return err
		}
	}
	for _, l := range c.defaultLimits() {
		if err := c.bound(l, true); err != nil {
			return err
		}
	}
	if c.group.Pids > 0 {
		c.group.Pids = min(c.group.Pids+c.ours(), mostPids)
	}
	c.plan.Cgroups, _ = cgroup.Fit(c.groups(false), c.group)
	return nil
}

// mostPids is the highest bound that the pids controllers take: PIDS_MAX in kernel/cgroup/pids.c. No process has a higher number, either.
const mostPids = 1 << 22

// ours is how many processes of nsrun's own are in a sandbox: pid 1, or a subreaper and its watchdog; in a session the supervisor that waits for
// the next command as well. Those of commands that run count.
func (c *compiler) ours() int64 {
	n := int64(1)
	if c.plan.KillScope {
		n++
	}
	if c.req.Session {
		n++
	}
	return n
}

// defaultLimits are the limits of a sandbox whose policy does not say. Memory is the host's but for a quarter.
func (c *compiler) defaultLimits() (limits []policy.Limit) {
	if c.plan.Backend == BackendNone || c.plan.Bwrap != nil {
		return nil
	}
	all := slices.Clone(policy.DefaultLimits)
	if c.facts.MemoryMB > 0 {
		all = append(all, policy.Limit{Name: "memory_mb", Value: max(c.facts.MemoryMB*3/4, 1)})
	}
	return slices.DeleteFunc(all, func(l policy.Limit) bool { _, set := c.pol.Limit(l.Name); return set })
}

// bound plans one limit. A default one is never more than what is in force already, and no reason to refuse a run.
func (c *compiler) bound(l policy.Limit, byDefault bool) error {
	v := uint64(l.Value)
	switch l.Name {
	case "cpu_seconds":
		// SIGXCPU at the soft limit, SIGKILL a second later (setrlimit(2)).
		c.limit(rlimit.Limit{Name: "cpu_seconds", Soft: v, Hard: v + 1}, byDefault)
	case "file_size_mb":
		c.limit(rlimit.Both("file_size", v<<20), byDefault)
	case "open_files", "core", "message_queues", "pending_signals":
		c.limit(rlimit.Both(l.Name, v), byDefault)
	case "address_space_mb", "stack_mb", "locked_mb":
		c.limit(rlimit.Both(l.Name[:len(l.Name)-len("_mb")], v<<20), byDefault)
	case "memory_mb", "pids", "cpu_percent", "io_read_mb", "io_write_mb":
		c.shared(l, byDefault)
	case "tmpfs_mb": // in the mounts
		if c.plan.Backend == BackendLandlock || c.plan.Backend == BackendNone {
			c.lose(Note{Feature: "tmpfs_mb", Loss: "the backend " + c.plan.Backend + " has no private file systems to bound", Fix: "use the backend native"}, false)
			return nil
		}
		c.enforce(l, "tmpfs", byDefault)
	case "output_bytes":
		c.output(l, byDefault)
	default:
		return fmt.Errorf("bug: limit %q is not planned", l.Name)
	}
	return nil
}

func (c *compiler) limit(l rlimit.Limit, byDefault bool) {
	if byDefault {
		c.plan.SoftCaps = append(c.plan.SoftCaps, l)
	} else {
		c.plan.Limits = append(c.plan.Limits, l)
	}
}

// littleMB is where interpreters begin to read their own code again and again, for seconds, before the kernel gives up: measured with Python.
const littleMB = 8

// shared plans a limit on the whole sandbox: of a container, or of a cgroup, or else by the nearest that the kernel has for processes.
func (c *compiler) shared(l policy.Limit, byDefault bool) {
	box := c.plan.Container
	controller := controllers[l.Name]
	enforced := box != nil && controller != "io" || c.plan.Bwrap == nil && cgroup.Has(c.groups(byDefault), controller)
	switch {
	case !enforced && l.Name == "memory_mb":
		c.memory(uint64(l.Value), byDefault)
	case !enforced && l.Name == "pids":
		c.pids(uint64(l.Value), byDefault)
	case !enforced && controller == "io":
		c.lose(Note{Feature: l.Name, Loss: "the speed of disks takes a cgroup with the controller io, and none can be made here",
			Found: c.noGroup(), Fix: c.facts.Fix(facts.CgroupV2)}, false)
	case !enforced:
		c.lose(Note{Feature: l.Name, Loss: "a CPU share takes a cgroup, and none can be made here",
			Found: c.noGroup(), Fix: c.facts.Fix(facts.CgroupV2) + "; or use cpu_seconds"}, false)
	case box != nil:
		*map[string]*int64{"memory_mb": &box.MemoryMB, "pids": &box.Pids, "cpu_percent": &box.CPUPercent}[l.Name] = l.Value
		c.enforce(l, "cgroup", byDefault)
	default:
		*map[string]*int64{"memory_mb": &c.group.MemoryMB, "pids": &c.group.Pids, "cpu_percent": &c.group.CPUPercent,
			"io_read_mb": &c.group.ReadMB, "io_write_mb": &c.group.WriteMB}[l.Name] = l.Value
		c.enforce(l, c.by(controller), byDefault)
		if l.Name == "memory_mb" && l.Value < littleMB {
			c.note("little memory", "so little may not hold a program's own code, which counts too: it is slow for a while, and then killed",
				fmt.Sprintf("set %d or more", littleMB))
		}
		if p, _ := c.place(controller); l.Name == "io_write_mb" && (p.Version == 1 || !slices.Contains(p.Controllers, "memory")) {
			c.note(l.Name, "what is written through the page cache is not bounded, which takes version 2 with the controller memory: "+
				"only what is synced or direct is", c.facts.Fix(facts.CgroupV2))
		}
	}
}

func (c *compiler) enforce(l policy.Limit, by string, byDefault bool) {
	c.plan.EnforcedBy = append(c.plan.EnforcedBy, Enforcement{fmt.Sprintf("%s=%d", l.Name, l.Value), by, byDefault})
}

func (c *compiler) memory(v uint64, byDefault bool) {
	const together = "the memory of all processes together is not bounded, as no cgroup can be made here"
	if byDefault { // to bound that of each would refuse what sets aside much and uses little, as sanitizers do
		c.note(DefaultLimits, "memory is not bounded unless asked for, as it takes a cgroup of version 2 whose children have the controller memory", "set memory_mb")
		return
	}
	c.limit(rlimit.Both("data", v<<20), false)
	c.note("memory_mb", "bounds the private memory of each process (RLIMIT_DATA): "+together, c.facts.Fix(facts.CgroupV2))
}

// output plans the bound on what a command writes to its caller. A session's commands have one each, of what is collected.
func (c *compiler) output(l policy.Limit, byDefault bool) {
	switch {
	case c.plan.Bwrap != nil:
		return
	case c.plan.Backend != BackendBwrap && c.plan.Backend != BackendDocker:
	case !byDefault && !c.req.Session:
		c.lose(Note{Feature: "output_bytes", Loss: "the command writes to the caller's descriptors, where nothing is counted", Fix: "use the backend native, or cut the output with head -c"}, false)
		return
	default:
		return
	}
	c.plan.Output = &Output{Bytes: l.Value, Pipes: byDefault}
}
