// Package verify checks a finished program of system calls against the plan that it was written for.
//
// A sandbox is a list of calls (package sys). Lowering writes the list. This package then reads the same memory that the kernel will read,
// and accepts it only if each call is the expected one, with exactly the expected arguments, tolerated errors and results. It works as a
// parser: the calls of each mount operation and of each stage are written out here a second time. To learn what nsrun does to confine a
// command, read this package; there is no need to trust the code that writes the list.
//
//	if v := verify.Check(verify.Input{Program: p, Plan: plan, Resolved: seen, ...}); v != nil { ... } // claim, call, text
//
// Every required call serves one of nine claims, see [Claims]. A call that is missing, changed, in another order, or not accounted for is a
// violation.
//
// In a few places the list alone does not decide which calls are right: which parents of a mount point have to be made, which entries of
// /proc the kernel has, which of the standard descriptors is the host's /dev/null. There the check accepts more than one answer, and a
// comment gives the reason why each of them is harmless.
//
// The package does not protect against a kernel that does not do what a call says, against a plan that grants too much, or against wrong
// facts about the host. It checks that a resolved path is opened without following symlinks, but it cannot check that the file there is the
// one that the user meant.
package verify
