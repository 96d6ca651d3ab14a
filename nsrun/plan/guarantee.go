package plan

import (
	"slices"
	"strings"

	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/seccomp"
)

// requires reports whether the policy requires the guarantee that goes with a lost feature.
func (c *compiler) requires(feature string) bool {
	if _, ok := policy.LookupLimit(feature); ok {
		feature = "limits"
	}
	return slices.Contains(c.pol.Require, feature)
}

// guarantees settles, last of all, what holds: by the backend's traits, by this host, and by the policy's own wishes. What does not hold
// is a note; if it is required, the policy is not met.
func (c *compiler) guarantees() error {
	at := slices.Index(backends[:], c.plan.Backend)
	for _, t := range Traits {
		cell := c.here(t.Name, t.Backends[at])
		if cell.Grade == Carried {
			c.plan.Holds = append(c.plan.Holds, t.Name)
			continue
		}
		if cell.Loss == "" {
			cell.Loss = t.Without
		}
		required := slices.Contains(c.pol.Require, t.Name)
		if required {
			n := Note{Feature: t.Name, Loss: cell.Loss, Fix: c.fixFor(t)}
			if t.Name == "limits" {
				n.Found = c.refused
			}
			c.unmet = append(c.unmet, n)
		} else if !c.noted(t.Name) && c.matters(t.Name) && (c.plan.Backend != BackendNone || t.Name == "sandbox") {
			c.note(t.Name, cell.Loss, c.fixFor(t))
		}
	}
	if c.plan.Backend == BackendNone { // one note for all of them
		for i := range c.plan.Notes {
			if n := &c.plan.Notes[i]; n.Feature == "sandbox" {
				n.Loss += ": no guarantee holds but " + strings.Join(c.plan.Holds, ", ")
			}
		}
	}
	return nil
}

// matters reports whether a lost guarantee is one that this policy relies on.
func (c *compiler) matters(trait string) bool {
	switch trait {
	case "network", "loopback":
		return c.pol.Network.Own()
	case "device_modes":
		return c.facts.UID == 0
	case "terminal":
		return false // a plan that needs one is refused
	}
	return true
}

// noted reports whether a note says already that a guarantee is lost.
func (c *compiler) noted(trait string) bool {
	return slices.ContainsFunc(c.plan.Notes, func(n Note) bool { return n.Feature == trait })
}

// fixFor names the backends that give a guarantee.
func (c *compiler) fixFor(t Trait) string {
	var all []string
	for i, cell := range t.Backends {
		if cell.Grade == Carried && backends[i] != c.plan.Backend {
			all = append(all, backends[i])
		}
	}
	switch {
	case len(all) == 0 || t.Backends[slices.Index(backends[:], c.plan.Backend)].Grade == Carried:
		return ""
	case c.pol.Isolation.Level() != policy.Container:
		return "use isolation container, and leave NSRUN_SANDBOX alone"
	case len(all) == 1:
		return "use the backend " + all[0]
	}
	return "use one of the backends " + strings.Join(all, ", ")
}

