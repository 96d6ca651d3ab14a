package entry

import (
	"sync/atomic"
	"unsafe"
)

// This file makes a sandbox's namespaces while Go's runtime starts and the run is planned, those of nsrun run only during the latter. They take the kernel 600 us, most of it for the
// network namespace, and a machine with two processors has nothing else to do meanwhile.
//
// begin guesses the namespaces from the command line and starts two processes that share this one's memory and descriptors. The kernel makes
// namespaces in the process that calls clone(2), so the first one calls it and ends; the second one is in the namespaces, and waits.
// [ForkAhead] then has it start the child, a copy of this process's memory at that time, as a child of this process (CLONE_PARENT). If the
// guess was wrong, [EndAhead] ends it, and nothing else has happened.

// ahead is what the three processes share.
var ahead struct {
	state         uint32 // a futex: see the constants below
	first, second int32  // pids; 0 if there is none
	flags         uintptr
	owner         uintptr // pid of this process
	run           uintptr // what the child calls
	argument      unsafe.Pointer
	work          func(unsafe.Pointer) // what the second one calls before
	task          unsafe.Pointer       // and its argument
	pid           uintptr              // of the child, or a negative errno
	pidfd         int32
	forks         uint32 // the second one needs no word to fork when its work is done
	held          uint32 // a futex: the first one waits while it is 1
	discarded     bool   // namespaces were made that nobody has used
}

// States of ahead. The second process sets ready, failed and done; the others are this process's, and work may be followed by either's.
const (
	stateNone     = iota // nothing was started, or all has ended
	stateStarting        // the second process has not begun
	stateReady           // it waits for what there is to do
	stateWork            // it does the work
	stateFailed          // there are no namespaces
	stateGo              // it is to fork the child
	stateDone            // it has tried to: pid
	stateCancel          // the work takes too long: it is to end
)

