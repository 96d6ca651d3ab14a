// Package bwrap reads bubblewrap's command line exactly as bubblewrap does, and writes plans as one.
//
//	p, err := bwrap.Parse(os.Args[1:], caller, facts) // caller has what the program knows of its environment: ids, variables, descriptors
//	if exit := (*bwrap.Exit)(nil); errors.As(err, &exit) {
//		fmt.Fprint(os.Stderr, exit.Stderr)
//		os.Exit(exit.Code)
//	}
//	fmt.Print(p) // what the sandbox would be; nothing has started
//
// [Parse] gives a [plan.Plan] that follows bubblewrap's rules and no others; every refusal, warning and exit code is that of
// bubblewrap [Version]. [Render] goes the other way, also from plans of nsrun's own, and lists as Losses what bubblewrap cannot do.
// [Message] words a step of the start that failed as bubblewrap words it. All of them make no system call: what they need comes in [Caller].
//
// There is one table with a row for each option. The parser, the usage text, [Render] and the fuzz tests read it.
//
// What the package does not protect against: a command line is believed. With --bind / / a program can change all files that the caller can,
// without --new-session it can type into the caller's terminal, and nothing adds what the caller left out. SELinux labels, descriptors and
// paths are not checked here, but when the plan is carried out. A rendered command line protects as well as the bubblewrap that runs it, and
// has nothing of what Losses lists.
package bwrap

//go:generate go run ./generate
