package main

const commandsHelp = `nsrun profile check [--profile NAME] [--manifest FILE] [--workspace DIR] -- CMD ARG...
nsrun profile list [--manifest FILE]
nsrun profile show [--manifest FILE] NAME

A profile says which command lines may run at all: --profile of run, "profile" in manifests. What no rule names
is refused before anything is started: exit code 125, verdict "policy". check says what it makes of CMD: by
which rule it is accepted, or which argument is refused, why, and what would be accepted. Exit codes: 0
accepted, 1 refused, 125 wrong usage. list names the profiles, show prints the rules of one.

  --profile NAME    passive, full, or one of the manifest's "profiles"
  --manifest FILE   take the profile, the workspace and profiles of one's own from it
  --workspace DIR   where files may lie (default the working directory)

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

Profiles of one's own, in a manifest:

  "profile": "lint",
  "profiles": {"lint": {"extends": "passive", "programs": {"shellcheck": ["FILE...", "-f gcc FILE..."]}}}

The sandbox is what confines; a profile only keeps a program from being asked for what is not wanted. It looks
before the run, and files may change after.

Examples:
  nsrun profile check --profile passive -- python3 -c 'print(1)'
  nsrun profile show full
  nsrun run --profile passive --workspace . -- ruff check src
`
