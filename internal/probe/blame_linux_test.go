package probe

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// refusal is what the kernel said to a child.
func refusal(step sys.Step, errno unix.Errno) error {
	return &fault.Error{Stage: step.Stage, Op: step.Op, Path: step.Path, Err: errno}
}

func TestBlameNamesTheCauseAndOneAction(t *testing.T) {
	clone, idMap, mounting := sys.Step{Stage: "clone"}, sys.Step{Stage: "write", Op: "to", Path: "/proc/self/uid_map"}, sys.Step{Stage: "mount", Op: "tmpfs"}
	debian := hosts["plain Debian"]
	const load = "/usr/bin/nsrun doctor --apparmor-profile | sudo tee /etc/apparmor.d/nsrun && sudo apparmor_parser -r /etc/apparmor.d/nsrun"
	for _, c := range []struct {
		name    string
		host    map[string]string
		root    bool
		feature facts.Name
		step    sys.Step
		errno   unix.Errno
		detail  string // a part of it
		fix     string
	}{
		{"user namespaces are limited to none", with(debian, "proc/sys/user/max_user_namespaces", "0\n", "proc/self/ns/user", ""), true, facts.UserNS, clone, unix.ENOSPC,
			"user.max_user_namespaces is 0", "sysctl -w user.max_user_namespaces=10000"},
		{"as many as there may be", with(debian, "proc/sys/user/max_user_namespaces", "5", "proc/self/ns/user", ""), false, facts.UserNS, clone, unix.ENOSPC,
			"as many namespaces as user.max_user_namespaces allows", "as root: raise user.max_user_namespaces with sysctl -w"},
		{"Debian's switch", with(debian, "proc/sys/kernel/unprivileged_userns_clone", "0\n"), false, facts.UserNS, clone, unix.EPERM,
			"kernel.unprivileged_userns_clone is 0", "as root: sysctl -w kernel.unprivileged_userns_clone=1"},
		{"Debian's switch is not root's", with(debian, "proc/sys/kernel/unprivileged_userns_clone", "0\n"), true, facts.UserNS, clone, unix.EPERM,
			"clone: operation not permitted; as the kernel says in a chroot", "enter the tree by pivot_root, as systemd-nspawn does, instead of chroot"},
		{"a user that is not mapped", with(debian, "proc/self/uid_map", "         0       1000          1\n"), false, facts.UserNS, clone, unix.EPERM,
			"has no mapping", "start nsrun as a user that is mapped there"},
		{"a user that is mapped", with(debian, "proc/self/uid_map", "0 0 1\n1000 1000 1"), false, facts.UserNS, clone, unix.EPERM, "in a chroot",
			"enter the tree by pivot_root, as systemd-nspawn does, instead of chroot"},
		{"root without capabilities", with(debian, "proc/self/status", "CapEff:\t0000000000000000\nSeccomp:\t0\n"), true, facts.UserNS, idMap, unix.EPERM,
			"root cannot map itself without CAP_SETFCAP", "start nsrun as another user than root"},
		{"root with all of them", with(debian, "proc/self/status", "CapEff:\t000001fffeffffff\nSeccomp:\t0\n"), true, facts.UserNS, idMap, unix.EPERM,
			"write (to /proc/self/uid_map): operation not permitted", ""},
		{"Ubuntu refuses the namespace", hosts["Ubuntu 24.04, restricted"], false, facts.UserNS, clone, unix.EACCES,
			"AppArmor restricts", load},
		{"Ubuntu refuses the map", hosts["Ubuntu 24.04, restricted"], false, facts.UserNS, idMap, unix.EPERM,
			"write (to /proc/self/uid_map): operation not permitted; AppArmor restricts", load},
		{"Ubuntu refuses the first mount", hosts["Ubuntu 24.04, restricted"], false, facts.MountNS, mounting, unix.EACCES,
			"AppArmor restricts", load},
		{"Docker's filter", hosts["default Docker"], true, facts.UserNS, clone, unix.EPERM,
			"a seccomp filter is on this process", "start the container with docker run --security-opt seccomp=unconfined"},
		{"Docker's filter on Ubuntu", with(hosts["default Docker"], "proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"), false, facts.UserNS, clone, unix.EPERM,
			"a seccomp filter is on this process", "start the container with docker run --security-opt seccomp=unconfined"},
		{"Docker's AppArmor profile", hosts["default Docker"], true, facts.MountNS, mounting, unix.EACCES,
			"the AppArmor profile docker-default", "start the container with docker run --security-opt apparmor=unconfined"},
		{"Docker's masks", hosts["default Docker"], true, facts.ProcMount, sys.Step{Stage: "mount", Op: "proc"}, unix.EPERM,
			"masked by mounts over /proc/bus, /proc/sys, /proc/acpi, /proc/kcore", "start the container with docker run --user 1000 --security-opt systempaths=unconfined (root there could write /proc/sys)"},
		{"Podman's masks", hosts["rootless Podman"], true, facts.ProcMount, sys.Step{Stage: "mount", Op: "proc"}, unix.EPERM,
			"masked", "start the container with podman run --security-opt unmask=ALL"},
		{"a pod's masks", hosts["Kubernetes pod"], true, facts.ProcMount, sys.Step{Stage: "mount", Op: "proc"}, unix.EPERM,
			"masked", "set securityContext.procMount: Unmasked and hostUsers: false in the pod's specification"},
		{"a pod's filter", hosts["Kubernetes pod"], false, facts.NetNS, clone, unix.EPERM,
			"seccomp filter", "set securityContext.seccompProfile.type: Unconfined in the pod's specification"},
		{"WSL 1", hosts["WSL 1"], false, facts.UserNS, clone, unix.EINVAL, "WSL 1 has no namespaces", "wsl --set-version DISTRIBUTION 2, in Windows"},
		{"no CONFIG_USER_NS", debian, false, facts.UserNS, clone, unix.EINVAL, "built without CONFIG_USER_NS", "use a kernel with CONFIG_USER_NS"},
		{"no CONFIG_TIME_NS", debian, false, facts.TimeNS, sys.Step{Stage: "unshare"}, unix.EINVAL, "built without CONFIG_TIME_NS", "use a kernel with CONFIG_TIME_NS"},
		{"net namespaces are limited to none", with(debian, "proc/sys/user/max_net_namespaces", "0", "proc/self/ns/net", ""), true, facts.NetNS, clone, unix.ENOSPC,
			"user.max_net_namespaces is 0", "sysctl -w user.max_net_namespaces=10000"},
		{"pid namespaces are what procfs lacks", with(debian, "proc/sys/user/max_pid_namespaces", "0"), true, facts.ProcMount, clone, unix.ENOSPC,
			"user.max_pid_namespaces is 0", "sysctl -w user.max_pid_namespaces=10000"},
		{"a chroot", hosts["chroot"], true, facts.UserNS, clone, unix.EPERM, "this is a chroot", "enter the tree by pivot_root, as systemd-nspawn does, instead of chroot"},
		{"no /proc", map[string]string{}, true, facts.UserNS, sys.Step{Stage: "write", Op: "to", Path: "/proc/self/setgroups"}, unix.ENOENT,
			"there is no procfs at /proc", "mount -t proc proc /proc"},
		{"no overlayfs", debian, true, facts.Overlay, sys.Step{Stage: "mount", Op: "overlay"}, unix.ENODEV, "overlayfs", "modprobe overlay"},
		{"no nft_redir", debian, true, facts.Nftables, sys.Step{Stage: "nf_tables", Op: "redirect"}, unix.ENOENT, "redirects connections", "modprobe -a nft_chain_nat nft_redir"},
		{"no nf_tables", debian, true, facts.Nftables, sys.Step{Stage: "nf_tables", Op: "redirect"}, unix.EINVAL, "nf_tables", "modprobe nf_tables"},
		{"no netfilter netlink", debian, true, facts.Nftables, sys.Step{Stage: "socket"}, unix.EPROTONOSUPPORT, "NETLINK_NETFILTER", "modprobe nfnetlink"},
		{"root on Debian's switch, in the second namespace", with(debian, "proc/sys/kernel/unprivileged_userns_clone", "0"), true, facts.NestedUserNS,
			sys.Step{Stage: "unshare", Op: "second user namespace"}, unix.EPERM, "kernel.unprivileged_userns_clone is 0", "sysctl -w kernel.unprivileged_userns_clone=1"},
		{"a limit of the host, in a container", with(hosts["default Docker"], "proc/sys/user/max_user_namespaces", "0"), true, facts.UserNS, clone, unix.ENOSPC,
			"user.max_user_namespaces is 0", "on the host, as root: sysctl -w user.max_user_namespaces=10000"},
		{"a limit, where /proc/sys is read-only", with(debian, "proc/sys/user/max_user_namespaces", "0", "proc/self/mountinfo", rootMount+procMount+readOnlySys), true,
			facts.UserNS, clone, unix.ENOSPC, "user.max_user_namespaces is 0", "on the host, as root: sysctl -w user.max_user_namespaces=10000"},
		{"a module, for an ordinary user", debian, false, facts.Overlay, sys.Step{Stage: "mount", Op: "overlay"}, unix.ENODEV, "overlayfs", "as root: modprobe overlay"},
		{"Ubuntu's restriction in a container", with(hosts["Ubuntu 24.04, restricted"], ".dockerenv", ""), false, facts.UserNS, clone, unix.EACCES, "AppArmor restricts",
			"load an AppArmor profile that allows userns on the host, and start the container with docker run --security-opt apparmor=PROFILE"},
		{"a mount over /", hosts["a mount over /"], true, facts.UserNS, clone, unix.EPERM, "a mount (tmpfs) lies over /, and this process is below it",
			"umount / takes that mount away; or start nsrun in it, by chroot /.. nsrun ..."},
		{"a mount over /, for an ordinary user", hosts["a mount over /"], false, facts.UserNS, clone, unix.EPERM, "lies over /",
			"as root: umount / takes that mount away; or start nsrun in it, by chroot /.. nsrun ..."},
		{"WSL's filter refuses nothing", hosts["WSL 2, mirrored"], false, facts.UserNS, clone, unix.EPERM, "as the kernel says in a chroot",
			"enter the tree by pivot_root, as systemd-nspawn does, instead of chroot"},
		{"a second filter on WSL", with(hosts["WSL 2, mirrored"], "proc/self/status", "Seccomp:\t2\nSeccomp_filters:\t2\n"), false, facts.UserNS, clone, unix.EPERM,
			"a seccomp filter is on this process", "start it without the seccomp filter, or with one that allows clone, unshare and mount"},
		{"nobody knows", debian, true, facts.MountNS, mounting, unix.EIO, "mount (tmpfs): input/output error", ""},
	} {
		uid := 1000
		if c.root {
			uid = 0
		}
		h := tree(c.host)
		err := blamer{h, facts.Facts{UID: uid, Surroundings: h.surroundings(), Program: facts.Program{Path: "/usr/bin/nsrun"}}}.explain(c.feature, refusal(c.step, c.errno))
		var u *fault.Error
		require.ErrorAs(t, err, &u, c.name)
		assert.Contains(t, u.Err.Error(), c.detail, c.name)
		assert.Contains(t, u.Err.Error(), c.errno.Error(), "%s: what the kernel said is kept", c.name)
		assert.Equal(t, c.fix, u.Hint, c.name)
	}
}

