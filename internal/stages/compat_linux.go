package stages

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/sys/entry"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// The program of a sandbox by bubblewrap's rules: a plan with plan.Bwrap. It differs from nsrun's own sandboxes wherever bubblewrap's
// contract does: the command gets the caller's open descriptors, ignored signals and umask, it may keep capabilities, there is a process
// that waits for it only if an option needs one, and nsrun adds nothing of its own. The stages are in bubblewrap's order, because its
// errors, and what its callers may do meanwhile, depend on it.

// enterNamespaces joins the namespaces that options give by descriptor. A process with threads, as Go's processes have, cannot join a user
// namespace, and a process gets into a pid namespace only by a fork (setns(2)). So the first process is one in between: it ends once a
// sibling is inside.
func (l *Lowering) enterNamespaces() error {
	b := l.plan.Bwrap
	if !Joins(b) {
		return nil
	}
	if b.Users.FD != nil {
		l.step("identity", "userns")
		l.Program.Add(unix.SYS_SETNS, sys.Int(*b.Users.FD), sys.Words(unix.CLONE_NEWUSER, "CLONE_NEWUSER"))
	}
	// The new namespaces come after the joined user namespace, which then owns them.
	flags, words := uintptr(0), ""
	for _, ns := range l.plan.Namespaces {
		if ns != plan.Pid || b.PidnsFD == nil {
			flags, words = flags|cloneFlag(ns), words+" "+ns
		}
	}
	l.step("namespaces", "clone")
	l.Program.Add(unix.SYS_UNSHARE, sys.Words(flags, words[1:]))
	if b.PidnsFD != nil {
		l.step("namespaces", "pidns")
		l.Program.Add(unix.SYS_SETNS, sys.Int(*b.PidnsFD), sys.Words(unix.CLONE_NEWPID, "CLONE_NEWPID"))
	}
	l.Program.Join() // the sibling that goes on is in the namespaces, the pid namespace included
	if b.PidnsFD != nil && slices.Contains(l.plan.Namespaces, plan.Pid) {
		l.step("namespaces", "pidns-unshare")
		l.Program.Add(unix.SYS_UNSHARE, sys.Words(unix.CLONE_NEWPID, "CLONE_NEWPID"))
		l.Program.Join()
	}
	return nil
}

// Joins reports whether a plan enters existing namespaces.
func Joins(b *plan.Bwrap) bool { return b.Users.FD != nil || b.PidnsFD != nil }

// Informs reports whether the caller gets a report about the sandbox before that is set up.
func Informs(b *plan.Bwrap) bool {
	return b.InfoFD != nil || b.StatusFD != nil || b.UsernsBlockFD != nil
}

// closeTheirs closes the caller's ends of the channels, because a channel ends only when no process holds its other end.
func (l *Lowering) closeTheirs() error {
	l.step("descriptors", "close the caller's")
	for _, fd := range l.fds.Theirs {
		l.Program.Add(unix.SYS_CLOSE, sys.Int(fd))
	}
	return nil
}

// deathSignal requests a signal for the time when the thread that forked this process ends (prctl(2), PR_SET_PDEATHSIG); 0 requests none.
func (l *Lowering) deathSignal(sig unix.Signal) {
	l.step("namespaces", "die with caller")
	l.Program.Add(unix.SYS_PRCTL, sys.Words(unix.PR_SET_PDEATHSIG, "PR_SET_PDEATHSIG"), sys.Words(int(sig), unix.SignalName(sig)))
}

// ignoredSignals ignores the signals that this process was started with ignored, so that all processes of the sandbox inherit that. SIGCHLD is
// none of them: with that ignored nobody learns how a child ends, and bubblewrap resets it.
func (l *Lowering) ignoredSignals() error {
	l.step("signals", "ignore")
	for _, sig := range IgnoredSignals() {
		l.Program.Add(unix.SYS_RT_SIGACTION, sys.Int(int(sig)), ignoreAction(), sys.Null(), sys.Int(8))
	}
	return nil
}

