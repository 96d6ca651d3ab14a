// Package tools has presets: what a tool needs that the default policy closes, by the tool's name.
//
//	p.Tools = []string{"go", "node"}
//	p, rows, err := tools.Add(p, operator, tools.Here())
//
// A preset adds places of the host to a policy, variables, and at most a filter of system calls. It never opens the network, and it grants nothing to be
// written, but for the git directory of a workspace that can be written itself: see [Repository]. A cache is shown as a copy, so that a sandbox sees what the
// host has fetched and built, and cannot change it. What the policy's author asks for
// at a place wins over a preset. [policy.Normalize] comes afterwards; a ceiling names the presets that it permits.
//
// Add looks at the host, as far as a place depends on it: which variables are set, what is there, what the user's configuration of git says. It makes nothing.
//
// What this package does not protect against: the host's caches and installations hold what others have put there, and a command can read all of it, such as
// the sources of private modules. A command that can write to a git directory can change all branches of the repository, and break it. A row that a user has
// written can show any place of the host, read-only; only a ceiling refuses it.
package tools
