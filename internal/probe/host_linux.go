package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsrun/facts"
	"golang.org/x/sys/unix"
)

// thisHost is the files and variables of this process's host.
func thisHost() files { return files{hostFS{os.DirFS("/")}, os.Getenv} }

// hostFS reads files as [sys.ReadFile] does.
type hostFS struct{ fs.FS }

// ReadFile is that of [fs.ReadFileFS].
func (hostFS) ReadFile(name string) ([]byte, error) { return sys.ReadFile("/" + name) }

// Host is [Quick] and every namespace, mount and cgroup, really made: by children that end at once, and with nothing left behind. It
// starts no other program, and takes some 15 milliseconds.
func Host() facts.Facts {
	runtime.LockOSThread() // for try
	defer runtime.UnlockOSThread()
	f := Quick()
	h := thisHost()
	f.Distro, f.Surroundings = h.distro(), h.surroundings()
	f.Program = running()
	b := blamer{h, f}
	hidden(b)
	inEffect(f)
	listening(b)
	user := withoutProcfs()
	if user == nil {
		user = b.explain(facts.UserNS, try(unix.CLONE_NEWUSER, nil))
	}
	answer(f, facts.UserNS, user)
	for _, use := range uses {
		var err error
		switch refused := errors.As(user, new(*fault.Error)); {
		case !refused:
			err = b.explain(use.name, try(unix.CLONE_NEWUSER|use.flags, use.more))
		case use.sharper: // what Quick found out stands
			continue
		default:
			err = no("it needs a user namespace", f.Fix(facts.UserNS))
		}
		answer(f, use.name, err)
	}
	f.PidMaxLeast = leastPidMax()
	answer(f, facts.PidMax, b.explain(facts.PidMax, pidMaxOf(f)))
	a := f.Answers[facts.ProcMount]
	a.Detail = join(a.Detail, h.hidepid())
	f.Answers[facts.ProcMount] = a
	if a := f.Answers[facts.NetNS]; a.State == facts.Yes {
		answer(f, facts.Nftables, nftables(b))
	} else {
		f.Answers[facts.Nftables] = facts.Answer{State: a.State, Detail: "it needs a network namespace", Fix: f.Fix(facts.NetNS)}
	}
	groups(f, h)
	return f
}

// hidden says of a kernel without Landlock that a filter may have answered for it: container engines answer calls that are newer than
// their profile with ENOSYS.
func hidden(b blamer) {
	if a := b.Answers[facts.Landlock]; a.Detail == noLandlock && b.In("gvisor") {
		answer(b.Facts, facts.Landlock, no(noLandlock+": it is gVisor's", a.Fix))
	} else if a.Detail == noLandlock && b.filtered() {
		answer(b.Facts, facts.Landlock, no(noLandlock+", or the seccomp filter on this process hides it", b.remedy().filter))
	}
}

// withoutProcfs tells that what is mounted at /proc is something else: ids that are written there map nothing.
func withoutProcfs() error {
	var fs unix.Statfs_t
	if err := unix.Statfs("/proc/self", &fs); err == nil && fs.Type != unix.PROC_SUPER_MAGIC {
		return no("what is mounted at /proc is not a procfs", "mount procfs at /proc")
	}
	return nil
}

// nested makes a second user namespace in the first, as the backend native does. Debian's kernel.unprivileged_userns_clone lets root make
// the first one only.
func nested(p *sys.Program) {
	p.At(sys.Step{Stage: "unshare", Op: "second user namespace"})
	p.Add(unix.SYS_UNSHARE, sys.Words(unix.CLONE_NEWUSER, "CLONE_NEWUSER"))
}

