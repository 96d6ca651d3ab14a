// Package backend carries out plans: it lowers a plan to a program of system calls, starts the child that runs it, and waits.
//
//	out, err := backend.Run(p, backend.Options{Signals: signals})
//
// The package makes no decisions of its own: it enforces the plan, as far as the kernel does. The callers that make the plan are
// responsible for its content.
package backend
