package backend

import (
	"runtime"

	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/seccomp"
	"golang.org/x/sys/unix"
)

// giveUp takes from this process, which lives on for one forked sandbox alone, what its wait does not need. Like bubblewrap's monitor, it
// then has no power to exploit when the command begins.
//
//   - Every thread gets no_new_privs, by the one call that changes all threads at once: a filter with SECCOMP_FILTER_FLAG_TSYNC
//     (seccomp(2)). Go's own way, a signal to each thread, costs a start 700 us.
//   - Root's filter refuses all but what the wait and Go's runtime need. The thread that calls also drops its capabilities: the others keep
//     theirs, which the filter leaves no use for.
//
// Where the kernel cannot set the filter, every thread is asked by a signal.
func giveUp() {
	root := unix.Geteuid() == 0
	filter := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}
	if root {
		if arch, err := seccomp.Host(); err == nil {
			filter = waitFilter(arch)
		}
		var p sys.Program
		header, none := stages.NoCapabilities()
		p.Add(unix.SYS_CAPSET, header, none)
		_ = p.Run()
	}
	if !installOnAll(filter) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if root {
			header, none := stages.NoCapabilities()
			_ = sys.AllThreads(unix.SYS_CAPSET, header, none)
		}
		_ = sys.AllThreads(unix.SYS_PRCTL, sys.Int(unix.PR_SET_NO_NEW_PRIVS), sys.Int(1), sys.Int(0))
	}
}

// installOnAll sets no_new_privs, installs a filter on every thread, and reports whether every thread has both.
func installOnAll(filter []unix.SockFilter) bool {
	var p sys.Program
	p.Add(unix.SYS_PRCTL, sys.Int(unix.PR_SET_NO_NEW_PRIVS), sys.Int(1), sys.Int(0), sys.Int(0), sys.Int(0))
	notSynced := int32(0) // the number of a thread that the kernel could not change
	p.Add(unix.SYS_SECCOMP, sys.Int(unix.SECCOMP_SET_MODE_FILTER), sys.Int(unix.SECCOMP_FILTER_FLAG_TSYNC),
		sys.Struct(&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})).Into(&notSynced)
	err := p.Run()
	runtime.KeepAlive(filter)
	return err == nil && notSynced == 0
}

// waitCalls are the system calls of a process that waits for its sandbox: those of this package, and those that Go's runtime makes by itself.
// None opens a file, starts a program, or reaches another process but by a descriptor that is already open.
var waitCalls = []uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_PPOLL, unix.SYS_RECVMSG, unix.SYS_SENDTO, unix.SYS_SHUTDOWN, unix.SYS_CLOSE, unix.SYS_WAIT4,
	unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_FCNTL,
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
)

// waitFilter allows waitCalls, signals to this process, and new threads of it. Every other call fails with EPERM; but clone3(2), whose flags
// a filter cannot see, is not there, and glibc then makes its threads by clone(2).
func waitFilter(arch seccomp.Arch) []unix.SockFilter {
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
	f := []unix.SockFilter{load(dataArch), is(arch.Audit(), 1, 0), refuse, load(dataNr)}
	for _, nr := range waitCalls {
		f = append(f, is(nr, 0, 1), allow)
	}
	self, any := uint32(unix.Getpid()), ^uint32(0)
	for _, c := range []struct{ nr, mask, arg uint32 }{{unix.SYS_KILL, any, self}, {unix.SYS_TGKILL, any, self}, {unix.SYS_CLONE, ^uint32(threadIDs), newThread}} {
		f = append(f, is(c.nr, 0, 5), load(dataArg0), unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: c.mask}, is(c.arg, 0, 1), allow, refuse)
	}
	return append(f, is(unix.SYS_CLONE3, 0, 1), ret(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)), refuse)
}
