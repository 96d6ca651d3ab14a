// Command runtests runs the project's checks and tests in three tiers. scripts/test.sh calls it.
//
//	scripts/test.sh            the fast tier: at most 10 minutes on two processors
//	scripts/test.sh --quick    for edit loops: at most 2 minutes, installs nothing
//	scripts/test.sh --all      everything: 3 hours where machines are emulated; --resume skips the stages that have passed on the same inputs
//	scripts/test.sh --slice N  one of the nine parts of what --all has beyond the fast tier
//
// A tier is a list of stages (table.go). A stage checks something or runs one package's tests as one user; two or more stages run at a
// time. As root on Debian it installs the packages that the tier's stages need, and runs tests both as root and as an ordinary user.
//
// It does not isolate the tests from the machine, which testenv.Main does. It compares the machine before and after (machine.go).
package main
