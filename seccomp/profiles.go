package seccomp

// profiles are the built-in profiles. They consist of constants, so the linker lays them out and they cost no time at start.
var profiles = [...]*Profile{&defaultProfile, &computeProfile, &networkProfile, &buildProfile}

// defaultProfile is the base of the others.
var defaultProfile = Profile{
	Name:    "default",
	Doc:     "programs, compilers, language runtimes and network clients; no namespaces, mounts, tracing or kernel administration",
	Default: enosys,
	Rules:   defaultRules,
}

// networkProfile is default under another name, for commands with network access. The network namespace decides which hosts are reachable,
// and default already decides which kinds of socket exist.
var networkProfile = Profile{
	Name:    "network",
	Doc:     "the same as default",
	Base:    &defaultProfile,
	Default: enosys,
}

// computeProfile has no sockets. It keeps socketpair(2), whose sockets have no name and reach no other process: runtimes use it as a pipe
// (Python's asyncio, children of Node). socket(2) fails with EPERM for the usual families, not EAFNOSUPPORT: programs work around a kernel
// without AF_INET, but a policy should reach the user as an error.
//
// It also lacks calls that computing never needs. splice(2) fails with EINVAL, as for files that cannot be spliced: Go and Rust then fall
// back to read and write, and Go does not do so after ENOSYS.
var computeProfile = Profile{
	Name:    "compute",
	Doc:     "default without sockets; a pair that is made at once, as a pipe is, can be had",
	Base:    &defaultProfile,
	Default: enosys,
	Rules: []Rule{
		{Calls: "socket", Action: eafnosupport, Cases: []Case{
			{If: []Cond{{Arg: 0, In: []uint32{afUnix, afInet, afInet6, afNetlink}}}, Action: eperm},
		}},
		{Calls: "splice", Action: einval},
		{Calls: "ioprio_get", Action: enosys},
		{Calls: "mlockall", Action: eperm},
	},
}

// buildProfile permits tracing of the sandbox's own processes, the only ones in view: for debuggers, strace, and sanitizers that look for
// leaks. Tracing is no way around a filter, because the kernel filters a traced program's calls after the tracer has changed them (Linux
// 4.8, commit 93e35efb8de4). Debuggers turn address randomization off for the programs that they start.
var buildProfile = Profile{
	Name:    "build",
	Doc:     "default for compilers, debuggers and test suites: tracing of one's own processes, address randomization off",
	Base:    &defaultProfile,
	Default: enosys,
	Rules: []Rule{
		{Calls: "ptrace", Action: Allow},
		{Calls: "personality", Action: eperm, Cases: []Case{
			{If: []Cond{{Arg: 0, In: []uint32{personQuery}}}, Action: Allow},
			{If: []Cond{{Arg: 0, Mask: ^uint32(personLinux32 | personUname26 | personNoRandomize), In: []uint32{0}}}, Action: Allow},
		}},
	},
}

// Constants of the kernel that the rules compare with. They are the same on amd64 and arm64. A test checks them against golang.org/x/sys.
const (
	afUnix, afInet, afInet6, afNetlink = 1, 2, 10, 16

	sockTypeMask           = 0xf // the rest is SOCK_CLOEXEC and SOCK_NONBLOCK
	sockStream, sockDgram  = 1, 2
	protoICMP, protoICMPv6 = 1, 58
	protoTCP, protoUDP     = 6, 17

	// CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET.
	cloneNew = 0x80 | 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000

	openCreates = 0x40 | 0x400000 // O_CREAT, and the bit of O_TMPFILE that is not O_DIRECTORY
	modeSetID   = 0o6000          // S_ISUID, S_ISGID
	modeType    = 0o170000        // S_IFMT
	modeFile    = 0o100000        // S_IFREG
	modeFIFO    = 0o010000
	modeSocket  = 0o140000

	tiocexcl, tiocsti, tioclinux, tiocsetd = 0x540c, 0x5412, 0x541c, 0x5423

	setLease, setDeleg = 1024, 1040 // F_SETLEASE, F_SETDELEG

	personLinux32, personUname26, personQuery = 0x8, 0x20000, 0xffffffff
	personNoRandomize                         = 0x40000

	setModeFilter, newListener = 1, 8
	getNotifSizes              = 3

	schedOther, schedBatch, schedIdle = 0, 3, 5
	schedResetOnFork                  = 0x40000000
)

