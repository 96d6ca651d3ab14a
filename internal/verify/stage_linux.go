package verify

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// cloneFlags are the clone(2) flags of the plan's namespaces.
var cloneFlags = [...]struct {
	name string
	flag uintptr
}{
	{plan.User, unix.CLONE_NEWUSER}, {plan.Mount, unix.CLONE_NEWNS}, {plan.Pid, unix.CLONE_NEWPID}, {plan.Ipc, unix.CLONE_NEWIPC},
	{plan.Uts, unix.CLONE_NEWUTS}, {plan.Net, unix.CLONE_NEWNET}, {plan.Cgroup, unix.CLONE_NEWCGROUP},
}

// cloneFlag returns the flag of a namespace; 0 if there is none of that name.
func cloneFlag(name string) uintptr {
	for _, row := range cloneFlags {
		if row.name == name {
			return row.flag
		}
	}
	return 0
}

// lastFD ends the ranges that close_range(2) is given. No descriptor has a higher number: fs.nr_open stays below INT_MAX
// (sysctl_nr_open_max in fs/file.c).
const lastFD = 1<<31 - 2

// stage requires the calls of one stage. [Init] and [Confinement] give the order of the stages and the reason for each.
func (c *checker) stage(s StageID) {
	switch s {
	case DeathSignal:
		c.prctl(Lifetime, unix.PR_SET_PDEATHSIG).num(int(unix.SIGKILL))
	case OwnSession:
		c.call(Order, unix.SYS_SETSID)
	case Cgroup:
		c.joinCgroup()
	// The caller's pipes replace standard output and error. dup3 without O_CLOEXEC: the command inherits them.
	case Output:
		for i, fd := range c.Input.Output {
			if fd > 0 {
				c.call(Descriptors, unix.SYS_DUP3).num(fd).num(1 + i).num(0)
			}
		}
	// CVE-2024-21626 was an inherited descriptor of a host directory. Once the caller's end of the socket is closed here, its end means
	// that the caller has ended.
	case CloseInherited:
		c.closeAllBut(3, c.Report, c.Status)
		c.callerLives()
	case Report:
		c.call(Lifetime, unix.SYS_SENDTO).num(c.Status).mem([]byte("r")).num(1).num(unix.MSG_NOSIGNAL)
	case SubreaperStage:
		c.subreaper()
	// uid 0 of this namespace is the plan's uid on the host. The umask is 0 so that modes are what the plan says.
	case Maps:
		c.call(Places, unix.SYS_UMASK).num(0)
		c.maps(0, c.Plan.Identity.HostUID, 0, c.Plan.Identity.HostGID)
	// One more user namespace, which becomes the command's, can be made, and none below that one. A container may refuse the write only
	// where a built-in filter also refuses to make user namespaces.
	case MaxUsers:
		c.writesFile("/proc/sys/user/max_user_namespaces", "1", c.Plan.Seccomp.HasBuiltin())
	// A command that uses up the inotify instances of the host's user would stop other programs of that user.
	case InotifyInstances:
		c.writesFile("/proc/sys/user/max_inotify_instances", "64", true)
	case PidMax:
		if c.Plan.PidMax > 0 {
			c.writesFile("/proc/sys/kernel/pid_max", strconv.FormatInt(c.Plan.PidMax, 10), false)
		}
	case Loopback:
		c.loopback()
	case Allow:
		c.allow()
	case HostName:
		c.call(Order, unix.SYS_SETHOSTNAME).str(c.Plan.Hostname).num(len(c.Plan.Hostname))
		c.call(Order, unix.SYS_SETDOMAINNAME).str("").num(0)
	case ClearArguments:
		c.clearArguments()
	case NoNewPrivs:
		if c.Plan.Backend != plan.BackendNone {
			c.prctl(Order, unix.PR_SET_NO_NEW_PRIVS).num(1)
		}
	case KillScope:
		c.killScope()
	default:
		c.hold(s)
	}
}

// hold requires the calls of a stage from the private root on, in a process that holds a sandbox together.
func (c *checker) hold(s StageID) {
	switch s {
	case Root:
		c.rootStage()
	case AwaitChildren:
		c.awaitChildren()
	case Watcher:
		c.watcher()
	case Terminal:
		c.openTerminal()
	case SelfTest:
		c.selfTest()
	case SupervisorScope:
		if c.Plan.Scoped() {
			c.domain()
		}
	case CommandUsers:
		c.commandUsers()
	case Ruleset:
		if c.Plan.Landlock != nil {
			c.ruleset = c.build()
		}
	case NoCapabilities:
		c.noCapabilities()
	case NotDumpable:
		c.prctl(Lifetime, unix.PR_SET_DUMPABLE).num(0)
	case Grants: // no calls
	// Signals that are ignored stay ignored over exec (execve(2)), so all 64 get the default action. SIGKILL and SIGSTOP have no handler to
	// set.
	case Handlers:
		c.repeated(Order, unix.SYS_RT_SIGACTION, 1, 64).counter().words(0, 0, 0, 0).null().num(8).or(unblockable)
	case StandardFiles:
		c.standardFiles()
	case Serve:
		c.serve()
	case Spawn:
		c.spawn()
	case Become:
		c.become()
	case End:
		c.killRest()
		c.take(Lifetime, sys.KindDrain)
	default:
		c.confine(s)
	}
}

