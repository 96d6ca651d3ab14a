// Package scope moves this process into a new cgroup of version 2 that it may divide further. It asks systemd for a transient scope, a unit
// that ends with its last process (systemd.scope(5)). nsrun asks for one if limits need a cgroup and the caller has none of version 2 in which
// it may make others.
//
//	dir, err := scope.Enter(plan.Scope{...}, []string{"memory", "pids"}, scope.Timeout, stop)
//	// dir is the scope's directory in the cgroup tree; stop returns an error to end the wait
//
// It speaks D-Bus, as far as this takes, to systemd itself or to a message bus:
//
//	this process                                     systemd
//	connect, \0AUTH EXTERNAL <uid>           ─────►
//	                                         ◄─────  OK
//	BEGIN
//	(Hello, AddMatch: only over a bus)       ◄────►
//	StartTransientUnit run-nsrun-....scope   ─────►
//	                                         ◄─────  the job's path
//	                                                 makes the cgroup, moves this process
//	                                         ◄─────  JobRemoved: done
//	reads /proc/self/cgroup, and the cgroup's files
//
// The D-Bus Specification has the authentication and the messages, org.freedesktop.systemd1(5) the calls. If systemd moves the process only
// after the time is up, that does no harm: the scope holds nothing else.
//
// The package does not believe what systemd answers, but looks in /proc and in the cgroup tree where it is. A systemd that lies can keep this
// process from a cgroup, and do nothing else. The package limits nothing: package cgroup does, in the directory that it returns.
package scope
