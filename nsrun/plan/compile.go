package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/rlimit/cgroup"
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
	// Rule is the rule of the policy's command rules that accepts Command, and RuleEnv what it sets: the caller has checked the command by them
	// before, as this package looks at no files. Without a rule nothing is planned for a command under command rules.
	Rule    string
	RuleEnv []string
	// Pipes are FIFOs of the host that only the view keeps from being written into: see [Pipes].
	Pipes Pipes
	// Kept are places that the policy's Protect wants read-only: see [Kept]. nil means that nobody has looked.
	Kept []Kept
	// Private is where a directory for this run alone can be made, of which the backend landlock has need.
	Private PrivatePlace
	// Session asks for a sandbox that commands are started in later, as often as one likes. There is no Command then.
	Session bool
	// Sole says that the process which runs the plan is for that run alone, and may be moved, as the nsrun command is. Other programs may
	// be more than one, or hold the sandboxes of others.
	Sole bool
}

// CompatibilityError says that a host cannot enforce a policy: every requirement that is not met, each with its fix.
type CompatibilityError struct {
	Unmet []Note
	// Instead, if it is not empty, says what fallback degrade would do.
	Instead string
}

// Error lists the requirements, one a line; those that one action brings stand together.
func (e *CompatibilityError) Error() string {
	lines := []string{"this host cannot enforce the policy"}
	for _, n := range Together(e.Unmet) {
		lines = append(lines, "  "+n.String())
	}
	if e.Instead != "" {
		lines = append(lines, e.Instead)
	}
	return strings.Join(lines, "\n")
}

// Together joins notes on what a host lacks that have the same fix: what the first of them lost and found stands for all.
func Together(notes []Note) (out []Note) {
	for _, n := range notes {
		i := slices.IndexFunc(out, func(o Note) bool { return n.Found != "" && o.Found != "" && o.Fix == n.Fix })
		if i < 0 {
			out = append(out, n)
		} else if !slices.Contains(strings.Split(out[i].Feature, ", "), n.Feature) {
			out[i].Feature += ", " + n.Feature
		}
	}
	return out
}

// compiler is the state of planning for one backend.
type compiler struct {
	req   Request
	pol   policy.Policy
	facts facts.Facts
	plan  *Plan
	unmet []Note

	home, tmp string // where the command has its home directory and its temporary files; see private

	places  map[string]int // of pol.FS, by Dest
	group   []cgroup.Limit // what a cgroup is to hold
	refused string         // why there is no scope for it
}

// Compile plans the request for a host. Its policy is one that [policy.Normalize] has returned. A wrong policy or command is an error with every fault; a policy that the host cannot
// enforce is a [*CompatibilityError].
//
// The backend is the one that the policy names, whose declared losses are then notes; else native. With fallback degrade it is the first
// of [Backends] that can be used, but never none, and each loss is a note. What the policy requires holds in any case.
func Compile(req Request, f facts.Facts) (*Plan, error) {
	if err := errors.Join(req.Policy.Validate(), req.checkCommand()); err != nil {
		return nil, err
	}
	if !req.Policy.Obeyed() {
		return nil, fmt.Errorf("bug: the policy was not normalized: it has more than autonomy %s", req.Policy.Autonomy.Level())
	}
	if backend := named(req.Policy); backend != "" {
		p, unmet, err := compile(req, f, backend)
		if err == nil && len(unmet) > 0 {
			err = &CompatibilityError{Unmet: unmet}
		}
		return p, err
	}
	if req.Policy.Fallback == policy.Degrade {
		return descend(req, f)
	}
	p, unmet, err := compile(req, f, BackendNative)
	if err == nil && len(unmet) > 0 {
		err = &CompatibilityError{Unmet: unmet, Instead: instead(req, f)}
	}
	return p, err
}

