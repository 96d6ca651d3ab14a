package manifest

import (
	"github.com/nsrun/nsrun/nsrun/commands"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// ParseCeiling reads an operator's ceiling, JSON or YAML, as strictly as Parse reads a manifest, and with the same errors. {} is
// the closed ceiling.
func ParseCeiling(name string, data []byte) (policy.Ceiling, error) {
	var c policy.Ceiling
	if _, err := parse(name, data, ceilingForm(), &c, func(*decoder) {}); err != nil {
		return policy.Ceiling{}, err
	}
	return c, nil
}

func ceilingForm() record[policy.Ceiling] {
	type C = policy.Ceiling
	shape := stringForm{validate: envShape, pattern: `^[^= ]+$`}
	return record[C]{what: "a ceiling", rows: []row[C]{
		{"version", "the version of this format", intForm{1, 1}, func(*C) any { return new(int) }},
		{"fs_read", "directories that may be shown", listForm[string]{rootText}, func(c *C) any { return &c.FSRead }},
		{"fs_write", "directories that may be shown writable", listForm[string]{rootText}, func(c *C) any { return &c.FSWrite }},
		{"sockets", "sockets that may be bound, or directories of them", listForm[string]{rootText}, func(c *C) any { return &c.Sockets }},
		{"network", "the widest network: none (default), host, or an object whose allow lists it", network{}, func(c *C) any { return &netWish{&c.Network, &c.Allow, nil} }},
		{"pass_env", "names of variables that may be passed; * matches any text", listForm[string]{shape}, func(c *C) any { return &c.PassEnv }},
		{"limits", "the largest limits; one that is not named is unbounded", limitsForm(),
			func(c *C) any { return &limits{&c.Limits, &c.Timeout, &c.KillGrace} }},
		{"seccomp", "filters that may be used; default only default", listForm[string]{filters()}, func(c *C) any { return &c.Seccomp }},
		{"fallback", "degrade permits manifests that say so; default strict", oneOf(policy.Fallbacks), func(c *C) any { return (*string)(&c.Fallback) }},
		{"isolation", "subprocess and permissive permit runs without a sandbox; default container", oneOf(policy.Isolations), func(c *C) any { return (*string)(&c.Isolation) }},
		{"protect", "the least protection of places that make the host run something; default report, and off permits none", oneOf(policy.Protects),
			func(c *C) any { return (*string)(&c.Protect) }},
		{"explain", "how much of what was refused results may report; default all, and off forbids it", oneOf(policy.Explains),
			func(c *C) any { return (*string)(&c.Explain) }},
		{"require", "guarantees that every run must have", listForm[string]{guarantees()}, func(c *C) any { return &c.Require }},
		{"commands", "built-in command rules that may be used; then every run must name one of them", listForm[string]{stringForm{choices: commands.Names}},
			func(c *C) any { return &c.Commands }},
		{"landlock", "false permits manifests that leave Landlock out", boolForm{true}, func(c *C) any { return &c.NoLandlock }},
		{"force", "true permits writable grants that are probably mistakes, such as the whole home directory", boolForm{false}, func(c *C) any { return &c.Force }},
		{"keep_home", "true permits home directories that are kept from run to run", boolForm{false}, func(c *C) any { return &c.KeepHome }},
		{"tools", "presets that may be used, each with all of its places; see nsrun tool list", listForm[string]{stringForm{validate: toolWord, pattern: toolPattern}}, func(c *C) any { return &c.Tools }},
		{"host_etc", "true permits the host's account files", boolForm{false}, func(c *C) any { return &c.HostEtc }},
	}}
}

// envShape checks names that may hold *.
func envShape(s string) (problem, fix string) {
	name := ""
	for _, r := range s {
		if r != '*' {
			name += string(r)
		}
	}
	if name == "" && s != "" {
		return "", ""
	}
	return envName(name)
}