// confine requires the calls of a stage that only a command's process has. A stage without a check here is a violation: no stage passes
// unchecked.
func (c *checker) confine(s StageID) {
	switch s {
	case DieWithSubreaper:
		c.prctl(Lifetime, unix.PR_SET_PDEATHSIG).num(int(unix.SIGKILL))
		c.parentLives()
	case Session:
		c.call(Order, unix.SYS_SETSID)
		c.takeTerminal()
	// From here on the command has no descriptor but 0, 1, 2 and the channels (claim Descriptors). The channels are close-on-exec.
	case CloseAll:
		c.closeAllBut(3, c.Report, c.Status)
		c.live = c.live[:0]
	case OwnNull:
		c.ownNull()
	case Files:
		c.files()
	case EnterUsers:
		if !c.Plan.Bare() {
			c.call(Users, unix.SYS_SETNS).slot(sys.SlotUsers).num(unix.CLONE_NEWUSER)
		}
	case Capabilities:
		c.capabilities()
	case UserNamespace:
		c.ownUsers()
	case Directory:
		c.call(Order, unix.SYS_CHDIR).str(c.Plan.Dir)
	case Limits:
		c.limits(false)
	case OpenFiles:
		c.limits(true)
	// A new, anonymous session keyring replaces the caller's, whose keys the command could otherwise read (keyctl(2)).
	case Keyring:
		c.call(Order, unix.SYS_KEYCTL).num(unix.KEYCTL_JOIN_SESSION_KEYRING).null().or(noKeyrings).or(keyringsRefused)
	case Mask:
		c.unblock()
		c.call(Order, unix.SYS_UMASK).num(0o22)
	case Unblock:
		c.unblock()
	// The command waits for one byte from the caller, which has by then recorded the pidfd and set up the rest.
	case Ready:
		c.call(Lifetime, unix.SYS_RECVFROM).num(c.Status).buffer(1).num(1).atLeast(1)
		c.callerLives()
	case Landlock:
		c.landlock()
	case Restrict:
		if c.Plan.Landlock != nil {
			c.call(Rules, unix.SYS_LANDLOCK_RESTRICT_SELF).slot(c.ruleset).num(0)
		}
	case CloseRest:
		c.closeRest()
	case Listen:
		c.listen()
	case Seccomp:
		c.filters()
	case Exec:
		c.exec()
	default:
		c.failFor(Order, "bug: stage %q has no check", s)
	}
}

// prctl requires prctl(2) with this option. The caller names the first argument next; all others must be 0.
func (c *checker) prctl(claim Claim, option int) *matcher {
	return c.call(claim, unix.SYS_PRCTL).num(option)
}

// callerLives requires a look at the socket to the caller, which fails if the caller has ended. Claim Lifetime: the death signal was asked
// for just before, and one that is asked for after the parent's end never comes (prctl(2), PR_SET_PDEATHSIG).
func (c *checker) callerLives() {
	c.call(Lifetime, unix.SYS_RECVFROM).num(c.Status).buffer(1).num(1).num(unix.MSG_PEEK | unix.MSG_DONTWAIT).atLeast(1).or(callerSilent)
}

// parentLives requires that the child compares its parent's pid with the pid that the parent wrote down before the fork. If they differ,
// the parent ended before the death signal was asked for, and the child fails with ESRCH.
func (c *checker) parentLives() {
	if at := c.call(Lifetime, unix.SYS_GETPPID).writes(); at != c.parents+4 {
		c.fail("the parent is not compared")
	}
	c.take(Lifetime, sys.KindCompare)
	if from, to := c.v.Range(); c.v.Into() != c.parents || from != 4 || to != 4 || c.v.Errno() != unix.ESRCH {
		c.fail("it does not compare the parent with the one before")
	}
	c.into, c.ranged, c.errno = true, true, true
}