// compile plans for one backend. Of the plan and what is unmet one is nil.
func compile(req Request, f facts.Facts, backend string) (*Plan, []Note, error) {
	c := &compiler{req: req, pol: req.Policy, facts: f, plan: &Plan{Version: Version, Backend: backend}, home: cmp.Or(req.Policy.Home, "/"), tmp: "/tmp"}
	p := c.plan
	if a := c.pol.Autonomy.Level(); a != policy.Supervised {
		p.Autonomy = string(a)
	}
	if p.CommandRules = c.pol.Commands; p.CommandRules != "" {
		p.Rule = req.Rule
	}
	p.Name, p.Command, p.Terminal, p.LastCap = c.pol.Name, slices.Clone(req.Command), req.Terminal, f.LastCap
	p.Notes, p.Tools = slices.Clone(c.pol.Notes), slices.Clone(c.pol.Tools)
	p.Timeout, p.MaxProcessTime, p.KillGrace = Duration(c.pol.Timeout), Duration(c.pol.MaxProcessTime), Duration(c.pol.KillGrace)
	if p.KillGrace == 0 {
		p.KillGrace = Duration(policy.DefaultKillGrace)
	}
	for _, pass := range passes(backend) {
		if err := pass(c); err != nil {
			return nil, nil, err
		}
	}
	c.pipes()
	c.audit()
	c.session()
	c.requireTools()
	if len(c.unmet) > 0 {
		return nil, c.unmet, nil
	}
	return p, nil, nil
}

// passes are what planning for a backend consists of, in order.
func passes(backend string) []func(*compiler) error {
	type C = compiler
	switch backend {
	case BackendLandlock:
		return []func(*C) error{(*C).mechanisms, (*C).identity, (*C).allow, (*C).noNamespaces, (*C).protect, (*C).private, (*C).agents, (*C).copies, (*C).grants, (*C).landlock, (*C).seccomp, (*C).refuse,
			(*C).explain, (*C).limits, (*C).environment, (*C).selfTest, (*C).guarantees}
	case BackendNone:
		return []func(*C) error{(*C).mechanisms, (*C).identity, (*C).allow, (*C).noNamespaces, (*C).protect, (*C).hostFiles, (*C).explain, (*C).limits, (*C).environment, (*C).selfTest, (*C).guarantees}
	}
	return []func(*C) error{(*C).mechanisms, (*C).terminal, (*C).identity, (*C).outside, (*C).allow, (*C).namespaces, (*C).protect, (*C).agents, (*C).copies, (*C).explain, (*C).fileSystem, (*C).landlock, (*C).seccomp,
		(*C).limits, (*C).environment, (*C).selfTest, (*C).guarantees}
}

// session refuses what cannot start commands later, and end whatever they leave behind.
func (c *compiler) session() {
	if !c.req.Session || c.plan.Serves() {
		return
	}
	if c.plan.Backend == BackendLandlock {
		c.impossible("session", "before Landlock ABI 6 (Linux 6.12) nothing ends for certain what a session's commands leave behind", "run each command by itself, or use the backend native")
		return
	}
	c.impossible("session", "its sandboxes are for one command", "run each command by itself, or use the backend native or landlock")
}

// Serves reports whether the plan's backend can carry it out as a session: see [Request].
func (p *Plan) Serves() bool {
	return p.Bwrap == nil && (p.Backend == BackendNative || p.Backend == BackendLandlock && p.KillScope)
}

// Bare reports whether the backend makes no namespaces, and so no mounts: the command has a subreaper beside it instead of a pid 1 above it.
func (p *Plan) Bare() bool { return p.Backend == BackendLandlock || p.Backend == BackendNone }

// Scoped reports whether what one command has started can be killed without the rest of a session: by a Landlock domain, from which the
// command cannot signal who does it.
func (p *Plan) Scoped() bool {
	return p.KillScope || p.Landlock != nil && p.Landlock.Scoped&landlock.ScopeSignal != 0
}

// SignalDomain is the ruleset of a process whose kill(-1) has to reach its own descendants alone. It confines signals and nothing else. Every domain
// refuses to move or link files between directories unless a rule of its own allows that (LANDLOCK_ACCESS_FS_REFER in landlock(7)), so one allows it
// everywhere: the command's own domain decides.
func (p *Plan) SignalDomain() landlock.Ruleset {
	domain := landlock.Ruleset{Scoped: landlock.ScopeSignal, HandledFS: p.Landlock.HandledFS & landlock.Refer}
	if domain.HandledFS != 0 {
		domain.Paths = []landlock.PathRule{{Path: "/", Access: landlock.Refer}}
	}
	return domain
}

