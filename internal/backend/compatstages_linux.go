package backend

import (
	"errors"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/nsrun/nsrun/seccomp"
	"golang.org/x/sys/unix"
)

// The exec stages by bubblewrap's rules. Filters come last, and after them nothing but exec.

// closeConsumed closes the descriptors that options have used.
func (l *lowering) closeConsumed() error {
	b := l.plan.Bwrap
	l.step("descriptors", "close what options have used")
	for _, fd := range b.Consumed {
		if inherited(fd) && !(b.AsPid1 && slices.Contains(b.SyncFDs, fd)) {
			l.p.Add(unix.SYS_CLOSE, sys.Int(fd)).Tolerate(unix.EBADF, 0)
		}
	}
	return nil
}

// dieWithWaiter sets the death signal: a process that was forked has none yet, one that was not still has that of the set-up.
func (l *lowering) dieWithWaiter() error {
	switch b := l.plan.Bwrap; {
	case b.Waiter && b.DieWithParent:
		l.deathSignal(unix.SIGKILL)
		l.checkParentAlive()
		l.checkCallerAlive() // with it the waiter would have died
	case !b.Waiter && !b.DieWithParent:
		l.deathSignal(0)
	}
	return nil
}

func (l *lowering) unblockChild() error {
	l.step("signals", "unblock SIGCHLD")
	mask := make([]byte, 8)
	mask[(unix.SIGCHLD-1)/8] = 1 << ((unix.SIGCHLD - 1) % 8)
	l.p.Add(unix.SYS_RT_SIGPROCMASK, sys.Words(unix.SIG_UNBLOCK, "SIG_UNBLOCK"), sys.Bytes(mask), sys.Null(), sys.Int(8))
	return nil
}

// inherited reports whether fd came to this process from its caller: what Go has opened for itself is close-on-exec.
func inherited(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}

// execLabel is what exec labels the command with (selinux(8)).
func (l *lowering) execLabel() error {
	if label := l.plan.Bwrap.ExecLabel; label != "" {
		l.put("self/attr/exec", label, sys.Step{Stage: "label", Op: "exec"})
	}
	return nil
}

// workingDirectory goes to the first working directory that is there. In each, the stages that are left follow.
func (l *lowering) workingDirectory() error {
	b := l.plan.Bwrap
	tail := func(dir string) error {
		l.workDir = dir
		return l.stages(verify.Confinement[:], verify.CompatTail)
	}
	if b.Chdir != nil {
		l.chdir(*b.Chdir)
		return tail(*b.Chdir)
	}
	var err error
	for _, dir := range b.Dirs {
		l.chdir(dir)
		l.p.Then(func() { err = errors.Join(err, tail(dir)) }, sys.Any)
	}
	return errors.Join(err, tail("/"))
}

func (l *lowering) ambientCaps() error {
	l.step("capabilities", "ambient")
	for _, c := range l.plan.Bwrap.Caps {
		l.p.Add(unix.SYS_PRCTL, sys.Words(unix.PR_CAP_AMBIENT, "PR_CAP_AMBIENT"), sys.Words(unix.PR_CAP_AMBIENT_RAISE, "PR_CAP_AMBIENT_RAISE"),
			sys.Int(c), sys.Int(0), sys.Int(0)).Tolerate(unix.EINVAL, 0).Tolerate(unix.EPERM, 0)
	}
	return nil
}

// announce reports that exec comes next: a process that a filter kills here has not been executed, though the pipe ends.
func (l *lowering) announce() error {
	if l.plan.Bwrap.StatusFD != nil {
		l.step("exec", "announce")
		l.p.Add(unix.SYS_WRITE, sys.Int(l.fds.report), sys.Bytes([]byte{witness}), sys.Int(1)).Tolerate(sys.Any, 0)
	}
	return nil
}

// compatExec executes the command, with its working directory in PWD.
func (l *lowering) compatExec() error {
	argv := slices.Clone(l.plan.Command)
	if name := l.plan.Bwrap.Argv0; name != nil {
		argv[0] = *name
	}
	env := setenv(l.plan.Env, "PWD", l.workDir)
	name := l.plan.Command[0]
	if !strings.Contains(name, "/") {
		return l.execAs(name, argv, env)
	}
	l.p.At(sys.Step{Stage: "exec", Op: name, Path: name}) // no search, so whatever the error is, it is the command's
	l.p.Add(unix.SYS_EXECVE, sys.Str(name), sys.List(argv), sys.List(env)).Tolerate(unix.ENOEXEC, 0)
	l.p.At(sys.Step{Stage: "exec", Op: noHeader, Path: name})
	l.p.Add(unix.SYS_EXECVE, sys.Str("/bin/sh"), sys.List(append([]string{"/bin/sh", name}, argv[1:]...)), sys.List(env))
	return nil
}

// witness is what comes over the report pipe just before exec, if anybody wants to know for certain.
const witness = 'w'

// setenv returns env with a variable set, in the place it had.
func setenv(env []string, name, value string) []string {
	i := slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	if i < 0 {
		return append(slices.Clip(slices.Clone(env)), name+"="+value)
	}
	env = slices.Clone(env)
	env[i] = name + "=" + value
	return env
}

func (l *lowering) rawFilters() error {
	l.addRawFilters()
	return nil
}

// addRawFilters installs raw filters by prctl, as bubblewrap does: an earlier one may allow no other way.
func (l *lowering) addRawFilters() {
	for _, raw := range l.plan.Bwrap.Filters {
		l.step("seccomp", "filter")
		seccomp.LowerRaw(l.p, raw)
	}
}
