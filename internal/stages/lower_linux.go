package stages

import (
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/rlimit"
	"github.com/nsrun/nsrun/rlimit/cgroup"
	"github.com/nsrun/nsrun/seccomp"
	"golang.org/x/sys/unix"
)

// FDs are the child's ends of the two channels to the caller, by number. Both are close-on-exec.
type FDs struct {
	Report int             // a pipe: one sys.Failure, or its end, which means that exec happened
	Status int             // a SEQPACKET socket: the terminal, the command's pidfd, then one sys.Exit
	Theirs []int           // the caller's ends: a child that keeps inherited descriptors must close these
	Target *SelfTestTarget // of the self-test
	Group  *cgroup.Group
	Output [2]int        // the pipes that become standard output and error; 0 leaves the descriptor as it is
	Size   *unix.Winsize // of the command's terminal; nil leaves it without a size
}

// Lowered is a plan as system calls for this host.
type Lowered struct {
	Program  *sys.Program
	Flags    uintptr           // of clone
	Resolved []mounts.Resolved // one for each mount of the plan
	Rules    []landlock.PathRule
	Forked   int   // the index of the parent's first call after it has forked the command's process
	open     []int // descriptors that were open, for a kernel without close_range(2)
}

var cloneFlags = map[string]uintptr{
	plan.User: unix.CLONE_NEWUSER, plan.Mount: unix.CLONE_NEWNS, plan.Pid: unix.CLONE_NEWPID, plan.Ipc: unix.CLONE_NEWIPC,
	plan.Uts: unix.CLONE_NEWUTS, plan.Net: unix.CLONE_NEWNET, plan.Cgroup: unix.CLONE_NEWCGROUP,
}

// Lowering is the state in which the stages append their calls.
type Lowering struct {
	Program  *sys.Program
	plan     *plan.Plan
	fds      FDs
	resolved []mounts.Resolved

	tty     sys.Slot // the command's end of its terminal
	command sys.Slot // pid of the process that becomes the command
	forked  int      // see [Lowered]
	open    []int    // see [Lowered]
	proc    sys.Slot // the host's procfs, by bubblewrap's rules
	umask   sys.Slot // the caller's
	parents []byte   // the pid of the waiter or subreaper, and the result of the command's getppid

	bounds []rlimit.Limit // see limits

	children   sys.Slot        // the signalfd of a subreaper or server
	prepared   sys.Slot        // the Landlock ruleset of a server
	target     *SelfTestTarget // of the self-test
	bwrap      *BwrapStart     // the bubblewrap that a watchdog starts
	request    Command         // of a session
	workDir    string          // of a command under the name bwrap
	execAt     int             // the first call of exec
	resolver   mounts.Resolver // of paths on the host
	rules      []landlock.PathRule
	compiled   []seccomp.Filter
	testReport *[2]*os.File // a pipe for the self-test's failure, where the run has no report pipe
}

// Lower returns p as the program of a sandbox's pid 1, or of the process that replaces pid 1. It looks at the host for the plan's mounts,
// and changes nothing. With trace the program can be printed.
//
// The order is the security argument: see doc/security.md.
func Lower(p *plan.Plan, resolver mounts.Resolver, f FDs, trace bool) (*Lowered, error) {
	by := verify.Pid1
	switch {
	case p.Bwrap != nil:
		by = verify.Compat
	case p.Bare():
		by = verify.Subreaper
	}
	return New(p, resolver, f, trace).Lower(by)
}

// New returns a lowering without calls.
func New(p *plan.Plan, resolver mounts.Resolver, f FDs, trace bool) *Lowering {
	l := &Lowering{Program: &sys.Program{Trace: trace}, plan: p, resolver: resolver, fds: f, target: f.Target}
	if l.target == nil {
		l.target = &SelfTestTarget{}
	}
	return l
}

