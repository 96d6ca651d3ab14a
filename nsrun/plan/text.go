package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/rlimit"
)

// String prints the plan for people: one thing a line, in the order it is done, the same for the same plan.
func (p *Plan) String() string {
	var out strings.Builder
	line := func(name, text string) { fmt.Fprintf(&out, "%-11s %s\n", name, text) }
	some := func(name, text string) {
		if text != "" {
			line(name, text)
		}
	}
	some("policy", p.Name)
	line("command", quoteWords(p.Command))
	if p.CommandRules != "" || p.Rule != "" {
		line("commands", strings.TrimSuffix(p.CommandRules+", by the rule "+quote(p.Rule), `, by the rule ""`))
	}
	some("autonomy", strings.TrimSuffix(p.Autonomy+": "+autonomyText(p.Autonomy), ": "))
	line("directory", p.Dir)
	line("backend", p.Backend)
	if b := p.Container; b != nil {
		line("container", strings.Join(append([]string{b.CLI}, b.Flags...), " "))
	}
	id, privileges := p.Identity, "no capabilities, no_new_privs"
	if p.Backend == BackendNone {
		privileges = "the caller's privileges"
	}
	line("identity", fmt.Sprintf("uid %d gid %d (on the host %d, %d), %s", id.UID, id.GID, id.HostUID, id.HostGID, privileges))
	if len(p.Namespaces) == 0 {
		line("namespaces", "none")
	} else {
		line("namespaces", strings.Join(p.Namespaces, " "))
		line("hostname", p.Hostname)
	}
	line("network", p.networkText())
	if p.KillScope {
		line("kill scope", "the Landlock domain")
	}
	some("self-test", JoinActs(p.SelfTest))
	some("explain", p.Explain.text())
	if p.Bwrap == nil {
		line("guarantees", p.guaranteesText())
	}
	line("mechanisms", p.Mechanisms.String())
	if p.Terminal {
		line("terminal", "a pty of the sandbox's own devpts")
	}
	line("timeout", p.timeText())
	if t := p.Tmpfs; t != (Tmpfs{}) {
		line("in memory", fmt.Sprintf("at most %d MiB and %d files, in all private places together", t.Size>>20, t.Inodes))
	}
	some("bounded home", p.BoundedHome)
	some("tools", strings.Join(p.Tools, " "))
	some("protect", p.protectText())
	if p.Private != nil {
		line("private", p.Private.String())
	}
	for _, file := range p.Audit {
		line("audit", file)
	}
	for _, l := range p.Labels {
		line("label", l.Name+"="+l.Value)
	}
	p.Bwrap.text(&out)
	p.mountsText(&out)
	p.confinementText(&out)
	out.WriteString("\nenvironment\n")
	for _, v := range p.Env {
		fmt.Fprintf(&out, "      %s\n", quote(v))
	}
	if len(p.Notes) > 0 {
		out.WriteString("\nnotes\n")
		for _, n := range p.Notes {
			fmt.Fprintf(&out, "      %s\n", n)
		}
	}
	return out.String()
}

// mountsText prints the operations on the view, with what asked for each.
func (p *Plan) mountsText(out *strings.Builder) {
	if p.Backend == BackendNone && len(p.Mounts) > 0 {
		out.WriteString("\nlooked for, and no more\n")
	} else if p.Backend == BackendLandlock {
		out.WriteString("\ngrants\n")
	} else if len(p.Mounts) > 0 || p.Bwrap != nil {
		out.WriteString("\nmounts\n")
	}
	for i, op := range p.Mounts {
		fmt.Fprintf(out, "%4d  %s", i+1, op)
		if op.Why != "" && op.Why != "always" && op.Why != "system" {
			fmt.Fprintf(out, "   # %s", op.Why)
		}
		out.WriteByte('\n')
	}
}

// autonomyText says what an autonomy makes of grants.
func autonomyText(name string) string {
	var words []string
	i := slices.Index(policy.Autonomies, policy.Autonomy(name))
	for _, row := range policy.AutonomyTable {
		if i >= 0 && row.Effects[i] != policy.AsWritten {
			words = append(words, row.Grant+" "+string(row.Effects[i]))
		}
	}
	return strings.Join(words, ", ")
}

// Lost lists the guarantees that do not hold in full.
func (p *Plan) Lost() (names []string) {
	for _, t := range Traits {
		if !slices.Contains(p.Holds, t.Name) {
			names = append(names, t.Name)
		}
	}
	return names
}

// guaranteesText says which guarantees hold, in the fewest words.
func (p *Plan) guaranteesText() string {
	lost := p.Lost()
	switch {
	case len(lost) == 0:
		return "all"
	case len(lost) <= len(p.Holds):
		return "all but " + strings.Join(lost, " ")
	}
	return strings.Join(p.Holds, " ")
}

// JoinActs lists acts by name.
func JoinActs(acts []Act) string { return strings.Join(policy.Words(acts), " ") }

