// Package commands says which shapes of command lines may run at all: tables of rules, and a check that reports which rule accepts an argv, or
// which word is refused, by which rule, why, and what would be accepted, so that whoever wrote it can ask for something else.
//
//	set, err := commands.Find("passive", nil)
//	d := set.Check([]string{"ruff", "check", "src/a.py"}, resolve)
//	if !d.Accepted { fmt.Println(d.Text(), d.Try) }
//
// What no rule names is refused. A rule is a program and a shape, words separated by blanks:
//
//	--version   this very word
//	FILE        a file or directory inside the workspace; FILE.go one whose name ends like that
//	PACKAGE     a pattern of Go packages inside the workspace, such as ./...
//	N, -N       a number, a number after a hyphen
//	-[iln]      a hyphen and any of these letters: options that take no value
//	WORD        any word that is no option
//	CODE        any word at all
//	FILE...     one or more; so with PACKAGE and WORD, and only at the end
//	...         whatever else, or nothing; only at the end. What of it reads as a path, /x or ../x, leads into the workspace
//
// The built-in rules passive read, check and ask for versions: nothing that they accept runs code of the workspace, as far as is known
// of these programs (the table says what of their configuration had to be ruled out). The rules full run code.
//
// What this package does not protect against: it looks before the run, and is not what confines; the sandbox is. Where a file leads to is
// asked once, and may have changed when the program opens it. A program that a rule names may have a way to run code that the table does not
// know of, or be told by files below HOME, which should not be writable inside. Words that stand for "..." are only looked at for what a
// shell would expand and for paths that stand alone, not for those in options.
package commands
