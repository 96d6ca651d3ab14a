// Package scope moves this process into a transient scope of systemd's: a cgroup of version 2 of its own, which is delegated to it, and
// gone when it ends.
//
//	this process                                     service manager
//	connect, \0AUTH EXTERNAL <uid>           ─────►
//	                                         ◄─────  OK
//	BEGIN
//	(Hello, AddMatch: over a bus alone)      ◄────►
//	StartTransientUnit run-nsrun-....scope   ─────►
//	                                         ◄─────  the job's path
//	                                                 makes the cgroup, moves this process
//	                                         ◄─────  JobRemoved: done
//	reads /proc/self/cgroup, and the group's files
//
// It speaks as much of D-Bus as that takes: the D-Bus Specification has authentication and messages, org.freedesktop.systemd1(5) the calls.
// Whatever it is told, the kernel says where it is: a manager that lies can keep it from a group, and do nothing else. All of it takes 5
// seconds at most. A manager that moves the process later than that does no harm: the scope holds nothing else.
package scope
