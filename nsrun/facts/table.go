package facts

// Feature is one row of the table: what doctor shows, what a note says is lost, and what to do about it.
type Feature struct {
	Name Name
	// Group is where doctor and doc/troubleshooting.md print it.
	Group string
	// Since is the kernel that has it. Documentation only: nothing is decided by version.
	Since string
	// Required says that the default policy cannot be enforced without it.
	Required bool
	// Loss is what a sandbox lacks without it.
	Loss string
	// Fix is one action that brings it.
	Fix string
	// On has the action where a distribution wants another one.
	On [6]FixOn
}

// FixOn is the action on one distribution, and on those that are like it: see [Facts.Fix].
type FixOn struct{ Distro, Fix string }

// The groups.
const (
	Namespaces  = "namespaces"
	Files       = "files"
	SystemCalls = "system calls"
	Cgroups     = "cgroups"
	Network     = "network"
	Backends    = "backends"
)

// Groups lists the groups in the order that doctor prints.
var Groups = [...]string{Namespaces, Files, SystemCalls, Cgroups, Network, Backends}

// The features.
const (
	UserNS        Name = "user_namespace"
	NestedUserNS  Name = "nested_user_namespace"
	MountNS       Name = "mount_namespace"
	PidNS         Name = "pid_namespace"
	NetNS         Name = "network_namespace"
	IpcNS         Name = "ipc_namespace"
	UtsNS         Name = "uts_namespace"
	CgroupNS      Name = "cgroup_namespace"
	TimeNS        Name = "time_namespace"
	ProcMount     Name = "proc_mount"
	MountAPI      Name = "mount_api"
	MountSetattr  Name = "mount_setattr"
	Openat2       Name = "openat2"
	Overlay       Name = "overlay"
	Landlock      Name = "landlock"
	LandlockNet   Name = "landlock_network"
	LandlockScope Name = "landlock_scope"
	LandlockUnix  Name = "landlock_unix"
	CloseR        Name = "close_range"
	Pidfd         Name = "pidfd"
	Clone3        Name = "clone3"
	Seccomp       Name = "seccomp"
	SeccompKill   Name = "seccomp_kill_process"
	SeccompNotify Name = "seccomp_notify"
	CgroupV2      Name = "cgroup_v2"
	CgroupV1      Name = "cgroup_v1"
	SystemdScope  Name = "systemd_scope"
	CgroupClone   Name = "clone_into_cgroup"
	PidMax        Name = "pid_max"
	Nftables      Name = "nftables"
	Bwrap         Name = "bwrap"
	Docker        Name = "docker"
	Podman        Name = "podman"
)

const (
	lsmDebian = "add lsm=landlock,lockdown,yama,integrity,apparmor,bpf to GRUB_CMDLINE_LINUX in /etc/default/grub, run update-grub and reboot"
	lsmFedora = "grubby --update-kernel=ALL --args=lsm=landlock,lockdown,yama,integrity,selinux,bpf, and reboot"
)

