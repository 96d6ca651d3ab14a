package manifest

import (
	"time"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// The forms of this package: the one table that decoding, writing and the schema read. They are functions, as a table that is
// built when the program starts would cost those runs that have no manifest.

// Kinds of paths.
var (
	hintText  = stringForm{validate: hint, pattern: hintPattern}
	hostText  = stringForm{validate: hostPath, pattern: hostPattern}
	insideDir = stringForm{validate: insidePath, pattern: insidePattern}
	fileText  = stringForm{validate: filePath, pattern: hintPattern}
	rootText  = stringForm{validate: rootPath, pattern: `^/`}
	wordText  = stringForm{validate: word, pattern: wordPattern}
	envText   = stringForm{validate: envName, pattern: envPattern}
)

// Words that other packages list.
func guarantees() stringForm { return stringForm{choices: policy.Requirements()} }
func filters() stringForm    { return stringForm{choices: policy.SeccompFilters} }

func oneOf[T ~string](words []T) stringForm { return stringForm{choices: policy.Words(words)} }

// manifestForm is the table of all keys of a manifest.
func manifestForm() record[Manifest] {
	id := intForm{0, 1<<31 - 1}
	return record[Manifest]{what: "a manifest", rows: []row[Manifest]{
		{"name", "names the manifest in plans and results", stringForm{validate: title}, func(m *Manifest) any { return &m.Wishes.Name }},
		{"version", "the version of this format", intForm{1, 1}, func(m *Manifest) any { return &m.Version }},
		{"capabilities", `grants, as "family:mode" or objects with kind, mode and hints`, listForm[Capability]{capability{}},
			func(m *Manifest) any { return &m.Capabilities }},
		{"workspace", "a writable directory, and the working directory", hostText, func(m *Manifest) any { return &m.Workspace }},
		{"workspace_at", `where the workspace is shown: "same", or a path inside`, stringForm{validate: placement, pattern: `^(same$|/.)`},
			func(m *Manifest) any { return &m.WorkspaceAt }},
		{"shared_dirs", "writable directories for coordination", listForm[string]{hostText}, func(m *Manifest) any { return &m.SharedDirs }},
		{"sockets", "Unix sockets of the host", listForm[string]{hostText}, func(m *Manifest) any { return &m.Sockets }},
		{"extra_ro", "further files and directories, read-only", listForm[string]{hostText}, func(m *Manifest) any { return &m.ExtraRO }},
		{"extra_rw", "further files and directories, writable", listForm[string]{hostText}, func(m *Manifest) any { return &m.ExtraRW }},
		{"force_rw", "like extra_rw, and insists where that is refused as a probable mistake", listForm[string]{hostText}, func(m *Manifest) any { return &m.ForceRW }},
		{"home", `the home directory: "private" (default), "keep", "none", or a directory of the host`, stringForm{validate: homeWord, pattern: homePattern},
			func(m *Manifest) any { return &m.Home }},
		{"noexec", "whether programs cannot be run from writable places", boolForm{false}, func(m *Manifest) any { return &m.Wishes.NoExec }},
		{"mounts", "paths of the host at other places inside", listForm[Mount]{mountForm()}, func(m *Manifest) any { return &m.Mounts }},
		{"protect", "what is done about places in writable grants that make the host run something, such as git hooks: report (default), revert, strict, off",
			oneOf(policy.Protects), func(m *Manifest) any { return (*string)(&m.Wishes.Protect) }},
		{"protect_paths", "further files and directories in writable grants that stay read-only where they exist, and are compared", listForm[string]{hostText},
			func(m *Manifest) any { return &m.ProtectPaths }},
		{"tools", "presets of what a tool needs, by name, or by the path of a file with a row of your own; see nsrun tool list",
			listForm[string]{stringForm{validate: toolWord, pattern: toolPattern}}, func(m *Manifest) any { return &m.Tools }},
		{"code", "the program's file; its directory is shown read-only", fileText, func(m *Manifest) any { return &m.Code }},
		{"chdir", "the working directory inside", stringForm{validate: workDir, pattern: `^/`}, func(m *Manifest) any { return &m.Chdir }},
		{"network", "what can be reached: none (default), host, or an object whose allow lists it; a network capability asks for what its hints name, or for host",
			network{proxy: true}, func(m *Manifest) any { return &netWish{&m.Wishes.Network, &m.Wishes.Allow, &m.Wishes.ProxyEnv} }},
		{"pass_env", "names of variables to take from the caller", listForm[string]{envText}, func(m *Manifest) any { return &m.Wishes.Env.Pass }},
		{"set_env", "variables to set", settings(envName, envValue, envPattern), func(m *Manifest) any { return &m.Wishes.Env.Set }},
		{"limits", "resource limits", limitsForm(), func(m *Manifest) any { return &limits{&m.Wishes.Limits, &m.Wishes.Timeout, &m.Wishes.KillGrace} }},
		{"seccomp", "a filter's name, or an object with filter, deny and raw", filter{}, func(m *Manifest) any { return m }},
		{"hostname", "the host name inside", stringForm{validate: hostname, pattern: `^[A-Za-z0-9._-]{1,64}$`}, func(m *Manifest) any { return &m.Wishes.Hostname }},
		{"uid", "the user id inside", id, func(m *Manifest) any { return &m.Wishes.UID }},
		{"gid", "the group id inside", id, func(m *Manifest) any { return &m.Wishes.GID }},
		{"fallback", "what to do about wishes that cannot be enforced; default strict", oneOf(policy.Fallbacks),
			func(m *Manifest) any { return (*string)(&m.Wishes.Fallback) }},
		{"require", "guarantees that must hold whatever the backend", listForm[string]{guarantees()}, func(m *Manifest) any { return &m.Wishes.Require }},
		{"isolation", "container, the default; subprocess and permissive are no sandbox", oneOf(policy.Isolations), func(m *Manifest) any { return (*string)(&m.Wishes.Isolation) }},
		{"self_test", "whether the sandbox tries what must fail before it starts the command", boolForm{false}, func(m *Manifest) any { return &m.Wishes.SelfTest }},
		{"explain", "whether the result reports what was refused, and what would allow it: off (default), on, all", oneOf(policy.Explains),
			func(m *Manifest) any { return (*string)(&m.Wishes.Explain) }},
		{"autonomy", "what becomes of grants: readonly, supervised (default), full", oneOf(policy.Autonomies), func(m *Manifest) any { return (*string)(&m.Wishes.Autonomy) }},
		{"commands", "what command lines may run at all: passive, full, or a name of command_rules; default any", stringForm{validate: title},
			func(m *Manifest) any { return &m.Wishes.Commands }},
		{"command_rules", "command rules of your own, by name", commandRulesList(), func(m *Manifest) any { return &m.Wishes.CommandRules }},
		{"backend", "the backend; default auto: native, or with degrade the strongest that works", oneOf(policy.Backends), func(m *Manifest) any { return (*string)(&m.Wishes.Backend) }},
		{"audit", "a log that gets a row when the run starts and one when it has ended; its name ends in .jsonl",
			stringForm{validate: auditPath, pattern: auditPattern}, func(m *Manifest) any { return &m.Audit }},
		{"labels", "the caller's own words for the rows of audit logs, such as its task", settings(word, labelValue, wordPattern),
			func(m *Manifest) any { return &m.Wishes.Labels }},
		{"landlock", "whether Landlock is on", boolForm{true}, func(m *Manifest) any { return &m.Wishes.NoLandlock }},
	}}
}

// limits points to what "limits" sets.
type limits struct {
	all            *[]policy.Limit
	timeout, grace *time.Duration
}

func limitsForm() record[limits] {
	r := record[limits]{what: "limits"}
	for _, l := range policy.LimitTable {
		help := l.Help
		if l.Unit != "" {
			help += ", in " + l.Unit
		}
		r.rows = append(r.rows, row[limits]{l.Name, help, limitForm{intForm{l.Min, l.Max}, l}, func(l2 *limits) any { return limitField{l2.all, l.Name} }})
	}
	r.rows = append(r.rows,
		row[limits]{"timeout", "wall-clock time of the run, as seconds or a Go duration; default 30s", durationForm{}, func(l *limits) any { return l.timeout }},
		row[limits]{"kill_grace", "time between SIGTERM and SIGKILL; default 2s", durationForm{}, func(l *limits) any { return l.grace }})
	return r
}

// filter is a filter's name or an object.
type filter struct{}

func filterForm() record[Manifest] {
	return record[Manifest]{what: "seccomp", rows: []row[Manifest]{
		{"filter", `a filter's name; "off" installs none`, filters(), func(m *Manifest) any { return &m.Wishes.Seccomp.Filter }},
		{"deny", "names of further system calls to deny", listForm[string]{wordText}, func(m *Manifest) any { return &m.Wishes.Seccomp.Deny }},
		{"raw", "a file of classic BPF, installed beside the filter", fileText, func(m *Manifest) any { return &m.RawFilter }},
	}}
}

func (filter) read(d *decoder, n *node, key string, into any) {
	if n.kind == text {
		d.places[key] = n.at
		filters().read(d, n, key, &into.(*Manifest).Wishes.Seccomp.Filter)
		return
	}
	filterForm().read(d, n, key, into)
}

func (filter) json(from any) (string, bool) {
	m := from.(*Manifest)
	if len(m.Wishes.Seccomp.Deny) == 0 && m.RawFilter == "" {
		return filters().json(&m.Wishes.Seccomp.Filter)
	}
	return filterForm().json(m)
}

func (filter) schema() map[string]any {
	return map[string]any{"oneOf": []any{filters().schema(), filterForm().schema()}}
}
