package backend

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/rlimit"
	"github.com/nsrun/nsrun/seccomp"
	"golang.org/x/sys/unix"
)

// spawnCommand forks the process that runs the exec stages and becomes the command, and reports its pidfd to the caller.
func (l *lowering) spawnCommand() error {
	if l.bwrap != nil {
		return l.spawnBwrap()
	}
	by := verify.Command
	switch l.plan.Backend {
	case plan.BackendLandlock:
		by = verify.Bare
	case plan.BackendNone:
		by = verify.Unconfined
	}
	return l.spawn(func() error { return l.stages(verify.Confinement[:], by) })
}

func (l *lowering) spawn(body func() error) error {
	l.step("command", "fork")
	if usesSubreaper(l.plan) {
		l.parents = make([]byte, 8)
		l.p.Add(unix.SYS_GETPID).Into(sys.Cell(l.parents))
	}
	l.command = l.p.Slot()
	message := newFDMessage('P')
	var err error
	l.p.Spawn(l.command, message.fd(), func() { err = body() })
	if err != nil {
		return err
	}
	l.forked = l.p.Len()
	l.step("command", "report pidfd")
	l.send(message)
	if l.tty != 0 {
		l.p.Add(unix.SYS_CLOSE, sys.Of(l.tty))
	}
	return nil
}

func (l *lowering) session() error {
	l.step("command", "session")
	l.p.Add(unix.SYS_SETSID)
	if l.tty == 0 {
		return nil
	}
	l.p.Add(unix.SYS_IOCTL, sys.Of(l.tty), sys.Words(unix.TIOCSCTTY, "TIOCSCTTY"), sys.Int(0))
	for fd := range 3 {
		l.p.Add(unix.SYS_DUP3, sys.Of(l.tty), sys.Int(fd), sys.Int(0))
	}
	return nil
}

// descriptors closes what pid 1 has opened for itself. The report pipe is close-on-exec: its end tells that exec happened.
func (l *lowering) descriptors() error {
	l.step("descriptors", "close all but 0, 1, 2 and the channels")
	keep := []int{l.fds.report, l.fds.status}
	slices.Sort(keep)
	return l.closeAllBut(3, keep)
}

// ready waits for the caller's word that it will pass signals on, or has given up its privileges; as a rule that has come by now.
func (l *lowering) ready() error {
	l.step("command", "wait for the caller")
	l.p.Add(unix.SYS_RECVFROM, sys.Int(l.fds.status), sys.Bytes(make([]byte, 1)), sys.Int(1), sys.Int(0), sys.Null(), sys.Null()).Min(1)
	l.checkCallerAlive() // the word may have been its last, and lain there when pid 1 looked whether it lives
	return nil
}

// ownNull puts the sandbox's /dev/null in the place of the host's: to a sandbox that root starts, a descriptor of the host's is enough
// to change its mode.
func (l *lowering) ownNull() error {
	if l.tty != 0 || !hasDev(l.plan) {
		return nil
	}
	null := l.p.Slot()
	for fd := range 3 {
		st, flags, err := statFD(uintptr(fd))
		if errors.Is(err, unix.EBADF) || err == nil && !isNull(st) {
			continue
		}
		if err != nil {
			return err
		}
		l.p.Add(unix.SYS_OPENAT, sys.AtCWD(), sys.Str("/dev/null"), sys.Int(flags&unix.O_ACCMODE)).Keep(null)
		l.p.Add(unix.SYS_DUP3, sys.Of(null), sys.Int(fd), sys.Int(0))
		l.p.Add(unix.SYS_CLOSE, sys.Of(null))
	}
	return nil
}

func (l *lowering) userNamespace() error {
	l.ownUsers()
	return nil
}

// ownUsers makes a user namespace that owns nothing, for commands.
func (l *lowering) ownUsers() {
	l.step("identity", "second user namespace")
	l.p.Add(unix.SYS_UNSHARE, sys.Words(unix.CLONE_NEWUSER, "CLONE_NEWUSER"))
	l.writeMaps(l.plan.Identity.UID, 0, l.plan.Identity.GID, 0)
}

func (l *lowering) directory() error {
	l.p.At(sys.Step{Stage: "directory", Op: "chdir", Path: l.plan.Dir})
	l.p.Add(unix.SYS_CHDIR, sys.Str(l.plan.Dir))
	return nil
}

