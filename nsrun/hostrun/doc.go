// Package hostrun lists the places in a directory by which programs of the host run something: hooks of git, settings of git that name a program,
// and files that editors, shells and agents act on. A sandboxed program that can write such a place can have a program run later, outside of its
// sandbox.
//
//	for _, row := range hostrun.Table { ... }           // what is read-only, compared, risky, and why
//	settings, err := hostrun.ParseGitConfig(data)       // git's syntax, bounded
//	name, why, runs := settings[0].Runs()               // git would run a program because of it
//
// The package only reads what it is given. Package internal/watch looks at the host.
//
// It does not know every program of the host. A Makefile, a test, or a dependency that a program has changed runs when somebody builds; the rows
// that are only Risky name some of those. No table replaces a look at the changes before the host runs them.
package hostrun
