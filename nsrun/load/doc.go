// Package load reads manifests and ceilings from files, for programs that hold a sandbox by the package nsrun and for the command nsrun,
// so that the same file means the same to both. The package nsrun/manifest turns bytes into a policy and never looks at the host; this one
// does the looking: it opens files with care, finds the home directory and the manifest's own, and brings in what the operator permits.
//
//	pol, err := load.Manifest("tools/notes.json")
//	if err != nil { ... } // every fault, with line, column, key and fix
//	session, err := nsrun.Open(ctx, pol)
//
// Of the variables that the command nsrun knows, NSRUN_CEILING and NSRUN_AUDIT alone count here: NSRUN_SANDBOX, NSRUN_FALLBACK and
// NSRUN_REQUIRE are that command's own.
//
// What this package does not protect against: whoever can write a manifest can ask for anything, and only a ceiling says no. Whoever sets
// this process's environment can name another NSRUN_CEILING or none, but not undo /etc/nsrun/ceiling.json. A file is read once; what is
// written to it later does not count, and the files that are granted are looked at only when a sandbox is made. The name and directory that
// [Bytes] is given are believed.
package load