// IgnoredSignals lists the signals that this process was started with ignored, but for SIGCHLD.
func IgnoredSignals() (signals []unix.Signal) {
	for sig := unix.Signal(1); sig <= 64; sig++ {
		if entry.Ignored()>>(sig-1)&1 == 1 && sig != unix.SIGCHLD {
			signals = append(signals, sig)
		}
	}
	return signals
}

// checkParentAlive fails if the parent ended before this process requested its death signal: its parent is another process then.
func (l *Lowering) checkParentAlive() {
	l.Program.Add(unix.SYS_GETPPID).Into(sys.Cell(l.parents[4:]))
	l.Program.Compare(l.parents, 4, unix.ESRCH)
}

// handshake waits for the message by which the caller lets this process go on. If the caller cannot know this process's pid from its fork,
// handshake sends it a message first, whose credentials have the pid. The end of the socket means that the caller has died, before or after
// this process requested its death signal.
func (l *Lowering) handshake() error {
	l.step("command", "wait for the caller")
	if Joins(l.plan.Bwrap) {
		l.Program.Add(unix.SYS_SENDTO, sys.Int(l.fds.Status), sys.Bytes([]byte{'C'}), sys.Int(1), sys.Words(unix.MSG_NOSIGNAL, "MSG_NOSIGNAL"), sys.Null(), sys.Int(0))
	}
	l.Program.Add(unix.SYS_RECVFROM, sys.Int(l.fds.Status), sys.Bytes(make([]byte, 1)), sys.Int(1), sys.Int(0), sys.Null(), sys.Null()).Min(1)
	l.checkCallerAlive() // the caller may have died after it sent the message
	return nil
}

// checkCallerAlive fails if the caller has died: a death signal that is requested later never comes. The check alone does not suffice: see
// [Lowering.askCaller].
func (l *Lowering) checkCallerAlive() {
	l.Program.Add(unix.SYS_RECVFROM, sys.Int(l.fds.Status), sys.Bytes(make([]byte, 1)), sys.Int(1),
		sys.Words(unix.MSG_PEEK|unix.MSG_DONTWAIT, "MSG_PEEK|MSG_DONTWAIT"), sys.Null(), sys.Null()).Min(1).Tolerate(unix.EAGAIN, 0)
}

// losesDeathSignal reports whether the set-up has a step that can clear the death signal: to change ids, or to enter another user namespace
// (commit_creds in kernel/cred.c). To drop capabilities does not. Stage EnterNamespaces does no harm, for it comes before DeathSignal.
func (l *Lowering) losesDeathSignal() bool {
	return l.plan.Bwrap != nil && (l.plan.Bwrap.Users.FD != nil || l.plan.Bwrap.Users.FD2 != nil || l.plan.Bwrap.Users.Second)
}

// renewDeathSignal requests the death signal again where it was lost.
func (l *Lowering) renewDeathSignal() error {
	if !l.losesDeathSignal() {
		return nil
	}
	l.deathSignal(unix.SIGKILL)
	return l.askCaller()
}

// report is askCaller in a process that has its death signal from its first call to its last. It comes early: the caller answers while the
// sandbox is set up, so that neither has to wait for the other. With two starts as bubblewrap at a time, 1.015 times as many end.
func (l *Lowering) report() error {
	if l.losesDeathSignal() {
		return nil
	}
	return l.askCaller()
}

// askCaller requests the caller's answer, which ready waits for. It comes after the death signal is set: the kernel sends that signal when
// the thread that forked this process ends, and only that thread answers, so its end after the answer cannot be missed. The end of the
// socket does not prove as much. A killed thread can end, and leave this process to another parent, before the last thread of its process
// closes the socket (do_exit in kernel/exit.c).
func (l *Lowering) askCaller() error {
	l.step("command", "report to the caller")
	l.Program.Add(unix.SYS_SENDTO, sys.Int(l.fds.Status), sys.Bytes([]byte{Reported}), sys.Int(1), sys.Words(unix.MSG_NOSIGNAL, "MSG_NOSIGNAL"), sys.Null(), sys.Int(0))
	return nil
}