// here is a cell as this host and policy have it.
func (c *compiler) here(trait string, cell Cell) Cell {
	weaker := func(when bool, loss string) Cell {
		if when && cell.Grade == Carried {
			return Cell{Weaker, loss}
		}
		return cell
	}
	alone := c.plan.Backend == BackendLandlock
	builtin := c.plan.Seccomp.HasBuiltin()
	unless := "without a seccomp filter of nsrun's "
	if c.plan.Seccomp != nil && len(c.plan.Seccomp.Raw) > 0 {
		unless = "unless the given filter refuses that, "
	}
	has := func(rights landlock.Access) bool {
		return c.plan.Landlock != nil && c.plan.Landlock.HandledFS&rights == rights
	}
	switch trait {
	case "tmp_bounds":
		if c.plan.Container != nil && c.plan.Container.CLI == "podman" {
			return Cell{Weaker, "any number of files can be made there, since Podman has no word for it"}
		}
		return weaker(c.plan.Container != nil && c.facts.UID == 0, "any number of files can be made in the container's own /dev, by a sandbox that root starts")
	case "init":
		return weaker(c.plan.Backend == BackendBwrap && c.plan.Landlock == nil, "pid 1 is bubblewrap's, and the command can look into it and have it act: no filter and no limit binds it, and its descriptors are the caller's standard ones")
	case "ownership":
		return weaker(c.plan.Backend == BackendBwrap && c.facts.UID == 0, "the command is in the user namespace that owns its mounts, without a capability over it")
	case "privileges":
		return weaker(!builtin && c.plan.Backend != BackendNative, unless+"the command can make a user namespace, and has capabilities over what it makes in it")
	case "keyring":
		return weaker(!builtin && (alone || c.plan.Container != nil), unless+"the caller's user keyring is in reach")
	case "landlock":
		return weaker(c.plan.Landlock == nil || len(c.facts.LandlockRefused) > 0, "there is none, or the kernel refuses some of its rights")
	case "seccomp":
		return weaker(!builtin, c.otherFilters())
	case "network", "loopback":
		if trait == "network" && !builtin && !alone && c.pol.Network.Own() {
			return weaker(true, unless+"sockets to the machine's hypervisor (AF_VSOCK) can be made, which no namespace keeps away")
		}
		return weaker(c.pol.Network.Mode() == policy.NetworkHost, "the policy keeps the host's network")
	case "limits":
		none := c.pol.Isolation.Level() == policy.Permissive && len(c.pol.Limits) > 0
		return weaker(none || slices.ContainsFunc(c.plan.Notes, c.limitNote), "not all limits hold as they were asked for")
	case "environment":
		return weaker(c.pol.Isolation.Level() == policy.Permissive, "the caller's environment is passed as it is")
	case "device_modes":
		if c.facts.UID != 0 && c.plan.Backend != BackendNone {
			return Cell{Grade: Carried}
		}
		return cell
	case "identity":
		return weaker(c.pol.HostEtc, "the account files are the host's")
	case "files":
		if basic := landlock.AllFS &^ (landlock.Refer | landlock.IoctlDev | landlock.ResolveUnix | landlock.Truncate); alone && !has(basic) {
			return Cell{Missing, "this kernel refuses rights that Landlock has for files"}
		}
		return weaker(alone && !has(landlock.Truncate), "files that can be read can be cut short, where the caller may write to them: Landlock ABI 3 has that right")
	case "processes":
		return weaker(alone && !c.plan.KillScope, "other processes of the caller's can be signalled: Landlock ABI 6 has that scope")
	case "kill_tree":
		return weaker(alone && !c.plan.KillScope, "what the command has started lives on if it kills nsrun's own process beside it: Landlock ABI 6 would keep it from that")
	case "unix_sockets":
		return c.unixSockets(cell)
	}
	return cell
}

// otherFilters says what filters system calls where no built-in filter does.
func (c *compiler) otherFilters() string {
	s := c.plan.Seccomp
	if s == nil {
		return "no system call is filtered"
	}
	var enforced []string
	if len(s.Raw) > 0 {
		enforced = append(enforced, "the given filter, of which nsrun does not know what it refuses")
	}
	if len(s.Deny) > 0 {
		enforced = append(enforced, "the refusal of "+strings.Join(s.Deny, ", "))
	}
	if len(s.Refuse) > 0 {
		enforced = append(enforced, "what the backend refuses of its own")
	}
	return "no built-in seccomp filter is on; system calls are filtered by nothing but " + strings.Join(enforced, ", and ")
}

// unixSockets is what is left of that guarantee. Below a private root there are no sockets but those in granted directories, which are
// part of what was granted; the abstract ones belong to the network namespace, or are kept away by Landlock's scope.
func (c *compiler) unixSockets(cell Cell) Cell {
	host := c.pol.Network.Mode() == policy.NetworkHost
	switch {
	case cell.Grade != Carried:
	case c.plan.Backend == BackendLandlock && !c.refuses(seccomp.RefuseUnix) && !c.unixByLandlock():
		return Cell{Weaker, "sockets that the caller may connect to can be connected to, since some are granted: Landlock ABI 9 can tell them apart"}
	case host && (c.plan.Landlock == nil || c.plan.Landlock.Scoped&landlock.ScopeAbstractUnix == 0):
		return Cell{Weaker, "abstract sockets of the host's network namespace can be connected to"}
	}
	return cell
}

// limitNote reports whether a note is about a limit that does not hold at all.
func (c *compiler) limitNote(n Note) bool {
	_, limit := policy.LookupLimit(n.Feature)
	return limit
}

func (c *compiler) refuses(group string) bool {
	return c.plan.Seccomp != nil && slices.Contains(c.plan.Seccomp.Refuse, group)
}
