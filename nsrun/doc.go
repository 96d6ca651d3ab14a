// Package nsrun runs commands in Linux sandboxes made of namespaces, a private root, Landlock, seccomp and resource limits.
//
//	p := policy.Default(home).Grant("/srv/project", true, "workspace")
//	pl, err := nsrun.Compile(plan.Request{Policy: p, Command: []string{"make"}, Environ: os.Environ()})
//	result, err := nsrun.Run(pl, nsrun.Options{})
//
// What is wanted is a [policy.Policy], what will be done a [plan.Plan], what a host can do [facts.Facts]; all three are plain
// data. A Run that could not enforce its plan is an error, and the command has not run.
//
// It does not protect against bugs of the kernel that the allowed system calls can reach, against side channels, nor against the
// abuse of what was granted: a writable directory is writable, an allowed network can be talked to.
package nsrun