// uses are features, and the calls that use them in namespaces like a sandbox's.
var uses = [...]struct {
	name    facts.Name
	flags   uintptr
	more    func(*sys.Program)
	sharper bool // Quick has an answer too, and this one is sharper
}{
	{name: facts.NestedUserNS, more: nested},
	{name: facts.MountNS, flags: unix.CLONE_NEWNS, more: mounting},
	{name: facts.PidNS, flags: unix.CLONE_NEWPID},
	{name: facts.NetNS, flags: unix.CLONE_NEWNET},
	{name: facts.IpcNS, flags: unix.CLONE_NEWIPC},
	{name: facts.UtsNS, flags: unix.CLONE_NEWUTS},
	{name: facts.CgroupNS, flags: unix.CLONE_NEWCGROUP},
	{name: facts.TimeNS, more: timing},
	{name: facts.ProcMount, flags: unix.CLONE_NEWNS | unix.CLONE_NEWPID, more: procfs},
	{name: facts.MountAPI, flags: unix.CLONE_NEWNS, more: func(p *sys.Program) { newMount(p); cloneTree(p) }, sharper: true},
	{name: facts.MountSetattr, flags: unix.CLONE_NEWNS, more: setattr, sharper: true},
	{name: facts.Overlay, flags: unix.CLONE_NEWNS, more: overlay},
}

// mounting is what each sandbox begins with. An AppArmor profile such as docker-default lets a mount namespace be made, and no mount.
func mounting(p *sys.Program) {
	scratch(p, "a", "b")
	p.At(sys.Step{Stage: "bind"})
	p.Add(unix.SYS_MOUNT, sys.Str("a"), sys.Str("b"), sys.Null(), sys.Words(unix.MS_BIND, "MS_BIND"), sys.Null())
}

// scratch puts a tmpfs over /proc, which is there wherever ids can be mapped, and makes directories in it.
func scratch(p *sys.Program, dirs ...string) {
	p.At(sys.Step{Stage: "mount", Op: "tmpfs"})
	p.Add(unix.SYS_MOUNT, sys.Str("tmpfs"), sys.Str("/proc"), sys.Str("tmpfs"), sys.Int(0), sys.Null())
	p.Add(unix.SYS_CHDIR, sys.Str("/proc"))
	for _, dir := range dirs {
		p.Add(unix.SYS_MKDIRAT, sys.AtCWD(), sys.Str(dir), sys.Words(0o755, "0755"))
	}
}

// timing makes a time namespace, which clone(2) has no flag for.
func timing(p *sys.Program) {
	p.At(sys.Step{Stage: "unshare"})
	p.Add(unix.SYS_UNSHARE, sys.Words(unix.CLONE_NEWTIME, "CLONE_NEWTIME"))
}

func procfs(p *sys.Program) {
	p.At(sys.Step{Stage: "mount", Op: "proc"})
	p.Add(unix.SYS_MOUNT, sys.Str("proc"), sys.Str("/proc"), sys.Str("proc"),
		sys.Words(unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "nosuid|nodev|noexec"), sys.Null())
}

// newMount makes a file system by the calls of Linux 5.2 and puts it over /proc.
func newMount(p *sys.Program) {
	p.At(sys.Step{Stage: "fsopen"})
	config, mnt := p.Slot(), p.Slot()
	p.Add(unix.SYS_FSOPEN, sys.Str("tmpfs"), sys.Int(0)).Keep(config)
	p.At(sys.Step{Stage: "fsconfig"})
	p.Add(unix.SYS_FSCONFIG, sys.Of(config), sys.Int(unix.FSCONFIG_CMD_CREATE), sys.Null(), sys.Null(), sys.Int(0))
	p.At(sys.Step{Stage: "fsmount"})
	p.Add(unix.SYS_FSMOUNT, sys.Of(config), sys.Int(0), sys.Int(0)).Keep(mnt)
	p.At(sys.Step{Stage: "move_mount"})
	p.Add(unix.SYS_MOVE_MOUNT, sys.Of(mnt), sys.Str(""), sys.AtCWD(), sys.Str("/proc"), sys.Int(unix.MOVE_MOUNT_F_EMPTY_PATH))
}

// cloneTree copies the mount at /proc without putting it anywhere.
func cloneTree(p *sys.Program) sys.Slot {
	p.At(sys.Step{Stage: "open_tree"})
	tree := p.Slot()
	p.Add(unix.SYS_OPEN_TREE, sys.AtCWD(), sys.Str("/proc"), sys.Words(unix.OPEN_TREE_CLONE, "OPEN_TREE_CLONE")).Keep(tree)
	return tree
}

