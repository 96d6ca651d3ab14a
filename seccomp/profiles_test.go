package seccomp

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type row struct {
	promise string // with the rows of security.md that it stops
	call    string
	args    [6]uint64
	want    Action
}

func a(args ...uint64) (out [6]uint64) {
	copy(out[:], args)
	return out
}

const atFDCWD = 0xffffff9c

// rows are what the default profile promises.
var rows = []row{
	{"FS20 set-user-ID by chmod", "chmod", a(0, 0o4755), eperm},
	{"FS20 set-group-ID by fchmod", "fchmod", a(3, 0o2755), eperm},
	{"FS20 fchmodat", "fchmodat", a(atFDCWD, 0, 0o6755), eperm},
	{"FS20 fchmodat2", "fchmodat2", a(atFDCWD, 0, 0o4000, 0), eperm},
	{"FS20 creat", "creat", a(0, 0o4755), eperm},
	{"FS20 open that creates", "open", a(0, 0o101, 0o4755), eperm},
	{"FS20 openat that creates", "openat", a(atFDCWD, 0, 0o102, 0o2755), eperm},
	{"FS20 O_TMPFILE, amd64", "openat", a(atFDCWD, 0, 0o20200002, 0o4755), eperm},
	{"FS20 O_TMPFILE, arm64", "openat", a(atFDCWD, 0, 0o20040002, 0o4755), eperm},
	{"FS20 openat2 hides its mode", "openat2", a(atFDCWD, 0, 0, 24), enosys},
	{"FS20 mknod of a file", "mknodat", a(atFDCWD, 0, 0o104755), eperm},
	{"mode without O_CREAT is garbage", "openat", a(atFDCWD, 0, 0o2000000, 0o6777), Allow},
	{"mode without O_CREAT is garbage", "open", a(0, 0, ^uint64(0)), Allow},
	{"plain modes", "chmod", a(0, 0o1777), Allow},
	{"plain modes", "openat", a(atFDCWD, 0, 0o1101, 0o644), Allow},
	{"FS21 mknod of a character device", "mknod", a(0, 0o020666, 0x103), eperm},
	{"FS21 mknod of a block device", "mknod", a(0, 0o060666), eperm},
	{"FS21 mknodat of a character device", "mknodat", a(atFDCWD, 0, 0o020666), eperm},
	{"FS21 mknodat of a block device", "mknodat", a(atFDCWD, 0, 0o060666), eperm},
	{"mkfifo", "mknodat", a(atFDCWD, 0, 0o010644), Allow},
	{"mkfifo", "mknod", a(0, 0o010644), Allow},
	{"regular file, type left out", "mknod", a(0, 0o644), Allow},
	{"FS23", "open_by_handle_at", a(), eperm},
	{"FS24", "name_to_handle_at", a(), eperm},
	{"FS25", "fanotify_init", a(0x200), eperm},
	{"FS25", "fanotify_mark", a(), eperm},
	{"FS37 F_SETLEASE holds up whoever writes to a file that can be read", "fcntl", a(3, 1024, 0), eacces},
	{"FS37 F_SETDELEG does so for directories too", "fcntl", a(3, 1040), eacces},
	{"F_GETLEASE", "fcntl", a(3, 1025), Allow},
	{"F_DUPFD_CLOEXEC", "fcntl", a(3, 1030), Allow},
	{"FS27 is for the manifest to deny", "memfd_create", a(), Allow},
	{"PR07", "syslog", a(3), eperm},
	{"MN01-04", "mount", a(), eperm},
	{"MN03", "umount2", a(0, 2), eperm},
	{"MN05", "fsopen", a(), enosys},
	{"MN05", "fsconfig", a(), enosys},
	{"MN05", "fsmount", a(), enosys},
	{"MN06", "open_tree", a(0, 0, 1), enosys},
	{"MN07", "fspick", a(), enosys},
	{"MN08", "mount_setattr", a(), enosys},
	{"MN09", "move_mount", a(), enosys},
	{"MN10", "open_tree_attr", a(), enosys},
	{"MN10", "statmount", a(), enosys},
	{"MN10", "listmount", a(), enosys},
	{"MN10", "listns", a(), enosys},
	{"MN11", "chroot", a(), eperm},
	{"MN12", "pivot_root", a(), eperm},
	{"MN13", "setns", a(3, 0), eperm},
	{"MN14 CLONE_NEWUSER", "unshare", a(0x10000000), eperm},
	{"MN18 CLONE_NEWNS", "unshare", a(0x20000), eperm},
	{"MN18 CLONE_NEWCGROUP", "unshare", a(0x2000000), eperm},
	{"MN18 CLONE_NEWUTS", "unshare", a(0x4000000), eperm},
	{"MN18 CLONE_NEWIPC", "unshare", a(0x8000000), eperm},
	{"MN18 CLONE_NEWPID", "unshare", a(0x20000000), eperm},
	{"MN18 CLONE_NEWNET", "unshare", a(0x40000000), eperm},
	{"MN18 CLONE_NEWTIME", "unshare", a(0x80), eperm},
	{"MN18 UNSHARE_EMPTY_MNTNS", "unshare", a(0x100000), eperm},
	{"MN19 CLONE_NEWUSER", "clone", a(0x10000011), eperm},
	{"MN19 CLONE_NEWNS", "clone", a(0x20011), eperm},
	{"MN19 CLONE_NEWCGROUP", "clone", a(0x2000011), eperm},
	{"MN19 CLONE_NEWUTS", "clone", a(0x4000011), eperm},
	{"MN19 CLONE_NEWIPC", "clone", a(0x8000011), eperm},
	{"MN19 CLONE_NEWPID", "clone", a(0x20000011), eperm},
	{"MN19 CLONE_NEWNET", "clone", a(0x40000011), eperm},
	{"MN19 CLONE_NEWTIME", "clone", a(0x80), eperm},
	{"SC35 fork", "clone", a(0x1200011), Allow},
	{"SC35 pthread_create", "clone", a(0x3d0f00), Allow},
	{"SC35 posix_spawn", "clone", a(0x4111), Allow},
	{"MN20-21", "clone3", a(0, 88), enosys},
	{"MN23", "sethostname", a(), eperm},
	{"MN23", "setdomainname", a(), eperm},
	{"PC02 SC21", "ptrace", a(0x4206, 1), eperm},
	{"SC21 PTRACE_TRACEME", "ptrace", a(), eperm},
	{"PC03 SC20", "process_vm_readv", a(1), eperm},
	{"SC20", "process_vm_writev", a(1), eperm},
	{"PC04 SC22", "pidfd_getfd", a(3, 0), eperm},
	{"SC22", "kcmp", a(1, 1), eperm},
	{"PC05 limits of pid 1", "prlimit64", a(1, 7), eperm},
	{"PC05 limits of any other", "prlimit64", a(0xffffffff, 7), eperm},
	{"own limits", "prlimit64", a(0, 7), Allow},
	{"PC10 TIOCSTI", "ioctl", a(0, 0x5412), eperm},
	{"PC11 CVE-2019-10063", "ioctl", a(0, 1<<32|0x5412), eperm},
	{"PC17 TIOCSETD, a line discipline for the caller's terminal", "ioctl", a(0, 0x5423), eperm},
	{"PC12 TIOCLINUX CVE-2023-28100", "ioctl", a(0, 0x541c), eperm},
	{"PC17 TIOCEXCL, nobody else may open the caller's terminal", "ioctl", a(0, 0x540c), eperm},
	{"isatty", "ioctl", a(0, 0x5401), Allow},
	{"TIOCGWINSZ", "ioctl", a(0, 0x5413), Allow},
	{"SC12", "io_uring_setup", a(8), enosys},
	{"SC13", "io_uring_enter", a(0xffffffff), enosys},
	{"SC13", "io_uring_register", a(0xffffffff), enosys},
	{"SC14", "add_key", a(), eperm},
	{"SC15", "request_key", a(), eperm},
	{"SC16 FE10", "keyctl", a(0), eperm},
	{"SC17", "bpf", a(), enosys},
	{"SC18", "perf_event_open", a(), eperm},
	{"SC19 UFFD_USER_MODE_ONLY", "userfaultfd", a(1), enosys},
	{"SC23", "move_pages", a(), eperm},
	{"SC23", "mbind", a(), eperm},
	{"SC23", "migrate_pages", a(), eperm},
	{"SC23", "set_mempolicy", a(), eperm},
	{"SC24 ADDR_NO_RANDOMIZE", "personality", a(0x40000), eperm},
	{"SC24 READ_IMPLIES_EXEC", "personality", a(0x400000), eperm},
	{"SC24 MMAP_PAGE_ZERO", "personality", a(0x100000), eperm},
	{"SC24 PER_LINUX", "personality", a(0), Allow},
	{"SC24 PER_LINUX32", "personality", a(8), Allow},
	{"SC24 UNAME26", "personality", a(0x20000), Allow},
	{"SC24 UNAME26 and PER_LINUX32", "personality", a(0x20008), Allow},
	{"SC24 query", "personality", a(0xffffffff), Allow},
	{"SC25", "modify_ldt", a(1), enosys},
	{"SC26 NEW_LISTENER", "seccomp", a(1, 8), eperm},
	{"SC26 NEW_LISTENER and TSYNC", "seccomp", a(1, 0x19), eperm},
	{"SC26 GET_NOTIF_SIZES is for those who listen", "seccomp", a(3), eperm},
	{"which answers there are", "seccomp", a(2), Allow},
	{"SC37 more filters", "seccomp", a(1, 1), Allow},
	{"SC27", "vmsplice", a(), eperm},
	{"SC27", "tee", a(), enosys},
	{"SC27 splice is for programs", "splice", a(), Allow},
	{"SC28", "memfd_secret", a(), eperm},
	{"SC29", "init_module", a(), eperm},
	{"SC29", "finit_module", a(), eperm},
	{"SC29", "delete_module", a(), eperm},
	{"SC29", "kexec_load", a(), eperm},
	{"SC29", "kexec_file_load", a(), eperm},
	{"SC30", "reboot", a(), eperm},
	{"SC30", "swapon", a(), eperm},
	{"SC30", "swapoff", a(), eperm},
	{"SC30", "acct", a(), eperm},
	{"SC30", "quotactl", a(), eperm},
	{"SC30", "quotactl_fd", a(), eperm},
	{"SC31", "settimeofday", a(), eperm},
	{"SC31", "clock_settime", a(), eperm},
	{"SC31", "adjtimex", a(), eperm},
	{"SC31", "clock_adjtime", a(), eperm},
	{"SC32", "iopl", a(3), eperm},
	{"SC32", "ioperm", a(), eperm},
	{"SC32", "vhangup", a(), eperm},
	{"SC32", "lookup_dcookie", a(), enosys},
	{"SC32", "uselib", a(), enosys},
	{"SC32", "sysfs", a(), enosys},
	{"SC32", "ustat", a(), enosys},
	{"SC32", "nfsservctl", a(), enosys},
	{"SC33 SCHED_FIFO", "sched_setscheduler", a(0, 1), eperm},
	{"SC33 SCHED_RR and RESET_ON_FORK", "sched_setscheduler", a(0, 0x40000002), eperm},
	{"SC33 SCHED_DEADLINE", "sched_setscheduler", a(0, 6), eperm},
	{"SC33 SCHED_EXT", "sched_setscheduler", a(0, 7), eperm},
	{"SC33 hides its policy", "sched_setattr", a(), enosys},
	{"SCHED_OTHER", "sched_setscheduler", a(0, 0), Allow},
	{"SCHED_BATCH and RESET_ON_FORK", "sched_setscheduler", a(0, 0x40000003), Allow},
	{"SCHED_IDLE", "sched_setscheduler", a(0, 5), Allow},
	{"SC34", "remap_file_pages", a(), enosys},
	{"SC34", "map_shadow_stack", a(), enosys},
	{"SC34", "process_madvise", a(), eperm},
	{"SC34 reads the page cache's state", "cachestat", a(), enosys},
	{"SC34 no libc needs it", "mseal", a(), enosys},
	{"NE07 netlink route", "socket", a(16, 3, 0), Allow},
	{"NE08 netlink netfilter", "socket", a(16, 3, 12), eafnosupport},
	{"NE08 netlink uevent", "socket", a(16, 2, 15), eafnosupport},
	{"NE08 netlink audit", "socket", a(16, 3, 9), eafnosupport},
	{"NE08 netlink xfrm", "socket", a(16, 3, 6), eafnosupport},
	{"NE09 raw ICMP", "socket", a(2, 3, 1), eperm},
	{"NE09 raw ICMP, CLOEXEC and NONBLOCK", "socket", a(10, 0x80803, 58), eperm},
	{"NE09 SOCK_PACKET", "socket", a(2, 10, 0x300), eperm},
	{"NE10 packet", "socket", a(17, 3, 0x300), eafnosupport},
	{"NE11 vsock", "socket", a(40, 1, 0), eafnosupport},
	{"NE12 alg", "socket", a(38, 5, 0), eafnosupport},
	{"SCTP", "socket", a(2, 1, 132), eprotonosupport},
	{"MPTCP", "socket", a(2, 1, 262), eprotonosupport},
	{"TCP", "socket", a(2, 0x80801, 6), Allow},
	{"UDP", "socket", a(10, 2, 0), Allow},
	{"unix", "socket", a(1, 5, 0), Allow},
	{"unix pair", "socketpair", a(1, 0x80001, 0), Allow},
	{"TIPC pair", "socketpair", a(30, 1, 0), eafnosupport},
}

