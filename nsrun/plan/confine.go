package plan

import (
	"fmt"

	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/rlimit"
)

// landlock derives a ruleset from what is mounted: the second lock on the same door.
func (c *compiler) landlock() error {
	if c.pol.NoLandlock {
		c.note("landlock", "switched off by the policy", "")
		return nil
	}
	if !c.facts.Can(facts.Landlock) || c.facts.LandlockABI == 0 {
		c.lack(facts.Landlock, c.plan.Engine == EngineLandlock)
		return nil
	}
	var rules []landlock.PathRule
	alone := c.plan.Engine == EngineLandlock
	if !alone { // the root itself may be listed; what can be opened below it is what the other rules allow
		rules = append(rules, landlock.PathRule{Path: "/", Access: landlock.ReadDir})
	}
	for _, op := range c.plan.Mounts {
		access := grant(op)
		if c.plan.Bwrap != nil {
			access |= looseGrant(op)
		}
		if access != 0 {
			rules = append(rules, landlock.PathRule{Path: op.Dest, Access: access, Optional: op.Optional})
		}
	}
	want := landlock.Ruleset{Paths: landlock.Merge(rules), HandledFS: landlock.AllFS, Scoped: landlock.ScopeAll}
	if alone && c.pol.Network.Mode() == policy.NetworkNone { // beside the filter, which refuses the sockets
		want.HandledNet = landlock.AllNet
	}
	got, lost := landlock.Fit(want, c.facts.LandlockABI)
	c.plan.Landlock = &Landlock{ABI: c.facts.LandlockABI, Ruleset: got}
	for _, l := range lost {
		c.lostRight(l)
	}
	c.plan.Landlock.Ruleset = landlock.Without(got, c.facts.LandlockRefused)
	for _, name := range c.facts.LandlockRefused {
		c.note("landlock", "this kernel reports the right "+name+" and refuses it", "use a kernel that has what it reports")
	}
	return nil
}

// lostRight tells of a right that only a newer Landlock has, if nothing else in the plan stands in for it.
func (c *compiler) lostRight(l landlock.Loss) {
	host := c.pol.Network.Mode() == policy.NetworkHost
	since := fmt.Sprintf("use a kernel with Landlock ABI %d", l.Since)
	switch {
	case c.plan.Engine == EngineLandlock: // the guarantees tell
	case l.Right == "scope_abstract_unix" && host:
		c.note("landlock", "abstract Unix sockets of the host's network namespace can be reached", since)
	case l.Right == "resolve_unix":
		for _, op := range c.plan.Mounts {
			if op.Only == "socket" {
				return
			}
		}
	}
	// truncate: read-only mounts refuse it. ioctl_dev: no host devices are granted. scope_signal: the pid namespace. Sockets in
	// a granted directory are part of what was granted.
}

// grant is what Landlock must allow for an operation to be of use.
func grant(op mounts.Op) landlock.Access {
	switch op.Kind {
	case mounts.Bind, mounts.Tmpfs, mounts.Overlay:
		access := landlock.ReadWrite
		if op.Flags.Has(mounts.ReadOnly) {
			access = landlock.ReadExec
		}
		if op.Flags.Has(mounts.NoExec) {
			access &^= landlock.Execute
		}
		if op.Only == "socket" {
			access = landlock.ReadFile | landlock.WriteFile | landlock.ResolveUnix
		}
		return access
	case mounts.File:
		return landlock.ReadFile
	case mounts.Proc:
		return landlock.ReadOnly | landlock.WriteFile | landlock.Truncate // for /proc/self: oom_score_adj, comm
	case mounts.Dev:
		return landlock.Device | landlock.ReadDir
	}
	return 0
}