// Flags of clone(2), from include/uapi/linux/sched.h.
const (
	cloneVM        = 0x00000100
	cloneFiles     = 0x00000400
	clonePidfd     = 0x00001000
	cloneParent    = 0x00008000
	cloneSetTID    = 0x00100000 // CLONE_PARENT_SETTID: in the argument that CLONE_PIDFD has, too
	cloneNewNS     = 0x00020000
	cloneNewCgroup = 0x02000000
	cloneNewUTS    = 0x04000000
	cloneNewIPC    = 0x08000000
	cloneNewUser   = 0x10000000
	cloneNewPid    = 0x20000000
	cloneNewNet    = 0x40000000

	sigkill = 9
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

// startAhead starts the two processes, for namespaces by flags of clone(2). hold has the first one wait for release.
//
//go:nosplit
//go:norace
//go:nocheckptr
func startAhead(flags uintptr, hold bool) {
	if !setLocal(uintptr(unsafe.Pointer(&local[1]))) {
		return
	}
	ahead.flags = flags
	ahead.owner, _, _ = rawSyscall6(sysGetpid, 0, 0, 0, 0, 0, 0)
	ahead.state = stateStarting
	if hold {
		ahead.held = 1
	}
	all := ^uint64(0) // no signal is for the two: one that ended the second, as Ctrl-C would, would end the run
	setMask(&all, nil)
	pid := Clone(cloneVM|cloneFiles|sigchld, top(0), nil, entryOf(&firstEntry), nil)
	setMask(&found.mask, nil)
	if pid > ^uintptr(4095) {
		ahead.state = stateNone
		return
	}
	ahead.first = int32(pid)
	moveAway(pid)
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

// Restore is for a child: it sets the mask of blocked signals and the timer slack to those which this process was started with, if begin has seen
// them. It is not inlined, for the stack of its caller has no room for more.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func Restore() {
	if found.masked {
		setMask(&found.mask, nil)
	}
	restoreSlack()
}

// top is the top of a stack.
//
//go:nosplit
//go:norace
//go:nocheckptr
func top(i int) uintptr { return uintptr(unsafe.Pointer(&stacks[i][508])) }

// first makes the namespaces, by starting the second process in them, as a sibling, and ends. The kernel stores the second's pid before the
// second runs, so who has seen the first one end knows it.
//
//go:nosplit
//go:norace
//go:nocheckptr
func first() {
	if !diesWithOwner() {
		tell(stateFailed)
		rawSyscall6(sysExit, 0, 0, 0, 0, 0, 0)
	}
	for atomic.LoadUint32(&ahead.held) != 0 {
		Wait(&ahead.held, 1)
	}
	if affinity.moved { // or the kernel may queue the second behind this process's owner, which runs on, and leave this processor idle
		setCPUs(0, &affinity.others)
	}
	flags := ahead.flags&^cloneNewPid | cloneVM | cloneFiles | cloneParent | cloneSetTID | sigchld
	if pid := Clone(flags, top(1), &ahead.second, entryOf(&secondEntry), nil); pid > ^uintptr(4095) {
		tell(stateFailed)
	}
	rawSyscall6(sysExit, 0, 0, 0, 0, 0, 0)
}

// second waits for what there is to do, and ends with this process.
//
//go:nosplit
//go:norace
//go:nocheckptr
func second() {
	// With SIGCHLD ignored nobody learns how the child's children end.
	var defaultAction [4]uintptr
	rawSyscall6(sysRtSigaction, sigchld, uintptr(unsafe.Pointer(&defaultAction)), 0, 8, 0, 0)
	if !diesWithOwner() || !moveBack(0, &affinity.theirs) {
		tell(stateFailed)
		rawSyscall6(sysExit, 0, 0, 0, 0, 0, 0)
	}
	tell(stateReady)
	if ahead.flags&cloneNewNet != 0 {
		raiseLoopback()
	}
	state := await(stateReady)
	// As package syscall does for this process.
	all := Limit{found.nofile.Hard, found.nofile.Hard}
	if all.Hard != 0 {
		rawSyscall6(sysPrlimit64, 0, rlimitNofile, uintptr(unsafe.Pointer(&all)), 0, 0, 0)
	}
	if state == stateWork {
		ahead.work(ahead.task)
		if atomic.LoadUint32(&ahead.forks) == 0 {
			if atomic.CompareAndSwapUint32(&ahead.state, stateWork, stateReady) {
				Wake(&ahead.state)
				await(stateReady)
			}
		} else {
			atomic.CompareAndSwapUint32(&ahead.state, stateWork, stateGo)
		}
	}
	if atomic.LoadUint32(&ahead.state) != stateGo {
		rawSyscall6(sysExit, 0, 0, 0, 0, 0, 0)
	}
	ahead.pid = Clone(ahead.flags&cloneNewPid|cloneParent|clonePidfd|sigchld, top(0), &ahead.pidfd, ahead.run, ahead.argument)
	tell(stateDone)
	rawSyscall6(sysExit, 0, 0, 0, 0, 0, 0)
}

// diesWithOwner has the calling process end with its parent (PR_SET_PDEATHSIG(2const)), and reports whether that is this one.
//
//go:nosplit
//go:norace
//go:nocheckptr
func diesWithOwner() bool {
	const setDeathSignal = 1
	_, _, e := rawSyscall6(sysPrctl, setDeathSignal, sigkill, 0, 0, 0, 0)
	parent, _, _ := rawSyscall6(sysGetppid, 0, 0, 0, 0, 0, 0)
	return e == 0 && parent == ahead.owner
}

// release lets the first process go on, when Go's runtime has made its heap. While two processors use the same memory, the first write to a page that
// was read before interrupts the other one.
func release() {
	if ahead.held != 0 {
		atomic.StoreUint32(&ahead.held, 0)
		Wake(&ahead.held)
	}
}

// tell changes the state, and wakes who waits for that.
//
//go:nosplit
//go:norace
//go:nocheckptr
func tell(state uint32) {
	atomic.StoreUint32(&ahead.state, state)
	Wake(&ahead.state)
}

// Operations of futex(2). They are not the private ones, though the memory is one: from Linux 6.16 on (CONFIG_FUTEX_PRIVATE_HASH) a process
// gets a table of its own for private futexes with its first thread. The process made here shares the memory and is no thread: if it waits
// before that, a later wake looks for it in the new table, and it sleeps for ever.
const (
	futexWait = 0 // FUTEX_WAIT
	futexWake = 1 // FUTEX_WAKE
)

// Wake wakes all that wait for a word to change.
//
//go:nosplit
//go:norace
//go:nocheckptr
func Wake(word *uint32) {
	const all = 1<<31 - 1
	rawSyscall6(sysFutex, uintptr(unsafe.Pointer(word)), futexWake, all, 0, 0, 0)
}

// Wait waits while a word has a value. It can return before the word changes.
//
//go:nosplit
//go:norace
//go:nocheckptr
func Wait(word *uint32, value uint32) {
	rawSyscall6(sysFutex, uintptr(unsafe.Pointer(word)), futexWait, uintptr(value), 0, 0, 0)
}

// await waits until the state is another one than was, and returns that.
//
//go:nosplit
//go:norace
//go:nocheckptr
func await(was uint32) uint32 {
	for {
		if now := atomic.LoadUint32(&ahead.state); now != was {
			return now
		}
		Wait(&ahead.state, was)
	}
}

// MadeAhead reports whether it was begun to make the namespaces of flags ahead.
func MadeAhead(flags uintptr) bool { return ahead.flags == flags }

// WorkAhead has the second process, if it is in the namespaces of flags, call work with task, and reports whether it does: beside this process,
// with its memory and descriptors. What work calls may use nothing of Go's runtime, and is nosplit. [ForkAhead] waits for its end.
func WorkAhead(flags uintptr, work func(unsafe.Pointer), task unsafe.Pointer) bool {
	if !readyFor(flags) {
		return false
	}
	ahead.work, ahead.task = work, task
	tell(stateWork)
	return true
}

// readyFor waits for the second process, and reports whether it is in the namespaces of flags and waits for what there is to do.
func readyFor(flags uintptr) bool {
	if !MadeAhead(flags) {
		return false
	}
	state := atomic.LoadUint32(&ahead.state)
	if state == stateStarting {
		state = awaitLiving(stateStarting)
	}
	return state == stateReady && !ended(ahead.second)
}

// ForkAhead starts a child in the namespaces that were made ahead, if they are those of flags. The child has a copy of this process's memory,
// and calls the function at address run with argument. It has the actions of signals that this process was started with, but for
// SIGCHLD, whose action is the default, and every signal is blocked: see [Restore]. worked says that [WorkAhead] has returned true. Then meanwhile is called
// as soon as there is nothing to do but to wait, beside the fork: the child can inherit what meanwhile has open at that moment, and whoever has work
// done ahead closes in the child all that it does not know (close_range(2)).
//
// ok is false if there are no such namespaces, and nothing has been started. With ok, pid is a negative errno if the process in them was killed:
// the namespaces are lost.
func ForkAhead(flags, run uintptr, argument unsafe.Pointer, worked bool, meanwhile func()) (pid uintptr, pidfd int, ok bool) {
	ahead.run, ahead.argument, ahead.pidfd = run, argument, -1
	state := uint32(stateNone)
	if worked && atomic.LoadUint32(&ahead.state) == stateWork { // it forks without a word: that would cost two switches
		atomic.StoreUint32(&ahead.forks, 1)
		meanwhile()
		state = awaitFor(stateWork, longestWork)
		// What hinders it hinders the child, too; but this process serves signals and clocks while the child waits.
		if state == stateWork && !atomic.CompareAndSwapUint32(&ahead.state, stateWork, stateCancel) {
			state = atomic.LoadUint32(&ahead.state)
		}
	}
	if state != stateGo && state != stateDone {
		if !readyFor(flags) {
			EndAhead()
			return 0, -1, false
		}
		if tell(stateGo); worked {
			meanwhile()
		}
	}
	if awaitLiving(stateGo) == stateGo { // it was killed; a child that it may have made ends with this process
		const eagain = 11 // what a fork says that meets a lack of something: it is no reason to take another backend
		return ^uintptr(eagain - 1), -1, true
	}
	if ahead.pid > ^uintptr(4095) { // an ordinary fork has the last word
		EndAhead()
		return 0, -1, false
	}
	return ahead.pid, int(ahead.pidfd), true
}

// Discarded reports whether namespaces were made ahead and not used. They count against their limits for some milliseconds after the process
// in them has ended (user_namespaces(7), namespaces(7)).
func Discarded() bool { return ahead.discarded }

// awaitLiving is await, but returns was if the process that would change it has ended.
func awaitLiving(was uint32) uint32 { return awaitFor(was, 1<<62) }

// longestWork is how many intervals of awaitFor ForkAhead waits for work to end.
const longestWork = 5

// awaitFor is awaitLiving, but also returns was after some intervals of 20 ms.
func awaitFor(was uint32, intervals int) uint32 {
	interval := [2]int64{0, 20_000_000} // struct timespec
	for ; intervals > 0; intervals-- {
		if now := atomic.LoadUint32(&ahead.state); now != was {
			return now
		}
		_, _, e := rawSyscall6(sysFutex, uintptr(unsafe.Pointer(&ahead.state)), futexWait, uintptr(was), uintptr(unsafe.Pointer(&interval)), 0, 0)
		if e == 0 {
			continue
		}
		// ETIMEDOUT, or EINTR: Go interrupts a goroutine that runs for 10 ms. The first process is looked at before there may be a second.
		gone := ended(ahead.first)
		if second := atomic.LoadInt32(&ahead.second); second != 0 {
			gone = ended(second)
		}
		if gone && atomic.LoadUint32(&ahead.state) == was {
			return was
		}
	}
	return was
}

// ended reports whether a child has ended. It leaves it to be reaped.
func ended(pid int32) bool {
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
	reap(ahead.first) // it ends as soon as there is a second one, or cannot be
	if second := atomic.LoadInt32(&ahead.second); second != 0 {
		ahead.discarded = atomic.LoadUint32(&ahead.state) != stateDone
		rawSyscall6(sysKill, uintptr(second), sigkill, 0, 0, 0, 0)
		reap(second)
	}
	ahead.first, ahead.second, ahead.state = 0, 0, stateNone
}

// reap waits for a child.
func reap(pid int32) {
	const eintr = 4
	for {
		if _, _, e := rawSyscall6(sysWait4, uintptr(pid), 0, 0, 0, 0, 0); e != eintr {
			return
		}
	}
}
