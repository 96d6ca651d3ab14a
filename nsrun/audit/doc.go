// Package audit keeps a log of runs: a file with one line of JSON when a run starts and one when it has ended. Only its owner can read the
// file, and lines are only ever appended.
//
//	log, err := audit.Open("/var/lib/me/audit.jsonl")
//	if err != nil { ... } // no audit, no run
//	defer log.Close()
//	err = log.Start(audit.Start{Argv: []audit.Text{"make"}, Cwd: "/src"})
//	...
//	err = log.End(audit.End{Verdict: "ok"})
//
// Each row holds the SHA-256 of the line before it, and the list of runs that are still open. So [Verify] finds a row that was changed, taken
// out or put in, and a start reads only the last line, however long the file is. Each open run holds a lock on one byte far behind the end of
// the file, as long as its process lives. The next start finds the runs whose byte is free, and ends them with the verdict "aborted".
//
// A log can hold any bytes: text that is not UTF-8 becomes an object with the one member "base64". Characters that do not print, and those
// that a shell would expand, are escaped, so that a log is harmless in a terminal or a shell. Words of a command line that look like secrets
// are replaced: see [Redact]. Labels are the caller's own words, by which it finds a run again: see [Filter]. What a command reads or writes is
// not in the log.
//
// The package does not protect against someone who can write the file: they can cut rows off at the end, or compute all hashes again. To
// notice both, keep the number of rows and the hash of the last one, which [Verify] returns, where they cannot write (see [Mark]). A secret
// that looks like any other word is written. Someone who can only read the file could hold a lock that keeps rows from being written, so no
// sandbox is shown it. Locks of other hosts on a network file system may not be seen.
package audit
