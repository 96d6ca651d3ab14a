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

// seccompFlags are those of seccomp.
type seccompFlags struct {
	arch, out string
	deny      stringList
}

func (f *seccompFlags) rows() []flagRow {
	return []flagRow{
		{"--arch ARCH", offered{&f.arch, []string{"amd64", "arm64"}}, "amd64 or arm64 (default this one's)", ""},
		{"--deny CALL", &f.deny, "refuse one more system call (repeat)", ""},
		{"-o FILE", &f.out, "where to write; a file that is not there yet", ""},
	}
}

// seccomp shows what the filters let through, and compiles them for other machines.
func (a *app) seccomp(args []string) int {
	word, args := wordFirst(args)
	f := seccompFlags{arch: runtime.GOARCH}
	fs := newFlags("seccomp", f.rows()...)
	if err := a.parse(fs, args); err != nil {
		return a.fail(err)
	}
	switch {
	case word == "list" && fs.NArg() == 0:
		return a.print(plan.SeccompFilters())
	case word == "show" && fs.NArg() == 1 && f.out == "":
		return a.printed(plan.SeccompText(policy.Seccomp{Filter: fs.Arg(0), Deny: f.deny}, f.arch))
	case word == "diff" && fs.NArg() == 2 && f.out == "" && f.deny == nil:
		return a.printed(plan.SeccompDiff(fs.Arg(0), fs.Arg(1), f.arch))
	case word == "compile" && fs.NArg() == 1 && f.out != "":
		if err := compileSeccomp(fs.Arg(0), f.deny, f.arch, f.out); err != nil {
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
