package stages

import (
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/nsrun/nsrun/seccomp"
	"golang.org/x/sys/unix"
)

// The exec stages by bubblewrap's rules. The caller's filters come last, because they may refuse any other call. After them come only the
// announcement, which may fail, and exec.

// closeConsumed closes the descriptors that options have used. A waiter has closed all but those of --sync-fd, which it keeps itself, and a command that is
// pid 1 keeps, as there is no waiter.
func (l *Lowering) closeConsumed() error {
	b := l.plan.Bwrap
	l.closeUsed(func(sync bool) bool { return sync && !b.AsPid1 || !sync && !b.Waiter })
	return nil
}

// closeUsed closes the descriptors that options have used and that take selects, by whether they are those of --sync-fd.
func (l *Lowering) closeUsed(take func(sync bool) bool) {
	l.step("descriptors", "close what options have used")
	for _, fd := range l.plan.Bwrap.Consumed {
		if sys.Inherited(fd) && take(slices.Contains(l.plan.Bwrap.SyncFDs, fd)) {
			l.Program.Add(unix.SYS_CLOSE, sys.Int(fd)).Tolerate(unix.EBADF, 0)
		}
	}
}

// dieWithWaiter gives the command the death signal that --die-with-parent asks for. A forked process has none yet; one that was not forked
// still has that of the set-up.
func (l *Lowering) dieWithWaiter() error {
	switch b := l.plan.Bwrap; {
	case b.Waiter && b.DieWithParent:
		l.deathSignal(unix.SIGKILL)
		l.checkParentAlive()
		l.checkCallerAlive() // the waiter dies with the caller, so the command must, too
	case !b.Waiter && !b.DieWithParent:
		l.deathSignal(0)
	}
	return nil
}

// unblockChild unblocks SIGCHLD for the command, as bubblewrap does. The rest of the signal mask is the caller's.
func (l *Lowering) unblockChild() error {
	l.step("signals", "unblock SIGCHLD")
	mask := make([]byte, 8)
	mask[(unix.SIGCHLD-1)/8] = 1 << ((unix.SIGCHLD - 1) % 8)
	l.Program.Add(unix.SYS_RT_SIGPROCMASK, sys.Words(unix.SIG_UNBLOCK, "SIG_UNBLOCK"), sys.Bytes(mask), sys.Null(), sys.Int(8))
	return nil
}

// execLabel sets the SELinux label that exec gives the command (selinux(8)).
func (l *Lowering) execLabel() error {
	if label := l.plan.Bwrap.ExecLabel; label != "" {
		l.put("self/attr/exec", label, sys.Step{Stage: "label", Op: "exec"})
	}
	return nil
}

// workingDirectory enters the first working directory that exists, and sets PWD to it.
func (l *Lowering) workingDirectory() error {
	b := l.plan.Bwrap
	dirs := append(slices.Clone(b.Dirs), "/") // where this process is already
	if b.Chdir != nil {
		dirs = []string{*b.Chdir}
		l.chdir(*b.Chdir)
	}
	environ, pwd := setenv(l.plan.Env, "PWD", dirs[0])
	l.environ = sys.List(environ)
	l.enterFirst(dirs, pwd)
	return l.Append(verify.Confinement[:], verify.CompatTail)
}

// enterFirst enters the first of some directories. Where it is not the first one, it replaces the environment's entry for it. The process is in the last
// one.
func (l *Lowering) enterFirst(dirs []string, pwd int) {
	if len(dirs) == 1 {
		return
	}
	l.chdir(dirs[0])
	l.Program.Else(func() {
		l.Program.Replace(l.environ, pwd, "PWD="+dirs[1])
		l.enterFirst(dirs[1:], pwd)
	}, sys.Any)
}

// ambientCaps raises the kept capabilities in the ambient set, so that they survive exec (capabilities(7)). The stages before it have put
// them into the permitted and inheritable sets, which that needs.
func (l *Lowering) ambientCaps() error {
	l.step("capabilities", "ambient")
	// prctl(2): EINVAL means that this kernel has no such capability, EPERM that this process does not have it.
	for _, c := range l.plan.Bwrap.Caps {
		l.Program.Add(unix.SYS_PRCTL, sys.Words(unix.PR_CAP_AMBIENT, "PR_CAP_AMBIENT"), sys.Words(unix.PR_CAP_AMBIENT_RAISE, "PR_CAP_AMBIENT_RAISE"),
			sys.Int(c), sys.Int(0), sys.Int(0)).Tolerate(unix.EINVAL, 0).Tolerate(unix.EPERM, 0)
	}
	return nil
}

// announce reports that exec comes next. A process that a filter kills before this was never executed, although the report channel ends as it
// does after exec.
func (l *Lowering) announce() error {
	if l.plan.Bwrap.StatusFD != nil {
		l.step("exec", "announce")
		l.Program.Add(unix.SYS_WRITE, sys.Int(l.fds.Report), sys.Bytes([]byte{Witness}), sys.Int(1)).Tolerate(sys.Any, 0)
	}
	return nil
}

// compatExec executes the command.
func (l *Lowering) compatExec() error {
	// --argv0 replaces the name that the command sees, not the program that is looked up.
	argv := slices.Clone(l.plan.Command)
	if name := l.plan.Bwrap.Argv0; name != nil {
		argv[0] = *name
	}
	name := l.plan.Command[0]
	if !strings.Contains(name, "/") {
		return l.execAs(name, argv, l.plan.Env, l.environ)
	}
	l.Program.At(sys.Step{Stage: "exec", Op: name, Path: name}) // no search in PATH, so every errno is the command's
	l.Program.Add(unix.SYS_EXECVE, sys.Str(name), sys.List(argv), l.environ).Tolerate(unix.ENOEXEC, 0)
	l.Program.At(sys.Step{Stage: "exec", Op: NoHeader, Path: name})
	l.Program.Add(unix.SYS_EXECVE, sys.Str("/bin/sh"), sys.List(append([]string{"/bin/sh", name}, argv[1:]...)), l.environ)
	return nil
}

// Witness is the byte that announce sends over the report channel just before exec, for a caller that must know whether exec was reached.
const Witness = 'w'

// setenv returns env with a variable set, and which entry it is. A variable that exists keeps its place.
func setenv(env []string, name, value string) (set []string, at int) {
	at = slices.IndexFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	if at < 0 {
		at = len(env)
	}
	return slices.Concat(env[:at], []string{name + "=" + value}, env[min(at+1, len(env)):]), at
}

// rawFilters installs the caller's seccomp filters.
func (l *Lowering) rawFilters() error {
	l.addRawFilters()
	return nil
}

// addRawFilters installs them by prctl(2), as bubblewrap does: an earlier filter may allow prctl but not seccomp(2).
func (l *Lowering) addRawFilters() {
	for _, raw := range l.plan.Bwrap.Filters {
		l.step("seccomp", "filter")
		seccomp.LowerRaw(l.Program, raw)
	}
}
