// Package runner runs commands by a policy. It looks at the host, makes a plan, has package backend carry it out, writes the audit logs that
// the policy asks for, and says how each command has ended. The package nsrun, which applications import, and the command nsrun are both thin
// layers over it.
//
//	s, err := runner.Open(ctx, p) // a session: a sandbox for any number of commands
//	out, err := s.Exec(ctx, []string{"make"}, nil)
//
// [Foreground] runs one command, and forks the sandbox from this process: it is for the command nsrun. For [Open] and [Run] a small process
// of the same binary forks (package spawner), so main must call [Init] first.
//
// The package takes policies as [policy.Normalize] returns them. It checks each request against its policy (command rules, paths, times), and
// applies no ceiling of its own.
//
// It does not protect against a caller that gives it a policy which grants too much, or one without the operator's ceiling.
package runner
