package probe

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/seccomp"
	"golang.org/x/sys/unix"
)

// Quick returns what a few harmless system calls tell. Namespaces stay unknown.
func Quick() facts.Facts {
	f := facts.Facts{Arch: runtime.GOARCH, UID: os.Geteuid(), GID: os.Getegid(), LastCap: lastCap(), Answers: map[facts.Name]facts.Answer{}}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		f.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	abi, err := landlockABI()
	f.LandlockABI = abi
	answer(f, facts.Landlock, err)
	answer(f, facts.Seccomp, seccomp.Have())
	for _, call := range calls {
		answer(f, call.feature, call.ask())
	}
	return f
}

func answer(f facts.Facts, name facts.Name, err error) {
	a := facts.Answer{State: facts.Yes}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		a = facts.Answer{State: facts.No, Detail: detail(err)}
	case err != nil:
		a = facts.Answer{State: facts.Unknown, Detail: err.Error()}
	}
	f.Answers[name] = a
}

// unsupported is a no with a reason.
type unsupported struct{ reason string }

func (u *unsupported) Error() string        { return u.reason }
func (u *unsupported) Is(target error) bool { return target == errors.ErrUnsupported }

func detail(err error) string {
	var u *unsupported
	if errors.As(err, &u) {
		return u.reason
	}
	return ""
}

// landlockABI returns the ABI, corrected where a vendor kernel reports one and refuses its bits.
func landlockABI() (int, error) {
	abi, err := landlock.ABI()
	if err != nil {
		return 0, err
	}
	for ; abi > 0; abi-- {
		if !errors.Is(landlock.Accepts(abi), unix.EINVAL) {
			return abi, nil
		}
	}
	return 0, &unsupported{"the kernel reports Landlock and accepts none of its rights"}
}

// lastCap finds the highest capability without opening a file: capabilities(7), PR_CAPBSET_READ.
func lastCap() int {
	known := func(n int) bool {
		_, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(n), 0, 0, 0)
		return err == nil
	}
	n := unix.CAP_LAST_CAP
	for n > 0 && !known(n) {
		n--
	}
	for n < 63 && known(n+1) {
		n++
	}
	return n
}

// call asks for a system call by arguments that it refuses before it does anything.
type call struct {
	feature facts.Name
	nrs     []uintptr
	args    []sys.Arg
	refusal unix.Errno // what a kernel that has it says
}

var calls = [...]call{
	// Sizes below the first version of the struct are EINVAL: openat2(2), mount_setattr(2). Unknown flags are EINVAL: open_tree(2).
	{facts.Openat2, []uintptr{unix.SYS_OPENAT2}, []sys.Arg{sys.Int(-1), sys.Null(), sys.Null(), sys.Int(0)}, unix.EINVAL},
	{facts.MountAPI, []uintptr{unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_TREE}, []sys.Arg{sys.Int(-1), sys.Null(), sys.Hex(0xffffffff), sys.Null(), sys.Int(0)}, unix.EINVAL},
	// first after last is EINVAL: close_range(2).
	{facts.CloseR, []uintptr{unix.SYS_CLOSE_RANGE}, []sys.Arg{sys.Int(9), sys.Int(8), sys.Int(0)}, unix.EINVAL},
	{facts.Pidfd, []uintptr{unix.SYS_PIDFD_SEND_SIGNAL}, []sys.Arg{sys.Int(-1), sys.Int(0), sys.Null(), sys.Int(0)}, unix.EBADF},
}

func (c call) ask() error {
	for _, nr := range c.nrs {
		var p sys.Program
		p.Add(nr, c.args...)
		switch err := p.Run(); {
		case errors.Is(err, c.refusal):
		case errors.Is(err, unix.ENOSYS):
			return &unsupported{sys.Name(nr) + ": function not implemented"}
		case errors.Is(err, unix.EPERM):
			return &unsupported{sys.Name(nr) + " is refused by a seccomp filter"}
		default:
			return fmt.Errorf("%s: unexpected answer: %v", sys.Name(nr), err)
		}
	}
	return nil
}

