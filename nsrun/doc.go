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
// A [Policy] says what a sandbox should be. A [Cmd] is one command, with the fields and methods of os/exec's. [CommandContext] makes a sandbox
// for one command. [Session.Command] runs a command in a sandbox that is built once and runs any number of them. A [Pool] keeps some sandboxes
// ready. All of them need [Init]: a small process of the program's own binary forks the sandboxes, because a fork of the program itself would
// copy its page tables and hold up its threads.
//
// An error says which of three things happened:
//   - The policy or this host does not allow what was asked: a [*RefusedError] or a [*PolicyCompatibilityError]. Nothing has run.
//   - A step of the start failed: an [*Error]. It is [ErrNotFound] or [ErrNotExecutable] if the program is missing or cannot be executed.
//   - The command ran, and did not end well: an [*ExitError]. It has a [result.Result]: how the command ended, and which protection was on.
//
// The plan of a run and the facts about a host are plain data: see the packages policy, plan and facts.
//
// The package does not protect against bugs of the kernel that the allowed system calls can reach, against side channels, or against the abuse
// of what was granted: a writable directory is writable, and programs on an allowed network can be reached. The commands of one session share
// its files, and one can slow down those after it. Give commands that must not affect each other a session each.
package nsrun
