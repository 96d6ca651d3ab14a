// Package verify checks a finished program of system calls against the plan that it was written for.
//
// A program (package sys) is the list of calls that makes a sandbox. Package stages writes it from a plan, which is called lowering. This
// package reads the same memory that the kernel will read, and accepts the program only if each call is the expected one, with exactly the
// expected arguments, tolerated errors and results. It works as a parser: the calls of each mount operation and of each stage are written out
// here a second time. To learn what nsrun does to confine a command, read this package instead of the code that writes the list.
//
//	v := verify.Check(verify.Input{Program: p, Plan: plan, Resolved: seen, ...})
//	if v != nil { ... } // the claim that is broken, the call, and a text
//
// Every required call serves one of ten claims, see [Claims]. A call that is missing, changed, in another order, or not accounted for is a
// violation. [Init] and [Confinement] are the tables of stages: which process runs which stage, in what order, and why.
//
// nsrun checks the program of a session and the part that comes with each of its commands before they run, and the program of a single run if
// the run has a self-test or --verify. What nsrun runs inside bubblewrap or a container is checked in tests alone.
//
// In a few places the plan does not decide which calls are right. The parents of a mount point may exist already, and a kernel may lack some
// of the entries of /proc that are masked. There the check accepts more than one answer, and a comment says why, or what may be missing then.
//
// The package does not check:
//   - programs of the compat mode (called as bwrap): [Check] returns nil for them;
//   - the program of the watchdog that starts a real bubblewrap;
//   - its own [Input]: limits, resolved paths and descriptor numbers are believed. It checks that a resolved path is opened without following
//     symlinks, but it cannot check that the file there is the one that the user meant.
//
// It does not protect against a plan that grants too much, or against a kernel that does not do what a call says.
package verify
