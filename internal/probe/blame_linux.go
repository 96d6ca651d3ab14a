package probe

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/nsrun/facts"
	"golang.org/x/sys/unix"
)

// blamer finds what stands behind a refusal, and the one action that would change it, from what a host's files say.
type blamer struct {
	files
	facts.Facts
}

// denial is a step of a probe that the kernel has refused.
type denial struct {
	blamer
	name  facts.Name
	step  *fault.Error
	errno syscall.Errno
}

// making reports whether it was the namespace itself that was refused, and not what was then done in it.
func (d denial) making() bool { return making(d.step) }

// explain turns a refusal of feature name into a no with a cause. Any other error, a no that has its cause, and nil, it returns as they are.
func (b blamer) explain(name facts.Name, err error) error {
	var step *fault.Error
	if !errors.As(err, &step) || errnoOf(step) == 0 {
		return err
	}
	d := denial{b, name, step, errnoOf(step)}
	permission := d.errno == syscall.EPERM || d.errno == syscall.EACCES
	for _, c := range causes {
		if (c.errno == d.errno || c.errno == 0 && permission) && c.matches(d) {
			detail, fix := c.detail, c.fix
			if c.say != nil {
				detail, fix = c.say(d)
			}
			if c.kernel {
				fix = b.onHost(fix)
			}
			return no(join(err.Error(), detail), fix)
		}
	}
	return no(err.Error(), "")
}

func join(printed, detail string) string { return strings.Trim(printed+"; "+detail, "; ") }

// names says what a namespace is called in /proc/sys/user and in /proc/self/ns.
var names = [...]struct {
	feature        facts.Name
	sysctl, ns, of string
}{
	{facts.UserNS, "max_user_namespaces", "user", "CONFIG_USER_NS"}, {facts.NestedUserNS, "max_user_namespaces", "user", "CONFIG_USER_NS"},
	{facts.MountNS, "max_mnt_namespaces", "mnt", "mount namespaces"},
	{facts.PidNS, "max_pid_namespaces", "pid", "CONFIG_PID_NS"}, {facts.NetNS, "max_net_namespaces", "net", "CONFIG_NET_NS"},
	{facts.IpcNS, "max_ipc_namespaces", "ipc", "CONFIG_IPC_NS"}, {facts.UtsNS, "max_uts_namespaces", "uts", "CONFIG_UTS_NS"},
	{facts.CgroupNS, "max_cgroup_namespaces", "cgroup", "CONFIG_CGROUPS"}, {facts.TimeNS, "max_time_namespaces", "time", "CONFIG_TIME_NS"},
}

