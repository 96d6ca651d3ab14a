package backend

import (
	"runtime"

	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/sys/entry"
	"github.com/nsrun/nsrun/seccomp"
	"golang.org/x/sys/unix"
)

// giveUp takes from this process, which lives on for one forked sandbox alone, what its wait does not need. Like bubblewrap's monitor, it
// then has no power to exploit when the command begins.
//
//   - Every thread gets no_new_privs, by the one call that changes all threads at once: a filter with SECCOMP_FILTER_FLAG_TSYNC
//     (seccomp(2)). Go's own way, a signal to each thread, costs a start 700 us. A start as bubblewrap has it from its beginning.
//   - Root's filter refuses all but what the wait and Go's runtime need. The first thread, by which a process is judged from outside, also
//     drops its capabilities: the others keep theirs, which the filter leaves no use for.
//
// Where the kernel cannot set the filter, or Go has moved this goroutine to another thread, every thread is asked by a signal. In a program
// with a C library Go cannot do that.
func giveUp() {
	root := unix.Geteuid() == 0
	if !root && entry.NoNewPrivs() {
		return
	}
	moved := unix.Gettid() != unix.Getpid()
	var room [maxWaitFilter]unix.SockFilter
	filter := append(room[:0], unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	if root {
		if arch, err := seccomp.Host(); err == nil {
			filter = waitFilter(room[:0], arch)
		}
		var none [2]unix.CapUserData
		_ = unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0])
		if moved || unix.Gettid() != unix.Getpid() {
			giveUpEach(root)
		}
	}
	if !sys.FilterThreads(filter) {
		giveUpEach(root)
	}
}

// giveUpEach takes capabilities and the way to new ones from each thread.
func giveUpEach(root bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if root {
		header, none := stages.NoCapabilities()
		_ = sys.AllThreads(unix.SYS_CAPSET, header, none)
	}
	_ = sys.AllThreads(unix.SYS_PRCTL, sys.Int(unix.PR_SET_NO_NEW_PRIVS), sys.Int(1), sys.Int(0))
}

// waitCalls are the system calls of a process that waits for its sandbox: those of this package, and those that Go's runtime makes by itself.
// None opens a file, starts a program, or reaches another process but by a descriptor that is already open. None receives one, either: a
// sandbox without a pid namespace could send that of any process.
var waitCalls = []uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_PPOLL, unix.SYS_SENDTO, unix.SYS_CLOSE, unix.SYS_WAIT4, unix.SYS_PIDFD_SEND_SIGNAL,
	unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MADVISE,
	unix.SYS_MPROTECT, unix.SYS_SIGALTSTACK, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGRETURN, unix.SYS_GETTID,
	unix.SYS_GETPID, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_RESTART_SYSCALL, unix.SYS_CLOCK_GETTIME, unix.SYS_EPOLL_CREATE1,
	unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2, unix.SYS_PREAD64,
	unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, // of a new thread, where cgo makes it
}

// newThread are the flags of a clone(2) that makes a thread (Go's runtime/os_linux.go, cloneFlags; glibc's pthread_create), beside threadIDs,
// which say where its number and its local data are.
const (
	newThread = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_SYSVSEM | unix.CLONE_THREAD
	threadIDs = unix.CLONE_SETTLS | unix.CLONE_PARENT_SETTID | unix.CLONE_CHILD_CLEARTID
)

// Offsets in struct seccomp_data (seccomp(2)). An argument's low 32 bits come first on both machines.
const (
	dataNr   = 0
	dataArch = 4
	dataArg0 = 16
	dataArg1 = 24
)

// maxFcntl is a mask over the commands of fcntl(2) that are about a descriptor, its flags and its locks: those of higher numbers include
// F_SETOWN, by which the kernel sends signals to others.
const maxFcntl = 7

// maxWaitFilter is room for waitFilter's instructions on the stack.
const maxWaitFilter = 128

// waitFilter appends to f a filter that allows waitCalls, signals to this process, and new threads of it. Every other call fails with EPERM;
// but clone3(2), whose flags a filter cannot see, is not there, and glibc then makes its threads by clone(2).
//
// Its first instruction is there for a start's sake. From Linux 5.11 on the kernel looks, for each of its system calls, whether a new filter always
// allows that one (kernel/seccomp.c, seccomp_cache_prepare), and with a list this long that takes more time than all else about the filter. It
// does not look behind a load of what it cannot know.
func waitFilter(f []unix.SockFilter, arch seccomp.Arch) []unix.SockFilter {
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	is := func(value uint32, skipIfSo, skipIfNot uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: skipIfSo, Jf: skipIfNot, K: value}
	}
	ret := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	refuse, allow := ret(unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM)), ret(unix.SECCOMP_RET_ALLOW)
	f = append(f, load(dataArg0), load(dataArch), is(arch.Audit(), 1, 0), refuse, load(dataNr))
	for i, nr := range waitCalls { // all jump to the instruction behind the list
		f = append(f, is(nr, uint8(len(waitCalls)-i), 0))
	}
	f = append(f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: 1}, allow)
	self, any := uint32(unix.Getpid()), ^uint32(0)
	for _, c := range []struct{ nr, at, mask, arg uint32 }{{unix.SYS_KILL, dataArg0, any, self}, {unix.SYS_TGKILL, dataArg0, any, self},
		{unix.SYS_CLONE, dataArg0, ^uint32(threadIDs), newThread}, {unix.SYS_FCNTL, dataArg1, ^uint32(maxFcntl), 0}} {
		f = append(f, is(c.nr, 0, 5), load(c.at), unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: c.mask}, is(c.arg, 0, 1), allow, refuse)
	}
	return append(f, is(unix.SYS_CLONE3, 0, 1), ret(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)), refuse)
}
