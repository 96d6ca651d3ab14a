package stages

import (
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/rlimit/cgroup"
	"golang.org/x/sys/unix"
)

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
	keep := l.channels()
	if l.bwrap != nil {
		keep = append(keep, l.bwrap.Files...) // spawnBwrap needs them
	}
	if err := l.closeAllBut(3, keep); err != nil {
		return err
	}
	l.checkCallerAlive() // the caller may have died before the death signal was requested
	return nil
}

// closeAllBut closes all descriptors from a number on, except those in keep. Before Linux 5.9, which lacks close_range(2),
// it closes those that are open now.
func (l *Lowering) closeAllBut(from int, keep []int) error {
	if l.plan.Mechanisms.CloseRange {
		keep = append(keep, 1<<31-1)
		slices.Sort(keep) // the ranges between them are closed
		for _, fd := range keep {
			if last := min(fd-1, 1<<31-1); last >= from {
				l.Program.Add(unix.SYS_CLOSE_RANGE, sys.Int(from), sys.Int(last), sys.Int(0))
			}
			from = max(from, fd+1)
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
	var err error
	l.open, err = sys.OpenFDs(nil)
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
	l.writeFile("identity", "/proc/self/uid_map", oneID(uid, hostUID))
	l.writeFile("identity", "/proc/self/gid_map", oneID(gid, hostGID))
}

// oneID is a line of an id map, for one id.
func oneID(inside, outside int) string {
	return strconv.Itoa(inside) + " " + strconv.Itoa(outside) + " 1"
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
	tree := mounts.Tree{Ops: l.plan.Mounts, Dir: l.plan.Dir, Size: l.plan.Tmpfs.Size, Inodes: l.plan.Tmpfs.Inodes, Compat: l.plan.Bwrap != nil}
	l.resolved, err = mounts.Lower(l.Program, tree, have, l.resolver)
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
	l.Program.Reap(l.command, l.fds.Status, false, l.plan.BoundedHome)
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

// takeOutput makes the pipes through which the caller counts the command's output its standard output and error.
func (l *Lowering) takeOutput() error {
	for i, fd := range l.fds.Output {
		if fd > 0 {
			l.step("descriptors", "count output")
			l.Program.Add(unix.SYS_DUP3, sys.Int(fd), sys.Int(1+i), sys.Int(0))
		}
	}
	return nil
}