// Reported is the message that requests the caller's answer.
const Reported = 'r'

// ownsUsers reports whether the sandbox makes a user namespace.
func (l *Lowering) ownsUsers() bool { return slices.Contains(l.plan.Namespaces, plan.User) }

// boundingSet drops the capabilities that no option keeps, because a user namespace starts with a full bounding set. Without one the
// caller's set stays as it is.
func (l *Lowering) boundingSet() error {
	if l.ownsUsers() || l.plan.Bwrap.Users.FD != nil {
		l.dropBoundingSet()
	}
	return nil
}

// dropBoundingSet drops every capability that is not in the plan's list, which is sorted.
func (l *Lowering) dropBoundingSet() {
	b := l.plan.Bwrap
	l.step("capabilities", "bounding set")
	// prctl(2): EINVAL means that this kernel has no such capability, EPERM that this process has no CAP_SETPCAP.
	from := 0
	for _, keep := range append(slices.Clone(b.Caps), l.plan.LastCap+1) {
		if from < keep {
			l.Program.Add(unix.SYS_PRCTL, sys.Words(unix.PR_CAPBSET_DROP, "PR_CAPBSET_DROP"), sys.Counter()).
				Repeat(from, keep-1).Tolerate(unix.EINVAL, 0).Tolerate(unix.EPERM, 0)
		}
		from = keep + 1
	}
}

// switchIDs changes to the ids that options ask for, in a user namespace that was given by descriptor: its maps exist already.
func (l *Lowering) switchIDs() error {
	id := l.plan.Identity
	if l.plan.Bwrap.Users.FD == nil {
		return nil
	}
	if id.UID != id.HostUID {
		l.Program.At(sys.Step{Stage: "identity", Op: "setuid", Path: fmt.Sprint(id.UID)})
		l.Program.Add(unix.SYS_SETUID, sys.Int(id.UID))
	}
	if id.GID != id.HostGID {
		l.Program.At(sys.Step{Stage: "identity", Op: "setgid", Path: fmt.Sprint(id.GID)})
		l.Program.Add(unix.SYS_SETGID, sys.Int(id.GID))
	}
	return nil
}

// openProc keeps a descriptor of the host's /proc, which put needs after the root has changed.
func (l *Lowering) openProc() error {
	l.Program.At(sys.Step{Stage: "host", Op: "open", Path: "/proc"})
	l.proc = l.Program.Slot()
	l.Program.Add(unix.SYS_OPENAT, sys.AtCWD(), sys.Str("/proc"), sys.Words(unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, "O_PATH|O_DIRECTORY|O_CLOEXEC")).Keep(l.proc)
	return nil
}

// put writes a file of procfs with one write(2), by the descriptor that openProc keeps.
func (l *Lowering) put(name, content string, step sys.Step) {
	l.Program.At(step)
	fd := l.Program.Slot()
	l.Program.Add(unix.SYS_OPENAT, sys.Of(l.proc), sys.Str(name), sys.Words(unix.O_WRONLY|unix.O_CLOEXEC, "O_WRONLY|O_CLOEXEC")).Keep(fd)
	// In one write: the kernel takes an id map only once, and whole (user_namespaces(7)).
	l.Program.Add(unix.SYS_WRITE, sys.Of(fd), sys.Bytes([]byte(content)), sys.Int(len(content))).Min(len(content))
	l.Program.Add(unix.SYS_CLOSE, sys.Of(fd))
}

// identityStep returns the step of an operation on ids.
func identityStep(op string) sys.Step { return sys.Step{Stage: "identity", Op: op} }

