// Package probe finds out what the running kernel and this host can do, and what stands in the way.
//
// A probe is the smallest real use of a feature. If that would change this process or the host, a child makes it, and ends at once. No probe
// decides by the kernel's version.
//
//	f := probe.Quick()    // system calls and files of /proc: cheap enough for each run
//	f = probe.Host()      // and namespaces, mounts and cgroups, really made: about 15 ms
//	f = probe.Backends(f) // adds bubblewrap, Docker and Podman, each started to ask for its version
//	f = probe.Full()      // Host and Backends: for nsrun doctor, and after a start that failed
//
// In the functions that ask for one feature, a nil error means that it is there. A [*fault.Error] or [errors.ErrUnsupported] means that it is
// not. Any other error means that the probe could not find out.
//
// The package protects nothing. What a probe found may be untrue a moment later, so a backend must fail whenever a step of a start fails,
// whatever the facts say.
package probe