// looseGrant is what an operation of bubblewrap's grants beyond that: its root is writable, and its devices are devices.
func looseGrant(op mounts.Op) landlock.Access {
	switch op.Kind {
	case mounts.Dir, mounts.Mqueue:
		return landlock.ReadWrite
	case mounts.Dev:
		return landlock.ReadWrite | landlock.IoctlDev
	case mounts.Bind:
		if !op.Flags.Has(mounts.NoDev) {
			return landlock.IoctlDev
		}
	case mounts.File:
		return landlock.ReadFile | landlock.WriteFile | landlock.Truncate
	case mounts.Data:
		if op.Flags.Has(mounts.ReadOnly) {
			return landlock.ReadFile | landlock.Execute
		}
		return landlock.ReadFile | landlock.WriteFile | landlock.Truncate | landlock.Execute
	}
	return 0
}

// limits turns the policy's limits into what enforces them. Without cgroups that is the kernel's limits of each process.
func (c *compiler) limits() error {
	if c.pol.Isolation.Level() == policy.Permissive {
		return nil
	}
	for _, l := range c.pol.Limits {
		v := uint64(l.Value)
		switch l.Name {
		case "cpu_seconds":
			// SIGXCPU at the soft limit, SIGKILL a second later (setrlimit(2)).
			c.limit(rlimit.Limit{Name: "cpu_seconds", Soft: v, Hard: v + 1})
		case "file_size_mb":
			c.limit(rlimit.Both("file_size", v<<20))
		case "open_files", "core":
			c.limit(rlimit.Both(l.Name, v))
		case "address_space_mb", "stack_mb", "locked_mb":
			c.limit(rlimit.Both(l.Name[:len(l.Name)-len("_mb")], v<<20))
		case "memory_mb", "pids", "cpu_percent":
			c.shared(l)
		case "tmpfs_mb": // in the mounts
			if c.plan.Engine == EngineLandlock || c.plan.Engine == EngineNone {
				c.lose(Note{Feature: "tmpfs_mb", Loss: "the engine " + c.plan.Engine + " has no private file systems to bound", Fix: "use the engine native"}, false)
			}
		case "output_bytes":
			c.lose(Note{Feature: "output_bytes", Loss: "the command writes to the caller's descriptors, where nothing is counted", Fix: "cut the output with head -c"}, false)
		default:
			return fmt.Errorf("bug: limit %q is not planned", l.Name)
		}
	}
	return nil
}

// shared plans a limit on the whole sandbox, which a container has, and which is else the nearest that the kernel has for processes.
func (c *compiler) shared(l policy.Limit) {
	box := c.plan.Container
	switch {
	case box != nil && l.Name == "memory_mb":
		box.MemoryMB = l.Value
	case box != nil && l.Name == "pids":
		box.Pids = l.Value
	case box != nil:
		box.CPUPercent = l.Value
	case l.Name == "memory_mb":
		c.limit(rlimit.Both("data", uint64(l.Value)<<20))
		c.note("memory_mb", "bounds the private memory of each process (RLIMIT_DATA), not of all together", "")
	case l.Name == "pids":
		c.pids(uint64(l.Value))
	default:
		c.lose(Note{Feature: "cpu_percent", Loss: "a CPU share takes cgroups, which this version does not use", Fix: "use cpu_seconds"}, false)
	}
}

func (c *compiler) limit(l rlimit.Limit) { c.plan.Limits = append(c.plan.Limits, l) }

// pids uses RLIMIT_NPROC, which the kernel counts for each user of a user namespace and does not hold root to (setrlimit(2);
// copy_process exempts INIT_USER).
func (c *compiler) pids(v uint64) {
	if c.plan.Engine == EngineLandlock || c.plan.Engine == EngineNone {
		c.lose(Note{Feature: "pids", Loss: "without a user namespace of its own, RLIMIT_NPROC counts all processes of the caller's", Fix: "use the engine native"}, false)
		return
	}
	if c.facts.UID == 0 {
		c.lose(Note{Feature: "pids", Loss: "RLIMIT_NPROC does not bind a sandbox that root starts", Fix: "start it as an ordinary user"}, false)
		return
	}
	c.limit(rlimit.Both("pids", v))
}
