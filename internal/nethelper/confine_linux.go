package nethelper

import (
	"errors"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/seccomp"
	"golang.org/x/sys/unix"
)

// confine takes from every thread of this process what serving does not need: capabilities, files and system calls. Landlock is left out
// where the kernel does not have it. In a program that links a C library Go does not know every thread: there the filter, which the kernel gives to all, is
// alone. See package network.
func confine() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return err
	}
	err := sys.AllThreads(unix.SYS_PRCTL, sys.Int(unix.PR_SET_NO_NEW_PRIVS), sys.Int(1), sys.Int(0))
	if errors.Is(err, unix.ENOTSUP) {
		runtime.LockOSThread() // no_new_privs is this thread's until the filter comes
		return filterCalls()
	}
	if err != nil {
		return err
	}
	if abi, err := landlock.ABI(); err == nil && abi > 0 {
		if err := restrictFiles(abi); err != nil {
			return err
		}
	}
	if unix.Geteuid() == 0 {
		header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		if err := sys.AllThreads(unix.SYS_CAPSET, sys.Struct(header), sys.Struct(&[2]unix.CapUserData{})); err != nil {
			return err
		}
	}
	return filterCalls()
}

// resolverFiles are the files that Go's resolver reads. The directories are those that the link /etc/resolv.conf leads to: what changes the file
// puts a new one into its place, which a rule for the file would not have.
var resolverFiles = []string{"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/services", "/etc/protocols"}

// restrictFiles leaves the resolver's files, for reading.
func restrictFiles(abi int) error {
	want := landlock.Ruleset{HandledFS: landlock.AllFS, HandledNet: landlock.BindTCP, Scoped: landlock.ScopeAll}
	for _, path := range resolverFiles {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue
		}
		want.Paths = append(want.Paths, landlock.PathRule{Path: real, Access: landlock.ReadFile, Optional: true, File: true})
		if dir := filepath.Dir(real); path == resolverFiles[0] && strings.HasPrefix(dir, "/run/") {
			want.Paths = append(want.Paths, landlock.PathRule{Path: dir, Access: landlock.ReadFile, Optional: true})
		}
	}
	ruleset, _ := landlock.Fit(want, abi)
	number, err := sys.SpareFD(nil)
	if err != nil {
		return err
	}
	var p sys.Program
	p.Add(unix.SYS_DUP3, sys.Of(landlock.Build(&p, ruleset)), sys.Int(number), sys.Int(unix.O_CLOEXEC))
	if err := p.Run(); err != nil {
		return err
	}
	defer unix.Close(number)
	return sys.AllThreads(unix.SYS_LANDLOCK_RESTRICT_SELF, sys.Int(number), sys.Int(0))
}

// filterCalls refuses every system call but those of Go's runtime and of package net.
func filterCalls() error {
	arch, err := seccomp.Host()
	if err != nil {
		return err
	}
	filter, err := seccomp.Compile(profile, arch)
	if err != nil {
		return err
	}
	program := make([]unix.SockFilter, len(filter))
	for i, in := range filter {
		program[i] = unix.SockFilter{Code: in.Code, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	if !sys.FilterThreads(program) {
		return errors.New("the kernel sets no filter of system calls")
	}
	return nil
}

// allowIf is a rule for calls whose argument, under the mask, is one of the values.
func allowIf(calls string, conds ...seccomp.Cond) seccomp.Rule {
	return seccomp.Rule{Calls: calls, Action: refuse, Cases: []seccomp.Case{{If: conds, Action: seccomp.Allow}}}
}

func values(v ...uint32) []uint32 { return v }

// kindMask leaves the kind of a socket, without its flags.
const kindMask = ^uint32(unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK)

// refuse is the answer to every other call.
var refuse = seccomp.Errno(uint16(unix.EPERM))

// profile lists the system calls of Go's runtime and of package net. None starts a program, writes a file, or reaches another process. clone3 is
// not there (ENOSYS), as a filter cannot see its flags; Go's runtime uses clone.
var profile = seccomp.Profile{
	Name: "nsrun-helper", Doc: "the network helper of nsrun", Default: refuse,
	Rules: []seccomp.Rule{
		{Calls: "read write readv writev close pread64 lseek fstat newfstatat stat lstat statx " +
			"epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd2 pipe2 splice poll ppoll pselect6 " +
			"connect accept4 getsockname getpeername getsockopt setsockopt sendto sendmsg recvfrom recvmsg shutdown bind " +
			"futex munmap madvise mincore sigaltstack rt_sigprocmask rt_sigaction rt_sigreturn " +
			"nanosleep clock_nanosleep clock_gettime gettimeofday sched_yield sched_getaffinity getpid gettid getppid " +
			"getuid geteuid getgid getegid getrandom uname exit exit_group restart_syscall getrlimit membarrier rseq set_robust_list",
			Action: seccomp.Allow},
		{Calls: "clone3", Action: seccomp.Errno(uint16(unix.ENOSYS))},
		allowIf("openat", seccomp.Cond{Arg: 2, Mask: unix.O_ACCMODE | unix.O_CREAT | unix.O_TRUNC | unix.O_PATH, In: values(unix.O_RDONLY)}),
		allowIf("mmap mprotect", seccomp.Cond{Arg: 2, Mask: unix.PROT_EXEC, In: values(0)}),
		allowIf("clone", seccomp.Cond{Arg: 0, Mask: unix.CLONE_THREAD | unix.CLONE_VM, In: values(unix.CLONE_THREAD | unix.CLONE_VM)}),
		allowIf("fcntl", seccomp.Cond{Arg: 1, In: values(unix.F_GETFL, unix.F_SETFL, unix.F_GETFD, unix.F_SETFD, unix.F_DUPFD_CLOEXEC, unix.F_SETPIPE_SZ, unix.F_GETPIPE_SZ)}),
		allowIf("tgkill", seccomp.Cond{Arg: 2, In: values(uint32(unix.SIGURG))}), // Go's runtime interrupts its threads
		{Calls: "socket", Action: refuse, Cases: []seccomp.Case{
			{If: []seccomp.Cond{{Arg: 0, In: values(unix.AF_INET, unix.AF_INET6)}, {Arg: 1, Mask: kindMask, In: values(unix.SOCK_STREAM, unix.SOCK_DGRAM)}, {Arg: 2, In: values(0, unix.IPPROTO_TCP, unix.IPPROTO_UDP)}}, Action: seccomp.Allow},
			{If: []seccomp.Cond{{Arg: 0, In: values(unix.AF_NETLINK)}, {Arg: 2, In: values(unix.NETLINK_ROUTE)}}, Action: seccomp.Allow},
		}},
		allowIf("prlimit64", seccomp.Cond{Arg: 2, In: values(0)}), // Go reads and restores its own
	},
}