func (p *Plan) timeText() string {
	grace, maxProcessTime := time.Duration(p.KillGrace), ""
	if p.MaxProcessTime > 0 {
		maxProcessTime = fmt.Sprintf("; a process of a session has %v", time.Duration(p.MaxProcessTime))
	}
	if p.Timeout == 0 {
		return fmt.Sprintf("none (kill grace %v)%s", grace, maxProcessTime)
	}
	return fmt.Sprintf("%v, then SIGTERM, and SIGKILL after %v%s", time.Duration(p.Timeout), grace, maxProcessTime)
}

func (p *Plan) confinementText(out *strings.Builder) {
	if l := p.Landlock; l != nil {
		fmt.Fprintf(out, "\nlandlock    ABI %d, %d file rights handled", l.ABI, len(l.HandledFS.Names()))
		if names := append(l.HandledNet.Names(), l.Scoped.Names()...); len(names) > 0 {
			fmt.Fprintf(out, ", %s", strings.Join(names, ", "))
		}
		out.WriteByte('\n')
		for _, r := range l.Paths {
			fmt.Fprintf(out, "      %-4s %s", r.Access.Word(l.HandledFS), r.Path)
			if slices.Contains(l.ByEntry, r.Path) {
				out.WriteString(", each entry that is not covered")
			}
			if r.Optional {
				out.WriteString(" (optional)")
			}
			out.WriteByte('\n')
		}
		for _, r := range l.Ports {
			fmt.Fprintf(out, "      %s port %d\n", strings.Join(r.Access.Names(), ","), r.Port)
		}
	}
	if s := p.Seccomp; s != nil {
		fmt.Fprintf(out, "\nseccomp     filter %s", s.Filter)
		if s.Hash != "" {
			fmt.Fprintf(out, " sha256 %.16s", s.Hash)
		}
		if len(s.Deny) > 0 {
			fmt.Fprintf(out, ", denied: %s", strings.Join(s.Deny, " "))
		}
		if len(s.Refuse) > 0 {
			fmt.Fprintf(out, ", refused: %s", strings.Join(s.Refuse, " "))
		}
		if len(s.Raw) > 0 {
			fmt.Fprintf(out, ", and a filter of %d instructions", len(s.Raw)/8)
		}
		out.WriteByte('\n')
	}
	p.limitText(out)
}

func (p *Plan) limitText(out *strings.Builder) {
	if lines := p.limitWords(p.Limits, false, "stream"); len(lines) > 0 {
		fmt.Fprintf(out, "\nlimits\n      %s\n", strings.Join(lines, "\n      "))
	}
	if words := p.limitWords(p.SoftCaps, true, "pipe"); len(words) > 0 {
		fmt.Fprintf(out, "at most     %s\n", strings.Join(words, " "))
	}
	if p.PidMax > 0 {
		fmt.Fprintf(out, "pid_max     %d\n", p.PidMax)
	}
	if p.Scope != nil {
		fmt.Fprintf(out, "scope       %s\n", p.Scope)
	}
	for _, t := range p.Cgroups {
		fmt.Fprintf(out, "cgroup      v%d, made below %s\n", t.Version, t.Dir)
	}
}

// limitWords lists the limits that were asked for, or those that hold by default.
func (p *Plan) limitWords(rlimits []rlimit.Limit, byDefault bool, ofEach string) (words []string) {
	for _, l := range rlimits {
		words = append(words, l.String())
	}
	for _, h := range p.EnforcedBy {
		if h.Default == byDefault {
			words = append(words, h.String())
		}
	}
	if o := p.Output; o != nil && o.Pipes == byDefault {
		words = append(words, fmt.Sprintf("%s=%d (of each %s)", policy.OutputBytes, o.Bytes, ofEach))
	}
	return words
}

// String gives "a transient unit for this process, by /run/user/1000/bus: Delegate=yes, CollectMode=inactive-or-failed".
func (s *Scope) String() string {
	delegate := "no"
	if s.Delegate {
		delegate = "yes"
	}
	kind := ""
	if s.Bus {
		kind = "the bus "
	}
	return fmt.Sprintf("a transient unit of systemd's for this process, by %s%s: Delegate=%s, CollectMode=%s", kind, s.Socket, delegate, s.CollectMode)
}

// String lists the mechanisms in use.
func (m Mechanisms) String() string {
	pick := func(on bool, yes, no string) string {
		if on {
			return yes
		}
		return no
	}
	return strings.Join([]string{
		pick(m.MountAPI, "open_tree/mount_setattr", "mount(2)"),
		pick(m.Openat2, "openat2", "openat name by name"),
		pick(m.CloseRange, "close_range", "close one by one"),
	}, ", ")
}

func quoteWords(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = quote(w)
	}
	return strings.Join(out, " ")
}

// quote prints a word as it is if it reads as one word, else as a Go string: no control character reaches a terminal.
func quote(w string) string {
	plain := w != ""
	for _, r := range w {
		if r <= ' ' || r == '"' || r == '\'' || r == '\\' || r == 0x7f || r > 0x7e {
			plain = false
		}
	}
	if plain {
		return w
	}
	return fmt.Sprintf("%q", w)
}