// joinCgroup requires that the process moves into each cgroup of the plan, by writing "0" to a cgroup.procs that the caller has opened. For
// version 2 there is no call where the kernel has started the process in its cgroup (clone3, CLONE_INTO_CGROUP).
//
// The cgroup namespace is made afterwards, so that its root is the sandbox's own cgroup and the names of the host's groups are out of
// sight.
func (c *checker) joinCgroup() {
	for i, t := range c.Plan.Cgroups {
		if !c.Plan.Mechanisms.CgroupClone || t.Version != 2 {
			c.call(Order, unix.SYS_WRITE).num(c.Groups[i]).mem([]byte("0")).num(1).atLeast(1)
		}
	}
	if len(c.Plan.Cgroups) > 0 && c.owns(plan.Cgroup) {
		c.call(OldRoot, unix.SYS_UNSHARE).num(unix.CLONE_NEWCGROUP)
	}
}

// closeAllBut requires that every descriptor from a number on is closed, but for those in keep (claim Descriptors). Without close_range
// (before Linux 5.9) there is one close for each descriptor that lowering has found open.
func (c *checker) closeAllBut(from int, keep ...int) {
	slices.Sort(keep)
	if !c.Plan.Mechanisms.CloseRange {
		for _, fd := range c.Open {
			if fd >= from && !slices.Contains(keep, fd) {
				c.call(Descriptors, unix.SYS_CLOSE).num(fd).or(noSuchDescriptor)
			}
		}
		return
	}
	for _, fd := range append(keep, lastFD+1) {
		if last := fd - 1; last >= from {
			c.call(Descriptors, unix.SYS_CLOSE_RANGE).num(from).num(last).num(0)
		}
		from = fd + 1
	}
}

// writesFile requires that all of content is written to a file of the kernel in one call. With maybe the file may be missing, masked or
// read-only, as in a container; the limit then stays as the host set it.
func (c *checker) writesFile(path, content string, maybe bool) {
	m := c.call(Users, unix.SYS_OPENAT).cwd().str(path).num(unix.O_WRONLY | unix.O_CLOEXEC)
	if maybe {
		m.orSkip(readOnlySysctl, 2).orSkip(maskedSysctl, 2).orSkip(missingSysctl, 2)
	}
	s := m.opens()
	c.call(Users, unix.SYS_WRITE).slot(s).mem([]byte(content)).num(len(content)).atLeast(len(content))
	c.close(Users, s)
}

// maps requires that one uid and one gid are mapped, and that setgroups is denied before gid_map is written. Claim Users, CVE-2014-8989: a
// process that may drop a supplementary group gets access that a mode denies to that group.
func (c *checker) maps(uid, hostUID, gid, hostGID int) {
	c.writesFile("/proc/self/setgroups", "deny", false)
	c.writesFile("/proc/self/uid_map", fmt.Sprintf("%d %d 1", uid, hostUID), false)
	c.writesFile("/proc/self/gid_map", fmt.Sprintf("%d %d 1", gid, hostGID), false)
}

// loopback requires that lo is brought up, if the sandbox has a network namespace of its own.
func (c *checker) loopback() {
	if !c.owns(plan.Net) {
		return
	}
	s := c.call(Order, unix.SYS_SOCKET).num(unix.AF_INET).num(unix.SOCK_DGRAM | unix.SOCK_CLOEXEC).num(0).opens()
	request := make([]byte, 40) // struct ifreq of netdevice(7)
	copy(request, "lo")
	request[16] = unix.IFF_UP | unix.IFF_RUNNING
	c.call(Order, unix.SYS_IOCTL).slot(s).num(unix.SIOCSIFFLAGS).mem(request)
	c.close(Order, s)
}

// clearArguments requires that pid 1 overwrites its copy of the caller's arguments and environment with zeros. The command could otherwise
// read them in /proc/1/cmdline and /proc/1/environ.
func (c *checker) clearArguments() {
	n := c.Arguments.Len()
	if n == 0 {
		return
	}
	s := c.call(Lifetime, unix.SYS_OPENAT).cwd().str("/dev/zero").num(unix.O_RDONLY | unix.O_CLOEXEC).opens()
	c.call(Lifetime, unix.SYS_READ).slot(s).word(c.Arguments.Addr()).num(n).atLeast(n)
	c.close(Lifetime, s)
}

// subreaper requires that orphaned descendants become children of this process, which then kills them (PR_SET_CHILD_SUBREAPER).
func (c *checker) subreaper() {
	c.prctl(Lifetime, unix.PR_SET_CHILD_SUBREAPER).num(1)
}