// works are calls that ordinary software makes; SC35.
const works = `read write close mmap munmap mprotect mremap brk execve execveat exit exit_group wait4 waitid kill tgkill futex
	futex_waitv futex_wake futex_wait futex_requeue rseq set_robust_list set_tid_address epoll_pwait epoll_pwait2 epoll_ctl epoll_create1
	inotify_init1 eventfd2 signalfd4 timerfd_create memfd_create copy_file_range sendfile statx getrandom membarrier close_range
	faccessat2 pidfd_open pidfd_send_signal landlock_create_ruleset landlock_add_rule landlock_restrict_self rt_sigaction
	rt_sigreturn shmget semget msgget mq_open prctl sched_yield sched_getaffinity sched_setaffinity capget capset setuid setresuid
	setgroups fchownat setxattr fgetxattr flock fallocate fadvise64 mlock mincore madvise getcpu times sysinfo uname
	prlimit64 getrusage clock_gettime clock_nanosleep nanosleep ppoll pselect6 newfstatat getdents64 renameat2 unlinkat restart_syscall
	recvmmsg sendmmsg accept4 bind listen connect sendto recvfrom sendmsg recvmsg setsockopt getsockopt`

func TestDefaultKeepsItsPromises(t *testing.T) {
	for _, arch := range Arches() {
		f, err := Builtin("default", arch)
		require.NoError(t, err)
		for _, r := range rows {
			nr, ok := arch.Number(r.call)
			if !ok {
				require.True(t, known(r.call), r.call)
				continue
			}
			d := Data{NR: nr, Arch: arch.Audit(), Args: r.args}
			assert.Equal(t, r.want.String(), run(f, d).String(), "%s: %s%x on %s", r.promise, r.call, r.args, arch)
			for i := range d.Args {
				d.Args[i] = d.Args[i]&0xffffffff | garbage
			}
			assert.Equal(t, r.want.String(), run(f, d).String(), "SC11 high garbage, %s: %s%x on %s", r.promise, r.call, r.args, arch)
		}
	}
}

