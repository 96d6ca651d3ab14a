// Package probe asks the running kernel what it can do.
//
// A probe is the smallest real use of a feature, in a throw-away child where the use changes anything. nil means yes,
// [errors.ErrUnsupported] no, and any other error that it could not be told. Nothing is decided by the kernel's version.
//
//	f := probe.Quick() // system calls alone: what each run can afford
//	f = probe.Full()   // namespaces and mounts too, really made: for doctor, and after a start that failed
//
// What a probe found may be untrue a moment later; engines fail closed whatever facts say.
package probe
