package main

const commandsHelp = `nsrun commands check [--commands NAME] [--manifest FILE] [--workspace DIR] -- CMD ARG...
nsrun commands list [--manifest FILE]
nsrun commands show [--manifest FILE] NAME

Command rules say which command lines may run at all: --commands of run, "commands" in manifests. A command line
that no rule accepts is refused before anything is started: exit code 125, verdict "policy". check reports by
which rule CMD is accepted, or which argument is refused, why, and what would be accepted. Exit codes: 0
accepted, 1 refused, 125 wrong usage. list prints the names of sets of rules, show prints the rules of one set.

FLAGS
A rule is a program and the shape of its arguments: words, and in the place of others

  FILE, FILE.go     a path that resolves inside the workspace, or the directory that the command starts in; one
                    whose name ends like that. Never an option, - or @file
  PACKAGE           a pattern of Go packages there: . ./dir ./...
  N, -N             a number; a number after a hyphen
  WORD              a word that is no option
  CODE              any word at all
  FILE...           one or more, at the end; so with PACKAGE and WORD
  ...               whatever else, at the end; what of it reads as a path (/x, ../x) must resolve there too

No shell ever expands anything: |, &&, ;, >, $(...) are words like others, and refused as such. A program is
named as PATH has it, or by its path in a system directory, and PATH may not lead to what is writable inside,
nor into the workspace. Under passive no variable that would have a program run something else (LD_PRELOAD,
PYTHONPATH, RUBYOPT, ...) is set or passed by the policy, but where the rule sets it anew.

Rules of your own, in a manifest:

  "commands": "lint",
  "command_rules": {"lint": {"extends": "passive", "programs": {"shellcheck": ["FILE...", "-f gcc FILE..."]}}}

The sandbox confines; command rules only keep a program from being asked for what is not wanted. They are
checked before the run, and files may change after.

Examples:
  nsrun commands check --commands passive -- python3 -c 'print(1)'
  nsrun commands show full
  nsrun run --commands passive --workspace . -- ruff check src
`
