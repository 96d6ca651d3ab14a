// Package landlock restricts a thread and its children with Landlock, from a list of rules that is plain data.
//
// Rules say what stays allowed. [Fit] takes away what a kernel's ABI does not know and names the loss; [Lower] writes the system
// calls. All of it can be computed for another machine's ABI.
//
//	want := landlock.Ruleset{
//		Paths: []landlock.PathRule{{Path: "/usr", Access: landlock.ReadExec}, {Path: "/work", Access: landlock.ReadWrite}},
//		Scoped: landlock.ScopeAll,
//	}
//	got, lost := landlock.Fit(want, abi)
//	err := landlock.Apply(got) // this thread, and what it starts
//
// Landlock does not cover chmod, chown, setxattr, utime, stat, access or chdir, nor (before ABI 9) connecting to a Unix socket by
// its path, nor (before ABI 10) UDP. What must not be touched must not be in view: package mounts.
package landlock