func (r Request) checkCommand() error {
	command := r.Command
	if r.Session && len(command) == 0 {
		return nil
	}
	if r.Policy.Commands != "" && r.Rule == "" {
		return fmt.Errorf("bug: nothing has checked the command by the command rules %s", r.Policy.Commands)
	}
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

// lack says that the host has not got a feature that the policy needs: refused, or noted if the policy allows to degrade and the
// backend can do without.
func (c *compiler) lack(name facts.Name, essential bool) {
	row, _ := facts.Lookup(name)
	c.lose(Note{Feature: string(name), Loss: row.Loss, Found: c.facts.Answers[name].Detail, Fix: c.facts.Fix(name)}, essential)
}

// degradeFix is the way out of what a backend can do without.
const degradeFix = "or accept the loss with fallback degrade"

func (c *compiler) lose(n Note, essential bool) {
	essential = essential || c.requires(n.Feature)
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
		MountAPI: c.facts.Can(facts.MountAPI) && c.facts.Can(facts.MountSetattr), Openat2: c.facts.Can(facts.Openat2), CloseRange: c.facts.Can(facts.CloseR),
		CgroupClone: c.facts.State(facts.CgroupClone) == facts.Yes,
	}
	if !c.facts.Can(facts.Pidfd) {
		c.lack(facts.Pidfd, true)
	}
	return nil
}

// identity maps the ids inside, where the backend can.
func (c *compiler) identity() error {
	id := &c.plan.Identity
	*id = Identity{UID: c.facts.UID, GID: c.facts.GID, HostUID: c.facts.UID, HostGID: c.facts.GID}
	if c.pol.UID != nil {
		id.UID = *c.pol.UID
	}
	if c.pol.GID != nil {
		id.GID = *c.pol.GID
	}
	if id.UID == id.HostUID && id.GID == id.HostGID {
		return nil
	}
	switch c.plan.Backend {
	case BackendLandlock, BackendNone:
		c.impossible("identity", "other ids inside take a user namespace", "leave out uid and gid")
	case BackendDocker:
		c.impossible("identity", "the ids inside are those of the host", "leave out uid and gid, or use the backend native")
	}
	return nil
}

// namespaces takes all of them, the network's unless the host's is asked for. Of another program's making they are what it makes of
// the host's: whether it can is a fact of its own.
func (c *compiler) namespaces() error {
	want := []struct {
		name     string
		feature  facts.Name
		wanted   bool
		required bool
	}{
		{User, facts.UserNS, c.plan.Backend != BackendDocker, true}, {Mount, facts.MountNS, true, true}, {Pid, facts.PidNS, true, true},
		{Ipc, facts.IpcNS, true, true}, {Uts, facts.UtsNS, true, true},
		{Net, facts.NetNS, c.pol.Network.Own(), true},
		{Cgroup, facts.CgroupNS, true, false},
	}
	for _, ns := range want {
		switch {
		case !ns.wanted:
		case c.facts.Can(ns.feature), c.plan.Backend != BackendNative && ns.required:
			c.plan.Namespaces = append(c.plan.Namespaces, ns.name)
		case ns.required:
			c.lack(ns.feature, true)
		default:
			row, _ := facts.Lookup(ns.feature)
			c.note(string(ns.feature), row.Loss, c.facts.Fix(ns.feature))
		}
	}
	if c.plan.Backend == BackendNative {
		for _, name := range []facts.Name{facts.NestedUserNS, facts.ProcMount} {
			if !c.facts.Can(name) {
				c.lack(name, true)
			}
		}
	}
	c.plan.Network = string(c.pol.Network.Mode())
	c.plan.Hostname = c.pol.Hostname
	if c.plan.Hostname == "" {
		c.plan.Hostname = "sandbox"
	}
	return nil
}

// terminal refuses what no other program's sandbox has.
func (c *compiler) terminal() error {
	if c.plan.Backend != BackendNative && c.req.Terminal {
		c.impossible("terminal", "a terminal of the command's own is nsrun's to make", "leave out --tty, or use the backend native")
	}
	return nil
}

