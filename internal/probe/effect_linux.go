package probe

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsrun/facts"
	"golang.org/x/sys/unix"
)

// These features are there if the kernel knows their numbers, says Quick. Here they are used, in a child.

// inEffect asks Landlock to refuse something. A kernel that is not Linux, or a filter, may answer its calls and confine nothing.
func inEffect(f facts.Facts) {
	if f.State(facts.Landlock) != facts.Yes {
		return
	}
	var p sys.Program
	ruleset := p.Slot()
	p.At(sys.Step{Stage: "landlock"})
	handled := uint64(unix.LANDLOCK_ACCESS_FS_READ_DIR) // struct landlock_ruleset_attr of ABI 1
	p.Add(unix.SYS_LANDLOCK_CREATE_RULESET, sys.Struct(&handled), sys.Size(&handled), sys.Int(0)).Keep(ruleset)
	p.Add(unix.SYS_PRCTL, sys.Int(unix.PR_SET_NO_NEW_PRIVS), sys.Int(1), sys.Int(0), sys.Int(0), sys.Int(0))
	p.Add(unix.SYS_LANDLOCK_RESTRICT_SELF, sys.Of(ruleset), sys.Int(0))
	p.At(sys.Step{Stage: notRefused})
	p.Add(unix.SYS_OPENAT, sys.AtCWD(), sys.Str("/"), sys.Words(unix.O_RDONLY|unix.O_DIRECTORY, "O_RDONLY|O_DIRECTORY")).Tolerate(unix.EACCES, 1)
	p.Fail(unix.EUCLEAN)
	var r *fault.Error
	if err := run(&p, 0); !errors.As(err, &r) || r.Stage != notRefused {
		return // another refusal shows when a sandbox starts
	}
	const fix = "run nsrun by a kernel or container runtime whose Landlock works"
	answer(f, facts.Landlock, no("Landlock answers, and refuses nothing: a directory was opened that no rule allows", fix))
	for _, row := range landlockRows {
		answer(f, row.name, no("it needs Landlock", fix))
	}
}

const notRefused = "not refused"

// listening asks for a filter with a listener. The kernel allows one for a process (EBUSY, seccomp(2)).
func listening(b blamer) {
	if b.State(facts.SeccompNotify) != facts.Yes {
		return
	}
	var p sys.Program
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	prog := unix.SockFprog{Len: 1, Filter: &allow}
	p.At(sys.Step{Stage: "seccomp", Op: "new listener"})
	p.Add(unix.SYS_PRCTL, sys.Int(unix.PR_SET_NO_NEW_PRIVS), sys.Int(1), sys.Int(0), sys.Int(0), sys.Int(0))
	p.Add(unix.SYS_SECCOMP, sys.Int(unix.SECCOMP_SET_MODE_FILTER), sys.Words(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, "NEW_LISTENER"), sys.Struct(&prog))
	if err := b.noListener(run(&p, 0)); err != nil {
		answer(b.Facts, facts.SeccompNotify, err)
	}
}

// noListener explains why a filter has no listener.
func (b blamer) noListener(err error) error {
	var r *fault.Error
	switch {
	case !errors.As(err, &r):
		return err
	case errnoOf(r) == unix.EBUSY && b.In("wsl2-mirrored"):
		return no(err.Error()+"; WSL 2's mirrored networking has a listener on every process, and the kernel allows one",
			"write networkingMode=nat below [wsl2] in %UserProfile%\\.wslconfig, and run wsl --shutdown, in Windows")
	case errnoOf(r) == unix.EBUSY:
		return no(err.Error()+"; another filter on this process has a listener, and the kernel allows one", "start nsrun without that filter")
	}
	return b.explain(facts.SeccompNotify, err)
}

// running finds the running nsrun, and whether others than root can replace it.
func running() (p facts.Program) {
	path, err := os.Executable()
	if err != nil {
		return p
	}
	return facts.Program{Path: path, Writable: writable(path, 0)}
}

// writable is the file, or the first of its directories, that somebody else than owner can write to. The bits of the group count for its
// members, and for those whom an access control list names.
func writable(path string, owner uint32) string {
	for at := path; ; at = filepath.Dir(at) {
		var st unix.Stat_t
		if unix.Lstat(at, &st) != nil || st.Uid != owner || st.Mode&0o022 != 0 {
			return at
		}
		if at == "/" {
			return ""
		}
	}
}