// Lower appends the stages that the process by runs.
func (l *Lowering) Lower(by verify.Runner) (*Lowered, error) {
	l.Program.Grow(400 + 13*len(l.plan.Mounts)) // ten calls for a bind and three for its Landlock rule
	var flags uintptr
	for _, ns := range l.plan.Namespaces {
		flag, ok := cloneFlags[ns]
		if !ok {
			return nil, fmt.Errorf("bug: namespace %q is not known", ns)
		}
		flags |= flag
	}
	switch {
	case by == verify.Compat && Joins(l.plan.Bwrap):
		flags = 0 // enterNamespaces makes them, after it has joined the given ones
	case len(l.plan.Cgroups) > 0:
		flags &^= unix.CLONE_NEWCGROUP // joinGroup makes it: its root is the cgroup of the process that makes it
	}
	if err := l.Append(verify.Init[:], by); err != nil {
		return nil, err
	}
	out := l.Lowered()
	out.Flags = flags
	return out, nil
}

// Lowered returns the program as far as it is written, and what lowering has found.
func (l *Lowering) Lowered() *Lowered {
	return &Lowered{Program: l.Program, Resolved: l.resolved, Rules: l.rules, open: l.open, Forked: l.forked}
}

// step begins a step: errors of the calls after it name it.
func (l *Lowering) step(stage, op string) { l.Program.At(sys.Step{Stage: stage, Op: op}) }

// dieWithCaller requests SIGKILL for the time when the caller's forking thread ends. It is the first stage, so that nothing outlives the
// caller.
func (l *Lowering) dieWithCaller() error {
	l.deathSignal(unix.SIGKILL)
	return nil
}

// closeInherited closes everything but the three standard descriptors and the channels: CVE-2024-21626. The caller's ends of the channels
// are closed with the rest; until then the channels could not end. From here on the caller's end shows as the end of the status socket.
func (l *Lowering) closeInherited() error {
	l.step("descriptors", "close inherited")
	keep := []int{l.fds.Report, l.fds.Status}
	if l.bwrap != nil {
		keep = append(keep, l.bwrap.Files...) // spawnBwrap needs them
	}
	slices.Sort(keep)
	if err := l.closeAllBut(3, keep); err != nil {
		return err
	}
	l.checkCallerAlive() // the caller may have died before the death signal was requested
	return nil
}

// closeAllBut closes all descriptors from a number on, except those in keep, which is sorted. Before Linux 5.9, which lacks close_range(2),
// it closes those that are open now.
func (l *Lowering) closeAllBut(from int, keep []int) error {
	if l.plan.Mechanisms.CloseRange {
		for _, fd := range append(keep, 1<<31-1) {
			if last := min(fd-1, 1<<31-1); last >= from {
				l.Program.Add(unix.SYS_CLOSE_RANGE, sys.Int(from), sys.Int(last), sys.Int(0))
			}
			from = fd + 1
		}
		return nil
	}
	if err := l.listOpen(); err != nil {
		return fmt.Errorf("list of open descriptors, for a kernel without close_range: %w", err)
	}
	for _, fd := range l.open {
		if fd >= from && !slices.Contains(keep, fd) {
			l.Program.Add(unix.SYS_CLOSE, sys.Int(fd)).Tolerate(unix.EBADF, 0) // the listing had a descriptor of its own
		}
	}
	return nil
}

// listOpen lists this process's open descriptors, once.
func (l *Lowering) listOpen() error {
	if l.open != nil {
		return nil
	}
	entries, err := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil {
			l.open = append(l.open, fd)
		}
	}
	return err
}

// mapIDs makes pid 1 root of its own user namespace, which maps only the caller's ids. setgroups is denied before gid_map is written:
// CVE-2014-8989.
func (l *Lowering) mapIDs() error {
	l.step("identity", "umask")
	l.Program.Add(unix.SYS_UMASK, sys.Int(0)) // the mounts' directories get the modes that the plan gives
	l.writeMaps(0, l.plan.Identity.HostUID, 0, l.plan.Identity.HostGID)
	return nil
}

// writeMaps writes the id maps of this process's new user namespace, with one uid and one gid (user_namespaces(7)).
func (l *Lowering) writeMaps(uid, hostUID, gid, hostGID int) {
	l.writeFile("identity", "/proc/self/setgroups", "deny")
	l.writeFile("identity", "/proc/self/uid_map", fmt.Sprintf("%d %d 1", uid, hostUID))
	l.writeFile("identity", "/proc/self/gid_map", fmt.Sprintf("%d %d 1", gid, hostGID))
}

// writeFile writes an existing kernel file with one write(2).
func (l *Lowering) writeFile(stage, path, content string) {
	l.writeFileAs(sys.Step{Stage: stage, Op: "write", Path: path}, path, content)
}