// causes are the known reasons of a refusal, and what is to be said of them: words, or a function that finds them. The first that matches is
// the one. The table is made of constants and functions alone, so that it costs a start nothing.
var causes = [...]struct {
	errno       syscall.Errno // 0 is EPERM or EACCES, which security modules exchange
	matches     func(denial) bool
	detail, fix string
	say         func(denial) (detail, fix string)
	kernel      bool // the fix is one to the kernel, which takes root on the host
}{
	{errno: syscall.EINVAL, matches: func(d denial) bool { return d.In("wsl1") },
		detail: "WSL 1 has no namespaces", fix: "wsl --set-version DISTRIBUTION 2, in Windows"},
	{errno: syscall.EINVAL, matches: denial.withoutNamespace, say: func(d denial) (string, string) {
		n := namespace(d.name)
		return "the kernel is built without " + n.of, "use a kernel with " + n.of
	}},
	{errno: syscall.ENOSPC, matches: func(d denial) bool { return d.zero() != "" }, say: func(d denial) (string, string) {
		setting := "user." + d.zero()
		return setting + " is 0", "sysctl -w " + setting + "=10000"
	}, kernel: true},
	{errno: syscall.ENOSPC, matches: func(d denial) bool { return d.making() && namespace(d.name).sysctl != "" }, say: func(d denial) (string, string) {
		setting := "user." + namespace(d.name).sysctl
		return "as many namespaces as " + setting + " allows are there, or 32 within another", "raise " + setting + " with sysctl -w"
	}, kernel: true},
	{matches: denial.debianSwitch, detail: "kernel.unprivileged_userns_clone is 0", fix: "sysctl -w kernel.unprivileged_userns_clone=1", kernel: true},
	{matches: func(d denial) bool { return d.making() && d.In("chroot") },
		detail: "this is a chroot, in which the kernel allows no user namespaces", fix: leaveChroot},
	// current_chrooted() in fs/fs_struct.c compares the caller's root with the topmost mount at the root of its mount namespace.
	{errno: syscall.EPERM, matches: func(d denial) bool { return d.making() && d.In("overmounted") }, say: denial.overmounted},
	{errno: syscall.EPERM, matches: func(d denial) bool { return d.making() && d.filtered() }, say: denial.byFilter},
	{errno: syscall.EPERM, matches: func(d denial) bool { return d.making() && !d.mapped(d.UID) },
		detail: "the caller's user id has no mapping in its user namespace", fix: "start nsrun as a user that is mapped there"},
	// verify_root_map() in kernel/user_namespace.c, since Linux 5.12.
	{errno: syscall.EPERM, matches: func(d denial) bool { return d.step.Path == uidMap && d.UID == 0 && !d.capable(unix.CAP_SETFCAP) },
		detail: "root cannot map itself without CAP_SETFCAP", fix: "start nsrun as another user than root"},
	{matches: func(d denial) bool { return d.name == facts.ProcMount && len(d.masks()) > 0 }, say: func(d denial) (string, string) {
		return "the procfs here is masked by mounts over " + strings.Join(d.masks(), ", "), d.remedy().masks
	}},
	{matches: func(d denial) bool { return !d.making() && d.apparmor() != "" }, say: func(d denial) (string, string) {
		return "the AppArmor profile " + d.apparmor() + " is on this process", d.remedy().profile
	}},
	{matches: denial.ubuntuSwitch, say: func(d denial) (string, string) {
		return "AppArmor restricts unprivileged user namespaces: kernel.apparmor_restrict_unprivileged_userns is 1", d.remedy().restriction
	}},
	{errno: syscall.EPERM, matches: func(d denial) bool { return d.filtered() }, say: denial.byFilter},
	// What else says EPERM: the caller's root is not that of its mount namespace, and a mount itself, so that nothing shows it.
	{errno: syscall.EPERM, matches: func(d denial) bool { return d.making() && d.name == facts.UserNS },
		detail: "as the kernel says in a chroot", fix: leaveChroot},
	{errno: syscall.ENOENT, matches: func(d denial) bool { return d.step.Stage == "write" }, say: func(d denial) (string, string) {
		return "there is no procfs at /proc", d.asRoot("mount -t proc proc /proc")
	}},
	{errno: syscall.ENODEV, matches: func(d denial) bool { return d.name == facts.Overlay },
		detail: "the kernel has not got overlayfs, or not loaded it", fix: "modprobe overlay", kernel: true},
	{errno: syscall.EPROTONOSUPPORT, matches: denial.ofNftables, detail: "the kernel has no NETLINK_NETFILTER", fix: "modprobe nfnetlink", kernel: true},
	{errno: syscall.EOPNOTSUPP, matches: denial.ofNftables, detail: noNftables, fix: "modprobe nf_tables", kernel: true},
	{errno: syscall.EINVAL, matches: denial.ofNftables, detail: noNftables, fix: "modprobe nf_tables", kernel: true},
	{errno: syscall.ENOENT, matches: denial.ofNftables, detail: "the kernel has nf_tables, and not what redirects connections, or has not loaded it", fix: "modprobe -a nft_chain_nat nft_redir", kernel: true},
}

const (
	noNftables  = "the kernel has not got nf_tables, or not loaded it"
	leaveChroot = "enter the tree by pivot_root, as systemd-nspawn does, instead of chroot"
)

// debianSwitch is a patch of Debian's and of hardened kernels, which asks for CAP_SYS_ADMIN.
func (d denial) debianSwitch() bool {
	return d.making() && (d.UID != 0 || d.name == facts.NestedUserNS) && d.text("proc/sys/kernel/unprivileged_userns_clone") == "0"
}

// ubuntuSwitch refuses the user namespace itself, or lets it be made without any capability: then writing the maps or the first mount fails.
func (d denial) ubuntuSwitch() bool {
	return d.UID != 0 && d.text("proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1"
}

func (d denial) ofNftables() bool { return d.name == facts.Nftables }

func (d denial) overmounted() (detail, fix string) {
	return fmt.Sprintf("a mount (%s) lies over /, and this process is below it; the kernel allows no user namespaces there", d.overRoot().kind),
		d.asRoot("umount / takes that mount away; or start nsrun in it, by chroot /.. nsrun ...")
}

func (d denial) byFilter() (detail, fix string) {
	return "a seccomp filter is on this process, as in a container", d.remedy().filter
}