func TestBlameLeavesOtherErrorsAlone(t *testing.T) {
	b := blamer{files: tree(nil)}
	require.NoError(t, b.explain(facts.UserNS, nil))
	require.Equal(t, unix.EMFILE, b.explain(facts.UserNS, unix.EMFILE), "nobody could tell: that is no refusal")
	answered := no("it needs a pid namespace", "as root: sysctl -w kernel.unprivileged_userns_clone=1")
	require.Equal(t, answered, b.explain(facts.PidMax, answered), "a no that has its cause keeps its fix")
}

func TestRemediesHaveOneForEachSurroundingAndForNone(t *testing.T) {
	for _, word := range []string{"docker", "podman", "kubernetes", "lxc", ""} {
		b := blamer{tree(nil), facts.Facts{Surroundings: []string{word}}}
		for _, fix := range []string{b.remedy().filter, b.remedy().masks, b.remedy().profile} {
			assert.NotEmpty(t, fix, word)
		}
	}
}

// TestAFilterMayHideLandlock has the answer of a kernel that has none, with and without a filter on this process.
func TestAFilterMayHideLandlock(t *testing.T) {
	for status, want := range map[string]string{"Seccomp:\t0\n": noLandlock, "Seccomp:\t2\n": noLandlock + ", or the seccomp filter on this process hides it"} {
		f := facts.Facts{Answers: map[facts.Name]facts.Answer{}}
		answer(f, facts.Landlock, withoutLandlock(unix.ENOSYS))
		h := tree(map[string]string{"proc/self/status": status})
		f.UID = 1000
		hidden(blamer{h, f})
		assert.Equal(t, facts.No, f.State(facts.Landlock))
		assert.Equal(t, want, f.Answers[facts.Landlock].Detail)
	}
	f := facts.Facts{Answers: map[facts.Name]facts.Answer{}}
	answer(f, facts.Landlock, withoutLandlock(unix.EOPNOTSUPP))
	hidden(blamer{tree(map[string]string{"proc/self/status": "Seccomp:\t2\n"}), f})
	assert.NotContains(t, f.Answers[facts.Landlock].Detail, "filter", "a kernel that says that it is off is believed")
}

