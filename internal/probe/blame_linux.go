package probe

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/nsrun/facts"
	"golang.org/x/sys/unix"
)

// blamer finds what stands behind a refusal, and the one action that would change it, from what a host's files say.
type blamer struct {
	files
	uid          int
	surroundings []string
	program      facts.Program
}

// explain turns a refusal of feature name into a no with a cause. Any other error, and nil, it returns as it is.
func (b blamer) explain(name facts.Name, err error) error {
	var r *fault.Error
	if !errors.As(err, &r) {
		return err
	}
	for _, c := range causes {
		if slices.Contains(c.errnos(), errnoOf(r)) && c.matches(b, name, r) {
			detail, fix := c.detail, c.fix
			if c.say != nil {
				detail, fix = c.say(b, name)
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

// in reports whether the caller is in one of the surroundings.
func (b blamer) in(words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(b.surroundings, w) })
}

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

// cause is one known reason of a refusal, and what is to be said of it: words, or a function that finds them. The first that matches is
// the one. The table is made of constants and functions alone, so that it costs a start nothing.
type cause struct {
	errno       syscall.Errno // 0 is EPERM or EACCES, which security modules exchange
	matches     func(b blamer, name facts.Name, r *fault.Error) bool
	detail, fix string
	say         func(b blamer, name facts.Name) (detail, fix string)
	kernel      bool // the fix is one to the kernel, which takes root on the host
}

func (c cause) errnos() []syscall.Errno {
	if c.errno == 0 {
		return []syscall.Errno{syscall.EPERM, syscall.EACCES}
	}
	return []syscall.Errno{c.errno}
}

var causes = [...]cause{
	{errno: syscall.EINVAL, matches: func(b blamer, _ facts.Name, _ *fault.Error) bool { return b.in("wsl1") },
		detail: "WSL 1 has no namespaces", fix: "wsl --set-version DISTRIBUTION 2, in Windows"},
	{errno: syscall.EINVAL, matches: withoutNamespace, say: func(_ blamer, name facts.Name) (string, string) {
		n := namespace(name)
		return "the kernel is built without " + n.of, "use a kernel with " + n.of
	}},
	{errno: syscall.ENOSPC, matches: isZero, say: func(b blamer, name facts.Name) (string, string) {
		setting := "user." + b.zero(name)
		return setting + " is 0", "sysctl -w " + setting + "=10000"
	}, kernel: true},
	{errno: syscall.ENOSPC, matches: isNamespace, say: func(_ blamer, name facts.Name) (string, string) {
		setting := "user." + namespace(name).sysctl
		return "as many namespaces as " + setting + " allows are there, or 32 within another", "raise " + setting + " with sysctl -w"
	}, kernel: true},
	{matches: debianSwitch, detail: "kernel.unprivileged_userns_clone is 0", fix: "sysctl -w kernel.unprivileged_userns_clone=1", kernel: true},
	{matches: func(b blamer, _ facts.Name, r *fault.Error) bool { return making(r) && b.in("chroot") },
		detail: "this is a chroot, in which the kernel allows no user namespaces", fix: "enter the tree by pivot_root, as systemd-nspawn does, instead of chroot"},
	// current_chrooted() in fs/fs_struct.c compares the caller's root with the topmost mount at the root of its mount namespace.
	{errno: syscall.EPERM, matches: func(b blamer, _ facts.Name, r *fault.Error) bool { return making(r) && b.in("overmounted") }, say: overmounted},
	{errno: syscall.EPERM, matches: func(b blamer, _ facts.Name, r *fault.Error) bool { return making(r) && b.filtered() }, say: filtered},
	{errno: syscall.EPERM, matches: func(b blamer, _ facts.Name, r *fault.Error) bool { return making(r) && !b.mapped(b.uid) },
		detail: "the caller's user id has no mapping in its user namespace", fix: "start nsrun as a user that is mapped there"},
	// verify_root_map() in kernel/user_namespace.c, since Linux 5.12.
	{errno: syscall.EPERM, matches: func(b blamer, _ facts.Name, r *fault.Error) bool {
		return r.Path == uidMap && b.uid == 0 && !b.capable(unix.CAP_SETFCAP)
	}, detail: "root cannot map itself without CAP_SETFCAP", fix: "start nsrun as another user than root"},
	{matches: func(b blamer, name facts.Name, _ *fault.Error) bool {
		return name == facts.ProcMount && len(b.masks()) > 0
	},
		say: func(b blamer, _ facts.Name) (string, string) {
			return "the procfs here is masked by mounts over " + strings.Join(b.masks(), ", "), b.unmasked()
		}},
	{matches: func(b blamer, _ facts.Name, r *fault.Error) bool { return !making(r) && b.apparmor() != "" },
		say: func(b blamer, _ facts.Name) (string, string) {
			return "the AppArmor profile " + b.apparmor() + " is on this process", b.unconfined()
		}},
	{matches: ubuntuSwitch, say: func(b blamer, _ facts.Name) (string, string) {
		return "AppArmor restricts unprivileged user namespaces: kernel.apparmor_restrict_unprivileged_userns is 1", b.exempted()
	}},
	{errno: syscall.EPERM, matches: func(b blamer, _ facts.Name, _ *fault.Error) bool { return b.filtered() }, say: filtered},
	// What else says EPERM: the caller's root is not that of its mount namespace, and a mount itself, so that nothing shows it.
	{errno: syscall.EPERM, matches: func(_ blamer, name facts.Name, r *fault.Error) bool { return making(r) && name == facts.UserNS },
		detail: "as the kernel says in a chroot", fix: "enter the tree by pivot_root, as systemd-nspawn does, instead of chroot"},
	{errno: syscall.ENOENT, matches: func(_ blamer, _ facts.Name, r *fault.Error) bool { return r.Stage == "write" },
		say: func(b blamer, _ facts.Name) (string, string) {
			return "there is no procfs at /proc", b.asRoot("mount -t proc proc /proc")
		}},
	{errno: syscall.ENODEV, matches: func(_ blamer, name facts.Name, _ *fault.Error) bool { return name == facts.Overlay },
		detail: "the kernel has not got overlayfs, or not loaded it", fix: "modprobe overlay", kernel: true},
	{errno: syscall.EPROTONOSUPPORT, matches: isNftables, detail: "the kernel has no NETLINK_NETFILTER", fix: "modprobe nfnetlink", kernel: true},
	{errno: syscall.EOPNOTSUPP, matches: isNftables, detail: noNftables, fix: "modprobe nf_tables", kernel: true},
	{errno: syscall.EINVAL, matches: isNftables, detail: noNftables, fix: "modprobe nf_tables", kernel: true},
}

const noNftables = "the kernel has not got nf_tables, or not loaded it"

// debianSwitch is a patch of Debian's and of hardened kernels, which asks for CAP_SYS_ADMIN.
func debianSwitch(b blamer, name facts.Name, r *fault.Error) bool {
	return making(r) && (b.uid != 0 || name == facts.NestedUserNS) && b.text("proc/sys/kernel/unprivileged_userns_clone") == "0"
}

// ubuntuSwitch refuses the user namespace itself, or lets it be made without any capability: then writing the maps or the first mount fails.
func ubuntuSwitch(b blamer, _ facts.Name, _ *fault.Error) bool {
	return b.uid != 0 && b.text("proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1"
}

func overmounted(b blamer, _ facts.Name) (detail, fix string) {
	over := b.overRoot()
	return fmt.Sprintf("a mount (%s) lies over /, and this process is below it; the kernel allows no user namespaces there", over.kind),
		b.asRoot("umount / takes that mount away; or start nsrun in it, by chroot /.. nsrun ...")
}

func filtered(b blamer, _ facts.Name) (detail, fix string) {
	return "a seccomp filter is on this process, as in a container", b.withoutFilter()
}

func isNftables(_ blamer, name facts.Name, _ *fault.Error) bool { return name == facts.Nftables }

func isZero(b blamer, name facts.Name, _ *fault.Error) bool { return b.zero(name) != "" }

func isNamespace(_ blamer, name facts.Name, r *fault.Error) bool {
	return making(r) && namespace(name).sysctl != ""
}
