package entry

import (
	"sync/atomic"
	"unsafe"
)

// This file makes a sandbox's namespaces while Go's runtime starts and the run is planned. They take the kernel 600 us, most of it for the
// network namespace, and a machine with two processors has nothing else to do meanwhile.
//
// begin guesses the namespaces from the command line and starts two processes that share this one's memory and descriptors. The kernel makes
// namespaces in the process that calls clone(2), so the first one calls it and ends; the second one is in the namespaces, and waits.
// [ForkAhead] then has it start the child, a copy of this process's memory at that time, as a child of this process (CLONE_PARENT). If the
// guess was wrong, [EndAhead] ends it, and nothing else has happened.

// ahead is what the three processes share.
var ahead struct {
	state         uint32 // a futex: see the constants below
	first, second int    // pids; 0 if there is none
	flags         uintptr
	owner         uintptr // pid of this process
	run           uintptr // what the child calls
	argument      unsafe.Pointer
	pid           uintptr // of the child, or a negative errno
	pidfd         int32
	mask          uint64 // the signals that this process was started with blocked
}

// States of ahead.
const (
	stateNone     = iota
	stateStarting // until the second process says something
	stateReady
	stateFailed
	stateGo
	stateDone
	stateCancel
)

// Flags of clone(2), from include/uapi/linux/sched.h.
const (
	cloneVM        = 0x00000100
	cloneFiles     = 0x00000400
	clonePidfd     = 0x00001000
	cloneParent    = 0x00008000
	cloneNewNS     = 0x00020000
	cloneNewCgroup = 0x02000000
	cloneNewUTS    = 0x04000000
	cloneNewIPC    = 0x08000000
	cloneNewUser   = 0x10000000
	cloneNewPid    = 0x20000000
	cloneNewNet    = 0x40000000

	sigchld = 17
)

// Stacks of the two processes. A nosplit chain needs at most some 800 bytes. The child has the first one's place, in its copy of the memory.
var stacks [2][512]uintptr

// local stands for the thread-local storage that the runtime has not made yet: code that calls assembly reads g from there.
var local [2]uintptr

// firstEntry and secondEntry are called by Clone. A func value points to the function's address.
var (
	firstEntry  = first
	secondEntry = second
)

//go:nosplit
//go:norace
//go:nocheckptr
func entryOf(fn *func()) uintptr { return **(**uintptr)(unsafe.Pointer(fn)) }

// Clone is clone(2). In the child it calls the function at address entry with argument. It takes an address because the linker would see a
// direct call as endless recursion, for which no nosplit stack is large enough; in fact the child starts with an empty stack.
//
//go:noescape
func Clone(flags, stack uintptr, pidfd *int32, entry uintptr, argument unsafe.Pointer) (pid uintptr)

// startAhead starts the two processes, for namespaces by flags of clone(2).
//
//go:nosplit
//go:norace
//go:nocheckptr
func startAhead(flags uintptr) {
	if !setLocal(uintptr(unsafe.Pointer(&local[1]))) {
		return
	}
	ahead.flags = flags
	ahead.owner, _, _ = rawSyscall6(sysGetpid, 0, 0, 0, 0, 0, 0)
	ahead.state = stateStarting
	all := ^uint64(0) // no signal is for the two: one that ended the second, as Ctrl-C would, would end the run
	setMask(&all, &ahead.mask)
	pid := Clone(cloneVM|cloneFiles|sigchld, top(0), nil, entryOf(&firstEntry), nil)
	setMask(&ahead.mask, nil)
	if pid > ^uintptr(4095) {
		ahead.state = stateNone
		return
	}
	ahead.first = int(pid)
}

// setLocal sets the register through which code finds thread-local storage, unless it is set: the C library has done so where a program was
// linked with it (arch_prctl(2)).
//
//go:nosplit
//go:norace
//go:nocheckptr
func setLocal(address uintptr) bool {
	if sysArchPrctl == 0 {
		return true
	}
	const setFS, getFS = 0x1002, 0x1003
	now := ^uintptr(0)
	if _, _, e := rawSyscall6(sysArchPrctl, getFS, uintptr(unsafe.Pointer(&now)), 0, 0, 0, 0); e != 0 || now != 0 {
		return false
	}
	_, _, e := rawSyscall6(sysArchPrctl, setFS, address, 0, 0, 0, 0)
	return e == 0
}

// setMask sets the mask of blocked signals, and stores what it was.
//
//go:nosplit
//go:norace
//go:nocheckptr
func setMask(mask, old *uint64) {
	const setmask = 2 // SIG_SETMASK
	rawSyscall6(sysRtSigprocmask, setmask, uintptr(unsafe.Pointer(mask)), uintptr(unsafe.Pointer(old)), 8, 0, 0)
}

// RestoreMask is for the child of [ForkAhead]: it sets the mask of blocked signals to that which this process was started with.
// It is not inlined, for the stack of its caller has no room for more.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func RestoreMask() { setMask(&ahead.mask, nil) }

// top is the top of a stack.
//
//go:nosplit
//go:norace
//go:nocheckptr
func top(i int) uintptr { return uintptr(unsafe.Pointer(&stacks[i][508])) }

// first makes the namespaces, by starting the second process in them, as a sibling, and ends.
//
//go:nosplit
//go:norace
//go:nocheckptr
func first() {
	flags := ahead.flags&^cloneNewPid | cloneVM | cloneFiles | cloneParent | sigchld
	pid := Clone(flags, top(1), nil, entryOf(&secondEntry), nil)
	if pid > ^uintptr(4095) {
		tell(stateFailed)
	} else {
		atomic.StoreInt64((*int64)(unsafe.Pointer(&ahead.second)), int64(pid))
	}
	rawSyscall6(sysExit, 0, 0, 0, 0, 0, 0)
}

