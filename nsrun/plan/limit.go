package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/rlimit"
	"github.com/nsrun/nsrun/rlimit/cgroup"
)

// Enforcement is a limit that something else than the kernel's limits of each process enforces, and what that is.
type Enforcement struct {
	Limit string `json:"limit"` // "memory_mb=256"
	By    string `json:"by"`    // "cgroup v2"
	// Default says that it was not asked for: see [policy.LimitTable].
	Default bool `json:"default,omitempty"`
}

// String gives "memory_mb=256 (cgroup v2)".
func (h Enforcement) String() string { return h.Limit + " (" + h.By + ")" }

// DefaultLimits is the feature of notes on limits that were not asked for, and do not hold: see [policy.LimitTable].
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
	c.plan.Cgroups = cgroup.Fit(c.groups(false), c.group)
	return nil
}

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
	for _, row := range policy.LimitTable {
		if _, set := c.pol.Limit(row.Name); !set && row.Default > 0 && !inMounts(row.Name) { // that is in the mounts
			limits = append(limits, policy.Limit{Name: row.Name, Value: row.Default})
		}
	}
	if _, set := c.pol.Limit(policy.MemoryMB); !set && c.facts.MemoryMB > 0 {
		limits = append(limits, policy.Limit{Name: policy.MemoryMB, Value: max(c.facts.MemoryMB*3/4, 1)})
	}
	return limits
}

// unbounded is why nothing bounds a directory that is no file system of its own.
const unbounded = "a directory on the host's disk has no quota"

// inMounts reports whether a limit is the size of a mount.
func inMounts(name string) bool { return name == policy.TmpfsMB || name == policy.HomeMB }