// firstMaps writes the id maps of the sandbox's user namespace, unless another process writes them (--userns-block-fd).
func (l *Lowering) firstMaps() error {
	b, id := l.plan.Bwrap, l.plan.Identity
	if !l.ownsUsers() || b.Users.Foreign {
		return nil
	}
	l.put("self/uid_map", oneID(b.Users.FirstUID, id.HostUID)+"\n", identityStep("uid_map"))
	l.put("self/setgroups", "deny\n", identityStep("setgroups")) // before gid_map: CVE-2014-8989
	l.put("self/gid_map", oneID(b.Users.FirstGID, id.HostGID)+"\n", identityStep("gid_map"))
	return nil
}

// clearUmask sets the umask to 0, so that files get the modes that options give, and keeps the caller's for restoreUmask.
func (l *Lowering) clearUmask() error {
	l.step("identity", "umask")
	l.umask = l.Program.Slot()
	l.Program.Add(unix.SYS_UMASK, sys.Int(0)).Keep(l.umask)
	return nil
}

// restoreUmask gives the command the caller's umask.
func (l *Lowering) restoreUmask() error {
	l.step("identity", "umask")
	l.Program.Add(unix.SYS_UMASK, sys.Of(l.umask))
	return nil
}

// fileLabel sets the SELinux label of files that are made from here on (selinux(8), fscreate). It comes before the first such file.
func (l *Lowering) fileLabel() error {
	if label := l.plan.Bwrap.FileLabel; label != "" {
		l.put("self/attr/fscreate", label, sys.Step{Stage: "label", Op: "file"})
	}
	return nil
}

// hostnames sets the hostnames of the options in their order, as bubblewrap does: the last one stays.
func (l *Lowering) hostnames() error {
	for _, name := range l.plan.Bwrap.Hostnames {
		l.Program.At(sys.Step{Stage: "hostname", Op: "set", Path: name})
		l.Program.Add(unix.SYS_SETHOSTNAME, sys.Str(name), sys.Int(len(name)))
	}
	return nil
}

// secondUsers moves this process into a second user namespace, which does not own the mounts: a given one, or a new one.
func (l *Lowering) secondUsers() error {
	b, id := l.plan.Bwrap, l.plan.Identity
	if b.Users.FD2 != nil {
		l.step("identity", "userns2")
		l.Program.Add(unix.SYS_SETNS, sys.Int(*b.Users.FD2), sys.Words(unix.CLONE_NEWUSER, "CLONE_NEWUSER"))
	}
	if !b.Users.Second {
		return nil
	}
	if b.Users.Disable { // before the unshare: the second namespace is the one that the limit allows
		l.put("sys/user/max_user_namespaces", "1", identityStep("max_user_namespaces"))
	}
	l.step("identity", "second")
	l.Program.Add(unix.SYS_UNSHARE, sys.Words(unix.CLONE_NEWUSER, "CLONE_NEWUSER"))
	l.dropBoundingSet()
	l.put("self/uid_map", oneID(id.UID, b.Users.FirstUID)+"\n", identityStep("uid_map"))
	l.put("self/gid_map", oneID(id.GID, b.Users.FirstGID)+"\n", identityStep("gid_map"))
	return nil
}

// assertNoUsers fails unless an attempt to make another user namespace fails. It comes after the last one that the sandbox makes.
func (l *Lowering) assertNoUsers() error {
	if u := l.plan.Bwrap.Users; !u.Disable && !u.Assert {
		return nil
	}
	l.step("identity", "assert")
	l.Program.Add(unix.SYS_UNSHARE, sys.Words(unix.CLONE_NEWUSER, "CLONE_NEWUSER")).Tolerate(sys.Any, 1)
	l.Program.Fail(unix.EPERM) // reached if unshare succeeds
	return nil
}

// keepCapabilities reduces the capability sets to those that options keep.
func (l *Lowering) keepCapabilities() error {
	b := l.plan.Bwrap
	l.step("capabilities", "capset")
	if !b.KeepCaps {
		l.capset(b.Caps)
	}
	l.dumpable()
	return nil
}