// second waits for what there is to do, and ends with this process.
//
//go:nosplit
//go:norace
//go:nocheckptr
func second() {
	const setDeathSignal, sigkill = 1, 9
	rawSyscall6(sysPrctl, setDeathSignal, sigkill, 0, 0, 0, 0)
	// With SIGCHLD ignored nobody learns how the child's children end.
	var defaultAction [4]uintptr
	rawSyscall6(sysRtSigaction, sigchld, uintptr(unsafe.Pointer(&defaultAction)), 0, 8, 0, 0)
	if parent, _, _ := rawSyscall6(sysGetppid, 0, 0, 0, 0, 0, 0); parent == ahead.owner {
		tell(stateReady)
		if await(stateReady) == stateGo {
			// As package syscall does for this process.
			all := Limit{found.nofile.Hard, found.nofile.Hard}
			if all.Hard != 0 {
				rawSyscall6(sysPrlimit64, 0, rlimitNofile, uintptr(unsafe.Pointer(&all)), 0, 0, 0)
			}
			ahead.pid = Clone(ahead.flags&cloneNewPid|cloneParent|clonePidfd|sigchld, top(0), &ahead.pidfd, ahead.run, ahead.argument)
			tell(stateDone)
		}
	}
	rawSyscall6(sysExit, 0, 0, 0, 0, 0, 0)
}

// tell changes the state, and wakes who waits for that.
//
//go:nosplit
//go:norace
//go:nocheckptr
func tell(state uint32) {
	const wake, all = 129, 1<<31 - 1 // FUTEX_WAKE_PRIVATE
	atomic.StoreUint32(&ahead.state, state)
	rawSyscall6(sysFutex, uintptr(unsafe.Pointer(&ahead.state)), wake, all, 0, 0, 0)
}

// await waits until the state is another one than was, and returns that.
//
//go:nosplit
//go:norace
//go:nocheckptr
func await(was uint32) uint32 {
	const wait = 128 // FUTEX_WAIT_PRIVATE
	for {
		if now := atomic.LoadUint32(&ahead.state); now != was {
			return now
		}
		rawSyscall6(sysFutex, uintptr(unsafe.Pointer(&ahead.state)), wait, uintptr(was), 0, 0, 0)
	}
}

// ForkAhead starts a child in the namespaces that were made ahead, if they are those of flags. The child has a copy of this process's memory,
// and calls the function at address run with argument. It has the actions of signals that this process was started with, but for
// SIGCHLD, whose action is the default, and every signal is blocked: see [RestoreMask]. pid is a negative errno if there is no child.
func ForkAhead(flags, run uintptr, argument unsafe.Pointer) (pid uintptr, pidfd int, ok bool) {
	state := atomic.LoadUint32(&ahead.state)
	if state == stateStarting && ahead.flags == flags {
		state = awaitLiving(stateStarting)
	}
	if state != stateReady || ahead.flags != flags || ended(ahead.second) {
		EndAhead()
		return 0, -1, false
	}
	ahead.run, ahead.argument, ahead.pidfd = run, argument, -1
	tell(stateGo)
	if awaitLiving(stateGo) == stateGo { // it was killed; a child that it may have made ends with this process
		const esrch = 3
		return ^uintptr(esrch - 1), -1, true
	}
	return ahead.pid, int(ahead.pidfd), true
}

// awaitLiving is await, but returns was if the process that would change it has ended.
func awaitLiving(was uint32) uint32 {
	const wait = 128                    // FUTEX_WAIT_PRIVATE
	interval := [2]int64{0, 20_000_000} // struct timespec
	for {
		if now := atomic.LoadUint32(&ahead.state); now != was {
			return now
		}
		_, _, e := rawSyscall6(sysFutex, uintptr(unsafe.Pointer(&ahead.state)), wait, uintptr(was), uintptr(unsafe.Pointer(&interval)), 0, 0)
		if e == 0 {
			continue
		}
		// ETIMEDOUT, or EINTR: Go interrupts a goroutine that runs for 10 ms.
		pid := ahead.first // as long as there is no second
		if second := atomic.LoadInt64((*int64)(unsafe.Pointer(&ahead.second))); second != 0 {
			pid = int(second)
		}
		if ended(pid) && atomic.LoadUint32(&ahead.state) == was {
			return was
		}
	}
}

// ended reports whether a child has ended. It leaves it to be reaped.
func ended(pid int) bool {
	const (
		byPid = 1          // P_PID
		look  = 0x01000005 // WEXITED, WNOHANG, WNOWAIT
	)
	var info [32]int32 // siginfo_t, with the pid in the fifth word
	_, _, e := rawSyscall6(sysWaitid, byPid, uintptr(pid), uintptr(unsafe.Pointer(&info)), look, 0, 0)
	return e != 0 || info[4] != 0
}

// EndAhead ends what begin has started ahead and is not needed, and waits for its end. It can be called more than once.
func EndAhead() {
	if ahead.first == 0 {
		return
	}
	if atomic.LoadUint32(&ahead.state) == stateStarting {
		awaitLiving(stateStarting)
	}
	if atomic.LoadUint32(&ahead.state) == stateReady {
		tell(stateCancel)
	}
	reap(ahead.first)
	if second := atomic.LoadInt64((*int64)(unsafe.Pointer(&ahead.second))); second != 0 {
		reap(int(second))
	}
	ahead.first = 0
}

// reap waits for a child.
func reap(pid int) {
	const eintr = 4
	for {
		if _, _, e := rawSyscall6(sysWait4, uintptr(pid), 0, 0, 0, 0, 0); e != eintr {
			return
		}
	}
}
