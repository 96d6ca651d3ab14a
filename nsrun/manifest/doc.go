// Package manifest reads manifests: files, in JSON or YAML, that say what a program needs. It turns their bytes into a policy and
// makes no system call; the caller reads files, knows the home directory, and cuts the policy by the operator's ceiling.
//
//	m, err := manifest.Parse("tool.json", data)
//	if err != nil { ... } // every fault, each with line, column, key and fix
//	p, err := m.Policy(manifest.Context{Home: "/home/me", Dir: "/srv/tools", Path: "/srv/tools/tool.json"})
//	if err != nil { ... }
//	p, err = policy.Normalize(p, policy.Operator{Ceilings: ceilings})
//
// Reading is strict: a key that is unknown, given twice or in other letters, a value of another type, a word that readers of YAML
// take for different things, a character that hides text, are faults and never guesses. One table says what keys there are; it
// decodes, writes and publishes the schema.
//
// What this package does not protect against: it never looks at the host, so it knows neither what exists nor where a symlink
// leads. It marks its grants NoFollow, and the backend resolves them. It trusts Context: a Dir or Path that a program inside can
// choose gives that program the choice of what is granted. And a manifest may ask for anything; the ceiling says no.
package manifest
