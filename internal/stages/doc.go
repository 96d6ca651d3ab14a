// Package stages writes the program of each process of a sandbox: the system calls that set the sandbox up, and those that confine the
// command. A program is a list of calls (package sys). To write one from a plan is called lowering.
//
//	lowered, err := stages.Lower(p, &host, stages.FDs{Report: 5, Status: 6}, false) // &host is a *mounts.Host; false: not to be printed
//	pid, pidfd, err := lowered.Program.Fork(lowered.Flags, 5)                       // 5: where the child reports a call that failed
//
// A stage is a method of [Lowering] that appends calls. Package verify has the two tables that say which process runs which stages, and in
// what order; nothing else calls a stage. A session has two kinds of programs: [LowerServer] writes that of its first process, and
// [LowerRequest] the part that comes with each command. Package backend runs them all.
//
// The package looks at the host: at paths, limits and open descriptors. It starts no process. All that it makes on the host is the socket and
// the pipe of a self-test.
//
// The package does not protect against a plan that grants too much, nor against a host that changes after it was looked at: a program opens
// what was found without following symlinks, and fails if it is not there any more. That a program is right is for package verify to say.
package stages