func TestRealSoftwareWorks(t *testing.T) {
	for _, name := range Names() {
		for _, arch := range Arches() {
			f, err := Builtin(name, arch)
			require.NoError(t, err)
			for call := range strings.FieldsSeq(works) {
				nr, ok := arch.Number(call)
				require.True(t, ok, call)
				assert.Equal(t, Allow, run(f, Data{NR: nr, Arch: arch.Audit()}), "%s in %s on %s", call, name, arch)
			}
		}
	}
}

// NE13: all families but four; and compute has none.
func TestSocketFamilies(t *testing.T) {
	for _, arch := range Arches() {
		nr, _ := arch.Number("socket")
		for family := range uint64(64) {
			want := map[string]Action{"default": eafnosupport, "network": eafnosupport, "compute": eafnosupport, "build": eafnosupport}
			switch family {
			case 1:
				want = map[string]Action{"default": Allow, "network": Allow, "compute": eperm, "build": Allow}
			case 2, 10, 16:
				want = map[string]Action{"default": Allow, "network": Allow, "compute": eperm, "build": Allow}
			}
			for name, action := range want {
				f, err := Builtin(name, arch)
				require.NoError(t, err)
				for _, high := range []uint64{0, garbage} {
					d := Data{NR: nr, Arch: arch.Audit(), Args: a(high|family, high|0x80002, high)}
					assert.Equal(t, action.String(), run(f, d).String(), "family %d in %s on %s", family, name, arch)
				}
			}
		}
	}
}

