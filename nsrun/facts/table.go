package facts

// Feature is one row of the table: what doctor shows, what a note says is lost, and what to do about it.
type Feature struct {
	Name Name
	// Since is the kernel that has it. Documentation only: nothing is decided by version.
	Since string
	// Loss is what a sandbox lacks without it.
	Loss string
	// Fix is one action that brings it.
	Fix string
	// Required says that the default policy cannot be enforced without it.
	Required bool
}

// The features.
const (
	UserNS    Name = "user_namespace"
	MountNS   Name = "mount_namespace"
	PidNS     Name = "pid_namespace"
	NetNS     Name = "network_namespace"
	IpcNS     Name = "ipc_namespace"
	UtsNS     Name = "uts_namespace"
	CgroupNS  Name = "cgroup_namespace"
	ProcMount Name = "proc_mount"
	MountAPI  Name = "mount_api"
	Openat2   Name = "openat2"
	Overlay   Name = "overlay"
	CloseR    Name = "close_range"
	Pidfd     Name = "pidfd"
	Landlock  Name = "landlock"
	Seccomp   Name = "seccomp"
)

// Table has one row for each feature, in the order that doctor prints.
var Table = [...]Feature{
	{UserNS, "3.8", "no sandbox for an ordinary user", "allow unprivileged user namespaces (see doctor's detail), or run as root", true},
	{MountNS, "2.4.19", "no private root: host files stay in view", "run where mount namespaces are allowed", true},
	{PidNS, "2.6.24", "host processes stay in view, and nothing kills the whole tree at once", "run where pid namespaces are allowed", true},
	{NetNS, "2.6.29", "network none cannot be enforced", "run where network namespaces are allowed, or use --net host", true},
	{IpcNS, "2.6.19", "host shared memory and message queues stay in reach", "run where IPC namespaces are allowed", true},
	{UtsNS, "2.6.19", "the host's name stays in view", "run where UTS namespaces are allowed", true},
	{CgroupNS, "4.6", "the sandbox's place in the cgroup tree stays in view", "use a kernel with CONFIG_CGROUPS", false},
	{ProcMount, "2.6.24", "no procfs of the sandbox's own", "start the container with an unmasked /proc (podman: --security-opt unmask=ALL)", true},
	{MountAPI, "5.12", "set-up is slower: mounts are made by mount(2) and remounted one by one", "use a kernel from 5.12 on", false},
	{Openat2, "5.6", "set-up is slower: places are walked name by name", "use a kernel from 5.6 on", false},
	{Overlay, "5.11", "no overlay mounts for an ordinary user", "use a kernel from 5.11 on with overlayfs", false},
	{CloseR, "5.9", "set-up is slower: inherited descriptors are closed one by one", "use a kernel from 5.9 on", false},
	{Pidfd, "5.3", "signals could reach a reused pid", "use a kernel from 5.3 on", true},
	{Landlock, "5.13", "no second check on files: what is mounted is all that confines", "use a kernel from 5.13 on with landlock among its LSMs (boot with lsm=landlock,...)", true},
	{Seccomp, "3.5", "every system call of the kernel stays in reach", "use a kernel with CONFIG_SECCOMP_FILTER", true},
}
