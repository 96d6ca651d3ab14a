// Package cgroup limits all processes of one run together, with a control group of its own (cgroups(7)), in version 1 or 2.
//
// A [Place] is a directory where the caller may make groups, and a [Limit] is what to write into which file of a group. [Fit] chooses a place
// for each limit, and [Make] makes the group there.
//
//	trees := cgroup.Fit(places, []cgroup.Limit{{Controller: "pids", V2: []cgroup.File{{Name: "pids.max", Value: "64"}}}})
//	g, err := cgroup.Make(trees)
//	cgroup.Lower(&program, trees, g, false) // the process that runs this program joins the group
//	...
//	evidence := g.Read() // how often a limit was reached, and the peaks
//	err = g.Remove()     // kills what is left in the group
//
// The process that makes a group holds a lock (flock(2)) on its directory as long as the group is needed. A group without a lock and
// without a process belongs to a run that has died. [Make] removes such groups beside its own.
//
// The package does not protect against a program that can write to the cgroup tree: keep the tree out of the program's view. If the kernel
// has no swap accounting, swapped-out memory is not counted. The memory of a tmpfs counts for the group that wrote it. In version 1 the
// kernel writes the page cache to disk at its own speed.
package cgroup