// Full is Quick and every namespace and mount, really made in children that end at once.
func Full() facts.Facts {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f := Quick()
	user := try(unix.CLONE_NEWUSER, nil)
	answer(f, facts.UserNS, user)
	if user != nil {
		a := f.Answers[facts.UserNS]
		a.Detail, a.Fix = blame(a.Detail)
		f.Answers[facts.UserNS] = a
	}
	for _, ns := range []struct {
		name facts.Name
		flag uintptr
	}{
		{facts.MountNS, unix.CLONE_NEWNS}, {facts.PidNS, unix.CLONE_NEWPID}, {facts.NetNS, unix.CLONE_NEWNET},
		{facts.IpcNS, unix.CLONE_NEWIPC}, {facts.UtsNS, unix.CLONE_NEWUTS}, {facts.CgroupNS, unix.CLONE_NEWCGROUP},
	} {
		answer(f, ns.name, try(unix.CLONE_NEWUSER|ns.flag, nil))
	}
	answer(f, facts.ProcMount, try(unix.CLONE_NEWUSER|unix.CLONE_NEWNS|unix.CLONE_NEWPID, func(p *sys.Program) {
		p.Add(unix.SYS_MOUNT, sys.Str("proc"), sys.Str("/proc"), sys.Str("proc"), sys.Words(unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "nosuid|nodev|noexec"), sys.Null())
	}))
	answer(f, facts.Overlay, try(unix.CLONE_NEWUSER|unix.CLONE_NEWNS, overlay))
	return f
}

func overlay(p *sys.Program) {
	p.Add(unix.SYS_MOUNT, sys.Str("tmpfs"), sys.Str("/proc"), sys.Str("tmpfs"), sys.Int(0), sys.Null())
	p.Add(unix.SYS_CHDIR, sys.Str("/proc"))
	for _, dir := range []string{"a", "b", "m"} {
		p.Add(unix.SYS_MKDIRAT, sys.AtCWD(), sys.Str(dir), sys.Words(0o755, "0755"))
	}
	p.Add(unix.SYS_MOUNT, sys.Str("overlay"), sys.Str("m"), sys.Str("overlay"), sys.Int(0), sys.Str("lowerdir=a:b,userxattr"))
}

// try makes the namespaces in a child, as a sandbox would: mapped ids, private mounts, then what more adds. It is a no if the
// kernel refuses, whatever the errno: for a sandbox it comes to the same.
func try(flags uintptr, more func(*sys.Program)) error {
	var report [2]int
	if err := unix.Pipe2(report[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	defer unix.Close(report[0])
	var p sys.Program
	write := func(path, text string) {
		fd := p.Slot()
		p.At(sys.Step{Stage: "write", Path: path, Op: "open"})
		p.Add(unix.SYS_OPENAT, sys.AtCWD(), sys.Str(path), sys.Words(unix.O_WRONLY, "O_WRONLY")).Keep(fd)
		p.Add(unix.SYS_WRITE, sys.Of(fd), sys.Bytes([]byte(text)), sys.Int(len(text)))
	}
	write("/proc/self/setgroups", "deny")
	write("/proc/self/uid_map", fmt.Sprintf("0 %d 1", os.Geteuid()))
	write("/proc/self/gid_map", fmt.Sprintf("0 %d 1", os.Getegid()))
	p.At(sys.Step{Stage: "mount"})
	if flags&unix.CLONE_NEWNS != 0 {
		p.Add(unix.SYS_MOUNT, sys.Null(), sys.Str("/"), sys.Null(), sys.Words(unix.MS_REC|unix.MS_PRIVATE, "MS_REC|MS_PRIVATE"), sys.Null())
	}
	if more != nil {
		more(&p)
	}
	pid, pidfd, err := p.Fork(flags, report[1])
	unix.Close(report[1])
	if err != nil {
		return &unsupported{"clone: " + err.Error()}
	}
	unix.Close(pidfd)
	buf := make([]byte, sys.FailureSize)
	n, _ := unix.Read(report[0], buf)
	var status unix.WaitStatus
	for {
		if _, err = unix.Wait4(pid, &status, 0, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if failure, failed := sys.ParseFailure(buf[:max(n, 0)]); failed {
		return &unsupported{p.Describe(int(failure.Index)).String() + ": " + unix.Errno(failure.Errno).Error()}
	}
	return err
}

// blame looks for what refuses user namespaces here, and the action that would change it.
func blame(said string) (detail, fix string) {
	for _, cause := range []struct{ path, value, detail, fix string }{
		{"/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces is 0", "sysctl -w user.max_user_namespaces=10000"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone is 0", "sysctl -w kernel.unprivileged_userns_clone=1"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor restricts unprivileged user namespaces",
			"sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give nsrun an AppArmor profile with userns"},
	} {
		if b, err := os.ReadFile(cause.path); err == nil && strings.TrimSpace(string(b)) == cause.value {
			return said + "; " + cause.detail, cause.fix
		}
	}
	if b, err := os.ReadFile("/proc/self/status"); err == nil && strings.Contains(string(b), "\nSeccomp:\t2\n") {
		return said + "; a seccomp filter is on this process, as in a container",
			"start the container with a seccomp profile that allows unshare and clone (docker: --security-opt seccomp=unconfined)"
	}
	return said, ""
}
