package stages

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/rlimit"
	"github.com/nsrun/nsrun/seccomp"
	"golang.org/x/sys/unix"
)

// spawnCommand appends the fork of the process that runs the exec stages and becomes the command. With a real bubblewrap it starts
// bubblewrap instead.
func (l *Lowering) spawnCommand() error {
	if l.bwrap != nil {
		return l.spawnBwrap()
	}
	by := verify.Command // selects the stages of the table that this process runs
	switch l.plan.Backend {
	case plan.BackendLandlock:
		by = verify.Bare
	case plan.BackendNone:
		by = verify.Unconfined
	}
	return l.Spawn(func() error { return l.Append(verify.Confinement[:], by) })
}

// Spawn appends the fork of a child that makes the calls of body, and sends the child's pidfd to the caller.
func (l *Lowering) Spawn(body func() error) error {
	l.step("command", "fork")
	if l.plan.Bare() {
		l.parents = make([]byte, 8)
		l.Program.Add(unix.SYS_GETPID).Into(sys.Cell(l.parents)) // the child compares it with its parent's pid: see checkParentAlive
	}
	l.command = l.Program.Slot()
	message := newFDMessage('P')
	var err error
	l.Program.Spawn(l.command, message.fd(), func() { err = body() })
	if err != nil {
		return err
	}
	l.forked = l.Program.Len()
	l.step("command", "report pidfd")
	l.send(message)
	if l.tty != 0 {
		l.Program.Add(unix.SYS_CLOSE, sys.Of(l.tty)) // the child has its own copy
	}
	return nil
}

// session puts the command into a new session (setsid(2)), so that it has no controlling terminal to push input into: CVE-2017-5226. If the
// plan has a terminal, the sandbox's own terminal becomes the controlling one and the three standard descriptors.
func (l *Lowering) session() error {
	l.step("command", "session")
	l.Program.Add(unix.SYS_SETSID)
	if l.tty == 0 {
		return nil
	}
	// After setsid: only a session leader without a controlling terminal may take one (ioctl_tty(2)).
	l.Program.Add(unix.SYS_IOCTL, sys.Of(l.tty), sys.Words(unix.TIOCSCTTY, "TIOCSCTTY"), sys.Int(0))
	for fd := range 3 {
		l.Program.Add(unix.SYS_DUP3, sys.Of(l.tty), sys.Int(fd), sys.Int(0))
	}
	return nil
}

// descriptors closes every descriptor but 0, 1, 2 and the two channels, so that the command inherits no other: CVE-2024-21626.
// Exec closes the channels, which are close-on-exec; the end of the report pipe reports that exec has happened.
func (l *Lowering) descriptors() error {
	l.step("descriptors", "close all but 0, 1, 2 and the channels")
	keep := []int{l.fds.Report, l.fds.Status}
	slices.Sort(keep) // closeAllBut closes the ranges between them
	return l.closeAllBut(3, keep)
}

// ready waits for the message that lets the command begin. The caller sends it when it can pass signals on, or when it has given up its
// privileges. As a rule the message is there by now.
func (l *Lowering) ready() error {
	l.step("command", "wait for the caller")
	l.Program.Add(unix.SYS_RECVFROM, sys.Int(l.fds.Status), sys.Bytes(make([]byte, 1)), sys.Int(1), sys.Int(0), sys.Null(), sys.Null()).Min(1)
	l.checkCallerAlive() // an unread message hid the end of the socket from pid 1's check
	return nil
}

// ownNull replaces the host's /dev/null by the sandbox's wherever it is a standard descriptor. In a sandbox that root starts, a descriptor
// of the host's /dev/null is enough to change its mode.
func (l *Lowering) ownNull() error {
	if l.tty != 0 || !hasDev(l.plan) {
		return nil
	}
	modes, err := standardNulls()
	null := l.Program.Slot()
	for fd, mode := range modes {
		if mode >= 0 {
			l.Program.Add(unix.SYS_OPENAT, sys.AtCWD(), sys.Str("/dev/null"), sys.Int(mode)).Keep(null)
			l.Program.Add(unix.SYS_DUP3, sys.Of(null), sys.Int(fd), sys.Int(0))
			l.Program.Add(unix.SYS_CLOSE, sys.Of(null))
		}
	}
	return err
}