// Table has one row for each feature, in the order that doctor prints.
var Table = [...]Feature{
	{Name: UserNS, Group: Namespaces, Since: "3.8", Required: true,
		Loss: "no sandbox by the backend native", Fix: "allow unprivileged user namespaces (see doctor's detail), or run as root"},
	{Name: NestedUserNS, Group: Namespaces, Since: "3.8", Required: true,
		Loss: "no sandbox by the backend native, whose mounts belong to one user namespace and the command to a second",
		Fix:  "allow user namespaces within user namespaces (see doctor's detail)"},
	{Name: MountNS, Group: Namespaces, Since: "2.4.19", Required: true,
		Loss: "no private root: host files stay in view", Fix: "run where mount namespaces, and mounts in them, are allowed"},
	{Name: PidNS, Group: Namespaces, Since: "2.6.24", Required: true,
		Loss: "host processes stay in view, and nothing kills the whole tree at once", Fix: "run where pid namespaces are allowed"},
	{Name: NetNS, Group: Namespaces, Since: "2.6.29", Required: true,
		Loss: "network none cannot be enforced", Fix: "run where network namespaces are allowed, or use --net host"},
	{Name: IpcNS, Group: Namespaces, Since: "2.6.19", Required: true,
		Loss: "host shared memory and message queues stay in reach", Fix: "run where IPC namespaces are allowed"},
	{Name: UtsNS, Group: Namespaces, Since: "2.6.19", Required: true,
		Loss: "the host's name stays in view", Fix: "run where UTS namespaces are allowed"},
	{Name: CgroupNS, Group: Namespaces, Since: "4.6",
		Loss: "the sandbox's place in the cgroup tree stays in view", Fix: "use a kernel with CONFIG_CGROUPS"},
	{Name: TimeNS, Group: Namespaces, Since: "5.6",
		Loss: "nothing: nsrun does not use it", Fix: "use a kernel from 5.6 on with CONFIG_TIME_NS"},
	{Name: ProcMount, Group: Files, Since: "2.6.24", Required: true,
		Loss: "no procfs of the sandbox's own", Fix: "start the container with an unmasked /proc (podman: --security-opt unmask=ALL)"},
	{Name: MountAPI, Group: Files, Since: "5.2",
		Loss: "set-up is slower: mounts are made by mount(2)", Fix: "use a kernel from 5.2 on"},
	{Name: MountSetattr, Group: Files, Since: "5.12",
		Loss: "set-up is slower: mounts are remounted one by one", Fix: "use a kernel from 5.12 on"},
	{Name: Openat2, Group: Files, Since: "5.6",
		Loss: "set-up is slower: places are walked name by name", Fix: "use a kernel from 5.6 on"},
	{Name: Overlay, Group: Files, Since: "5.11",
		Loss: "no overlay mounts for an ordinary user", Fix: "use a kernel from 5.11 on with overlayfs"},
	{Name: Landlock, Group: Files, Since: "5.13", Required: true,
		Loss: "no second check on files: what is mounted is all that confines",
		Fix:  "use a kernel from 5.13 on with landlock among its LSMs (boot with lsm=landlock,...)",
		On:   [6]FixOn{{"debian", lsmDebian}, {"fedora", lsmFedora}}},
	{Name: LandlockScope, Group: Files, Since: "6.12",
		Loss: "abstract Unix sockets of the host can be reached with --net host", Fix: "use a kernel with Landlock ABI 6 (Linux 6.12)"},
	{Name: LandlockUnix, Group: Files, Since: "7.1",
		Loss: "Unix sockets in a granted directory can be connected to", Fix: "use a kernel with Landlock ABI 9 (Linux 7.1)"},
	{Name: CloseR, Group: SystemCalls, Since: "5.9",
		Loss: "set-up is slower: inherited descriptors are closed one by one", Fix: "use a kernel from 5.9 on"},
	{Name: Pidfd, Group: SystemCalls, Since: "5.3", Required: true,
		Loss: "signals could reach a reused pid", Fix: "use a kernel from 5.3 on"},
	{Name: Clone3, Group: SystemCalls, Since: "5.3",
		Loss: "nothing: children are started by clone(2)", Fix: "use a kernel from 5.3 on, and a seccomp profile that knows clone3"},
	{Name: Seccomp, Group: SystemCalls, Since: "3.5", Required: true,
		Loss: "every system call of the kernel stays in reach", Fix: "use a kernel with CONFIG_SECCOMP_FILTER"},
	{Name: SeccompKill, Group: SystemCalls, Since: "4.14",
		Loss: "a call of a foreign architecture ends one thread, not the program", Fix: "use a kernel from 4.14 on"},
	{Name: SeccompNotify, Group: SystemCalls, Since: "5.0",
		Loss: "refused system calls cannot be handed to a supervisor", Fix: "use a kernel from 5.0 on"},
	{Name: CgroupV2, Group: Cgroups, Since: "4.15",
		Loss: "limits hold for each process, not for all together",
		Fix:  "start nsrun in a delegated scope: systemd-run --user --scope -p Delegate=yes nsrun ...",
		On: [6]FixOn{
			{"alpine", "set rc_cgroup_mode=unified in /etc/rc.conf, run rc-update add cgroups, reboot, and start nsrun as root"},
		}},
	{Name: CgroupV1, Group: Cgroups, Since: "2.6.24",
		Loss: "nothing where cgroup_v2 is there: this is its elder", Fix: "use cgroup_v2 instead"},
	{Name: CgroupClone, Group: Cgroups, Since: "5.7",
		Loss: "no cgroup but where limits ask for one: to join it takes milliseconds", Fix: "use a kernel from 5.7 on, and a seccomp profile that knows clone3"},
	{Name: PidMax, Group: Cgroups, Since: "6.14",
		Loss: "nothing where a cgroup, or another user than root, bounds the number of processes", Fix: "use a kernel from 6.14 on, and a /proc/sys that can be written to"},
	{Name: SystemdScope, Group: Cgroups, Since: "3.15",
		Loss: "nobody whom nsrun run could ask for a cgroup of its own, for memory_mb, pids and cpu_percent where none can be made",
		Fix:  "loginctl enable-linger $USER, and log in again",
		On:   [6]FixOn{{"alpine", "use a cgroup that is delegated in another way: there is no systemd"}}},
	{Name: Nftables, Group: Network, Since: "3.13",
		Loss: "--net allow listens for each port of its rules: connections to others are refused and not reported", Fix: "modprobe nf_tables"},
	{Name: LandlockNet, Group: Network, Since: "6.7",
		Loss: "no second check on TCP ports", Fix: "use a kernel with Landlock ABI 4 (Linux 6.7)"},
	{Name: Bwrap, Group: Backends, Since: "3.8",
		Loss: "no --backend bwrap", Fix: "install bubblewrap",
		On: [6]FixOn{{"debian", "apt install bubblewrap"}, {"fedora", "dnf install bubblewrap"}, {"arch", "pacman -S bubblewrap"},
			{"alpine", "apk add bubblewrap"}, {"suse", "zypper install bubblewrap"}}},
	{Name: Docker, Group: Backends, Since: "3.10",
		Loss: "no containers of Docker's", Fix: "install Docker and start its daemon",
		On: [6]FixOn{{"debian", "apt install docker.io"}, {"fedora", "dnf install moby-engine"}, {"rhel", "install docker-ce from the packages that Docker itself offers"}, {"arch", "pacman -S docker"},
			{"alpine", "apk add docker"}, {"suse", "zypper install docker"}}},
	{Name: Podman, Group: Backends, Since: "3.10",
		Loss: "no containers of Podman's", Fix: "install Podman",
		On: [6]FixOn{{"debian", "apt install podman"}, {"fedora", "dnf install podman"}, {"arch", "pacman -S podman"},
			{"alpine", "apk add podman"}, {"suse", "zypper install podman"}}},
}
