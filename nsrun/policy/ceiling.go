package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Ceiling is the most that an operator permits, whoever wrote the policy. The zero Ceiling permits only what [Default] gives.
//
// A ceiling permits what it names and nothing else: what it leaves out is refused. Only amounts are the other way round: a limit
// that it does not name is unbounded, as a maximum says nothing unless it is given.
type Ceiling struct {
	// File is where it was read from, for errors.
	File string `json:"-"`
	// FSRead and FSWrite are host directories that may be shown, and shown writable; what may be written may be read.
	FSRead  []string `json:"fs_read,omitempty"`
	FSWrite []string `json:"fs_write,omitempty"`
	// Sockets are sockets that may be bound, or directories of them.
	Sockets []string `json:"sockets,omitempty"`
	// Network is the widest network.
	Network Network `json:"network,omitempty"`
	// Allow lists what may be reached, where Network is allow: see package netrule.
	Allow []string `json:"allow,omitempty"`
	// PassEnv names variables that may be passed; * in a name matches any text. Secrets are dropped later whatever stands here.
	PassEnv []string `json:"pass_env,omitempty"`
	// Limits are the largest values. A policy that sets none gets the largest, unless the kernel goes by a smaller one then: [LimitRow.Unset].
	Limits []Limit `json:"limits,omitempty"`
	// Timeout is the longest run, and the longest that a process may go on which a session has started. 0 means any.
	Timeout time.Duration `json:"timeout,omitempty"`
	// KillGrace is the longest time between SIGTERM and SIGKILL. 0 means any, or [DefaultKillGrace] where Timeout is given.
	KillGrace time.Duration `json:"kill_grace,omitempty"`
	// Seccomp names the filters that may be used; none means "default". Any other is replaced by the first.
	Seccomp []string `json:"seccomp,omitempty"`
	// Fallback permits policies that degrade.
	Fallback Fallback `json:"fallback,omitempty"`
	// Isolation is the least of a sandbox that is permitted: subprocess and permissive permit policies without one.
	Isolation Isolation `json:"isolation,omitempty"`
	// Protect is the least level of protection: see [Policy].Protect. Empty means ProtectReport; ProtectOff permits to go without.
	Protect Protect `json:"protect,omitempty"`
	// Explain is the highest level at which results may report what was refused. Empty means ExplainAll.
	Explain Explain `json:"explain,omitempty"`
	// Require lists guarantees that every policy gets to require.
	Require []string `json:"require,omitempty"`
	// Commands lists the built-in command rules that may be used; every policy must name one of them then.
	Commands []string `json:"commands,omitempty"`
	// NoLandlock permits policies without Landlock.
	NoLandlock bool `json:"no_landlock,omitempty"`
	// Force permits writable grants that are probably mistakes, such as the whole home directory: see [FS.Force].
	Force bool `json:"force,omitempty"`
	// KeepHome permits home directories that are kept: what a run leaves there, the next one finds.
	KeepHome bool `json:"keep_home,omitempty"`
	// Tools names the presets that may be used, each with all of its places: see [Policy].Tools. What they pass or set obeys PassEnv and Seccomp.
	Tools []string `json:"tools,omitempty"`
	// HostEtc permits the host's account files.
	HostEtc bool `json:"host_etc,omitempty"`
}

// under returns p cut down to c, with a note for each cut; p.Notes stay as they are. No access is in the result that is not in
// both: what c does not permit is left out, or made read-only, and what is kept is bound by FS.Within to the directories of c
// that permit it, so that a symlink cannot lead out. Entries of the system stay. It is idempotent.
//
// Seccomp filters have no order here: one that c does not name is replaced, which may be by a wider one that c does name. A raw
// filter and further denied calls stay, as they only take away.
//
// Precondition: p is valid and arranged.
func (p Policy) under(c Ceiling) (Policy, []Note) {
	k := cutter{Policy: p}
	k.fs(c)
	k.network(c)
	k.env(c)
	k.limits(c)
	k.times(c)
	k.layers(c)
	k.tools(c)
	return k.Policy, k.notes
}