// killScope requires a Landlock domain that bounds the kill(-1) at the end, and a proof: signal 0 to the caller must fail with EPERM.
// Without the domain, kill(-1) would kill all processes of the user.
func (c *checker) killScope() {
	if !c.Plan.KillScope {
		return
	}
	c.domain()
	c.call(Lifetime, unix.SYS_KILL).num(c.Caller).num(0).orSkip(cannotSignal, 1)
	c.failure(Lifetime, unix.EPERM)
}

// awaitChildren requires that all signals are blocked and that SIGCHLD arrives through a signalfd: nothing interrupts the process at the
// wrong moment.
func (c *checker) awaitChildren() {
	c.call(Lifetime, unix.SYS_RT_SIGPROCMASK).num(unix.SIG_SETMASK).words(1<<64 - 1).null().num(8)
	c.children = c.call(Lifetime, unix.SYS_SIGNALFD4).num(-1).words(1 << (unix.SIGCHLD - 1)).num(8).num(unix.SFD_CLOEXEC).opens()
}

// watcher requires a child that closes all descriptors, waits for the subreaper's end, and then kills the rest of the domain. Claim
// Lifetime: it covers the case that the subreaper ends first. Whatever fails before the kill, the kill is tried.
func (c *checker) watcher() {
	if !c.Plan.KillScope {
		return
	}
	self := c.call(Lifetime, unix.SYS_GETPID).keeps()
	c.child(Lifetime, sys.KindFork, 0, func() {
		c.call(Descriptors, unix.SYS_CLOSE_RANGE).num(0).num(lastFD + 1).num(0).or(watcherGoesOn)
		at := c.call(Lifetime, unix.SYS_PIDFD_OPEN).slot(self).num(0).orSkip(watcherGoesOn, 1).writes()
		m := c.call(Lifetime, unix.SYS_PPOLL)
		if m.v.Arg(0) != at {
			c.fail("it does not wait for the subreaper")
		}
		m.words(uint64(unix.POLLIN) << 32).num(1).null().null().num(0).or(watcherGoesOn)
		c.call(Lifetime, unix.SYS_KILL).num(-1).num(int(unix.SIGKILL)).or(watcherGoesOn)
	})
}

// killRest requires a kill of all processes in reach. That nothing is left to kill is no failure.
func (c *checker) killRest() {
	c.call(Lifetime, unix.SYS_KILL).num(-1).num(int(unix.SIGKILL)).or(nobodyLeft).or(nobodyInReach)
}

// capabilities requires that all five capability sets are emptied: bounding, ambient, effective, permitted and inheritable. An ordinary
// user without a user namespace may not drop from the bounding set. There no_new_privs keeps the other sets empty.
func (c *checker) capabilities() {
	m := c.repeated(Order, unix.SYS_PRCTL, 0, c.Plan.LastCap).num(unix.PR_CAPBSET_DROP).counter()
	if c.Plan.Bare() || c.TestReport != 0 {
		m.or(notAllowedToDrop)
	}
	c.noCapabilities()
}

// noCapabilities requires that the ambient, effective, permitted and inheritable sets are emptied.
func (c *checker) noCapabilities() {
	c.prctl(Order, unix.PR_CAP_AMBIENT).num(unix.PR_CAP_AMBIENT_CLEAR_ALL).or(noAmbientSet)
	c.call(Order, unix.SYS_CAPSET).words(unix.LINUX_CAPABILITY_VERSION_3).words(0, 0, 0)
}

// ownUsers requires a new user namespace for the command, with one uid and one gid. Claim Users: the mounts and the other namespaces belong
// to the parent namespace, so the command can unmount nothing, even as root of its own.
func (c *checker) ownUsers() {
	c.call(Users, unix.SYS_UNSHARE).num(unix.CLONE_NEWUSER)
	c.maps(c.Plan.Identity.UID, 0, c.Plan.Identity.GID, 0)
}

// commandUsers requires that a helper process makes that user namespace once for all commands of a session, and leaves its descriptor in
// the slot that requests use. The helper shares the server's descriptor table and ends.
func (c *checker) commandUsers() {
	live := slices.Clone(c.live)
	pid, _ := c.child(Users, sys.KindSpawn, sys.ShareDescriptors, func() {
		c.ownUsers()
		if s := c.call(Users, unix.SYS_OPENAT).cwd().str("/proc/self/ns/user").num(unix.O_RDONLY | unix.O_CLOEXEC).keeps(); s != sys.SlotUsers {
			c.fail("requests cannot reach it")
		}
	})
	c.live = live
	c.expect(Users, pid, false, unix.ECHILD)
}

// unblock requires that no signal stays blocked: the mask survives exec (execve(2)).
func (c *checker) unblock() {
	c.call(Order, unix.SYS_RT_SIGPROCMASK).num(unix.SIG_SETMASK).words(0).null().num(8)
}
