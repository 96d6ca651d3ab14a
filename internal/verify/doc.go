// Package verify checks a finished program of system calls against the plan that it was written for.
//
// A sandbox is a list of calls (package sys). Lowering writes that list; this package reads it again, the very memory that the
// kernel will read, and accepts it only if each call is the one that belongs there, with exactly the arguments, the tolerated errors and the
// results that belong to it. It is a parser: the grammar of each kind of mount operation and of each stage is written out here once more,
// call by call, so that whoever wants to know what nsrun does to confine a command reads this package and not its authors.
//
//	if v := verify.Check(verify.Input{Program: p, Plan: plan, Resolved: seen, ...}); v != nil { ... } // claim, call, text
//
// Every call that is required serves one of nine claims, see [Claims]. A call that the grammar has no place for is a violation, and so
// is one that is missing, changed or in another order.
//
// Where the grammar leaves a choice, the program cannot be judged from the list alone, and the choice is harmless for a reason that is
// given at that place: which parents of a mount point have to be made, which entries of /proc the kernel has, which of the standard
// descriptors is the host's /dev/null.
//
// It does not protect against a kernel that does not do what a call says, against a plan that grants too much, or against what lowering
// saw of the host being untrue: a path that was no symlink is opened again without following any, but that a file is the one
// that its owner meant is for the owner to know.
package verify
