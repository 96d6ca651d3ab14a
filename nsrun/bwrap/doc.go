// Package bwrap reads bubblewrap's command line, to the letter, and writes plans as one.
//
//	p, err := bwrap.Parse(os.Args[1:], caller, facts)
//	if exit := (*bwrap.Exit)(nil); errors.As(err, &exit) {
//		fmt.Fprint(os.Stderr, exit.Stderr)
//		os.Exit(exit.Code)
//	}
//	fmt.Print(p) // what a sandbox would be, before there is one
//
// [Parse] gives a [plan.Plan] that follows bubblewrap's rules and no others; every refusal, warning and exit code is that of
// bubblewrap [Version]. [Render] goes the other way, also from plans of nsrun's own, and says what bubblewrap cannot carry.
// [Message] words a failed step of the set-up as bubblewrap words it. All of them are pure: the world outside is a [Caller].
//
// One table, of options, has a row for each option: the parser, the usage text, [Render] and the fuzz tests' model read it.
//
// What it does not protect. A command line is believed: --bind / / is a sandbox without walls, without --new-session a program
// types into the caller's terminal, and no option adds what the caller left out. Labels, descriptors and paths are not looked
// at here but by whoever carries the plan out. A rendered command line has the strength of the bubblewrap that runs it, and of
// what Losses lists nothing.
package bwrap

//go:generate go run ./generate
