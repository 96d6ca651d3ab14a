// Package stages writes the program of each process of a sandbox: the system calls that set it up, and those that confine the command.
//
//	lowered, err := stages.Lower(p, &host, stages.FDs{Report: 5, Status: 6}, false)
//	pid, pidfd, err := lowered.Program.Fork(lowered.Flags, 5)
//
// A stage is a method of [Lowering] that appends calls. Package verify has the two tables that say which process runs which stages, and in
// what order; nothing else calls a stage. The package looks at the host (paths, limits, open descriptors), and changes nothing there: it
// starts no process. Package backend runs the programs.
//
// The package does not protect against a plan that grants too much, nor against a host that changes after it was looked at: a program opens
// what was found without following symlinks, and fails if it is not there any more. That a program is right is for package verify to say.
package stages