// setLimits sets all limits but those that openFiles sets.
func (l *lowering) setLimits() error {
	limits, err := l.limits()
	if err != nil {
		return err
	}
	return rlimit.Lower(l.p, slices.DeleteFunc(limits, lowersOpenFiles)...)
}

// openFiles lowers the limit on open files, when the last descriptor has been opened. A higher one takes privileges that are given up before.
func (l *lowering) openFiles() error {
	limits, err := l.limits()
	if err != nil {
		return err
	}
	return rlimit.Lower(l.p, slices.DeleteFunc(limits, func(o rlimit.Limit) bool { return !lowersOpenFiles(o) })...)
}

func lowersOpenFiles(l rlimit.Limit) bool {
	if l.Name != "open_files" {
		return false
	}
	have, err := rlimit.Get(l.Name)
	return err == nil && l.Hard <= have.Hard
}

// limits are those that the command gets, by what this process has. They are found out once.
func (l *lowering) limits() (limits []rlimit.Limit, err error) {
	if l.bounds == nil {
		l.bounds, err = l.findLimits()
	}
	return slices.Clone(l.bounds), err
}

func (l *lowering) findLimits() ([]rlimit.Limit, error) {
	limits, err := softCaps(l.plan.SoftCaps)
	if err != nil {
		return nil, err
	}
	limits = append(limits, l.plan.Limits...)
	if original, ok := rlimit.Original(); ok && !slices.ContainsFunc(limits, func(o rlimit.Limit) bool { return o.Name == original.Name }) {
		limits = append([]rlimit.Limit{original}, limits...)
	}
	for i, o := range limits {
		if o == rlimit.Both("core", 0) {
			if limits[i], err = noCore(); err != nil {
				return nil, err
			}
		}
	}
	return limits, nil
}

// noCore is the limit that keeps the kernel from dumping core at all. A limit of 0 bounds files only: the handler of a core_pattern that
// begins with "|" is run all the same. At 1 it is not, and no file has room for a core either (coredump_pipe in fs/coredump.c). A hard limit
// of 0 stays, which the host's root alone can raise.
func noCore() (rlimit.Limit, error) {
	have, err := rlimit.Get("core")
	return rlimit.Both("core", min(1, have.Hard)), err
}