// TestWhereOthersCanReplaceNsrunItGetsNoProfile: the fix moves it first.
func TestWhereOthersCanReplaceNsrunItGetsNoProfile(t *testing.T) {
	b := blamer{tree(nil), facts.Facts{Program: facts.Program{Path: "/home/u/nsrun", Writable: "/home/u"}}}
	assert.Equal(t, "install it for root first: sudo install -m 755 /home/u/nsrun /usr/local/bin/nsrun, and ask /usr/local/bin/nsrun doctor again for an AppArmor profile", b.remedy().restriction)
}

func TestWhoCanWriteToAProgram(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "nsrun")
	require.NoError(t, os.WriteFile(program, nil, 0o755))
	me := uint32(os.Geteuid())
	for _, c := range []struct {
		name       string
		file, over os.FileMode
		owner      uint32
		want       string
	}{
		{"the file's group", 0o775, 0o755, me, program},
		{"everybody", 0o757, 0o755, me, program},
		{"who can replace it", 0o755, 0o775, me, dir},
		{"its owner", 0o755, 0o755, me + 1, program},
	} {
		require.NoError(t, os.Chmod(program, c.file))
		require.NoError(t, os.Chmod(dir, c.over))
		assert.Equal(t, c.want, writable(program, c.owner), c.name)
	}
	require.NoError(t, os.Chmod(program, 0o755))
	require.NoError(t, os.Chmod(dir, 0o755))
	assert.NotContains(t, []string{program, dir}, writable(program, me), "positive control")
	var root unix.Stat_t
	require.NoError(t, unix.Lstat("/", &root))
	if root.Uid == 0 && root.Mode&0o022 == 0 { // the root directory of a machine in memory may be everybody's
		assert.Empty(t, writable("/proc/version", 0), "root's alone, up to the root")
	}
	assert.Equal(t, "/no/such", writable("/no/such", 0))
}

