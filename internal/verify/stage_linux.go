package verify

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

var cloneFlags = map[string]uintptr{
	plan.User: unix.CLONE_NEWUSER, plan.Mount: unix.CLONE_NEWNS, plan.Pid: unix.CLONE_NEWPID, plan.Ipc: unix.CLONE_NEWIPC,
	plan.Uts: unix.CLONE_NEWUTS, plan.Net: unix.CLONE_NEWNET, plan.Cgroup: unix.CLONE_NEWCGROUP,
}

// lastFD is the highest number that a descriptor can have, less one: what close_range(2) is given.
const lastFD = 1<<31 - 2

// stage checks the calls of one stage.
func (c *checker) stage(s StageID) {
	switch s {
	case DeathSignal:
		c.prctl(Lifetime, unix.PR_SET_PDEATHSIG).num(int(unix.SIGKILL))
	case OwnSession:
		c.call(Order, unix.SYS_SETSID)
	case Cgroup:
		c.joinCgroup()
	case Output:
		for i, fd := range c.Input.Output {
			if fd > 0 {
				c.call(Descriptors, unix.SYS_DUP3).num(fd).num(1 + i).num(0)
			}
		}
	case CloseInherited:
		c.closeAllBut(3, c.Report, c.Status)
		c.callerLives()
	case Report:
		c.call(Lifetime, unix.SYS_SENDTO).num(c.Status).mem([]byte("r")).num(1).num(unix.MSG_NOSIGNAL)
	case SubreaperStage:
		c.subreaper()
	case Maps:
		c.call(Places, unix.SYS_UMASK).num(0)
		c.maps(0, c.Plan.Identity.HostUID, 0, c.Plan.Identity.HostGID)
	case MaxUsers:
		c.writes1("/proc/sys/user/max_user_namespaces", "1", c.Plan.Seccomp.HasBuiltin())
	case InotifyInstances:
		c.writes1("/proc/sys/user/max_inotify_instances", "64", true)
	case PidMax:
		if c.Plan.PidMax > 0 {
			c.writes1("/proc/sys/kernel/pid_max", strconv.FormatInt(c.Plan.PidMax, 10), false)
		}
	case Loopback:
		c.loopback()
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

// hold checks the stages from the private root on, in a process that holds a sandbox together.
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

// confine checks the stages that only a command's process has.
func (c *checker) confine(s StageID) {
	switch s {
	case DieWithSubreaper:
		c.prctl(Lifetime, unix.PR_SET_PDEATHSIG).num(int(unix.SIGKILL))
		c.parentLives()
	case Session:
		c.call(Order, unix.SYS_SETSID)
		c.takeTerminal()
	case CloseAll:
		c.closeAllBut(3, c.Report, c.Status)
		c.live = c.live[:0]
	case OwnNull:
		c.ownNull()
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
	case Keyring:
		c.call(Order, unix.SYS_KEYCTL).num(unix.KEYCTL_JOIN_SESSION_KEYRING).null().or(noKeyrings).or(keyringsRefused)
	case Mask:
		c.unblock()
		c.call(Order, unix.SYS_UMASK).num(0o22)
	case Unblock:
		c.unblock()
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
		if c.Plan.Mechanisms.CloseRange {
			c.call(Descriptors, unix.SYS_CLOSE_RANGE).num(3).num(lastFD + 1).num(0)
		}
	case Seccomp:
		c.filters()
	case Exec:
		c.exec()
	default:
		c.failFor(Order, "bug: stage %q has no check", s)
	}
}

// prctl requires a call with an option, whose first argument comes next; the others are 0.
func (c *checker) prctl(claim Claim, option int) *matcher {
	return c.call(claim, unix.SYS_PRCTL).num(option)
}

// callerLives looks whether the caller has ended: a death signal that is asked for after that never comes.
func (c *checker) callerLives() {
	c.call(Lifetime, unix.SYS_RECVFROM).num(c.Status).buffer(1).num(1).num(unix.MSG_PEEK | unix.MSG_DONTWAIT).atLeast(1).or(callerSilent)
}

// parentLives compares the parent with what it was before it forked.
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

// joinCgroup moves the process by a descriptor of the caller's. Version 2 takes no call where the process was born there.
func (c *checker) joinCgroup() {
	for _, t := range c.Plan.Cgroups {
		if c.Plan.Mechanisms.CgroupClone && t.Version == 2 {
			continue
		}
		m, _ := c.call(Order, unix.SYS_WRITE).any()
		m.mem([]byte("0")).num(1).atLeast(1)
	}
	if len(c.Plan.Cgroups) > 0 && c.owns(plan.Cgroup) {
		c.call(OldRoot, unix.SYS_UNSHARE).num(unix.CLONE_NEWCGROUP)
	}
}

// closeAllBut closes every descriptor from a number on but some. A kernel without close_range has one call for each that is open, which is
// the host's to know; those that nsrun has opened are close-on-exec.
func (c *checker) closeAllBut(from int, keep ...int) {
	slices.Sort(keep)
	if !c.Plan.Mechanisms.CloseRange {
		c.closeEach(from, keep)
		return
	}
	for _, fd := range append(keep, lastFD+1) {
		if last := fd - 1; last >= from {
			c.call(Descriptors, unix.SYS_CLOSE_RANGE).num(from).num(last).num(0)
		}
		from = fd + 1
	}
}

func (c *checker) closeEach(from int, keep []int) {
	for c.ahead(0, unix.SYS_CLOSE) && !c.p.View(c.next).IsSlot(0) {
		m, n := c.call(Descriptors, unix.SYS_CLOSE).any()
		if n < from || slices.Contains(keep, n) {
			c.fail("it closes %d", n)
		}
		m.or(noSuchDescriptor)
	}
}

// writes1 writes a file of the kernel's in one call. Where it may be missing, it stays as it is.
func (c *checker) writes1(path, content string, maybe bool) {
	m := c.call(Users, unix.SYS_OPENAT).cwd().str(path).num(unix.O_WRONLY | unix.O_CLOEXEC)
	if maybe {
		m.orSkip(readOnlySysctl, 2).orSkip(maskedSysctl, 2).orSkip(missingSysctl, 2)
	}
	s := m.opens()
	c.call(Users, unix.SYS_WRITE).slot(s).mem([]byte(content)).num(len(content)).atLeast(len(content))
	c.close(Users, s)
}

// maps maps one id of each kind, and denies setgroups first.
func (c *checker) maps(uid, hostUID, gid, hostGID int) {
	c.writes1("/proc/self/setgroups", "deny", false)
	c.writes1("/proc/self/uid_map", fmt.Sprintf("%d %d 1", uid, hostUID), false)
	c.writes1("/proc/self/gid_map", fmt.Sprintf("%d %d 1", gid, hostGID), false)
}

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

// clearArguments overwrites pid 1's copy of what the caller was started with.
func (c *checker) clearArguments() {
	n := c.Arguments.Len()
	if n == 0 {
		return
	}
	s := c.call(Lifetime, unix.SYS_OPENAT).cwd().str("/dev/zero").num(unix.O_RDONLY | unix.O_CLOEXEC).opens()
	c.call(Lifetime, unix.SYS_READ).slot(s).word(c.Arguments.Addr()).num(n).atLeast(n)
	c.close(Lifetime, s)
}

func (c *checker) subreaper() {
	c.prctl(Lifetime, unix.PR_SET_CHILD_SUBREAPER).num(1)
}

// killScope enters a Landlock domain that bounds kill(-1), and proves that it does.
func (c *checker) killScope() {
	if !c.Plan.KillScope {
		return
	}
	c.domain()
	c.call(Lifetime, unix.SYS_KILL).num(c.Caller).num(0).orSkip(cannotSignal, 1)
	c.failure(Lifetime, unix.EPERM)
}

// awaitChildren blocks all signals; SIGCHLD comes over a descriptor.
func (c *checker) awaitChildren() {
	c.call(Lifetime, unix.SYS_RT_SIGPROCMASK).num(unix.SIG_SETMASK).words(1<<64 - 1).null().num(8)
	c.children = c.call(Lifetime, unix.SYS_SIGNALFD4).num(-1).words(1 << (unix.SIGCHLD - 1)).num(8).num(unix.SFD_CLOEXEC).opens()
}

// watcher is a process that waits for the subreaper's end, holding nothing, and then kills what is left of the domain.
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

func (c *checker) killRest() {
	c.call(Lifetime, unix.SYS_KILL).num(-1).num(int(unix.SIGKILL)).or(nobodyLeft).or(nobodyInReach)
}

// capabilities empties all five sets.
func (c *checker) capabilities() {
	m := c.repeated(Order, unix.SYS_PRCTL, 0, c.Plan.LastCap).num(unix.PR_CAPBSET_DROP).counter()
	if c.bare() || c.TestReport != 0 {
		m.or(notAllowedToDrop)
	}
	c.noCapabilities()
}

func (c *checker) noCapabilities() {
	c.prctl(Order, unix.PR_CAP_AMBIENT).num(unix.PR_CAP_AMBIENT_CLEAR_ALL).or(noAmbientSet)
	c.call(Order, unix.SYS_CAPSET).words(unix.LINUX_CAPABILITY_VERSION_3).words(0, 0, 0)
}

// ownUsers makes the command's user namespace, which owns nothing.
func (c *checker) ownUsers() {
	c.call(Users, unix.SYS_UNSHARE).num(unix.CLONE_NEWUSER)
	c.maps(c.Plan.Identity.UID, 0, c.Plan.Identity.GID, 0)
}

// commandUsers makes it for all commands of a session, in a helper that shares its descriptors.
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

func (c *checker) unblock() {
	c.call(Order, unix.SYS_RT_SIGPROCMASK).num(unix.SIG_SETMASK).words(0).null().num(8)
}
