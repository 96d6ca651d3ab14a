// Package manifest reads manifests: files, in JSON or YAML, that say what a program needs. It turns their bytes into a policy and makes no
// system call. The caller reads the files and knows the home directory. It also applies the ceilings, by which an operator limits what any
// manifest may get: [ParseCeiling] reads one. Package load does all that.
//
//	m, err := manifest.Parse("tool.json", data)
//	if err != nil { ... } // every fault, each with line, column, key and fix
//	p, err := m.Policy(manifest.Context{Home: "/home/me", Dir: "/srv/tools", Path: "/srv/tools/tool.json"})
//	if err != nil { ... }
//	p, err = policy.Normalize(p, policy.Operator{Ceilings: ceilings})
//
// Reading is strict. Each of these is a fault: an unknown key, a key that is given twice or with other upper and lower case, a value of
// another type, a word that YAML readers understand differently (such as "no"), a character that hides text. One table says which keys there
// are. Reading, writing and the published schema all use it.
//
// What this package does not protect against: it never looks at the host, so it knows neither what exists nor where a symlink
// leads. It marks its grants NoFollow, and the backend resolves them. It trusts Context: a Dir or Path that a program inside can
// choose gives that program the choice of what is granted. And a manifest may ask for anything; only a ceiling refuses it.
package manifest
