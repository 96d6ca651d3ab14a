package backend

import (
	"errors"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/seccomp"
	"golang.org/x/sys/unix"
)

// compatExecStages are the exec stages by bubblewrap's rules. Filters come last, and after them nothing but exec.
func (l *lowering) compatExecStages() error {
	b := l.plan.Bwrap
	l.step("descriptors", "close what options have used")
	for _, fd := range b.Consumed {
		if inherited(fd) && !(b.AsPid1 && slices.Contains(b.SyncFDs, fd)) {
			l.p.Add(unix.SYS_CLOSE, sys.Int(fd)).Tolerate(unix.EBADF, 0)
		}
	}
	switch { // one that was forked has no death signal yet, one that was not still has that of the set-up
	case b.Waiter && b.DieWithParent:
		l.deathSignal(unix.SIGKILL)
		l.checkParentAlive()
		l.checkCallerAlive() // with it the waiter would have died
	case !b.Waiter && !b.DieWithParent:
		l.deathSignal(0)
	}
	l.step("signals", "unblock SIGCHLD")
	mask := make([]byte, 8)
	mask[(unix.SIGCHLD-1)/8] = 1 << ((unix.SIGCHLD - 1) % 8)
	l.p.Add(unix.SYS_RT_SIGPROCMASK, sys.Words(unix.SIG_UNBLOCK, "SIG_UNBLOCK"), sys.Bytes(mask), sys.Null(), sys.Int(8))
	if err := l.all(l.setLimits, l.openFiles); err != nil {
		return err
	}
	if err := l.execLabel(); err != nil {
		return err
	}
	return l.startIn()
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

// startIn goes to the first working directory that is there, names it in PWD, and starts the command.
func (l *lowering) startIn() error {
	b := l.plan.Bwrap
	if b.Chdir != nil {
		l.chdir(*b.Chdir)
		return l.start(*b.Chdir)
	}
	var err error
	for _, dir := range b.Dirs {
		l.chdir(dir)
		l.p.Then(func() { err = errors.Join(err, l.start(dir)) }, sys.Any)
	}
	return errors.Join(err, l.start("/"))
}

// start ends in exec.
func (l *lowering) start(pwd string) error {
	l.step("capabilities", "ambient")
	for _, c := range l.plan.Bwrap.Caps {
		l.p.Add(unix.SYS_PRCTL, sys.Words(unix.PR_CAP_AMBIENT, "PR_CAP_AMBIENT"), sys.Words(unix.PR_CAP_AMBIENT_RAISE, "PR_CAP_AMBIENT_RAISE"),
			sys.Int(c), sys.Int(0), sys.Int(0)).Tolerate(unix.EINVAL, 0).Tolerate(unix.EPERM, 0)
	}
	if err := l.all(l.landlock, l.seccomp, l.filters); err != nil {
		return err
	}
	if l.plan.Bwrap.StatusFD != nil { // who is killed by a filter here has not been executed, though the pipe ends
		l.step("exec", "announce")
		l.p.Add(unix.SYS_WRITE, sys.Int(l.fds.report), sys.Bytes([]byte{witness}), sys.Int(1)).Tolerate(sys.Any, 0)
	}
	argv := slices.Clone(l.plan.Command)
	if name := l.plan.Bwrap.Argv0; name != nil {
		argv[0] = *name
	}
	env := setenv(l.plan.Env, "PWD", pwd)
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

// filters installs raw filters by prctl, as bubblewrap does: an earlier one may allow no other way.
func (l *lowering) filters() error {
	for _, raw := range l.plan.Bwrap.Filters {
		l.step("seccomp", "filter")
		seccomp.LowerRaw(l.p, raw)
	}
	return nil
}