// SC34: none unclassified.
func TestDefaultClassifiesEveryCall(t *testing.T) {
	for _, arch := range Arches() {
		byName := map[string]*Rule{}
		require.NoError(t, defaultProfile.collect(byName, arch))
		table, _ := arch.rows()
		for _, r := range table {
			assert.Contains(t, byName, r.name, "every call of the table has a rule, be it refusal")
		}
	}
}

// budget is M4 of security.md: how many calls a program can reach with some arguments.
const budget = 260

func TestInvariantsOfAllProfiles(t *testing.T) {
	for _, name := range Names() {
		for _, arch := range Arches() {
			t.Run(name+"/"+arch.String(), func(t *testing.T) {
				p, err := Lookup(name)
				require.NoError(t, err)
				assert.Equal(t, enosys, p.Default)
				f, err := Compile(p, arch)
				require.NoError(t, err)
				shipped, err := Builtin(name, arch)
				require.NoError(t, err)
				require.Equal(t, f, shipped, "go generate ./seccomp is due")
				require.NoError(t, f.Check())
				assert.LessOrEqual(t, len(f), 256, "much less than the kernel's %d", MaxLen)
				assert.LessOrEqual(t, reachable(t, &p, f, arch), budget)
				testForeign(t, f, arch)
				for nr := range uint32(1024) { // no profile allows TIOCSTI, whatever the file and the high bits
					d := Data{NR: nr, Arch: arch.Audit(), Args: a(7, garbage|0x5412)}
					if call, _ := arch.Name(nr); call == "ioctl" {
						assert.Equal(t, eperm, run(f, d))
					}
				}
			})
		}
	}
}