// defaultRules name every call of both tables, and a test requires that none is forgotten: a call without a rule would not exist in the
// sandbox. EPERM is for calls whose callers test for it, or for which the kernel would return it. ENOSYS is for calls whose callers fall
// back to an older one.
var defaultRules = []Rule{
	{Action: Allow, Calls: `
		read write readv writev pread64 pwrite64 preadv pwritev close close_range lseek
		dup dup2 dup3 pipe pipe2 flock sendfile copy_file_range splice
		stat lstat fstat newfstatat statx statfs fstatfs access faccessat faccessat2
		readlink readlinkat getdents getdents64 getcwd chdir fchdir umask
		mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat
		chown fchown lchown fchownat utime utimes utimensat
		truncate ftruncate fallocate fadvise64 sync syncfs fsync fdatasync
		getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr
		setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr
		inotify_init inotify_init1 inotify_add_watch inotify_rm_watch`},
	{Action: Allow, Calls: `
		poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
		eventfd2 signalfd4 timerfd_create timerfd_settime timerfd_gettime`},
	{Action: Allow, Calls: `
		mmap munmap mprotect mremap msync madvise brk mincore mlock munlock mlockall munlockall
		memfd_create membarrier`},
	{Action: Allow, Calls: `
		fork vfork execve execveat exit exit_group wait4 waitid kill tkill tgkill pidfd_open pidfd_send_signal
		getpid getppid gettid getpgid setpgid getpgrp getsid setsid prctl arch_prctl
		set_tid_address set_robust_list rseq restart_syscall
		futex futex_waitv futex_wake futex_wait futex_requeue
		rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend
		rt_sigqueueinfo rt_tgsigqueueinfo sigaltstack pause
		sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_getscheduler
		sched_get_priority_max sched_get_priority_min
		getpriority setpriority ioprio_get ioprio_set getcpu
		getrlimit setrlimit getrusage sysinfo uname times getrandom`},
	// These calls give no privilege: the process has no capabilities, and set-user-ID programs have no effect (no_new_privs).
	{Action: Allow, Calls: `
		getuid geteuid getgid getegid getresuid getresgid getgroups capget capset
		setuid setgid setreuid setregid setresuid setresgid setgroups
		landlock_create_ruleset landlock_add_rule landlock_restrict_self`},
	{Action: Allow, Calls: `
		time gettimeofday clock_gettime clock_getres nanosleep clock_nanosleep alarm getitimer setitimer
		timer_create timer_settime timer_gettime timer_getoverrun timer_delete`},
	// System V and POSIX message objects belong to the sandbox's own IPC namespace.
	{Action: Allow, Calls: `
		shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl
		mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr`},
	{Action: Allow, Calls: `
		connect accept accept4 bind listen sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg shutdown
		getsockname getpeername setsockopt getsockopt`},

	// The address families that ordinary programs use. Raw and packet sockets, and transports that are mostly attack surface (SCTP, DCCP,
	// L2TP, MPTCP, SMC), are refused by family, type and protocol. Netlink is permitted for reading the list of interfaces.
	{Calls: "socket", Action: Allow, Cases: []Case{
		{If: []Cond{{Arg: 0, In: []uint32{afUnix}}}, Action: Allow},
		{If: []Cond{{Arg: 0, In: []uint32{afNetlink}}, {Arg: 2, In: []uint32{0}}}, Action: Allow},
		{If: []Cond{{Arg: 0, In: []uint32{afInet, afInet6}, Not: true}}, Action: eafnosupport},
		{If: []Cond{{Arg: 1, Mask: sockTypeMask, In: []uint32{sockStream, sockDgram}, Not: true}}, Action: eperm},
		{If: []Cond{{Arg: 2, In: []uint32{0, protoICMP, protoTCP, protoUDP, protoICMPv6}, Not: true}}, Action: eprotonosupport},
	}},
	{Calls: "socketpair", Action: eafnosupport, Cases: []Case{
		{If: []Cond{{Arg: 0, In: []uint32{afUnix}}}, Action: Allow},
	}},

	// clone has its flags in a register, where a filter can compare them. clone3 has them in memory, so it is refused with ENOSYS, after
	// which every libc falls back to clone (the filter of CVE-2021-41133 forgot clone3). All flags of clone are in the low 32 bits:
	// kernel/fork.c.
	{Calls: "clone", Action: Allow, Cases: []Case{
		{If: []Cond{{Arg: 0, Mask: cloneNew, In: []uint32{0}, Not: true}}, Action: eperm},
	}},
	// TIOCSTI and TIOCLINUX push characters into a terminal, and the program that reads it next takes them for the user's: CVE-2017-5226,
	// with high bits set CVE-2019-10063, by pasting on the console CVE-2023-28100. TIOCSETD and TIOCEXCL change the caller's terminal for
	// all its users and outlast the sandbox.
	{Calls: "ioctl", Action: Allow, Cases: []Case{
		{If: []Cond{{Arg: 1, In: []uint32{tiocexcl, tiocsti, tioclinux, tiocsetd}}}, Action: eperm},
	}},
	// A lease on a file that the sandbox can only read would make the kernel block every process that opens the file for writing, on the
	// host too, for the time in /proc/sys/fs/lease-break-time. EACCES is the kernel's answer to a process that does not own the file:
	// vfs_setlease in fs/locks.c.
	{Calls: "fcntl", Action: Allow, Cases: []Case{
		{If: []Cond{{Arg: 1, In: []uint32{setLease, setDeleg}}}, Action: eacces},
	}},
	// Only the process's own limits: pid 1 runs as the same user.
	{Calls: "prlimit64", Action: eperm, Cases: []Case{
		{If: []Cond{{Arg: 0, In: []uint32{0}}}, Action: Allow},
	}},
	// A set-user-ID file in a host directory would outlast the sandbox. The filter compares the mode where it is an argument. openat2 has
	// it in memory and is therefore refused. open and openat have a meaningful mode only if they create a file.
	{Calls: "chmod fchmod creat", Action: Allow, Cases: []Case{
		{If: []Cond{{Arg: 1, Mask: modeSetID, In: []uint32{0}, Not: true}}, Action: eperm},
	}},
	{Calls: "fchmodat fchmodat2", Action: Allow, Cases: []Case{
		{If: []Cond{{Arg: 2, Mask: modeSetID, In: []uint32{0}, Not: true}}, Action: eperm},
	}},
	{Calls: "open", Action: Allow, Cases: []Case{
		{If: []Cond{{Arg: 1, Mask: openCreates, In: []uint32{0}}}, Action: Allow},
		{If: []Cond{{Arg: 2, Mask: modeSetID, In: []uint32{0}, Not: true}}, Action: eperm},
	}},
	{Calls: "openat", Action: Allow, Cases: []Case{
		{If: []Cond{{Arg: 2, Mask: openCreates, In: []uint32{0}}}, Action: Allow},
		{If: []Cond{{Arg: 3, Mask: modeSetID, In: []uint32{0}, Not: true}}, Action: eperm},
	}},
	{Calls: "mknod", Action: Allow, Cases: []Case{
		{If: []Cond{{Arg: 1, Mask: modeSetID, In: []uint32{0}, Not: true}}, Action: eperm},
		{If: []Cond{{Arg: 1, Mask: modeType, In: []uint32{0, modeFile, modeFIFO, modeSocket}, Not: true}}, Action: eperm},
	}},
	{Calls: "mknodat", Action: Allow, Cases: []Case{
		{If: []Cond{{Arg: 2, Mask: modeSetID, In: []uint32{0}, Not: true}}, Action: eperm},
		{If: []Cond{{Arg: 2, Mask: modeType, In: []uint32{0, modeFile, modeFIFO, modeSocket}, Not: true}}, Action: eperm},
	}},
	// The five values that Docker allows. None of them turns off address randomization or maps page zero.
	{Calls: "personality", Action: eperm, Cases: []Case{
		{If: []Cond{{Arg: 0, In: []uint32{0, personLinux32, personUname26, personUname26 | personLinux32, personQuery}}}, Action: Allow},
	}},
	// More filters can only restrict. But a listener (SECCOMP_FILTER_FLAG_NEW_LISTENER) could answer in the kernel's place, and outlive the
	// process that installed it. Only a listener asks for the sizes of its messages.
	{Calls: "seccomp", Action: Allow, Cases: []Case{
		{If: []Cond{{Arg: 0, In: []uint32{setModeFilter}}, {Arg: 1, Mask: newListener, In: []uint32{0}, Not: true}}, Action: eperm},
		{If: []Cond{{Arg: 0, In: []uint32{getNotifSizes}}}, Action: eperm},
	}},
	// No real-time policy and no SCHED_EXT. sched_setattr has its policy in memory and is therefore refused.
	{Calls: "sched_setscheduler", Action: eperm, Cases: []Case{
		{If: []Cond{{Arg: 1, Mask: ^uint32(schedResetOnFork), In: []uint32{schedOther, schedBatch, schedIdle}}}, Action: Allow},
	}},

	// Refused with EPERM, as the kernel refuses an unprivileged process: programs test for it. unshare is refused even without namespace
	// flags, as in Docker: new flags appear (UNSHARE_EMPTY_MNTNS), and only file servers need the rest.
	{Action: eperm, Calls: `
		mount umount2 pivot_root chroot unshare setns sethostname setdomainname
		ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp
		perf_event_open add_key request_key keyctl
		move_pages mbind migrate_pages set_mempolicy vmsplice memfd_secret
		name_to_handle_at open_by_handle_at fanotify_init fanotify_mark
		init_module finit_module delete_module kexec_load kexec_file_load reboot
		swapon swapoff acct quotactl quotactl_fd syslog vhangup iopl ioperm
		settimeofday clock_settime adjtimex clock_adjtime sched_setparam`},
	// Their arguments are in memory, which a filter cannot read; callers fall back.
	{Action: enosys, Calls: `clone3 openat2 sched_setattr`},
	// The whole mount API since Linux 5.2. CVE-2021-41133 was a list of names that ended with the year in which it was written.
	{Action: enosys, Calls: `
		open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick mount_setattr statmount listmount listns`},
	// Programs do without bpf and userfaultfd, because some kernels are built without them.
	{Action: enosys, Calls: `bpf userfaultfd`},
	// io_uring carries out calls that no filter sees; aio is old and rarely audited. Callers fall back.
	{Action: enosys, Calls: `
		io_uring_setup io_uring_enter io_uring_register
		io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents`},
	// Rare or old calls, for which libc or the caller has a fallback. Allowing them would break only the budget of 260 calls.
	{Action: enosys, Calls: `
		tee preadv2 pwritev2 readahead sync_file_range futimesat eventfd signalfd mlock2 pkey_alloc pkey_free pkey_mprotect
		setfsuid setfsgid get_robust_list sched_getattr sched_rr_get_interval rseq_slice_yield`},
	// New calls, for which every caller has a fallback; to be allowed when programs need them.
	{Action: enosys, Calls: `
		setxattrat getxattrat listxattrat removexattrat file_getattr file_setattr
		lsm_get_self_attr lsm_set_self_attr lsm_list_modules map_shadow_stack process_mrelease
		cachestat mseal`},
	// After ENOSYS, numa_available(3) treats the machine as one without NUMA and makes no other of these calls.
	{Action: enosys, Calls: `get_mempolicy set_mempolicy_home_node`},
	// Relics, and calls that programs do not make themselves. The kernel lets uretprobe and uprobe past every filter (commit cf6cb56ef244).
	{Action: enosys, Calls: `
		remap_file_pages modify_ldt set_thread_area get_thread_area uselib ustat sysfs _sysctl lookup_dcookie nfsservctl
		create_module get_kernel_syms query_module epoll_ctl_old epoll_wait_old getpmsg putpmsg
		afs_syscall tuxcall security vserver uretprobe uprobe`},
}
