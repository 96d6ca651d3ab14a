// Package programs holds a table of everyday programs and tests that they work in the default policy. There is nothing in it to import.
//
// Each row is a project and a command line, as a person would type it behind
//
//	nsrun run --workspace . --
//
// Two tables have a preset in the command line, and are tried without it as a control. That of everydays is wider: each of its programs is run by the
// backends native, bwrap and landlock, and doc/programs.md is made of it. The fast tier runs a tenth of it.
//
// The row holds if the command ends with 0 and prints what it should. What it leaves in the workspace is looked at from the host.
// A program that is not installed skips its row, and fails it where CI is set.
package programs
