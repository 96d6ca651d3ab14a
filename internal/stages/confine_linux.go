package stages

import (
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/seccomp"
	"golang.org/x/sys/unix"
)

// keyring joins a new anonymous session keyring (keyctl_join_session_keyring(3)), so that the command cannot use the caller's keys. If the
// kernel has no keyrings, or a container forbids the call, the command cannot reach the caller's keyring either.
func (l *Lowering) keyring() error {
	l.step("keyring", "new session keyring")
	l.Program.Add(unix.SYS_KEYCTL, sys.Words(unix.KEYCTL_JOIN_SESSION_KEYRING, "KEYCTL_JOIN_SESSION_KEYRING"), sys.Null()).
		Tolerate(unix.ENOSYS, 0).Tolerate(unix.EPERM, 0)
	return nil
}

// sigaction is the kernel's struct sigaction. All zero, it is SIG_DFL.
type sigaction struct{ Handler, Flags, Restorer, Mask uint64 }

const sigIgn = 1 // SIG_IGN

func (s *sigaction) String() string {
	if s.Handler == sigIgn {
		return "{SIG_IGN}"
	}
	return "{SIG_DFL}"
}

// defaultAction is the argument of rt_sigaction(2) that restores a signal's default action.
func defaultAction() sys.Arg { return sys.Struct(&sigaction{}) }

// ignoreAction is the argument of rt_sigaction(2) that ignores a signal.
func ignoreAction() sys.Arg { return sys.Struct(&sigaction{Handler: sigIgn}) }

// handlers resets every signal to its default action: a signal that the caller ignores would stay ignored over execve(2).
func (l *Lowering) handlers() error {
	l.step("signals", "defaults")
	l.Program.Add(unix.SYS_RT_SIGACTION, sys.Counter(), defaultAction(), sys.Null(), sys.Int(8)).
		Repeat(1, 64).Tolerate(unix.EINVAL, 0) // of SIGKILL and SIGSTOP: sigaction(2)
	return nil
}

// mask unblocks all signals, since execve(2) keeps blocked signals blocked, and sets the usual umask.
func (l *Lowering) mask() error {
	l.step("signals", "mask")
	l.Program.Add(unix.SYS_RT_SIGPROCMASK, sys.Words(unix.SIG_SETMASK, "SIG_SETMASK"), sys.Bytes(make([]byte, 8)), sys.Null(), sys.Int(8))
	l.Program.Add(unix.SYS_UMASK, sys.Words(0o22, "0022"))
	return nil
}

// capabilities empties all five capability sets. The bounding set comes first, because to drop from it takes CAP_SETPCAP (prctl(2)).
func (l *Lowering) capabilities() error {
	l.step("capabilities", "drop all")
	// LastCap is the last capability that this kernel knows, so that none is missed that is newer than nsrun.
	drop := l.Program.Add(unix.SYS_PRCTL, sys.Words(unix.PR_CAPBSET_DROP, "PR_CAPBSET_DROP"), sys.Counter()).Repeat(0, l.plan.LastCap)
	if l.plan.Bare() || l.testReport != nil { // an ordinary user has no CAP_SETPCAP; no_new_privs keeps its other sets empty
		drop.Tolerate(unix.EPERM, 0)
	}
	l.dropCapabilities()
	return nil
}

// capHeader and capSets are the two structures of capset(2), version 3.
type capHeader struct {
	Version uint32
	Pid     int32
}

type capSets [2]struct{ Effective, Permitted, Inheritable uint32 }

func (c *capSets) String() string { return "{none}" }

// NoCapabilities returns the arguments of a capset(2) that empties the effective, permitted and inheritable sets.
func NoCapabilities() (header, none sys.Arg) {
	return sys.Struct(&capHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}), sys.Struct(&capSets{})
}

// dropCapabilities empties the ambient, effective, permitted and inheritable sets of this process.
func (l *Lowering) dropCapabilities() {
	l.Program.Add(unix.SYS_PRCTL, sys.Words(unix.PR_CAP_AMBIENT, "PR_CAP_AMBIENT"), sys.Words(unix.PR_CAP_AMBIENT_CLEAR_ALL, "PR_CAP_AMBIENT_CLEAR_ALL"),
		sys.Int(0), sys.Int(0), sys.Int(0)).Tolerate(unix.EINVAL, 0) // before Linux 4.3 there is no ambient set
	header, none := NoCapabilities()
	l.Program.Add(unix.SYS_CAPSET, header, none)
}

