// Package landlock restricts a thread and the processes that it starts later with Landlock (landlock(7)). The rules are plain data.
//
// Rules list what stays allowed. [Fit] removes the rights that a kernel's ABI does not have and names them as lost. [Apply] enforces the rest.
// nsrun itself uses [Lower], which appends the same system calls to a program for another process. Fit and Lower work for the ABI of another
// machine, too.
//
//	want := landlock.Ruleset{
//		Paths:     []landlock.PathRule{{Path: "/usr", Access: landlock.ReadExec}, {Path: "/work", Access: landlock.ReadWrite}},
//		HandledFS: landlock.AllFS,
//		Scoped:    landlock.ScopeAll,
//	}
//	got, lost := landlock.Fit(want, abi) // abi: what ABI() returns
//	err := landlock.Apply(got)           // this thread, and what it starts
//
// The other threads of this process stay as they are. Landlock does not cover chmod, chown, setxattr, utime, stat, access or chdir, nor
// (before ABI 9) connecting to a Unix socket by its path, nor (before ABI 10) UDP. A file that must not be touched at all has to be out of
// view: see package mounts.
package landlock