func TestOneListenerForAProcess(t *testing.T) {
	refused := func(errno unix.Errno) error { return refusal(sys.Step{Stage: "seccomp", Op: "new listener"}, errno) }
	var u *fault.Error
	mirrored := blamer{tree(hosts["WSL 2, mirrored"]), facts.Facts{Surroundings: []string{"wsl2", "wsl2-mirrored"}}}
	require.ErrorAs(t, mirrored.noListener(refused(unix.EBUSY)), &u)
	assert.Contains(t, u.Err.Error(), "device or resource busy; WSL 2's mirrored networking has a listener")
	assert.Contains(t, u.Hint, "networkingMode=nat")
	require.ErrorAs(t, blamer{files: tree(nil)}.noListener(refused(unix.EBUSY)), &u)
	assert.NotContains(t, u.Err.Error()+u.Hint, "WSL")
	require.ErrorAs(t, blamer{files: tree(nil)}.noListener(refused(unix.EINVAL)), &u, "gVisor has none")
	assert.NoError(t, mirrored.noListener(nil))
}

// TestGVisorsLandlock: no Linux is to be had by another kernel there.
func TestGVisorsLandlock(t *testing.T) {
	h := tree(hosts["gVisor"])
	f := facts.Facts{Surroundings: h.surroundings(), Answers: map[facts.Name]facts.Answer{}}
	answer(f, facts.Landlock, withoutLandlock(unix.ENOSYS))
	hidden(blamer{h, f})
	assert.Equal(t, "the kernel has no Landlock: it is gVisor's", f.Answers[facts.Landlock].Detail)
	assert.Equal(t, "start the container by another runtime than gVisor's runsc, which is its kernel", f.Fix(facts.Landlock))
}

// TestNobodyInAContainerIsToldToBoot, or to use a service manager that is not there.
func TestNobodyInAContainerIsToldToBoot(t *testing.T) {
	fixes := func(surroundings []string, host map[string]string) string {
		f := facts.Facts{UID: 0, Surroundings: surroundings, Answers: map[facts.Name]facts.Answer{}}
		groups(f, tree(with(host, "$XDG_RUNTIME_DIR", t.TempDir())))
		return f.Fix(facts.CgroupV2) + "\n" + f.Fix(facts.SystemdScope)
	}
	hybrid := map[string]string{"proc/self/mountinfo": "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n32 31 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
		"proc/self/cgroup": "4:memory:/a\n0::/b\n"}
	assert.NotContains(t, fixes([]string{"docker"}, hybrid), "boot")
	assert.Contains(t, fixes([]string{"lxc"}, with(hybrid, "run/systemd/system/x", "")), "on the host: boot with", "systemd runs this container")
	assert.Contains(t, fixes(nil, hybrid), "boot with cgroup_no_v1=all", "positive control")
	assert.Contains(t, fixes(nil, map[string]string{"run/systemd/system/x": ""}), ": systemd-run --scope -p Delegate=yes nsrun ...\n", "root has the system's manager")
}