// bound plans one limit. A default one is never more than what is in force already, and no reason to refuse a run.
func (c *compiler) bound(l policy.Limit, byDefault bool) error {
	row, _ := policy.LookupLimit(l.Name)
	switch {
	case row.Controller != "":
		c.shared(row, l, byDefault)
	case row.Rlimit != "":
		soft := uint64(row.Amount(l.Value))
		c.limit(rlimit.Limit{Name: row.Rlimit, Soft: soft, Hard: soft + uint64(row.Grace)}, byDefault)
	case inMounts(l.Name):
		if c.plan.Bare() {
			c.lose(Note{Feature: l.Name, Loss: "the backend " + c.plan.Backend + " has no private file systems to bound: " + unbounded, Fix: "use the backend native"}, false)
			return nil
		}
		if l.Name == policy.TmpfsMB && c.plan.Backend != BackendNative {
			c.note(l.Name, "each private place may hold that much: the backend "+c.plan.Backend+" has no file system for all of them", "use the backend native")
		}
		c.enforce(l, "tmpfs", byDefault)
	case l.Name == policy.OutputBytes:
		c.output(l, byDefault)
	case ofNetwork(l.Name):
		c.networkLimit(l, byDefault)
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
func (c *compiler) shared(row policy.LimitRow, l policy.Limit, byDefault bool) {
	bound := inGroup(row, l.Value)
	_, grouped := bound.At(c.groups(byDefault))
	switch {
	case c.plan.Container != nil && len(row.Flags) > 0:
		for _, flag := range row.Flags {
			c.plan.Container.Flags = append(c.plan.Container.Flags, row.Fill(flag, l.Value))
		}
		c.enforce(l, "cgroup", byDefault)
	case c.plan.Bwrap == nil && grouped:
		c.grouped(row, l, byDefault)
	case row.Name == policy.MemoryMB:
		c.memory(row, l.Value, byDefault)
	case row.Name == policy.Pids:
		c.pids(uint64(l.Value), byDefault)
	default:
		c.lose(Note{Feature: l.Name, Loss: row.Lack, Found: c.noGroup(), Fix: c.facts.Fix(facts.CgroupV2) + row.Instead}, false)
	}
}

// grouped plans a limit of the sandbox's cgroup.
func (c *compiler) grouped(row policy.LimitRow, l policy.Limit, byDefault bool) {
	value := l.Value
	if row.Name == policy.Pids {
		value = min(value+c.ours(), row.Max)
	}
	bound := inGroup(row, value)
	c.group = append(c.group, bound)
	place, _ := bound.At(c.groups(false))
	c.enforce(l, by(place), byDefault)
	if row.Name == policy.MemoryMB && l.Value < littleMB {
		c.note("little memory", "so little may not hold a program's own code, which counts too: it is slow for a while, and then killed",
			fmt.Sprintf("set %d or more", littleMB))
	}
	if row.Name == policy.IOWriteMB && (place.Version == 1 || !slices.Contains(place.Controllers, "memory")) {
		c.note(l.Name, "what is written through the page cache is not bounded, which takes version 2 with the controller memory: "+
			"only what is synced or direct is", c.facts.Fix(facts.CgroupV2))
	}
}

// inGroup is a limit as a cgroup has it.
func inGroup(row policy.LimitRow, value int64) cgroup.Limit {
	filled := func(files []policy.ControlFile) (all []cgroup.File) {
		for _, f := range files {
			f.Value = row.Fill(f.Value, value)
			all = append(all, cgroup.File(f))
		}
		return all
	}
	return cgroup.Limit{Controller: row.Controller, V1: filled(row.V1), V2: filled(row.V2)}
}

func (c *compiler) enforce(l policy.Limit, by string, byDefault bool) {
	c.plan.EnforcedBy = append(c.plan.EnforcedBy, Enforcement{fmt.Sprintf("%s=%d", l.Name, l.Value), by, byDefault})
}

func (c *compiler) memory(row policy.LimitRow, value int64, byDefault bool) {
	const together = "the memory of all processes together is not bounded, as no cgroup can be made here"
	if byDefault { // to bound that of each would refuse what sets aside much and uses little, as sanitizers do
		c.note(DefaultLimits, "memory is not bounded unless asked for, as it takes a cgroup of version 2 whose children have the controller memory", "set memory_mb")
		return
	}
	c.limit(rlimit.Both(row.Rlimit, uint64(row.Amount(value))), false)
	c.note(row.Name, "bounds the private memory of each process (RLIMIT_DATA): "+together, c.facts.Fix(facts.CgroupV2))
}

// ofNetwork reports whether a limit is one of the network allow.
func ofNetwork(name string) bool {
	return slices.Contains([]string{policy.NetConnections, policy.NetHostConnections, policy.NetHostMB, policy.NetIdleSeconds}, name)
}

// networkLimit plans a limit of the network allow, which the helper keeps.
func (c *compiler) networkLimit(l policy.Limit, byDefault bool) {
	switch {
	case c.plan.Allow != nil:
		c.enforce(l, "network helper", byDefault)
	case !byDefault && c.pol.Network.Mode() == policy.NetworkHost:
		c.lose(Note{Feature: l.Name, Loss: "nothing counts what goes through the host's network", Fix: "use the network allow, with a list of hosts, or leave the limit out"}, false)
	}
}

// output plans the bound on what a command writes to its caller. A session's commands have one each, of what is collected.
func (c *compiler) output(l policy.Limit, byDefault bool) {
	switch {
	case c.plan.Bwrap != nil:
		return
	case c.plan.Backend != BackendBwrap && c.plan.Backend != BackendDocker:
	case !byDefault && !c.req.Session:
		c.lose(Note{Feature: l.Name, Loss: "the command writes to the caller's descriptors, where nothing is counted", Fix: "use the backend native, or cut the output with head -c"}, false)
		return
	default:
		return
	}
	c.plan.Output = &Output{Bytes: l.Value, Pipes: byDefault}
}

// Bound returns the value that a limit has in this plan, in the unit of [policy.LimitTable]: one that was asked for, or a default. ok is false if nothing
// enforces the limit.
func (p *Plan) Bound(name string) (value int64, ok bool) {
	for _, h := range p.EnforcedBy {
		if number, ok := strings.CutPrefix(h.Limit, name+"="); ok {
			value, err := strconv.ParseInt(number, 10, 64)
			return value, err == nil
		}
	}
	row, _ := policy.LookupLimit(name)
	for _, l := range slices.Concat(p.Limits, p.SoftCaps) {
		if l.Name == row.Rlimit {
			return int64(l.Soft) / max(row.Scale, 1), true
		}
	}
	switch {
	case p.Output != nil && name == policy.OutputBytes:
		return p.Output.Bytes, true
	case p.Tmpfs != Tmpfs{} && name == policy.TmpfsMB:
		return p.Tmpfs.Size >> 20, true
	}
	return 0, false
}
