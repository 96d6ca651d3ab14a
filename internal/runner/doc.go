// Package runner carries out plans: it runs the one command of the program nsrun, and opens the sessions in which the package nsrun, which
// applications import, and the verb nsrun session run any number of them. It writes the audit logs that a policy asks for, and says how
// each command has ended.
//
// [Foreground] forks this process; sessions, and [Run], are made by a small process of the same binary, which [Init] becomes: see the package
// spawner. What is below, from the session to the streams of one command, knows nothing of who asks.
//
// It checks requests against the policy alone; its callers decide everything else.
package runner