// reachable counts, comparing every verdict with the table's on the way.
func reachable(t *testing.T, p *Profile, f Filter, arch Arch) int {
	entries, err := p.entries(arch)
	require.NoError(t, err)
	n := 0
	for _, e := range entries {
		some := false
		for _, args := range edges(e.rule, many) {
			d := Data{NR: e.nr, Arch: arch.Audit(), Args: args}
			got := run(f, d)
			require.Equal(t, e.rule.decide(d), got, "%s%x", e.name, args)
			some = some || got == Allow
		}
		if some {
			n++
		}
	}
	t.Logf("%d calls reachable, %d instructions", n, len(f))
	return n
}

// testForeign is SC07 to SC10 and NE14.
func testForeign(t *testing.T, f Filter, arch Arch) {
	for _, audit := range []uint32{0, 0x40000003, 0x40000028, 0xc000003e, 0xc00000b7, ^uint32(0)} {
		if audit == arch.Audit() {
			continue
		}
		for nr := range uint32(1024) {
			require.Equal(t, Kill, run(f, Data{NR: nr, Arch: audit}), "call %d of architecture %x", nr, audit)
		}
	}
	x32 := enosys
	if arch == AMD64 {
		x32 = Kill
	}
	for nr := range uint32(1024) {
		require.Equal(t, x32, run(f, Data{NR: 0x40000000 + nr, Arch: arch.Audit()}), "SC09 x32 number %d", nr)
	}
	require.Equal(t, x32, run(f, Data{NR: 0x7fffffff, Arch: arch.Audit()}))
	table, _ := arch.rows()
	last := uint32(table[len(table)-1].nr)
	for _, nr := range []uint32{last + 1, 600, 1023, 1024, 1 << 16, 0x3fffffff, 1 << 31, 0xc0000000, 0xffffffff} {
		require.Equal(t, enosys, run(f, Data{NR: nr, Arch: arch.Audit()}), "SC10 number %x", nr)
	}
}

// TestWhatAFamilyAddsOrTakes compares each profile with default, call by call: nothing else differs than what it is for.
func TestWhatAFamilyAddsOrTakes(t *testing.T) {
	differs := map[string][]string{"default": nil, "network": nil, "compute": {"ioprio_get", "mlockall", "socket", "splice"}, "build": {"personality", "ptrace"}}
	require.Len(t, differs, len(Names()), "each profile is here")
	for name, want := range differs {
		for _, arch := range Arches() {
			base, err := Lookup("default")
			require.NoError(t, err)
			p, err := Lookup(name)
			require.NoError(t, err)
			a, err := base.entries(arch)
			require.NoError(t, err)
			b, err := p.entries(arch)
			require.NoError(t, err)
			var got []string
			for i := range a {
				if a[i].rule != b[i].rule {
					got = append(got, a[i].name)
				}
			}
			assert.ElementsMatch(t, want, got, "%s on %s", name, arch)
		}
	}
}

