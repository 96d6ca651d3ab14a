// Package cgroup bounds all processes of one run together, by a control group of its own: cgroups(7).
//
//	trees := cgroup.Fit(places, []cgroup.Limit{{Controller: "pids", V2: []cgroup.File{{Name: "pids.max", Value: "64"}}}})
//	g, err := cgroup.Make(trees)
//	cgroup.Lower(&program, trees, g, false) // the process that runs it joins
//	...
//	evidence := g.Read()
//	err = g.Remove()
//
// Whoever makes a group holds a lock (flock(2)) on its directory for as long as it is needed. A group without one, and without a process,
// belongs to a run that has died: [Make] removes those that it finds beside its own.
//
// It does not protect against a program that can write to the cgroup tree: keep that out of the program's view. Without swap accounting
// in the kernel, memory that is swapped out is not counted; memory of tmpfs is counted to whoever wrote it. In
// version 1 what is written through the page cache is written by the kernel, at its own speed.
package cgroup