// outside asks for the program that a backend is.
func (c *compiler) outside() error {
	switch {
	case c.plan.Backend == BackendBwrap && !c.facts.Can(facts.Bwrap):
		c.lack(facts.Bwrap, true)
	case c.plan.Backend == BackendDocker && !c.facts.Can(facts.Docker) && !c.facts.Can(facts.Podman):
		c.lack(facts.Docker, true)
	case c.plan.Backend == BackendDocker:
		c.plan.Container = &Container{CLI: "docker"}
		if !c.facts.Can(facts.Docker) || c.facts.State(facts.Docker) != facts.Yes && c.facts.State(facts.Podman) == facts.Yes {
			c.plan.Container.CLI = "podman"
		}
	}
	return nil
}

// granted reports whether the policy shows a place of the host's.
func (c *compiler) granted(name string) bool {
	return slices.ContainsFunc(c.pol.FS, func(e policy.FS) bool { return e.Kind == policy.Bind && policy.Inside(name, e.Dest) })
}

// environment builds the command's, with what every program expects to find set by us.
func (c *compiler) environment() error {
	if c.pol.Isolation.Level() == policy.Permissive {
		c.plan.Env = slices.DeleteFunc(slices.Clone(c.req.Environ), func(v string) bool {
			name, _, _ := strings.Cut(v, "=")
			return slices.ContainsFunc(c.req.RuleEnv, func(r string) bool { return strings.HasPrefix(r, name+"=") })
		})
		c.plan.Env = append(c.plan.Env, c.req.RuleEnv...)
		c.note("environment", "the caller's environment is passed as it is, secrets included", "")
		return nil
	}
	c.keptHome()
	user := userName(c.plan.Identity.UID)
	base := []policy.Var{
		{Name: "PATH", Value: c.path()}, {Name: "HOME", Value: c.home}, {Name: "USER", Value: user}, {Name: "LOGNAME", Value: user},
		{Name: "PWD", Value: c.plan.Dir}, {Name: "TMPDIR", Value: c.tmp},
	}
	if c.plan.Network == string(policy.NetworkNone) {
		base = append(base, noRetries...)
	}
	if c.plan.Allow != nil && c.plan.Allow.Proxy {
		base = append(base, proxyEnv()...)
	}
	if c.plan.Backend == BackendLandlock && !c.granted(path.Join(c.home, ".gitconfig")) && !c.hasFile(".gitconfig") {
		// The file is there, and git gives up where it cannot read it (access_or_die in git's config.c). From git 2.32 on.
		base = append(base, policy.Var{Name: "GIT_CONFIG_GLOBAL", Value: "/dev/null"})
	}
	if c.pol.Protect == policy.ProtectStrict && c.plan.Protect != nil { // git status would write to the index, which is read-only
		base = append(base, policy.Var{Name: "GIT_OPTIONAL_LOCKS", Value: "0"})
	}
	env := c.pol.Env
	for _, v := range c.req.RuleEnv {
		name, value, _ := strings.Cut(v, "=")
		env.Set = append(env.Set[:len(env.Set):len(env.Set)], policy.Var{Name: name, Value: value})
	}
	environ, dropped := env.Environ(c.req.Environ, base)
	c.xdg(environ)
	c.plan.Env = environ
	c.dropped(dropped)
	for _, v := range environ {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			if entry, compat := policy.RelativePathEntry(value); compat {
				c.note("env", fmt.Sprintf("PATH holds %q: programs are looked for in whatever directory a command happens to be", entry), "give absolute directories alone")
			}
		}
	}
	return nil
}

// dropped tells of variables that were asked for and are not passed, by the reason.
func (c *compiler) dropped(names map[string][]string) {
	for _, why := range slices.Sorted(maps.Keys(names)) {
		if list := strings.Join(names[why], ", "); why == "" {
			c.note("env", "not passed, because the names look like secrets: "+list, "set them with set_env or --setenv if they must be known")
		} else {
			c.note("env", "not passed with the rest, because "+why+": "+list, "name those that are needed with pass_env or --env")
		}
	}
}