// writeFileAs is writeFile under a given step. If open(2) fails with one of the tolerated errors, the file stays as it is.
func (l *Lowering) writeFileAs(step sys.Step, path, content string, tolerated ...unix.Errno) {
	l.Program.At(step)
	fd := l.Program.Slot()
	open := l.Program.Add(unix.SYS_OPENAT, sys.AtCWD(), sys.Str(path), sys.Words(unix.O_WRONLY|unix.O_CLOEXEC, "O_WRONLY|O_CLOEXEC")).Keep(fd)
	for _, errno := range tolerated {
		open.Tolerate(errno, 2)
	}
	l.Program.Add(unix.SYS_WRITE, sys.Of(fd), sys.Bytes([]byte(content)), sys.Int(len(content))).Min(len(content))
	l.Program.Add(unix.SYS_CLOSE, sys.Of(fd))
}

// notWritable are the errors of open(2) where a container mounts /proc/sys read-only or masks it, or the file does not exist.
var notWritable = []unix.Errno{unix.EROFS, unix.EACCES, unix.ENOENT}

// NestedOp is the step that forbids further user namespaces.
const NestedOp = "no nested user namespaces"

// setMaxUserNamespaces allows this user namespace one child. The exec stages make that one, so the command can make none. The write may
// fail in a container that mounts /proc/sys read-only, if the plan has a built-in filter, because each of them refuses user namespaces
// anyway. The caller's own filters do not count.
func (l *Lowering) setMaxUserNamespaces() error {
	var tolerated []unix.Errno
	if l.plan.Seccomp.HasBuiltin() {
		tolerated = notWritable
	}
	l.writeFileAs(sys.Step{Stage: "identity", Op: NestedOp}, "/proc/sys/user/max_user_namespaces", "1", tolerated...)
	return nil
}

// setMaxInotifyInstances bounds the sandbox's inotify instances, so that the caller's user has some left for other programs: most hosts
// give each user 128. Where /proc/sys is not writable, they stay unbounded.
func (l *Lowering) setMaxInotifyInstances() error {
	const path = "/proc/sys/user/max_inotify_instances"
	l.writeFileAs(sys.Step{Stage: "identity", Op: "inotify instances", Path: path}, path, "64", notWritable...)
	return nil
}

// setPidMax bounds the process numbers of this process's pid namespace. Before Linux 6.14 the file would set the host's bound.
func (l *Lowering) setPidMax() error {
	if l.plan.PidMax > 0 {
		l.writeFile("pid_max", "/proc/sys/kernel/pid_max", strconv.FormatInt(l.plan.PidMax, 10))
	}
	return nil
}

// ifreq is struct ifreq of netdevice(7), with flags.
type ifreq struct {
	Name  [unix.IFNAMSIZ]byte
	Flags uint16
	_     [22]byte
}

func (r *ifreq) String() string { return "{lo, IFF_UP|IFF_RUNNING}" }

// network brings the loopback device up, if the sandbox has its own network namespace. The kernel assigns the addresses.
func (l *Lowering) network() error {
	if !slices.Contains(l.plan.Namespaces, plan.Net) {
		return nil
	}
	l.step("network", "loopback up")
	fd := l.Program.Slot()
	req := &ifreq{Flags: unix.IFF_UP | unix.IFF_RUNNING}
	copy(req.Name[:], "lo")
	l.Program.Add(unix.SYS_SOCKET, sys.Words(unix.AF_INET, "AF_INET"), sys.Words(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, "SOCK_DGRAM|SOCK_CLOEXEC"), sys.Int(0)).Keep(fd)
	l.Program.Add(unix.SYS_IOCTL, sys.Of(fd), sys.Words(unix.SIOCSIFFLAGS, "SIOCSIFFLAGS"), sys.Struct(req))
	l.Program.Add(unix.SYS_CLOSE, sys.Of(fd))
	return nil
}

// setHostname sets the plan's hostname and an empty domain name.
func (l *Lowering) setHostname() error {
	l.step("hostname", l.plan.Hostname)
	l.Program.Add(unix.SYS_SETHOSTNAME, sys.Str(l.plan.Hostname), sys.Int(len(l.plan.Hostname)))
	l.Program.Add(unix.SYS_SETDOMAINNAME, sys.Str(""), sys.Int(0))
	return nil
}