// dumpable gives this process its own /proc/self, which belongs to root otherwise: proc_pid(5).
func (l *Lowering) dumpable() {
	l.Program.Add(unix.SYS_PRCTL, sys.Words(unix.PR_SET_DUMPABLE, "PR_SET_DUMPABLE"), sys.Int(1))
}

// capset sets the effective, permitted and inheritable sets. If a filter refuses that to root, as systemd-nspawn's does, root goes on with
// the sets it has.
func (l *Lowering) capset(caps []int) {
	sets := &capSets{}
	for _, c := range caps {
		s, bit := &sets[c/32], uint32(1)<<(c%32)
		s.Effective, s.Permitted, s.Inheritable = s.Effective|bit, s.Permitted|bit, s.Inheritable|bit
	}
	call := l.Program.Add(unix.SYS_CAPSET, sys.Struct(&capHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}), sys.Struct(sets))
	if l.plan.Identity.HostUID == 0 {
		call.Tolerate(unix.EPERM, 0)
	}
}

// block waits until the caller writes to the descriptor of --block-fd, or closes it.
func (l *Lowering) block() error {
	if fd := l.plan.Bwrap.BlockFD; fd != nil {
		l.step("block", "")
		l.Program.Add(unix.SYS_READ, sys.Int(*fd), sys.Bytes(make([]byte, 1)), sys.Int(1)).Tolerate(sys.Any, 0)
	}
	return nil
}

// newSession makes a new session for --new-session, so that the command cannot push input into the caller's terminal: CVE-2017-5226.
func (l *Lowering) newSession() error {
	if l.plan.Bwrap.NewSession {
		l.step("session", "")
		l.Program.Add(unix.SYS_SETSID)
	}
	return nil
}

// waiter starts the command. If the plan needs a waiter, this process stays: it holds locks and descriptors, reaps, and reports how the
// command ended. Otherwise this process becomes the command.
func (l *Lowering) waiter() error {
	b := l.plan.Bwrap
	if !b.Waiter {
		return l.Append(verify.Confinement[:], verify.CompatCommand)
	}
	if err := l.closeOwn(); err != nil {
		return err
	}
	locks, err := l.locks() // before there is a command
	if err != nil {
		return err
	}
	keep := slices.Concat([]int{l.fds.Status, l.fds.Report}, locks, b.SyncFDs) // the readers of SyncFDs wait until the waiter has ended
	l.chdirToCommandDir()
	l.step("command", "fork")
	l.command = l.Program.Slot()
	l.parents = make([]byte, 8)
	l.Program.Add(unix.SYS_GETPID).Into(sys.Cell(l.parents))
	l.Program.Spawn(l.command, nil, func() { err = l.Append(verify.Confinement[:], verify.CompatCommand) })
	if err != nil {
		return err
	}
	if !b.DieWithParent { // only the set-up had to die with the caller
		l.deathSignal(0)
	}
	// The waiter needs no capabilities and no other descriptors. The command's pipes would not end while the waiter holds them.
	l.step("capabilities", "capset")
	l.capset(nil)
	l.step("descriptors", "close all")
	if b.ExecLabel != "" {
		l.Program.Add(unix.SYS_CLOSE, sys.Of(l.proc))
	}
	if err := l.closeAllBut(3, keep); err != nil {
		return err
	}
	l.Program.ReportTo(l.fds.Status) // the end of the report channel must mean that the command is executed
	l.Program.Add(unix.SYS_CLOSE, sys.Int(l.fds.Report))
	if l.hidden() && !l.layered() {
		l.dumpable()
	}
	l.addRawFilters() // after all else: the filters need to allow the waiter no more than to wait, write and exit
	l.step("init", "wait")
	l.Program.Reap(l.command, l.fds.Status, true, "")
	return nil
}

