package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// Request is what is to be planned: a policy, and what the caller brings to it.
type Request struct {
	Policy policy.Policy
	// Command is the program and its arguments. A program without a slash is looked for in the PATH of the sandbox.
	Command []string
	// Environ is the caller's environment as NAME=value strings, of which the policy takes its part.
	Environ []string
	// Terminal gives the command a terminal of the sandbox's own.
	Terminal bool
}

// CompatibilityError says that a host cannot enforce a policy: every requirement that is not met, each with its fix.
type CompatibilityError struct{ Unmet []Note }

// Error lists the requirements, one a line.
func (e *CompatibilityError) Error() string {
	lines := []string{"this host cannot enforce the policy"}
	for _, n := range e.Unmet {
		lines = append(lines, "  "+n.String())
	}
	return strings.Join(lines, "\n")
}

// compiler is the state of one Compile.
type compiler struct {
	req   Request
	pol   policy.Policy
	facts facts.Facts
	plan  *Plan
	unmet []Note

	places map[string]int // of pol.FS, by Dest
}

// Compile plans the request for a host. A wrong policy or command is an error with every fault; a policy that the host cannot
// enforce is a [*CompatibilityError], unless the policy allows to degrade: then each loss is a note.
func Compile(req Request, f facts.Facts) (*Plan, error) {
	if err := errors.Join(req.Policy.Validate(), checkCommand(req.Command)); err != nil {
		return nil, err
	}
	c := &compiler{req: req, pol: req.Policy, facts: f, plan: &Plan{Version: Version, Engine: EngineNative}}
	p := c.plan
	p.Name, p.Command, p.Terminal, p.LastCap = c.pol.Name, slices.Clone(req.Command), req.Terminal, f.LastCap
	p.Notes = slices.Clone(c.pol.Notes)
	p.Timeout, p.KillGrace = Duration(c.pol.Timeout), Duration(c.pol.KillGrace)
	if p.KillGrace == 0 {
		p.KillGrace = Duration(policy.DefaultKillGrace)
	}
	if c.pol.Backend == policy.BackendBwrap {
		p.Engine = EngineBwrap
	}
	for _, pass := range []func() error{
		c.mechanisms, c.identity, c.namespaces, c.fileSystem, c.landlock, c.seccomp, c.limits, c.environment,
	} {
		if err := pass(); err != nil {
			return nil, err
		}
	}
	if len(c.unmet) > 0 {
		return nil, &CompatibilityError{c.unmet}
	}
	return p, nil
}

func checkCommand(command []string) error {
	if len(command) == 0 || command[0] == "" {
		return errors.New("no command; put it after --")
	}
	for i, word := range command {
		if strings.Contains(word, "\x00") {
			return fmt.Errorf("argument %d holds a NUL byte", i)
		}
	}
	return nil
}

// lack says that the host has not got a feature that the policy needs: refused, or noted if the policy allows to degrade and an
// engine can do without.
func (c *compiler) lack(name facts.Name, essential bool) {
	row, _ := facts.Lookup(name)
	c.lose(Note{Feature: string(name), Loss: row.Loss, Fix: c.facts.Fix(name)}, essential)
}

// degradeFix is the way out of what an engine can do without.
const degradeFix = "or accept the loss with fallback degrade"

func (c *compiler) lose(n Note, essential bool) {
	if c.pol.Fallback == policy.Degrade && !essential {
		c.plan.Notes = append(c.plan.Notes, n)
		return
	}
	if !essential {
		n.Fix = strings.TrimPrefix(n.Fix+"; "+degradeFix, "; ")
	}
	c.unmet = append(c.unmet, n)
}

func (c *compiler) note(feature, loss, fix string) {
	c.plan.Notes = append(c.plan.Notes, Note{Feature: feature, Loss: loss, Fix: fix})
}

func (c *compiler) mechanisms() error {
	c.plan.Mechanisms = Mechanisms{
		MountAPI: c.facts.Can(facts.MountAPI), Openat2: c.facts.Can(facts.Openat2), CloseRange: c.facts.Can(facts.CloseR),
	}
	if !c.facts.Can(facts.Pidfd) {
		c.lack(facts.Pidfd, true)
	}
	return nil
}

func (c *compiler) identity() error {
	id := Identity{UID: c.facts.UID, GID: c.facts.GID, HostUID: c.facts.UID, HostGID: c.facts.GID}
	if c.pol.UID != nil {
		id.UID = *c.pol.UID
	}
	if c.pol.GID != nil {
		id.GID = *c.pol.GID
	}
	c.plan.Identity = id
	return nil
}

// namespaces takes all of them, the network's unless the host's is asked for.
func (c *compiler) namespaces() error {
	want := []struct {
		name     string
		feature  facts.Name
		wanted   bool
		required bool
	}{
		{User, facts.UserNS, true, true}, {Mount, facts.MountNS, true, true}, {Pid, facts.PidNS, true, true},
		{Ipc, facts.IpcNS, true, true}, {Uts, facts.UtsNS, true, true},
		{Net, facts.NetNS, c.pol.Network.Mode() == policy.NetworkNone, true},
		{Cgroup, facts.CgroupNS, true, false},
	}
	for _, ns := range want {
		switch {
		case !ns.wanted:
		case c.facts.Can(ns.feature):
			c.plan.Namespaces = append(c.plan.Namespaces, ns.name)
		case ns.required:
			c.lack(ns.feature, true)
		default:
			row, _ := facts.Lookup(ns.feature)
			c.note(string(ns.feature), row.Loss, c.facts.Fix(ns.feature))
		}
	}
	if !c.facts.Can(facts.ProcMount) {
		c.lack(facts.ProcMount, true)
	}
	c.plan.Network = string(c.pol.Network.Mode())
	c.plan.Hostname = c.pol.Hostname
	if c.plan.Hostname == "" {
		c.plan.Hostname = "sandbox"
	}
	return nil
}

// environment builds the command's, with what every program expects to find set by us.
func (c *compiler) environment() error {
	home := c.pol.Home
	if home == "" {
		home = "/"
	}
	user := userName(c.plan.Identity.UID)
	base := []policy.Var{
		{Name: "PATH", Value: policy.DefaultPath}, {Name: "HOME", Value: home}, {Name: "USER", Value: user}, {Name: "LOGNAME", Value: user},
		{Name: "PWD", Value: c.plan.Dir}, {Name: "TMPDIR", Value: "/tmp"},
	}
	environ, dropped := c.pol.Env.Environ(c.req.Environ, base)
	c.plan.Env = environ
	if len(dropped) > 0 {
		c.note("env", "not passed, because the names look like secrets: "+strings.Join(dropped, ", "), "set them with set_env or --setenv if they must be known")
	}
	return nil
}
