package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/seccomp"
)

// The passes of backends without namespaces. What a policy wants of a place that only a mount can give is refused by name.

// impossible says that the backend has no way to do what the policy asks for.
func (c *compiler) impossible(trait, loss, fix string) {
	c.unmet = append(c.unmet, Note{Feature: trait, Loss: "the backend " + c.plan.Backend + " cannot do this: " + loss, Fix: fix})
}

func (c *compiler) noNamespaces() error {
	c.plan.Network = string(c.pol.Network.Mode())
	if c.plan.Backend == BackendNone {
		c.plan.Network = string(policy.NetworkHost)
	}
	if c.pol.Hostname != "" {
		c.impossible("hostname", "a host name takes a UTS namespace", "leave out hostname")
	}
	if c.req.Terminal {
		c.impossible("terminal", "a terminal of the command's own takes a mount namespace", "leave out --tty")
	}
	return nil
}

// hostFiles leaves the view alone. A working directory that a mount would show elsewhere is looked for where it lies.
func (c *compiler) hostFiles() error {
	c.plan.Dir = c.pol.Dir
	for _, e := range c.pol.FS {
		if e.Kind == policy.Bind && policy.Inside(c.pol.Dir, e.Dest) {
			c.plan.Dir = e.Source + strings.TrimPrefix(c.pol.Dir, e.Dest)
		}
	}
	if c.plan.Dir == "" {
		c.plan.Dir = "/"
	}
	if c.pol.NoExec {
		c.impossible("noexec", "programs can be run from wherever the command can write", "leave out noexec, or use the backend native")
	}
	if c.pol.Isolation.Level() == policy.Permissive {
		return nil
	}
	for _, e := range c.pol.FS { // what was asked for has to be there, though nothing confines the command to it
		if bind := e.Kind == policy.Bind || e.Kind == policy.Socket; bind && !e.System {
			op := c.lowerFS(e)
			op.Flags = mounts.Flags{mounts.ReadOnly}
			c.plan.Mounts = append(c.plan.Mounts, op)
		}
	}
	return nil
}

// devices are those that everybody may use.
var devices = [...]string{"null", "zero", "full", "random", "urandom"}

// grants keeps of the view what Landlock can carry: places of the host at their own paths, whose rights do not shrink on the way down.
func (c *compiler) grants() error {
	if c.pol.NoLandlock {
		c.impossible("landlock", "it is switched off, and there is nothing else", "leave Landlock on")
	}
	if c.facts.Can(facts.Landlock) && c.facts.LandlockABI < 2 {
		c.note("refer", "files cannot be moved or linked between directories: Landlock ABI 2 has that right", c.facts.Fix(facts.Landlock))
	}
	if err := c.fileSystem(); err != nil {
		return err
	}
	c.plan.Mounts = slices.DeleteFunc(c.plan.Mounts, func(op mounts.Op) bool { return op.Kind != mounts.Bind && op.Kind != mounts.Mask })
	for _, e := range c.pol.FS {
		c.grantable(e)
	}
	for i := range c.plan.Mounts {
		c.plan.Mounts[i].KeepLink = false
		c.plan.Mounts[i].Flags = slices.DeleteFunc(slices.Clone(c.plan.Mounts[i].Flags), func(f mounts.Flag) bool { return f == mounts.NoSuid || f == mounts.NoDev })
	}
	c.plan.Mounts = append(c.plan.Mounts, mounts.Op{Kind: mounts.Bind, Source: "/proc", Dest: "/proc", Flags: mounts.Flags{mounts.ReadOnly, mounts.NoExec}, Optional: true, Quiet: true, Why: "always"})
	for _, name := range devices {
		c.plan.Mounts = append(c.plan.Mounts, mounts.Op{Kind: mounts.Bind, Source: "/dev/" + name, Dest: "/dev/" + name, Flags: mounts.Flags{mounts.NoExec}, Only: "device", Optional: true, Why: "always"})
	}
	return nil
}

// grantable refuses what is not a place of the host as it is.
func (c *compiler) grantable(e policy.FS) {
	bind := e.Kind == policy.Bind || e.Kind == policy.Socket
	switch {
	case e.System && !bind: // /tmp and the like: the traits say that they are missing
	case !bind:
		c.impossible("places", fmt.Sprintf("%s %s (%s) takes a mount", e.Kind, e.Dest, e.Why), "leave it out")
	case e.Source != e.Dest:
		c.impossible("places", e.Source+" at "+e.Dest+" ("+e.Why+") takes a mount", "show it at its own place")
	case c.shrinks(e):
		c.impossible("places", e.Dest+" ("+e.Why+") is to have fewer rights than what it lies in", "grant the directories beside it instead")
	}
}

// shrinks reports whether something above e grants what e does not: rights of Landlock only grow on the way down.
func (c *compiler) shrinks(e policy.FS) bool {
	return slices.ContainsFunc(c.pol.FS, func(above policy.FS) bool {
		return above.Kind == policy.Bind && above.Dest != e.Dest && policy.Inside(e.Dest, above.Dest) &&
			(above.Write && !e.Write || !above.NoExec && e.NoExec) && e.Kind == policy.Bind
	})
}

// unixByLandlock reports whether Landlock can tell Unix sockets apart, by path and by abstract name.
func (c *compiler) unixByLandlock() bool {
	l := c.plan.Landlock
	return l != nil && l.HandledFS&landlock.ResolveUnix != 0 && l.Scoped&landlock.ScopeAbstractUnix != 0
}

// refuse stands in for namespaces: what they would keep apart is refused as a call.
func (c *compiler) refuse() error {
	if c.plan.Landlock == nil || !c.facts.Can(facts.Seccomp) {
		return nil // unmet already
	}
	if c.plan.Seccomp == nil { // the policy wants no filter; the backend wants its own all the same
		c.plan.Seccomp = &Seccomp{Filter: policy.SeccompOff}
	}
	s := c.plan.Seccomp
	if c.pol.Network.Mode() == policy.NetworkNone {
		s.Refuse = append(s.Refuse, seccomp.RefuseInet)
	}
	sockets := slices.ContainsFunc(c.pol.FS, func(e policy.FS) bool { return e.Kind == policy.Socket })
	if !c.unixByLandlock() && !sockets {
		s.Refuse = append(s.Refuse, seccomp.RefuseUnix)
	}
	s.Refuse = append(s.Refuse, seccomp.RefuseIPC, seccomp.RefuseProcesses)
	c.plan.KillScope = c.plan.Landlock.Scoped&landlock.ScopeSignal != 0
	if !c.plan.KillScope {
		s.Refuse = append(s.Refuse, seccomp.RefuseSessions)
	}
	return nil
}
