package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/nsrun/nsrun/nsrun/load"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
)

// seccomp shows what the filters let through, and compiles them for other machines.
func (a *app) seccomp(args []string) int {
	word := ""
	if len(args) > 0 {
		word = args[0]
	}
	fs := newFlags("seccomp")
	var deny stringList
	arch := fs.String("arch", runtime.GOARCH, "")
	fs.Var(&deny, "deny", "")
	out := fs.String("o", "", "")
	rest := args
	if word != "" && !strings.HasPrefix(word, "-") {
		rest = args[1:]
	}
	if err := a.parse(fs, rest); err != nil {
		return a.fail(err)
	}
	switch {
	case word == "list" && fs.NArg() == 0:
		return a.print(plan.SeccompFilters())
	case word == "show" && fs.NArg() == 1 && *out == "":
		text, err := plan.SeccompText(policy.Seccomp{Filter: fs.Arg(0), Deny: deny}, *arch)
		if err != nil {
			return a.fail(err)
		}
		return a.print(text)
	case word == "diff" && fs.NArg() == 2 && *out == "" && deny == nil:
		text, err := plan.SeccompDiff(fs.Arg(0), fs.Arg(1), *arch)
		if err != nil {
			return a.fail(err)
		}
		return a.print(text)
	case word == "compile" && fs.NArg() == 1 && *out != "":
		if err := compileSeccomp(fs.Arg(0), deny, *arch, *out); err != nil {
			return a.fail(err)
		}
		return 0
	}
	return a.fail(errors.New("write nsrun seccomp list, nsrun seccomp show [--arch A] [--deny CALL]... NAME, nsrun seccomp diff [--arch A] NAME NAME, or nsrun seccomp compile -o FILE [--arch A] [--deny CALL]... NAME|FILE.json"))
}

// compileSeccomp writes a filter as a BPF program. The file is made anew: what is there already may be somebody's.
func compileSeccomp(name string, deny []string, arch, out string) error {
	program, err := seccompProgram(name, deny, arch)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("-o: %w; name a file that is not there yet", err)
	}
	_, err = f.Write(program)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(out)
	}
	return err
}

func seccompProgram(name string, deny []string, arch string) ([]byte, error) {
	if !strings.HasSuffix(name, ".json") {
		return plan.SeccompProgram(policy.Seccomp{Filter: name, Deny: deny}, arch)
	}
	if len(deny) > 0 {
		return nil, errors.New("--deny goes with a filter of nsrun's; write it into " + name)
	}
	data, err := load.File(name, 1<<20)
	if err != nil {
		return nil, err
	}
	program, err := plan.SeccompJSON(data, arch)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return program, nil
}