// closeOwn closes all descriptors but the channels and those that the command gets, or that the waiter holds for --sync-fd: the waiter executes nothing, so
// that none is closed by that. The command can open what the waiter has open (/proc/1/fd), and from a directory of the host, be it the caller's of --bind-fd, it
// gets to the host's root: CVE-2024-21626. What the process ahead had open when the waiter was forked is in no slot of this program, so a range is closed.
// Without close_range(2), where nothing is early, closeAllBut closes what this process has open now; l.proc, which the child opens, is not among that.
//
// The label of the command is written by l.proc. So nothing is early then, and the waiter closes that when the command has begun, which cannot look until then.
func (l *Lowering) closeOwn() error {
	b := l.plan.Bwrap
	l.closeUsed(func(sync bool) bool { return !sync })
	if b.ExecLabel != "" {
		return nil
	}
	if err := l.listOpen(); err != nil {
		return fmt.Errorf("list of open descriptors: %w", err)
	}
	l.step("descriptors", "close own")
	l.Program.Add(unix.SYS_CLOSE, sys.Of(l.proc))
	keep := []int{l.fds.Status, l.fds.Report}
	for _, fd := range l.open {
		if sys.Inherited(fd) {
			keep = append(keep, fd)
		}
	}
	return l.closeAllBut(3, keep)
}

// chdirToCommandDir makes the command's working directory the waiter's, too. It enters the last choice first, so that it ends in the first
// choice that exists.
func (l *Lowering) chdirToCommandDir() {
	b := l.plan.Bwrap
	if b.Chdir != nil {
		l.chdir(*b.Chdir)
		return
	}
	for _, dir := range slices.Backward(b.Dirs) {
		l.chdir(dir).Tolerate(sys.Any, 0)
	}
}

// chdir enters a directory. A relative path starts at the root.
func (l *Lowering) chdir(dir string) *sys.Call {
	l.Program.At(sys.Step{Stage: "chdir", Path: dir})
	if !strings.HasPrefix(dir, "/") {
		l.Program.Add(unix.SYS_CHDIR, sys.Str("/"))
	}
	return l.Program.Add(unix.SYS_CHDIR, sys.Str(dir))
}

// flock is struct flock of fcntl(2). All but the type is zero, which means the whole file.
type flock struct {
	Type, Whence int16
	_            int32
	Start, Len   int64
	Pid          int32
	_            int32
}

func (f *flock) String() string { return "{F_RDLCK, whole file}" }

// locks takes a read lock on each lock file, and returns the descriptors. A lock lasts as long as this process keeps the descriptor.
func (l *Lowering) locks() (kept []int, err error) {
	for _, name := range l.plan.Bwrap.LockFiles {
		number, err := sys.SpareFD(kept) // a fixed number, which waiter's closeAllBut leaves open
		if err != nil {
			return nil, &fault.Error{Stage: "lock", Op: "open", Path: name, Err: err}
		}
		fd := l.Program.Slot()
		l.Program.At(sys.Step{Stage: "lock", Op: "open", Path: name})
		l.Program.Add(unix.SYS_OPENAT, sys.AtCWD(), sys.Str(name), sys.Words(unix.O_RDONLY|unix.O_CLOEXEC, "O_RDONLY|O_CLOEXEC")).Keep(fd)
		l.Program.Add(unix.SYS_DUP3, sys.Of(fd), sys.Int(number), sys.Words(unix.O_CLOEXEC, "O_CLOEXEC"))
		l.Program.Add(unix.SYS_CLOSE, sys.Of(fd))
		l.Program.At(sys.Step{Stage: "lock", Op: "lock", Path: name})
		l.Program.Add(unix.SYS_FCNTL, sys.Int(number), sys.Words(unix.F_SETLK, "F_SETLK"), sys.Struct(&flock{Type: unix.F_RDLCK}))
		kept = append(kept, number)
	}
	return kept, nil
}
