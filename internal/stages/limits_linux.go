package stages

import (
	"slices"

	"github.com/nsrun/nsrun/rlimit"
)

// setLimits sets all limits but those that openFiles lowers later.
func (l *Lowering) setLimits() error {
	limits, err := l.limits()
	if err != nil {
		return err
	}
	return rlimit.Lower(l.Program, slices.DeleteFunc(limits, lowersOpenFiles)...)
}

// openFiles lowers the limit on open files, after the last stage that opens a descriptor. setLimits raises it, because that takes
// privileges which later stages give up.
func (l *Lowering) openFiles() error {
	limits, err := l.limits()
	if err != nil {
		return err
	}
	return rlimit.Lower(l.Program, slices.DeleteFunc(limits, func(o rlimit.Limit) bool { return !lowersOpenFiles(o) })...)
}

// lowersOpenFiles reports whether l is a limit on open files that this process may set without privileges.
func lowersOpenFiles(l rlimit.Limit) bool {
	if l.Name != "open_files" {
		return false
	}
	have, err := rlimit.Get(l.Name)
	return err == nil && l.Hard <= have.Hard
}

// limits returns the command's limits. It computes them once, from the limits that this process has.
func (l *Lowering) limits() (limits []rlimit.Limit, err error) {
	if l.bounds == nil {
		l.bounds, err = l.findLimits()
	}
	return slices.Clone(l.bounds), err
}

// findLimits returns the limits in the order in which they are set: the limit that Go's runtime has raised, the soft caps, the plan's
// limits.
func (l *Lowering) findLimits() ([]rlimit.Limit, error) {
	limits, err := softCaps(l.plan.SoftCaps)
	if err != nil {
		return nil, err
	}
	limits = append(limits, l.plan.Limits...)
	if original, ok := rlimit.Original(); ok && !slices.ContainsFunc(limits, func(o rlimit.Limit) bool { return o.Name == original.Name }) {
		limits = append([]rlimit.Limit{original}, limits...) // the command gets the caller's limit back
	}
	// A core limit of 0 in a plan means no core dump at all, which takes another value.
	for i, o := range limits {
		if o == rlimit.Both("core", 0) {
			if limits[i], err = noCore(); err != nil {
				return nil, err
			}
		}
	}
	return limits, nil
}

// noCore returns the limit that keeps the kernel from dumping core at all. A limit of 0 applies to files only: the kernel still runs the
// handler of a core_pattern that begins with "|". With a limit of 1 it does not, and no core fits into a file either (coredump_pipe in
// fs/coredump.c). A hard limit of 0 stays 0, because only the host's root can raise it.
func noCore() (rlimit.Limit, error) {
	have, err := rlimit.Get("core")
	return rlimit.Both("core", min(1, have.Hard)), err
}

// softCaps returns the limits of which a value is below this process's own. The others are inherited as they are, because a soft cap never
// raises a limit.
func softCaps(limits []rlimit.Limit) (lower []rlimit.Limit, err error) {
	for _, l := range limits {
		have, err := rlimit.Get(l.Name)
		// The caller's limit on open files counts, not the one that Go's runtime has raised.
		if original, ok := rlimit.Original(); ok && original.Name == l.Name {
			have, err = original, nil
		}
		if err != nil {
			return nil, err
		}
		if l.Soft < have.Soft || l.Hard < have.Hard {
			lower = append(lower, rlimit.Limit{Name: l.Name, Soft: min(l.Soft, have.Soft), Hard: min(l.Hard, have.Hard)})
		}
	}
	return lower, nil
}