// ErrAudit is an audit log that a ceiling does not permit. Nothing is to be written to it.
var ErrAudit = errors.New("the audit log is beyond the operator's ceiling")

// refuses says why no policy can be made of p that c permits: its command rules are none of those that c lists, or its audit log, which is made where
// there is none, lies in no directory that may be written and is not the
// operator's. A policy's own rules are never among those listed, whatever their name.
func (c Ceiling) refuses(p Policy, operators string) error {
	for _, file := range p.Audit {
		if file != operators && !slices.ContainsFunc(c.FSWrite, func(dir string) bool { return Inside(file, dir) }) {
			return fmt.Errorf("audit %s: %w; name a file in one of fs_write, which are: %s", file, ErrAudit, cmp.Or(strings.Join(c.FSWrite, ", "), "none"))
		}
	}
	for _, e := range p.FS {
		if why, _ := Mistake(e.Source, p.Home); e.Kind == Bind && e.Force && e.Write && why != "" && !c.Force {
			return fmt.Errorf("%s (%s) is %s; the operator's ceiling permits none such: it would by \"force\": true", e.Source, e.Why, why)
		}
	}
	own := slices.ContainsFunc(p.CommandRules, func(o CommandRules) bool { return o.Name == p.Commands })
	switch {
	case len(c.Commands) == 0, slices.Contains(c.Commands, p.Commands) && !own:
		return nil
	case p.Commands == "":
		return fmt.Errorf("the operator's ceiling asks for command rules; name %s, as with --commands", strings.Join(c.Commands, " or "))
	}
	return fmt.Errorf("command rules %s: beyond the operator's ceiling, which permits %s", p.Commands, strings.Join(c.Commands, ", "))
}

// cutter is a policy while it is cut.
type cutter struct {
	Policy
	notes []Note
}

// note says what was cut and which words in the ceiling would permit it.
func (k *cutter) note(feature, loss, permit string) {
	k.notes = append(k.notes, Note{Feature: feature, Loss: loss, Fix: "the operator's ceiling would permit it by " + permit})
}

func (k *cutter) fs(c Ceiling) {
	var kept, cut []FS
	for _, e := range k.FS {
		one, ok := k.cutFS(e, c)
		switch {
		case ok:
			kept = append(kept, one)
		default:
			cut = append(cut, e)
			if m, needed := mask(e, kept, "ceiling"); needed {
				kept = append(kept, m)
			}
		}
	}
	k.FS = kept
	// A directory is there if it is in something of the host's, or is, or leads to, a place that is mounted.
	shown := func(e FS) bool { return e.Kind == Bind && Inside(k.Dir, e.Dest) || Inside(e.Dest, k.Dir) }
	if slices.ContainsFunc(cut, shown) && !slices.ContainsFunc(kept, shown) {
		k.notes = append(k.notes, Note{Feature: "fs", Loss: "the working directory " + k.Dir + " was cut; it is /"})
		k.Dir = "/"
	}
}

// tools leaves out presets that are not permitted, of which fs has left out the places.
func (k *cutter) tools(c Ceiling) {
	k.Tools = slices.DeleteFunc(slices.Clone(k.Tools), func(name string) bool {
		permitted := slices.Contains(c.Tools, name)
		if !permitted {
			k.note("tools", "the preset "+name+" is beyond the ceiling; nothing of it is shown", fmt.Sprintf(`"tools": [%q]`, name))
		}
		return !permitted
	})
}

// mask covers, by an empty directory that cannot be written, what an entry above shows at the place of one that was cut and
// hid it there: leaving that entry out would otherwise uncover it.
func mask(cut FS, above []FS, why string) (FS, bool) {
	for _, a := range slices.Backward(above) {
		if !Inside(cut.Dest, a.Dest) {
			continue
		}
		shown := a.Source + strings.TrimPrefix(cut.Dest, a.Dest)
		noMore := cut.Source == shown && (cut.Kind == Socket || (cut.Write || !a.Write) && (a.NoExec || !cut.NoExec))
		if a.Kind != Bind || noMore {
			return FS{}, false
		}
		return FS{Kind: Tmpfs, Dest: cut.Dest, NoExec: true, SizeMB: 1, Mode: 0o555, Why: why}, true
	}
	return FS{}, false
}