// root makes the plan's mounts and changes into the new root. From there on the host's files are out of reach.
func (l *Lowering) root() (err error) {
	have := mounts.Have{NewAPI: l.plan.Mechanisms.MountAPI, Openat2: l.plan.Mechanisms.Openat2}
	l.resolved, err = mounts.Lower(l.Program, mounts.Tree{Ops: l.plan.Mounts, Dir: l.plan.Dir, Compat: l.plan.Bwrap != nil}, have, l.resolver)
	return err
}

// clearArguments overwrites pid 1's copy of the caller's argv and environment, which /proc/1/cmdline and /proc/1/environ would show to the
// command. It comes before the sandbox's procfs is mounted.
func (l *Lowering) clearArguments() error {
	area := sys.ArgArea(os.Args, os.Environ())
	if area.Len() == 0 {
		return nil
	}
	l.step("init", "clear arguments")
	fd := l.Program.Slot()
	l.Program.Add(unix.SYS_OPENAT, sys.AtCWD(), sys.Str("/dev/zero"), sys.Words(unix.O_RDONLY|unix.O_CLOEXEC, "O_RDONLY|O_CLOEXEC")).Keep(fd)
	l.Program.Add(unix.SYS_READ, sys.Of(fd), sys.Memory(area), sys.Int(area.Len())).Min(area.Len())
	l.Program.Add(unix.SYS_CLOSE, sys.Of(fd))
	return nil
}

// becomeInit closes everything but the status socket, so that pid 1 holds nothing that the command could use, and then waits for the
// command. The command's process, which shares pid 1's memory until exec, has made it not dumpable already: see notDumpable.
func (l *Lowering) becomeInit() error {
	switch {
	case l.bwrap != nil:
		return l.watchBwrap()
	case l.plan.Bare():
		return l.superviseCommand()
	}
	l.step("init", "close all")
	if err := l.closeAllBut(0, []int{l.fds.Status}); err != nil {
		return err
	}
	l.step("init", "wait")
	l.Program.Reap(l.command, l.fds.Status, false)
	return nil
}

// joinGroup moves this process into the sandbox's cgroup, and with it every process that it will start. Then it makes a cgroup namespace,
// whose root is the cgroup that this process is in by then (cgroup_namespaces(7)).
func (l *Lowering) joinGroup() error {
	if len(l.plan.Cgroups) == 0 {
		return nil
	}
	cgroup.Lower(l.Program, l.plan.Cgroups, l.fds.Group, l.plan.Mechanisms.CgroupClone)
	if slices.Contains(l.plan.Namespaces, plan.Cgroup) {
		l.step("namespaces", "cgroup")
		l.Program.Add(unix.SYS_UNSHARE, sys.Words(unix.CLONE_NEWCGROUP, "CLONE_NEWCGROUP"))
	}
	return nil
}

// takeOutput makes the pipes the standard descriptors.
func (l *Lowering) takeOutput() error {
	for i, fd := range l.fds.Output {
		if fd > 0 {
			l.step("descriptors", "count output")
			l.Program.Add(unix.SYS_DUP3, sys.Int(fd), sys.Int(1+i), sys.Int(0))
		}
	}
	return nil
}

// Text prints the clone and the program, one call a line.
func (l *Lowered) Text() string {
	text := "# namespaces (clone)\n      clone("
	for _, f := range []struct {
		flag uintptr
		name string
	}{
		{unix.CLONE_NEWUSER, "CLONE_NEWUSER"}, {unix.CLONE_NEWNS, "CLONE_NEWNS"}, {unix.CLONE_NEWPID, "CLONE_NEWPID"},
		{unix.CLONE_NEWIPC, "CLONE_NEWIPC"}, {unix.CLONE_NEWUTS, "CLONE_NEWUTS"}, {unix.CLONE_NEWNET, "CLONE_NEWNET"},
		{unix.CLONE_NEWCGROUP, "CLONE_NEWCGROUP"},
	} {
		if l.Flags&f.flag != 0 {
			text += f.name + "|"
		}
	}
	return text + "CLONE_PIDFD|SIGCHLD)\n" + l.Program.String()
}