func TestBuildTracesAndTurnsRandomizationOff(t *testing.T) {
	for _, arch := range Arches() {
		f, err := Builtin("build", arch)
		require.NoError(t, err)
		for _, r := range []struct {
			call string
			args [6]uint64
			want Action
		}{
			{"ptrace", a(0), Allow}, {"ptrace", a(0x4206, 2), Allow},
			{"personality", a(0x40000), Allow}, {"personality", a(0x40008), Allow}, {"personality", a(0xffffffff), Allow}, {"personality", a(0), Allow},
			{"personality", a(0x400000), eperm}, {"personality", a(0x100000), eperm}, {"personality", a(0x140000), eperm},
			{"process_vm_readv", a(2), eperm}, {"pidfd_getfd", a(3), eperm}, {"perf_event_open", a(), eperm}, {"userfaultfd", a(1), enosys},
		} {
			nr, ok := arch.Number(r.call)
			require.True(t, ok)
			assert.Equal(t, r.want.String(), run(f, Data{NR: nr, Arch: arch.Audit(), Args: r.args}).String(), "%s%x on %s", r.call, r.args, arch)
		}
	}
}

func TestAnnotate(t *testing.T) {
	for _, arch := range Arches() {
		f, err := Builtin("default", arch)
		require.NoError(t, err)
		text := f.Annotate(arch)
		assert.Contains(t, text, "# "+arch.String()+"\n")
		assert.Regexp(t, `if A (==|>=|>) 0x[0-9a-f]+ goto [0-9]+ else [0-9]+ +# (from |after )?[a-z0-9_]+\n`, text)
		plain := strings.Split(f.String(), "\n")
		for i, line := range strings.Split(text, "\n") {
			assert.True(t, strings.HasPrefix(line, plain[i]), "%q begins with %q", line, plain[i])
		}
	}
	assert.Equal(t, "   0  A = low(arg0)\n   1  if A == 0x0 goto 2 else 2\n   2  return allow\n",
		Filter{{Code: opLoad, K: offArgs}, {Code: opJeq}, {Code: opRet, K: uint32(Allow)}}.Annotate(AMD64), "an argument is no call")
}

func TestReachLeavesOutWhatIsRefusedForAllArguments(t *testing.T) {
	p, err := Lookup("compute")
	require.NoError(t, err)
	_, some, err := p.Reach(AMD64)
	require.NoError(t, err)
	assert.NotContains(t, some, "socket")
	assert.Contains(t, some, "socketpair")
	text, err := p.Describe(AMD64)
	require.NoError(t, err)
	assert.Regexp(t, `^allow \d+ calls, 17 more by their arguments; 1 refused in different ways; `, text)
}

func TestDiffTellsWhatEachLetsThrough(t *testing.T) {
	one := Profile{Default: enosys, Rules: []Rule{{Calls: "read write bpf", Action: Allow}, {Calls: "kill", Action: eperm},
		{Calls: "mmap", Action: Allow, Cases: []Case{{If: []Cond{{In: []uint32{1}}}, Action: eperm}}}}}
	two := Profile{Default: enosys, Rules: []Rule{{Calls: "read accept", Action: Allow}, {Calls: "kill", Action: enosys},
		{Calls: "write", Action: eperm, Cases: []Case{{If: []Cond{{In: []uint32{2}}}, Action: Allow}}}, {Calls: "mmap", Action: Allow},
		{Calls: "bpf", Action: eperm, Cases: []Case{{If: []Cond{{In: []uint32{2}}}, Action: enosys}}}}}
	lines, err := Diff(one, two, AMD64)
	require.NoError(t, err)
	assert.Equal(t, []string{"+ accept", "- bpf", "- mmap: errno EPERM if arg0 in {0x1}; otherwise allow", "+ mmap",
		"- write", "+ write: allow if arg0 in {0x2}; otherwise errno EPERM"}, lines)
	lines, err = Diff(one, one, ARM64)
	require.NoError(t, err)
	assert.Empty(t, lines)
	_, err = Diff(one, Profile{Rules: []Rule{{Calls: "x"}}}, AMD64)
	assert.Error(t, err)
}

func TestWithoutIsStricter(t *testing.T) {
	p, err := Lookup("build")
	require.NoError(t, err)
	always, some, err := p.Reach(AMD64)
	require.NoError(t, err)
	assert.Contains(t, always, "ptrace")
	assert.Contains(t, some, "personality")
	less := p.Without("ptrace", "personality")
	always, some, err = less.Reach(AMD64)
	require.NoError(t, err)
	assert.NotContains(t, always, "ptrace")
	assert.NotContains(t, some, "personality")
	_, err = Compile(p.Without("nosuch"), AMD64)
	assert.ErrorContains(t, err, "nosuch")
	assert.Equal(t, p, p.Without())
}