// cutFS is what is left of one entry, and false when nothing is.
func (k *cutter) cutFS(e FS, c Ceiling) (FS, bool) {
	most, _ := Policy{Limits: c.Limits}.Limit(TmpfsMB)
	if e.Kind == Tmpfs && e.SizeMB > 0 {
		e.SizeMB = least(e.SizeMB, most)
	}
	switch permitted := slices.Contains(c.Tools, e.Tool); {
	case e.System, e.Tool != "" && permitted && e.Variable == "" && !e.Found && (e.Kind != Bind || !e.Write), e.Tool == "" && !slices.Contains([]Kind{Bind, Socket, Overlay}, e.Kind):
		return e, true
	case e.Tool != "" && !permitted: // tools says so
		return e, false
	}
	key, roots := "fs_read", append(slices.Clone(c.FSRead), c.FSWrite...)
	if e.Kind == Socket {
		key, roots = "sockets", c.Sockets
	}
	if e.Kind == Bind && e.Write {
		if one, ok := e.within(c.FSWrite); ok {
			return one, true
		}
		key = "fs_write"
	}
	one, ok := e.within(roots)
	switch {
	case !ok:
		k.note("fs", e.Source+" ("+e.Why+") is beyond the ceiling; it is not shown", fmt.Sprintf("%q: [%q]", key, e.Source))
	case e.Kind == Bind && e.Write:
		one.Write = false
		k.note("fs", e.Source+" ("+e.Why+") is read-only under the ceiling", fmt.Sprintf("%q: [%q]", key, e.Source))
	}
	return one, ok
}

// within binds e to those of roots that hold its source, and reports false when there are none.
func (e FS) within(roots []string) (FS, bool) {
	var holding []string
	for _, root := range roots {
		if Inside(e.Source, root) {
			holding = append(holding, root)
		}
	}
	if len(holding) == 0 {
		return e, false
	}
	slices.Sort(holding)
	within, ok := meet(e.Within, slices.Compact(holding))
	e.Within = within
	return e, ok
}

