// Package audit keeps a log of runs: one line of JSON when a run starts and one when it has ended, in a file that only its owner can read,
// to which is only ever appended.
//
//	log, err := audit.Open("/var/lib/me/audit.jsonl")
//	if err != nil { ... } // no audit, no run
//	defer log.Close()
//	err = log.Start(audit.Start{Argv: []audit.Text{"make"}, Cwd: "/src"})
//	...
//	err = log.End(audit.End{Verdict: "ok"})
//
// Each row holds the SHA-256 of the line before it, and the list of runs that are still open. So a row that is changed, taken out or put in
// is found by [Verify], and a start needs the last line alone, however long the file is. Each open run holds a lock on a byte of its own far
// behind the end of the file for as long as its process lives: the next start closes those whose byte is free with the verdict "aborted".
//
// Any bytes can be told: what is not UTF-8 is an object with the one member "base64" where a string would stand. What does not print, and
// what a shell would expand, is escaped, so that neither a terminal nor a shell finds anything in a log to obey. Secrets on command lines are
// replaced where they have the look of one: see [Redact]. Labels are the caller's own words, by which it finds a run again: see [Filter]. There
// is nothing of what a command reads or writes.
//
// It does not protect against whoever can write the file: rows can be cut off at the end, and all hashes can be computed again. Against the
// first, and the second, helps to keep the number of rows and the hash of the last one, as [Verify] tells them, where that hand does not
// reach. A secret that looks like any other word is written. Whoever can only read the file could hold a lock that keeps rows from being
// written, so no sandbox is shown it. Locks of other hosts on a network file system may not be seen.
package audit
