package rlimit

import (
	"fmt"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/sys/entry"
	"golang.org/x/sys/unix"
)

// Original returns the limit on open files with which this process was started. Go's start-up code has raised it since. A program that this
// process starts by a raw execve should get the original limit back.
func Original() (Limit, bool) {
	l, ok := entry.Nofile()
	return Limit{"open_files", l.Soft, l.Hard}, ok
}

// Lower appends one prlimit64 call for each limit, on the process that runs p. A hard limit above the present one fails with EPERM.
func Lower(p *sys.Program, limits ...Limit) error {
	for _, l := range limits {
		r, err := Lookup(l.Name)
		if err != nil {
			return err
		}
		if l.Soft > l.Hard {
			return fmt.Errorf("resource limit %s: the soft limit is above the hard one", l)
		}
		p.At(sys.Step{Stage: "limit", Op: l.String()})
		p.Add(unix.SYS_PRLIMIT64, sys.Int(0), sys.Words(r.Number, r.Kernel), sys.Struct(&rlimit64{l.Soft, l.Hard}), sys.Null())
	}
	return nil
}

// rlimit64 is struct rlimit64 of prlimit(2).
type rlimit64 struct{ Soft, Hard uint64 }

func (l *rlimit64) String() string { return "{" + number(l.Soft) + ", " + number(l.Hard) + "}" }

// Get returns the limit that is in force for this process.
func Get(name string) (Limit, error) {
	r, err := Lookup(name)
	if err != nil {
		return Limit{}, err
	}
	var l unix.Rlimit
	if err := unix.Getrlimit(r.Number, &l); err != nil {
		return Limit{}, fmt.Errorf("getrlimit %s: %w", name, err)
	}
	return Limit{r.Name, l.Cur, l.Max}, nil
}

// Apply sets the limits of this process and of the processes that it starts. It stops at the first one that fails.
func Apply(limits ...Limit) error {
	var p sys.Program
	if err := Lower(&p, limits...); err != nil {
		return err
	}
	return p.Run()
}