func (k *cutter) env(c Ceiling) {
	permits := func(name string) bool {
		return slices.ContainsFunc(c.PassEnv, func(shape string) bool { return match(shape, name) })
	}
	pass := slices.Clone(k.Env.Pass)
	if k.Env.All && !slices.Contains(c.PassEnv, "*") {
		k.Env.All = false
		k.note("env", "the whole environment is beyond the ceiling; only names that it spells out are passed", `"pass_env": ["*"]`)
		for _, shape := range c.PassEnv {
			if !strings.ContainsAny(shape, `*?[\`) && !slices.Contains(pass, shape) {
				pass = append(pass, shape)
			}
		}
	}
	k.Env.Pass = nil
	for _, name := range pass {
		if permits(name) || BaseName(name) {
			k.Env.Pass = append(k.Env.Pass, name)
			continue
		}
		k.note("env", name+" is beyond the ceiling; it is not passed", fmt.Sprintf(`"pass_env": [%q]`, name))
	}
}

func (k *cutter) limits(c Ceiling) {
	most := c.Limits
	if tmp, ok := (Policy{Limits: most}).Limit(TmpfsMB); ok { // it bounds the home directory, too
		_, named := Policy{Limits: most}.Limit(HomeMB)
		if _, set := k.Limit(HomeMB); set && !named {
			most = append(slices.Clip(most), Limit{HomeMB, tmp})
		}
	}
	for _, most := range most {
		value, set := k.Limit(most.Name)
		row, _ := LookupLimit(most.Name)
		unset := !set && row.Unset > 0 && row.Unset <= most.Value // what the kernel goes by is permitted
		if set && value <= most.Value || unset {
			continue
		}
		k.Policy = k.WithLimit(most.Name, most.Value)
		if set {
			k.note("limits", fmt.Sprintf("%s %d is beyond the ceiling; it is %d", most.Name, value, most.Value), "a larger limit")
		}
	}
}

func (k *cutter) times(c Ceiling) {
	if c.Timeout > 0 && (k.Timeout == 0 || k.Timeout > c.Timeout) {
		asked := "no timeout"
		if k.Timeout > 0 {
			asked = k.Timeout.String()
		}
		k.note("timeout", asked+" is beyond the ceiling; it is "+c.Timeout.String(), "a longer timeout")
		k.Timeout = c.Timeout
	}
	if c.Timeout > 0 && (k.MaxProcessTime == 0 || k.MaxProcessTime > c.Timeout) {
		k.MaxProcessTime = c.Timeout
	}
	most := c.KillGrace
	if most == 0 && c.Timeout > 0 {
		most = DefaultKillGrace
	}
	if most > 0 && cmp.Or(k.KillGrace, DefaultKillGrace) > most {
		k.note("kill_grace", "the time between SIGTERM and SIGKILL is beyond the ceiling; it is "+most.String(), "a longer kill_grace")
		k.KillGrace = most
	}
}

// layers cuts wishes to do with less protection.
func (k *cutter) layers(c Ceiling) {
	filters, name := c.Seccomp, cmp.Or(k.Seccomp.Filter, "default")
	if len(filters) == 0 {
		filters = []string{"default"}
	}
	if !slices.Contains(filters, name) {
		k.Seccomp.Filter = filters[0]
		k.note("seccomp", name+" is beyond the ceiling; the filter is "+filters[0], fmt.Sprintf(`"seccomp": [%q]`, name))
	}
	if k.KeepHome != "" && !c.KeepHome {
		k.KeepHome = ""
		k.note("home", "a home directory that is kept is beyond the ceiling; it is private", `"keep_home": true`)
	}
	if k.NoLandlock && !c.NoLandlock {
		k.NoLandlock = false
		k.note("landlock", "it cannot be left out under the ceiling; it is on", `"landlock": false`)
	}
	if k.Fallback == Degrade && c.Fallback != Degrade {
		k.Fallback = Strict
		k.note("fallback", "degrade is beyond the ceiling; what cannot be enforced refuses the run", `"fallback": "degrade"`)
	}
	k.backend(c)
	k.protect(c)
	k.explain(c)
	if k.HostEtc && !c.HostEtc {
		k.HostEtc = false
		k.note("fs", "the host's account files are beyond the ceiling; the sandbox has its own", `"host_etc": true`)
	}
}

// backend cuts wishes for less of a sandbox, and adds what the operator requires.
func (k *cutter) backend(c Ceiling) {
	switch b := k.Backend; {
	case b == BackendNone && c.Isolation.Level() == Container:
		k.Backend = BackendAuto
		k.note("backend", "none is beyond the ceiling; there is a sandbox", `"isolation": "subprocess"`)
	case b != "" && b != BackendAuto && b != BackendNative && b != BackendNone && c.Fallback != Degrade: // it carries less: see plan
		k.Backend = BackendAuto
		k.note("backend", string(b)+" is beyond the ceiling; the backend is nsrun's own", `"fallback": "degrade"`)
	}
	most := c.Isolation.Level()
	if most == Permissive && (len(c.Limits) > 0 || !slices.Contains(c.PassEnv, "*")) { // permissive has neither limits nor a choice of variables
		most = Subprocess
	}
	order := func(i Isolation) int { return slices.Index(Isolations, i.Level()) }
	if order(k.Isolation) > order(most) {
		permit := fmt.Sprintf(`"isolation": %q`, k.Isolation)
		if k.Isolation == Permissive {
			permit += `, "pass_env": ["*"] and no limits`
		}
		k.note("isolation", string(k.Isolation)+" is beyond the ceiling; it is "+string(most), permit)
		k.Isolation = most
	}
	k.Policy = k.Requiring(c.Require...)
}
