// Package rlimit knows the kernel's resource limits (getrlimit(2)) by name, and sets them with prlimit64(2).
//
//	l, err := rlimit.Lookup("open_files")
//	err = rlimit.Apply(rlimit.Limit{Name: "open_files", Soft: 1024, Hard: 1024}) // of this process, and of those that it starts
//
// nsrun itself uses [Lower], which appends the same system calls to a program for another process.
//
// A limit holds for each process (pids: for each user of a user namespace), not for a whole sandbox: each of ten processes may use as much
// memory as one. To limit a whole sandbox, use package cgroup.
package rlimit
