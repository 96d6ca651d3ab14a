// Package backend carries out a plan by the backend that the plan names. For native, landlock and none it has package stages write the
// programs, starts the processes that run them, and waits. For bwrap and docker it starts bubblewrap, Docker or Podman, and nsrun inside.
//
//	out, err := backend.Run(p, backend.Options{}) // one command; returns when no process of the sandbox is left
//	opened, err := backend.Open(p, options)       // a sandbox that waits for commands; NewSandbox and Start run them
//
// The package does not judge what a plan grants, but for one thing: it refuses a plan that would make a protected file (a manifest, a ceiling,
// an audit log) writable, or show an audit log. It writes no audit log and chooses no other backend if one fails; package runner does both.
//
// It does not protect against a plan that grants too much. For bwrap and docker it depends on what those programs do; Outcome.Losses has what
// they cannot do.
package backend
