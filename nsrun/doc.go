// Package nsrun runs commands in Linux sandboxes made of namespaces, a private root, Landlock, seccomp and resource limits.
//
//	func main() {
//		nsrun.Init()
//		defer nsrun.Shutdown()
//		policy, err := nsrun.NewPolicy().Workspace("/srv/project").Timeout(time.Minute).Build()
//		...
//		out, err := nsrun.CommandContext(ctx, policy, "make", "test").Output()
//	}
//
// A [Policy] says what a sandbox should be. A [Cmd] is one command, with the fields and methods of os/exec's: [CommandContext] makes a sandbox for
// it, [Session.Command] runs it in one that is built once and runs any number of commands, and a [Pool] keeps some ready. They need [Init],
// since sandboxes are forked by a small process of the program's own binary: a fork of the program itself would copy its page tables and
// hold up its threads.
//
// Three outcomes are never confused. What the policy, or this host, does not allow is a [*RefusedError] or a [*PolicyCompatibilityError]; a
// program that is not there an [*Error] that is [ErrNotFound]; and a command that ran and did not end well is an [*ExitError], with the verdict
// on how it ended and a receipt of what was on: see the package result.
//
// What is planned and what a host can do are plain data: see the packages policy, plan and facts.
//
// It does not protect against bugs of the kernel that the allowed system calls can reach, against side channels, nor against the
// abuse of what was granted: a writable directory is writable, an allowed network can be talked to. Commands of one session share its files,
// and one can slow down those after it; what must not meet belongs into sessions of its own.
package nsrun
