// Package backend carries out plans: it has package stages write the programs, starts the processes that run them, and waits. For the
// backends bwrap and docker it starts those programs instead.
//
//	out, err := backend.Run(p, backend.Options{Signals: signals})
//
// The package makes no decisions of its own: it enforces the plan, as far as the kernel does. The callers that make the plan are
// responsible for its content.
package backend
