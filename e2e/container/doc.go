// Package container runs nsrun inside of ordinary containers, for real: in a Docker engine of the tests' own, from an image that is made of
// a directory. It tests the statements of doc/containers.md on Docker, Kubernetes and Nomad: what each option grants, and what nsrun enforces under it.
//
// It protects nothing.
package container
