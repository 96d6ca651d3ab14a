package engine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// checkHost makes sure of what the set-up relies on.
func checkHost() error {
	if err := checkProc(); err != nil {
		return err
	}
	return checkDescriptors()
}

func checkProc() error {
	// The maps are written to procfs, or to something that only looks like it: CVE-2025-52881.
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

func checkDescriptors() error {
	// A directory that is passed is a way out of the view: openat(0, "..") follows it into the host's tree (CVE-2024-21626's kind).
	for fd, name := range []string{"standard input", "standard output", "standard error"} {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return &Error{Stage: "descriptors", Err: errors.New(name + " is a directory of the host, through which all of it could be reached"),
				Hint: "redirect it to a file, a pipe or /dev/null"}
		}
	}
	return nil
}

// protect refuses a plan that shows a protected file writable, whoever asked for that.
func protect(p *plan.Plan, seen []mounts.Seen, protected []string) error {
	for i, s := range seen {
		op := p.Mounts[i]
		if s.Source == "" || op.Kind != mounts.Bind || op.Flags.Has(mounts.ReadOnly) {
			continue
		}
		for _, file := range protected {
			if file == s.Source || strings.HasPrefix(file, strings.TrimSuffix(s.Source, "/")+"/") {
				return &Error{Stage: "mount", Index: i + 1, Op: string(op.Kind), Path: op.Dest,
					Err:  fmt.Errorf("it would make %s writable: the program could change what governs or reports its runs", file),
					Hint: "keep manifests, ceilings and results out of what a sandbox may write, or grant less"}
			}
		}
	}
	return nil
}
