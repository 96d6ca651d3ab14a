// Package backend carries out plans: it lowers a plan to a program of system calls, starts the child that runs it, and waits.
//
//	out, err := backend.Run(p, backend.Options{Signals: signals})
//
// Nothing is decided here that the plan did not decide. It protects as far as the plan says and the kernel holds; that the plan
// is the one the operator wanted is the front ends' business.
package backend
