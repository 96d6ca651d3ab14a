package plan

import (
	"fmt"
	"slices"

	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// landlock derives a ruleset from what is mounted: the second lock on the same door.
func (c *compiler) landlock() error {
	if c.pol.NoLandlock {
		c.note("landlock", "switched off by the policy", "")
		return nil
	}
	if !c.facts.Can(facts.Landlock) || c.facts.LandlockABI == 0 {
		c.lack(facts.Landlock, c.plan.Backend == BackendLandlock)
		return nil
	}
	var rules []landlock.PathRule
	alone := c.plan.Backend == BackendLandlock
	if !alone { // the root itself may be listed; what can be opened below it is what the other rules allow
		rules = append(rules, landlock.PathRule{Path: "/", Access: landlock.ReadDir})
	}
	for _, op := range c.plan.Mounts {
		access := grant(op)
		if c.plan.Bwrap != nil {
			access |= compatGrant(op)
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
	c.plan.Landlock.ByEntry = c.byEntry()
	for _, name := range c.facts.LandlockRefused {
		c.note("landlock", "this kernel reports the right "+name+" and refuses it", "use a kernel that has what it reports")
	}
	return nil
}

// byEntry is /etc in a sandbox of root's, which could read every file there. For others the permissions do it.
func (c *compiler) byEntry() []string {
	ruled := slices.ContainsFunc(c.plan.Landlock.Paths, func(r landlock.PathRule) bool { return r.Path == "/etc" })
	covered := slices.ContainsFunc(c.plan.Mounts, func(op mounts.Op) bool { return op.Kind == mounts.Mask && policy.Inside(op.Dest, "/etc") })
	if c.facts.UID != 0 || c.plan.Bwrap != nil || c.pol.HostEtc || !ruled || !covered {
		return nil
	}
	return []string{"/etc"}
}

// lostRight tells of a right that only a newer Landlock has, if nothing else in the plan stands in for it.
func (c *compiler) lostRight(l landlock.Loss) {
	host := c.pol.Network.Mode() == policy.NetworkHost
	since := fmt.Sprintf("use a kernel with Landlock ABI %d", l.Since)
	switch {
	case c.plan.Backend == BackendLandlock: // the guarantees tell
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

// compatGrant is what an operation of bubblewrap's grants beyond that: its root is writable, and its devices are devices.
func compatGrant(op mounts.Op) landlock.Access {
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
