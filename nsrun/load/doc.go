// Package load reads manifests and ceilings from files, for the command nsrun and for programs that import the package nsrun, so that the same
// file means the same to both. A manifest says what a program needs, and a ceiling is the most that the operator permits. Package manifest
// turns bytes into a policy and never looks at the host. This package does the looking: it opens files with care, finds the home directory and
// the manifest's own, and applies the ceilings.
//
//	pol, err := load.Manifest("tools/notes.json")
//	if err != nil { ... } // every fault, with line, column, key and fix
//	session, err := nsrun.Open(ctx, pol)
//
// The ceilings are /etc/nsrun/ceiling.json and the file that NSRUN_CEILING names; NSRUN_AUDIT names the operator's audit log. The variables
// NSRUN_SANDBOX, NSRUN_FALLBACK and NSRUN_REQUIRE have no effect here: only the command nsrun reads them.
//
// What this package does not protect against: the author of a manifest can ask for anything, and only a ceiling refuses it. A program that sets
// this process's environment can name another NSRUN_CEILING or none, but not undo /etc/nsrun/ceiling.json. A file is read once; what is
// written to it later does not count, and the files that are granted are looked at only when a sandbox is made. The name and directory that
// [Bytes] is given are believed.
package load
