package seccomp

import (
	"fmt"
	"runtime"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// program is struct sock_fprog. Its pointer keeps the instructions alive for as long as the sys.Program lives.
type program struct {
	Len    uint16
	Filter *Instruction
}

// String prints what a listing of the calls has room for.
func (p *program) String() string { return fmt.Sprintf("{%d instructions}", p.Len) }

// Lower appends the calls that install filters, the first given first. It does not set no_new_privs, without which the kernel
// answers EACCES to a thread that lacks CAP_SYS_ADMIN: the caller does, before.
//
// From each call on, everything that follows is judged by the filters installed so far: the installation of the next one, and
// then exec, or write and exit_group to report that exec failed. So the order is: the profile, raw filters, and what [Deny] made
// last. Any order ends with the same verdicts, because the kernel takes the strictest of all.
func Lower(p *sys.Program, filters ...Filter) {
	for _, f := range filters {
		if len(f) == 0 || len(f) > MaxLen {
			p.Fail(unix.EINVAL) // as the kernel would; a longer one would be cut short by the 16 bits of Len
			continue
		}
		prog := &program{uint16(len(f)), &f[0]}
		p.Add(unix.SYS_SECCOMP, sys.Words(int(unix.SECCOMP_SET_MODE_FILTER), "SECCOMP_SET_MODE_FILTER"), sys.Int(0),
			sys.Struct(prog))
	}
}

// LowerRaw appends the call that installs a raw program, by prctl(2): for programs that came with the expectation of being installed
// that way, since an earlier one may refuse seccomp(2). The kernel alone judges it.
func LowerRaw(p *sys.Program, raw []byte) {
	f := decode(raw)
	if len(f) > MaxLen {
		p.Fail(unix.EINVAL)
		return
	}
	prog := &program{Len: uint16(len(f))}
	if len(f) > 0 {
		prog.Filter = &f[0]
	}
	p.Add(unix.SYS_PRCTL, sys.Words(unix.PR_SET_SECCOMP, "PR_SET_SECCOMP"), sys.Words(unix.SECCOMP_MODE_FILTER, "SECCOMP_MODE_FILTER"), sys.Struct(prog))
}

// Apply sets no_new_privs and installs filters on the calling thread, in the order given, for ever. It locks the goroutine to the
// thread and leaves it locked, so that the thread ends with the goroutine; other threads of the process go on without a filter.
// The next thing to do is exec. If it fails, filters before the one that failed stay.
func Apply(filters ...Filter) error {
	for _, f := range filters {
		if err := f.Check(); err != nil {
			return err
		}
	}
	runtime.LockOSThread()
	var p sys.Program
	p.At(sys.Step{Stage: "seccomp", Op: "no_new_privs"})
	p.Add(unix.SYS_PRCTL, sys.Words(int(unix.PR_SET_NO_NEW_PRIVS), "PR_SET_NO_NEW_PRIVS"), sys.Int(1), sys.Int(0), sys.Int(0), sys.Int(0))
	p.At(sys.Step{Stage: "seccomp", Op: "filter"})
	Lower(&p, filters...)
	if err := p.Run(); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	return nil
}