// standardNulls returns the access mode of each standard descriptor that is the host's /dev/null, and -1 for one that is not.
func standardNulls() (modes [3]int, err error) {
	for fd := range 3 {
		st, flags, failed := statFD(uintptr(fd))
		modes[fd] = -1
		switch {
		case errors.Is(failed, unix.EBADF): // closed
		case failed != nil:
			err = failed
		case IsNull(st):
			modes[fd] = flags & unix.O_ACCMODE
		}
	}
	return modes, err
}

// userNamespace moves the command's process into a user namespace of its own.
func (l *Lowering) userNamespace() error {
	l.ownUsers()
	return nil
}

// ownUsers moves this process into a new user namespace that owns neither the mounts nor pid 1: capabilities in it have no power over them.
// It maps the plan's ids to uid and gid 0 of the first namespace, which the caller's ids are mapped to.
func (l *Lowering) ownUsers() {
	l.step("identity", "second user namespace")
	l.Program.Add(unix.SYS_UNSHARE, sys.Words(unix.CLONE_NEWUSER, "CLONE_NEWUSER"))
	l.writeMaps(l.plan.Identity.UID, 0, l.plan.Identity.GID, 0)
}

// directory enters the command's working directory. It resolves the path inside the sandbox, so no link of the host leads out:
// CVE-2024-21626.
func (l *Lowering) directory() error {
	l.Program.At(sys.Step{Stage: "directory", Op: "chdir", Path: l.plan.Dir})
	l.Program.Add(unix.SYS_CHDIR, sys.Str(l.plan.Dir))
	return nil
}

// setLimits sets all limits but those that openFiles lowers later.
func (l *Lowering) setLimits() error {
	limits, err := l.limits()
	if err != nil {
		return err
	}
	return rlimit.Lower(l.Program, slices.DeleteFunc(limits, lowersOpenFiles)...)
}

// openFiles lowers the limit on open files, after the last stage that opens a descriptor. setLimits raises it, because that takes
// privileges which later stages give up.
func (l *Lowering) openFiles() error {
	limits, err := l.limits()
	if err != nil {
		return err
	}
	return rlimit.Lower(l.Program, slices.DeleteFunc(limits, func(o rlimit.Limit) bool { return !lowersOpenFiles(o) })...)
}

// lowersOpenFiles reports whether l is a limit on open files that this process may set without privileges.
func lowersOpenFiles(l rlimit.Limit) bool {
	if l.Name != "open_files" {
		return false
	}
	have, err := rlimit.Get(l.Name)
	return err == nil && l.Hard <= have.Hard
}

// limits returns the command's limits. It computes them once, from the limits that this process has.
func (l *Lowering) limits() (limits []rlimit.Limit, err error) {
	if l.bounds == nil {
		l.bounds, err = l.findLimits()
	}
	return slices.Clone(l.bounds), err
}

// findLimits returns the limits in the order in which they are set: the limit that Go's runtime has raised, the soft caps, the plan's
// limits.
func (l *Lowering) findLimits() ([]rlimit.Limit, error) {
	limits, err := softCaps(l.plan.SoftCaps)
	if err != nil {
		return nil, err
	}
	limits = append(limits, l.plan.Limits...)
	if original, ok := rlimit.Original(); ok && !slices.ContainsFunc(limits, func(o rlimit.Limit) bool { return o.Name == original.Name }) {
		limits = append([]rlimit.Limit{original}, limits...) // the command gets the caller's limit back
	}
	// A core limit of 0 in a plan means no core dump at all, which takes another value.
	for i, o := range limits {
		if o == rlimit.Both("core", 0) {
			if limits[i], err = noCore(); err != nil {
				return nil, err
			}
		}
	}
	return limits, nil
}

