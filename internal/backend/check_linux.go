package backend

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// checkHost checks the parts of the host that the set-up relies on.
func checkHost() error {
	if err := checkProc(); err != nil {
		return err
	}
	return checkDescriptors()
}

// checkProc checks that /proc is a procfs.
func checkProc() error {
	// The id maps are written there. Another file system at /proc could redirect the writes: CVE-2025-52881.
	var fs unix.Statfs_t
	err := unix.Statfs("/proc", &fs)
	if err == nil && fs.Type != unix.PROC_SUPER_MAGIC {
		err = errors.New("not a procfs")
	}
	if err != nil {
		return &Error{Stage: "host", Op: "look at", Path: "/proc", Err: err, Hint: "mount procfs at /proc"}
	}
	return nil
}

// checkDescriptors refuses directories as standard descriptors.
func checkDescriptors() error {
	// A directory of the host leads out of the sandbox: openat(0, "..") follows it into the host's tree, as in CVE-2024-21626.
	for fd, name := range []string{"standard input", "standard output", "standard error"} {
		var st unix.Stat_t
		switch err := unix.Fstat(fd, &st); {
		case errors.Is(err, unix.EBADF): // it is closed
		case err != nil:
			return &Error{Stage: "descriptors", Op: "look at", Path: name, Err: err}
		case st.Mode&unix.S_IFMT == unix.S_IFDIR:
			return &Error{Stage: "descriptors", Err: errors.New(name + " is a directory of the host, through which all of it could be reached"),
				Hint: "redirect it to a file, a pipe or /dev/null"}
		}
	}
	return nil
}

// protect refuses a plan that would show a protected file writable, or an audit log at all, whatever the plan's source.
func protect(p *plan.Plan, resolved []mounts.Resolved, protected []string) error {
	for i, s := range resolved {
		op := p.Mounts[i]
		if s.Source == "" || op.Kind != mounts.Bind && op.Kind != mounts.Overlay {
			continue
		}
		fail := func(err error, hint string) error {
			return &Error{Stage: "mount", Index: i + 1, Op: string(op.Kind), Path: op.Dest, Err: err, Hint: hint}
		}
		for _, file := range slices.Concat(protected, p.Audit) {
			if _, shown := below(file, s.Source); shown && op.Kind == mounts.Bind && !op.Flags.Has(mounts.ReadOnly) {
				return fail(fmt.Errorf("it would make %s writable: the program could change what governs or reports its runs", file),
					"keep manifests, ceilings, results, audit logs and the program of --ask out of what a sandbox may write, or grant less")
			}
		}
		for _, file := range p.Audit {
			if rest, shown := below(file, s.Source); shown && p.Backend != plan.BackendNone && !covered(p, resolved, i, op.Dest+rest) {
				return fail(fmt.Errorf("it would show %s: the program could keep a lock on the audit log, and no other run could begin", file),
					"keep audit logs out of what a sandbox may see, or grant their directory by its real path")
			}
		}
	}
	return nil
}

// below returns the path of a file below a directory, which is empty for the directory itself.
func below(file, dir string) (rest string, ok bool) {
	if file == dir {
		return "", true
	}
	dir = strings.TrimSuffix(dir, "/")
	return strings.TrimPrefix(file, dir), strings.HasPrefix(file, dir+"/")
}

// covered reports whether a later mount hides what mount i shows at dest.
func covered(p *plan.Plan, resolved []mounts.Resolved, i int, dest string) bool {
	for j := i + 1; j < len(resolved); j++ {
		if _, over := below(dest, p.Mounts[j].Dest); over && !resolved[j].Missing {
			return true
		}
	}
	return false
}
