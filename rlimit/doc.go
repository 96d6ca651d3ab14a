// Package rlimit names the kernel's resource limits and lowers them to prlimit64(2).
//
//	l, err := rlimit.Lookup("open_files")
//	err = rlimit.Apply(rlimit.Limit{Name: "open_files", Soft: 1024, Hard: 1024})
//
// A limit holds for each process (pids: for each user of a user namespace), not for a whole sandbox: each of ten processes may use as much
// memory as one. To limit a whole sandbox, use package cgroup.
package rlimit
