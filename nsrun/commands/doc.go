// Package commands says which command lines may run at all. It checks the words of a command line (argv) against rules, and reports which rule
// accepts it, or which word is refused, why, and what would be accepted instead.
//
//	set, err := commands.Find("passive", nil)
//	d := set.Check([]string{"ruff", "check", "src/a.py"}, resolve) // resolve says whether a path leads into the workspace
//	if !d.Accepted { fmt.Println(d.Text(), d.Try) }
//
// What no rule names is refused. A rule is a program and a shape, which is words separated by blanks:
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
// There are two built-in sets. The rules "passive" read, check and ask for versions: nothing that they accept runs code of the workspace, as
// far as is known of these programs. The rules "full" run code. A policy can have rules of its own.
//
// What this package does not protect against: it looks before the run, and does not confine; the sandbox does. Where a path leads is
// asked once, and may have changed when the program opens it. A program that a rule names may have a way to run code that the rules do not
// know of, or may obey files in the home directory, which should not be writable inside. Words that stand for "..." are only searched for what
// a shell would expand, and for paths that are whole words. Paths inside options are not seen.
package commands