// noCapabilities drops pid 1's capabilities once it needs none. It leaves the bounding set: the command's process drops its own.
func (l *Lowering) noCapabilities() error {
	l.step("init", "no capabilities")
	l.dropCapabilities()
	return nil
}

// notDumpable forbids other processes to trace this one or to read its /proc/PID/mem. Until exec the command's process shares pid 1's
// memory (sys.Program.Spawn), so this protects both: CVE-2019-5736. The stage comes after the id maps, because /proc/self/uid_map of a
// process that is not dumpable belongs to root (proc_pid(5)).
//
// As bubblewrap the command begins before the waiter has its filters, which fork and exec would need: see hidden.
func (l *Lowering) notDumpable() error {
	if l.plan.Bwrap != nil && !l.hidden() {
		return nil
	}
	l.step("init", "not dumpable")
	l.Program.Add(unix.SYS_PRCTL, sys.Words(unix.PR_SET_DUMPABLE, "PR_SET_DUMPABLE"), sys.Int(0))
	return nil
}

// hidden reports whether nobody may look into the waiter of a bubblewrap command line when the command begins. With layers never: they are the command's,
// which could have the waiter do what they refuse. With the caller's filters, until the waiter has them: with their own bubblewrap's can be looked into. With a label
// until the waiter has closed the host's /proc.
func (l *Lowering) hidden() bool {
	b := l.plan.Bwrap
	return b.Waiter && (l.layered() || len(b.Filters) > 0 || b.ExecLabel != "")
}

// layered reports whether a plan of bubblewrap's command line has layers.
func (l *Lowering) layered() bool {
	return l.plan.Landlock != nil || l.plan.Seccomp != nil || len(l.plan.Limits) > 0
}

// noNewPrivs keeps set-uid programs and file capabilities from adding privileges (prctl(2), PR_SET_NO_NEW_PRIVS). Landlock and seccomp
// require it of a process without CAP_SYS_ADMIN, so the stage comes before them. The backend none does not confine its command and leaves
// it out.
func (l *Lowering) noNewPrivs() error {
	if l.plan.Backend == plan.BackendNone {
		return nil
	}
	l.step("no_new_privs", "")
	l.Program.Add(unix.SYS_PRCTL, sys.Words(unix.PR_SET_NO_NEW_PRIVS, "PR_SET_NO_NEW_PRIVS"), sys.Int(1), sys.Int(0), sys.Int(0), sys.Int(0))
	return nil
}

// landlock enforces the plan's Landlock rules. Lowering has resolved their paths: it found which are files, and which are left out.
func (l *Lowering) landlock() error {
	if l.plan.Landlock == nil {
		return nil
	}
	if l.fds.Ruleset > 0 {
		l.lowerRest()
		return nil
	}
	r, err := l.landlockRules()
	landlock.Lower(l.Program, r)
	return err
}

// landlockRules returns the plan's ruleset with the paths that lowering has resolved. It resolves them once, so that the self-test runs
// under the command's own rules.
func (l *Lowering) landlockRules() (landlock.Ruleset, error) {
	var err error
	switch {
	case l.rules != nil:
	case l.plan.Bare():
		l.rules, err = bareRules(l.plan, l.resolved)
	default:
		l.rules, err = ResolvedRules(l.plan, l.resolved)
	}
	return rulesetOf(l.plan, l.rules), err
}

// rulesetOf returns the plan's ruleset with these rules. Without openat2(2) each path is opened name by name, so that no symlink is followed.
func rulesetOf(p *plan.Plan, rules []landlock.PathRule) landlock.Ruleset {
	r := p.Landlock.Ruleset
	r.Paths, r.ByName = rules, !p.Mechanisms.Openat2
	return r
}

// seccomp installs the plan's filters. It comes after the stages whose calls the filters refuse. It compiles the filters once, so that the
// self-test runs under the command's own.
func (l *Lowering) seccomp() error { return l.ownFilters() }

// ownFilters installs the plan's filters, without a listener.
func (l *Lowering) ownFilters() error {
	if l.plan.Seccomp == nil {
		return nil
	}
	if l.compiled == nil {
		var err error
		if l.compiled, err = l.plan.Seccomp.Filters(goarch); err != nil {
			return err
		}
	}
	l.step("seccomp", l.plan.Seccomp.Filter)
	seccomp.Lower(l.Program, l.compiled...)
	return nil
}