// noCore returns the limit that keeps the kernel from dumping core at all. A limit of 0 applies to files only: the kernel still runs the
// handler of a core_pattern that begins with "|". With a limit of 1 it does not, and no core fits into a file either (coredump_pipe in
// fs/coredump.c). A hard limit of 0 stays 0, because only the host's root can raise it.
func noCore() (rlimit.Limit, error) {
	have, err := rlimit.Get("core")
	return rlimit.Both("core", min(1, have.Hard)), err
}

// softCaps returns the limits of which a value is below this process's own. The others are inherited as they are, because a soft cap never
// raises a limit.
func softCaps(limits []rlimit.Limit) (lower []rlimit.Limit, err error) {
	for _, l := range limits {
		have, err := rlimit.Get(l.Name)
		// The caller's limit on open files counts, not the one that Go's runtime has raised.
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

func (s *sigaction) String() string { return "{SIG_DFL}" }

// DefaultAction is the argument of rt_sigaction(2) that restores a signal's default action.
func DefaultAction() sys.Arg { return sys.Struct(&sigaction{}) }

// handlers resets every signal to its default action: a signal that the caller ignores would stay ignored over execve(2).
func (l *Lowering) handlers() error {
	l.step("signals", "defaults")
	l.Program.Add(unix.SYS_RT_SIGACTION, sys.Counter(), DefaultAction(), sys.Null(), sys.Int(8)).
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
func (l *Lowering) notDumpable() error {
	l.step("init", "not dumpable")
	l.Program.Add(unix.SYS_PRCTL, sys.Words(unix.PR_SET_DUMPABLE, "PR_SET_DUMPABLE"), sys.Int(0))
	return nil
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
		l.rules = ResolvedRules(l.plan, l.resolved)
	}
	// Without openat2(2) each path is opened name by name, so that no symlink is followed.
	r := l.plan.Landlock.Ruleset
	r.Paths, r.ByName = l.rules, !l.plan.Mechanisms.Openat2
	return r, err
}

// ResolvedRules returns the plan's rules at the paths where their mounts are, without the rules of mounts that are missing, covered or
// symlinks. Lowering has found these paths free of symlinks, and the mounts follow none on the way to them. A symlink on such a path was
// put there later, and is an error (Exact).
func ResolvedRules(p *plan.Plan, resolved []mounts.Resolved) []landlock.PathRule {
	at := map[string]mounts.Resolved{}
	for i, s := range resolved {
		if former, ok := at[p.Mounts[i].Dest]; !ok || former.Missing || former.Covered { // the first mount that is visible there
			at[p.Mounts[i].Dest] = s
		}
	}
	var rules []landlock.PathRule
	for _, rule := range p.Landlock.Paths {
		s, ok := at[rule.Path]
		if s.Missing || s.Link || s.Covered { // the target of a link has its own rule
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

// seccomp installs the plan's filters. It comes after the stages whose calls the filters refuse. It compiles the filters once, so that the
// self-test runs under the command's own.
func (l *Lowering) seccomp() error {
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

// exec appends the calls that execute the command.
func (l *Lowering) exec() error {
	l.execAt = l.Program.Len() // a request's calls from here on follow those that all commands share: see LowerRequest
	if l.plan.Bwrap != nil {
		return l.compatExec()
	}
	return l.execAs(l.plan.Command[0], l.plan.Command, l.plan.Env)
}

const (
	// maxPathEntries is how many directories PATH may have: a call can skip at most 32767 others (sys.Call.Tolerate), and each directory
	// takes up to six.
	maxPathEntries = 1000
	// maxLists bounds the bytes that execAs writes again for each directory, so that the rest of a request has room beside them.
	maxLists = sys.MaxRequest * 3 / 4
)

// copied returns how many bytes execAs writes for n directories: the pointers to the arguments, counted at 16 bytes (the size of a Go
// string), and the name.
func copied(n int, name string, argv []string) int { return n * (16*(len(argv)+1) + len(name)) }

// execAs executes the program called name. It tries the directories of PATH in order, as execvp(3) does: it skips a directory without the
// program, remembers a file that may not be executed, and has /bin/sh run a file without a header. Its last calls are failures, which
// distinguish a command that is not found, one that cannot be executed, and one whose interpreter is missing.
func (l *Lowering) execAs(name string, argv, environ []string) error {
	candidates := candidates(name, environ)
	env := sys.List(environ)
	words := sys.List(argv)
	n := len(candidates)
	if n > maxPathEntries {
		return &fault.Error{Stage: "command", Op: "look for", Path: name, Err: fmt.Errorf("PATH has %d places; %d are the most", n, maxPathEntries),
			Hint: "shorten PATH, or give the program's path"}
	}
	shells := make([]sys.Arg, n)
	for i, c := range candidates {
		shells[i] = sys.List(append([]string{"/bin/sh", c}, argv[1:]...)) // as glibc calls it
	}
	// The calls, in order: n times execve and its /bin/sh; n times faccessat and its failure; "not found"; the execs a second time,
	// where the search goes on after an EACCES; and "permission denied".
	// again is the index of the second round's first call.
	again := 4*n + 1
	if l.plan.Bwrap != nil { // no faccessat: the caller's seccomp filter may kill the process that calls it
		again = 2*n + 1
	}
	// In the first round an EACCES continues in the second round, which denied selects. There the search ends with EACCES, not ENOENT.
	execs := func(denied bool) {
		for i, c := range candidates {
			l.Program.At(sys.Step{Stage: "exec", Op: name, Path: c})
			toNext := again + 1 // the next candidate of the second round
			if denied {
				toNext = 1
			}
			// ENOEXEC goes on with the next call, /bin/sh. The other errors skip that call.
			l.Program.Add(unix.SYS_EXECVE, sys.Str(c), words, env).Tolerate(unix.ENOEXEC, 0).
				Tolerate(unix.ENOENT, 1).Tolerate(unix.ENOTDIR, 1).Tolerate(unix.EACCES, toNext)
			l.Program.At(sys.Step{Stage: "exec", Op: NoHeader, Path: c})
			l.Program.Add(unix.SYS_EXECVE, sys.Str("/bin/sh"), shells[i], env)
		}
	}
	execs(false)
	for _, c := range candidates {
		if l.plan.Bwrap != nil {
			break
		}
		// A file that exists although execve returned ENOENT has no interpreter.
		l.Program.At(sys.Step{Stage: "exec", Op: MissingInterpreter, Path: c})
		l.Program.Add(unix.SYS_FACCESSAT, sys.AtCWD(), sys.Str(c), sys.Words(unix.F_OK, "F_OK")).
			Tolerate(unix.ENOENT, 1).Tolerate(unix.ENOTDIR, 1).Tolerate(unix.EACCES, 1)
		l.Program.Fail(unix.ENOENT)
	}
	l.Program.At(sys.Step{Stage: "exec", Op: name})
	l.Program.Fail(unix.ENOENT)
	execs(true)
	l.Program.At(sys.Step{Stage: "exec", Op: name})
	l.Program.Fail(unix.EACCES)
	return nil
}

// Steps of exec that only unusual programs reach: one whose #! line or ELF loader names a file that does not exist, and one without
// a header, which /bin/sh runs.
const (
	MissingInterpreter = "interpreter"
	NoHeader           = "/bin/sh"
)

// candidates returns the paths that execvp(3) tries for name.
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

// countPathEntries returns the number of candidates without building them.
func countPathEntries(name string, environ []string) int {
	if strings.Contains(name, "/") {
		return 1
	}
	return strings.Count(searched(environ), ":") + 1
}

// searched returns the directories to search: the value of PATH in environ, or the default.
func searched(environ []string) string {
	for _, v := range environ {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			return value
		}
	}
	return "/bin:/usr/bin" // execvp(3), when PATH is unset
}