func setattr(p *sys.Program) {
	scratch(p)
	tree := cloneTree(p)
	p.At(sys.Step{Stage: "mount_setattr"})
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	p.Add(unix.SYS_MOUNT_SETATTR, sys.Of(tree), sys.Str(""), sys.Int(unix.AT_EMPTY_PATH), sys.Struct(attr), sys.Size(attr))
}

func overlay(p *sys.Program) {
	scratch(p, "a", "b", "m")
	p.At(sys.Step{Stage: "mount", Op: "overlay"})
	p.Add(unix.SYS_MOUNT, sys.Str("overlay"), sys.Str("m"), sys.Str("overlay"), sys.Int(0), sys.Str("lowerdir=a:b,userxattr"))
}

func errnoOf(r *fault.Error) (errno unix.Errno) {
	errors.As(r, &errno)
	return errno
}

// making reports whether it was the namespace itself that was refused, and not what was then done in it.
func making(r *fault.Error) bool { return r.Stage == "clone" || r.Stage == "unshare" }

const uidMap = "/proc/self/uid_map"

// try makes the namespaces in a child, as a sandbox would: mapped ids, private mounts, then what more adds. It is a no if the
// kernel refuses, whatever the errno: for a sandbox it comes to the same. Where few namespaces are allowed, those of the last child may
// still count for a moment. The caller is locked to its thread.
func try(flags uintptr, more func(*sys.Program)) (err error) {
	for range 4 {
		var r *fault.Error
		if err = tryOnce(flags, more); !errors.As(err, &r) || errnoOf(r) != unix.ENOSPC || !making(r) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

func tryOnce(flags uintptr, more func(*sys.Program)) error {
	var p sys.Program
	write := func(path, text string) {
		fd := p.Slot()
		p.At(sys.Step{Stage: "write", Op: "to", Path: path})
		p.Add(unix.SYS_OPENAT, sys.AtCWD(), sys.Str(path), sys.Words(unix.O_WRONLY, "O_WRONLY")).Keep(fd)
		p.Add(unix.SYS_WRITE, sys.Of(fd), sys.Bytes([]byte(text)), sys.Int(len(text)))
	}
	write("/proc/self/setgroups", "deny")
	write(uidMap, fmt.Sprintf("0 %d 1", os.Geteuid()))
	write("/proc/self/gid_map", fmt.Sprintf("0 %d 1", os.Getegid()))
	p.At(sys.Step{Stage: "mount", Op: "private"})
	if flags&unix.CLONE_NEWNS != 0 {
		p.Add(unix.SYS_MOUNT, sys.Null(), sys.Str("/"), sys.Null(), sys.Words(unix.MS_REC|unix.MS_PRIVATE, "MS_REC|MS_PRIVATE"), sys.Null())
	}
	if more != nil {
		more(&p)
	}
	return run(&p, flags)
}

// run runs p in a child. It is a [*fault.Error] if one of its calls fails. The caller is locked to its thread.
func run(p *sys.Program, flags uintptr) error {
	var report [2]int
	if err := unix.Pipe2(report[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	defer unix.Close(report[0])
	pid, pidfd, err := p.Fork(flags, report[1])
	unix.Close(report[1])
	if err != nil {
		var errno unix.Errno
		errors.As(err, &errno)
		return &fault.Error{Stage: "clone", Err: errno}
	}
	unix.Close(pidfd)
	buf := make([]byte, sys.FailureSize)
	n, _ := unix.Read(report[0], buf)
	if err := wait(pid); err != nil {
		return err
	}
	if failure, failed := sys.ParseFailure(buf[:max(n, 0)]); failed {
		return p.Failed(failure)
	}
	return nil
}

// wait reaps a child; one that could not even say what was refused is a no as well.
func wait(pid int) error {
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &status, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil && status.Signaled() {
			return no("the child was ended by signal "+strconv.Itoa(int(status.Signal()))+", as by a seccomp filter", "")
		}
		return err
	}
}
