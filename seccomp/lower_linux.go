package seccomp

import (
	"fmt"
	"runtime"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// program is struct sock_fprog. Its pointer keeps the instructions in memory as long as the sys.Program exists.
type program struct {
	Len    uint16
	Filter *Instruction
}

// String returns the length only, for the listing of a program.
func (p *program) String() string { return fmt.Sprintf("{%d instructions}", p.Len) }

// Lower appends the calls that install filters, in the order given. It does not set no_new_privs; the caller must do so first, or the
// kernel refuses a thread without CAP_SYS_ADMIN with EACCES.
//
// Each call is subject to the filters that were installed before it. That includes the installation of the next filter, exec, and the write
// and exit_group that report a failed exec. So the order is: the profile, raw filters, and the filter of [Deny] last. The verdicts do not
// depend on the order, because the kernel takes the strictest one.
func Lower(p *sys.Program, filters ...Filter) {
	for _, f := range filters {
		if len(f) == 0 || len(f) > MaxLen {
			p.Fail(unix.EINVAL) // as the kernel does; Len has 16 bits and would cut the length off
			continue
		}
		prog := &program{uint16(len(f)), &f[0]}
		p.Add(unix.SYS_SECCOMP, sys.Words(int(unix.SECCOMP_SET_MODE_FILTER), "SECCOMP_SET_MODE_FILTER"), sys.Int(0),
			sys.Struct(prog))
		sys.Hold(p, f)
	}
}

// LowerListener appends the call that installs a filter of [Watch], and keeps the descriptor of its listener. In a process that has a listener
// already the kernel refuses another one with EBUSY. killable is for Linux 5.19 and newer: see [ListenerFlags].
func LowerListener(p *sys.Program, f Filter, killable bool, listener sys.Slot) *sys.Call {
	prog := &program{uint16(len(f)), &f[0]}
	flags, words := ListenerFlags(killable)
	c := p.Add(unix.SYS_SECCOMP, sys.Words(int(unix.SECCOMP_SET_MODE_FILTER), "SECCOMP_SET_MODE_FILTER"), sys.Words(flags, words), sys.Struct(prog)).Keep(listener)
	sys.Hold(p, f)
	return c
}

// ListenerFlags are the flags that make a listener. With killable a call that the listener has received waits for the answer whatever signals
// come, but for SIGKILL. Otherwise a signal would begin the call anew, or end it with EINTR, which it does not do without a listener.
func ListenerFlags(killable bool) (flags int, words string) {
	if killable {
		return unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, "NEW_LISTENER|WAIT_KILLABLE_RECV"
	}
	return unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, "NEW_LISTENER"
}

// LowerRaw appends the call that installs a raw filter by prctl(2). It is for callers that expect prctl, because an earlier raw filter may
// refuse seccomp(2). Only the kernel checks the filter.
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
	sys.Hold(p, f)
}

// Apply sets no_new_privs and installs filters on the calling thread, in the order given. Neither can be undone. It locks the goroutine to
// the thread and leaves it locked, so that the thread ends with the goroutine. Other threads of the process get no filter. The caller
// should exec next. If one filter fails, those before it stay.
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