// softCaps are the limits that are below those of this process, which a sandbox inherits.
func softCaps(limits []rlimit.Limit) (lower []rlimit.Limit, err error) {
	for _, l := range limits {
		have, err := rlimit.Get(l.Name)
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

// keyring joins a new anonymous session keyring (keyctl_join_session_keyring(3)). A kernel without keyrings, or a container that
// forbids the call, leaves nothing to join away from that the command could reach either.
func (l *lowering) keyring() error {
	l.step("keyring", "new session keyring")
	l.p.Add(unix.SYS_KEYCTL, sys.Words(unix.KEYCTL_JOIN_SESSION_KEYRING, "KEYCTL_JOIN_SESSION_KEYRING"), sys.Null()).
		Tolerate(unix.ENOSYS, 0).Tolerate(unix.EPERM, 0)
	return nil
}

// sigaction is the kernel's struct sigaction, all zero: SIG_DFL.
type sigaction struct{ Handler, Flags, Restorer, Mask uint64 }

func (s *sigaction) String() string { return "{SIG_DFL}" }

func (l *lowering) handlers() error {
	l.step("signals", "defaults")
	l.p.Add(unix.SYS_RT_SIGACTION, sys.Counter(), sys.Struct(&sigaction{}), sys.Null(), sys.Int(8)).
		Repeat(1, 64).Tolerate(unix.EINVAL, 0) // SIGKILL and SIGSTOP
	return nil
}

func (l *lowering) mask() error {
	l.step("signals", "mask")
	l.p.Add(unix.SYS_RT_SIGPROCMASK, sys.Words(unix.SIG_SETMASK, "SIG_SETMASK"), sys.Bytes(make([]byte, 8)), sys.Null(), sys.Int(8))
	l.p.Add(unix.SYS_UMASK, sys.Words(0o22, "0022"))
	return nil
}

// capabilities empties all five sets.
func (l *lowering) capabilities() error {
	l.step("capabilities", "drop all")
	// The bounding set goes up to the last capability that this kernel knows, so that a newer one is not missed.
	drop := l.p.Add(unix.SYS_PRCTL, sys.Words(unix.PR_CAPBSET_DROP, "PR_CAPBSET_DROP"), sys.Counter()).Repeat(0, l.plan.LastCap)
	if usesSubreaper(l.plan) || l.testReport != nil { // an ordinary user may not, and need not: no_new_privs keeps the other sets empty
		drop.Tolerate(unix.EPERM, 0)
	}
	l.dropCapabilities()
	return nil
}

// capHeader and capSets are those of capset(2), version 3.
type capHeader struct {
	Version uint32
	Pid     int32
}

type capSets [2]struct{ Effective, Permitted, Inheritable uint32 }

func (c *capSets) String() string { return "{none}" }

// dropCapabilities empties the sets of this process.
func (l *lowering) dropCapabilities() {
	l.p.Add(unix.SYS_PRCTL, sys.Words(unix.PR_CAP_AMBIENT, "PR_CAP_AMBIENT"), sys.Words(unix.PR_CAP_AMBIENT_CLEAR_ALL, "PR_CAP_AMBIENT_CLEAR_ALL"),
		sys.Int(0), sys.Int(0), sys.Int(0)).Tolerate(unix.EINVAL, 0) // before Linux 4.3 there are none
	l.p.Add(unix.SYS_CAPSET, sys.Struct(&capHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}), sys.Struct(&capSets{}))
}

// noCapabilities gives up pid 1's own. Its bounding set is not the commands'.
func (l *lowering) noCapabilities() error {
	l.step("init", "no capabilities")
	l.dropCapabilities()
	return nil
}

// notDumpable forbids tracing, reading /proc/PID/mem and the like for this memory, which is pid 1's too until exec replaces it
// (sys.Program.Spawn). Not earlier: /proc/self/uid_map of a process that is not dumpable belongs to root (proc_pid(5)).
func (l *lowering) notDumpable() error {
	l.step("init", "not dumpable")
	l.p.Add(unix.SYS_PRCTL, sys.Words(unix.PR_SET_DUMPABLE, "PR_SET_DUMPABLE"), sys.Int(0))
	return nil
}

func (l *lowering) noNewPrivs() error {
	if l.plan.Backend == plan.BackendNone {
		return nil
	}
	l.step("no_new_privs", "")
	l.p.Add(unix.SYS_PRCTL, sys.Words(unix.PR_SET_NO_NEW_PRIVS, "PR_SET_NO_NEW_PRIVS"), sys.Int(1), sys.Int(0), sys.Int(0), sys.Int(0))
	return nil
}

// landlock enforces the plan's rules. Whether a path is a file, or was left out, is what lowering saw when it looked.
func (l *lowering) landlock() error {
	if l.plan.Landlock == nil {
		return nil
	}
	r, err := l.landlockRules()
	landlock.Lower(l.p, r)
	return err
}

// landlockRules are the plan's, of what lowering saw.
func (l *lowering) landlockRules() (landlock.Ruleset, error) {
	var err error
	switch {
	case l.rules != nil: // the self-test's are the command's
	case usesSubreaper(l.plan):
		l.rules, err = bareRules(l.plan, l.resolved)
	default:
		l.rules = resolvedRules(l.plan, l.resolved)
	}
	r := l.plan.Landlock.Ruleset
	r.Paths, r.ByName = l.rules, !l.plan.Mechanisms.Openat2
	return r, err
}

// resolvedRules are the plan's rules without those of what was left out, and at the places where the rest went. Lowering has found those free
// of symlinks, and mounts follows none on the way to them; so a symlink that is there by now was put there since, and is an error.
func resolvedRules(p *plan.Plan, resolved []mounts.Resolved) []landlock.PathRule {
	at := map[string]mounts.Resolved{}
	for i, s := range resolved {
		if former, ok := at[p.Mounts[i].Dest]; !ok || former.Missing || former.Covered {
			at[p.Mounts[i].Dest] = s
		}
	}
	var rules []landlock.PathRule
	for _, rule := range p.Landlock.Paths {
		s, ok := at[rule.Path]
		if s.Missing || s.Link || s.Covered { // a link's target has its own rule
			continue
		}
		if ok {
			rule.File, rule.Path = s.File, s.Dest
		}
		rule.Exact = true
		rules = append(rules, rule)
	}
	return rules
}

func (l *lowering) seccomp() error {
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
	seccomp.Lower(l.p, l.compiled...)
	return nil
}

// exec tries the places of PATH in order, as execvp(3) does: a place where nothing is is passed over, one that may not be executed
// is remembered, a file without a header goes to /bin/sh. What remains tells apart a command that is not there, one that cannot
// be executed, and one whose interpreter is missing.
func (l *lowering) exec() error {
	l.execAt = l.p.Len()
	if l.plan.Bwrap != nil {
		return l.compatExec()
	}
	return l.execAs(l.plan.Command[0], l.plan.Command, l.plan.Env)
}

const (
	// maxPathEntries is how many places PATH may have: a program's calls can leave out 32767 others at the most.
	maxPathEntries = 1000
	// maxLists is how large all that is written anew for each place may be together, in bytes. What else a request holds has room beside it.
	maxLists = sys.MaxRequest * 3 / 4
)

// copied is what execAs writes for each of n places: the pointers to the arguments, as large as a string's in Go, and the name.
func copied(n int, name string, argv []string) int { return n * (16*(len(argv)+1) + len(name)) }

// execAs does so for the program called name.
func (l *lowering) execAs(name string, argv, environ []string) error {
	candidates := candidates(name, environ)
	env := sys.List(environ)
	words := sys.List(argv)
	n := len(candidates)
	if n > maxPathEntries {
		return &Error{Stage: "command", Op: "look for", Path: name, Err: fmt.Errorf("PATH has %d places; %d are the most", n, maxPathEntries),
			Hint: "shorten PATH, or give the program's path"}
	}
	shells := make([]sys.Arg, n)
	for i, c := range candidates {
		shells[i] = sys.List(append([]string{"/bin/sh", c}, argv[1:]...)) // as glibc calls it
	}
	// Calls: n times execve and its /bin/sh, n times a look and its failure, "not found", then the execs once more for after an
	// EACCES, and "permission denied".
	again := 4*n + 1
	if l.plan.Bwrap != nil { // a filter of the caller's may kill who looks
		again = 2*n + 1
	}
	execs := func(denied bool) {
		for i, c := range candidates {
			l.p.At(sys.Step{Stage: "exec", Op: name, Path: c})
			toNext := again + 1 // the next candidate of the second round
			if denied {
				toNext = 1
			}
			l.p.Add(unix.SYS_EXECVE, sys.Str(c), words, env).Tolerate(unix.ENOEXEC, 0).
				Tolerate(unix.ENOENT, 1).Tolerate(unix.ENOTDIR, 1).Tolerate(unix.EACCES, toNext)
			l.p.At(sys.Step{Stage: "exec", Op: noHeader, Path: c})
			l.p.Add(unix.SYS_EXECVE, sys.Str("/bin/sh"), shells[i], env)
		}
	}
	execs(false)
	for _, c := range candidates {
		if l.plan.Bwrap != nil {
			break
		}
		l.p.At(sys.Step{Stage: "exec", Op: missingInterpreter, Path: c})
		l.p.Add(unix.SYS_FACCESSAT, sys.AtCWD(), sys.Str(c), sys.Words(unix.F_OK, "F_OK")).
			Tolerate(unix.ENOENT, 1).Tolerate(unix.ENOTDIR, 1).Tolerate(unix.EACCES, 1)
		l.p.Fail(unix.ENOENT)
	}
	l.p.At(sys.Step{Stage: "exec", Op: name})
	l.p.Fail(unix.ENOENT)
	execs(true)
	l.p.At(sys.Step{Stage: "exec", Op: name})
	l.p.Fail(unix.EACCES)
	return nil
}

// Steps of exec that are reached only when something is odd: a program whose #! line or ELF loader names something that is not
// there, and a file without a header that /bin/sh is asked to run.
const (
	missingInterpreter = "interpreter"
	noHeader           = "/bin/sh"
)

func candidates(name string, environ []string) []string {
	switch {
	case name == "":
		return nil
	case strings.Contains(name, "/"):
		return []string{name}
	}
	var out []string
	for _, dir := range strings.Split(searched(environ), ":") {
		if dir == "" {
			dir = "." // execvp(3): an empty name is the working directory
		}
		out = append(out, dir+"/"+name)
	}
	return out
}

// countPathEntries is how many candidates there are.
func countPathEntries(name string, environ []string) int {
	if strings.Contains(name, "/") {
		return 1
	}
	return strings.Count(searched(environ), ":") + 1
}

// searched is PATH.
func searched(environ []string) string {
	for _, v := range environ {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			return value
		}
	}
	return "/bin:/usr/bin" // execvp(3), when PATH is unset
}
