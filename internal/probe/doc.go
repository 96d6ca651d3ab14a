// Package probe asks the running kernel what it can do, and looks for what stands in the way.
//
// A probe is the smallest real use of a feature, in a throw-away child where the use changes anything. nil means yes,
// a [*fault.Error] or [errors.ErrUnsupported] no, and any other error that it could not be told. Nothing is decided by the kernel's version.
//
//	f := probe.Quick()     // system calls alone: what each run can afford
//	f = probe.Host()       // namespaces, mounts, cgroups too, really made: after a start that failed
//	f = probe.Backends(f)   // and other programs that make sandboxes, which are started to ask for their version
//	f = probe.Full()       // all of that: for doctor
//
// What a probe found may be untrue a moment later; backends fail closed whatever facts say.
package probe
