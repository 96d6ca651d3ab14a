package main

import (
	"errors"
	"fmt"

	"github.com/nsrun/nsrun/nsrun"
	"github.com/nsrun/nsrun/nsrun/load"
	"github.com/nsrun/nsrun/nsrun/manifest"
	"github.com/nsrun/nsrun/nsrun/policy"
)

func (a *app) manifest(args []string) int {
	fs := newFlags("manifest")
	if err := a.parse(fs, args); err != nil {
		return a.fail(err)
	}
	switch word := fs.Arg(0); {
	case word == "schema" && fs.NArg() == 1:
		return a.print(string(manifest.Schema()))
	case word == "check" && fs.NArg() > 1:
		return a.check(fs.Args()[1:])
	}
	return a.fail(errors.New("write nsrun manifest check FILE..., or nsrun manifest schema"))
}

// check reads each file as run would, and tells of all faults of all files.
func (a *app) check(files []string) int {
	code := 0
	for _, name := range files {
		pol, err := load.Spec(name)
		if err == nil {
			if _, err = nsrun.FromPolicy(pol, policy.Operator{}); err != nil { // what only the leaves know, such as names of system calls
				err = fmt.Errorf("%s: %w", name, err)
			}
		}
		if err != nil {
			code = a.fail(err)
			continue
		}
		if failed := a.print(fmt.Sprintf("%s: ok\n", printable(name))); failed != 0 {
			return failed
		}
	}
	return code
}
