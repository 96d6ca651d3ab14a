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
//
// The second may have work to do until then ([WorkAhead]). So that it need not stop for the fork, which takes 200 us, it has started a third process,
// with which it also shares its root and working directory.

// ahead is what these processes share.
var ahead struct {
	state         uint32 // a futex: see the constants below
	first, second int32  // pids; 0 if there is none
	flags         uintptr
	owner         uintptr // pid of this process
	run           uintptr // what the child calls
	argument      unsafe.Pointer
	work          Work    // what the second one does before
	pid           uintptr // of the child, or a negative errno
	pidfd         int32
	third         int32  // its pid; 0 if there is none
	ownerFD       int32  // a pidfd of the owner, by which the child sees its end; 0 if there is none
	forker        uint32 // a futex: see the constants below
	held          uint32 // a futex: the first one waits while it is 1
	used          bool   // there is a child
	discarded     bool   // namespaces were made that nobody has used
}

// States of ahead. The processes ahead set ready, failed, worked and done, and this one the others.
const (
	stateNone     = iota // nothing was started, or all has ended
	stateStarting        // the second process has not begun
	stateReady           // it waits for what there is to do, or soon will
	stateWork            // it does the work
	stateFailed          // there are no namespaces
	stateGo              // it is to fork the child
	stateDone            // it has tried to: pid
	stateWorked          // it has done the work, and is about to report that to the child
	stateCancel          // it is to end
)

// States of ahead.forker. The third process sets forkerDone. While the second one works, this process may set forkerGo; when the second one has done
// its work and forks the child itself, it sets forkerQuits. tellForker lets one of them succeed. The third one then ends during the fork: if this process
// ended it later, it would wait for that end, and the child for this process (a run as root takes 1.03 times as long).
const (
	forkerWaits = iota
	forkerGo    // it is to fork the child
	forkerDone  // it has tried to: pid
	forkerQuits // it is to end
)

// Flags of clone(2), from include/uapi/linux/sched.h.
const (
	cloneVM        = 0x00000100
	cloneFS        = 0x00000200
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

// Stacks of the processes. A nosplit chain needs at most some 800 bytes. The child has the first one's place, in its copy of the memory.
var stacks [3][512]uintptr

// local stands for the thread-local storage that the runtime has not made yet: code that calls assembly reads g from there.
var local [2]uintptr

// What Clone calls. A func value points to the function's address.
var (
	firstEntry  = first
	secondEntry = second
	thirdEntry  = third
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

// startAhead starts the first of these processes, for namespaces by flags of clone(2). hold has the first one wait for release.
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
	if affinity.moved { // otherwise the kernel may queue the second on nsrun's processor, which is busy, and leave this one idle
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
	raiseNofile()
	if forkBeside {
		Clone(cloneVM|cloneFiles|cloneFS|cloneParent|cloneSetTID|sigchld, top(2), &ahead.third, entryOf(&thirdEntry), nil)
	}
	if await(stateReady) == stateWork {
		ahead.work.Do(ahead.work.Task)
		if atomic.CompareAndSwapUint32(&ahead.state, stateWork, stateWorked) {
			ahead.work.Finish(ahead.work.Task)
			mine := tellForker(forkerQuits)
			if tell(stateReady); mine {
				await(stateReady)
			}
		}
	}
	if atomic.LoadUint32(&ahead.state) == stateGo {
		tellForker(forkerQuits)
		forkChild()
		tell(stateDone)
	}
	rawSyscall6(sysExit, 0, 0, 0, 0, 0, 0)
}

// forkBeside has a third process fork the child where the second one still works.
const forkBeside = true

// third waits until forker is set, and until the second one's work permits it, and forks the child.
//
//go:nosplit
//go:norace
//go:nocheckptr
func third() {
	if diesWithOwner() {
		for atomic.LoadUint32(&ahead.forker) == forkerWaits {
			Wait(&ahead.forker, forkerWaits)
		}
		if atomic.LoadUint32(&ahead.forker) == forkerGo {
			ahead.work.Settled(ahead.work.Task)
			fd, _, e := rawSyscall6(sysPidfdOpen, ahead.owner, 0, 0, 0, 0, 0)
			if ahead.pid = -e; e == 0 {
				ahead.ownerFD = int32(fd)
				forkChild()
			}
			atomic.StoreUint32(&ahead.forker, forkerDone)
			Wake(&ahead.forker)
		}
	}
	rawSyscall6(sysExit, 0, 0, 0, 0, 0, 0)
}

//go:nosplit
//go:norace
//go:nocheckptr
func forkChild() {
	ahead.pid = Clone(ahead.flags&cloneNewPid|cloneParent|clonePidfd|sigchld, top(0), &ahead.pidfd, ahead.run, ahead.argument)
}

// raiseNofile raises the soft limit on open files to the hard one, as package syscall does for this process.
//
//go:nosplit
//go:norace
//go:nocheckptr
func raiseNofile() {
	all := Limit{found.nofile.Hard, found.nofile.Hard}
	if all.Hard != 0 {
		rawSyscall6(sysPrlimit64, 0, rlimitNofile, uintptr(unsafe.Pointer(&all)), 0, 0, 0)
	}
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

// tellForker sets ahead.forker and wakes the third process, if nobody has set it yet. It reports whether it has set it.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func tellForker(what uint32) bool {
	if !atomic.CompareAndSwapUint32(&ahead.forker, forkerWaits, what) {
		return false
	}
	Wake(&ahead.forker)
	return true
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

// WaitFor is [Wait], for 20 ms at most. It returns 0 if it was woken, and otherwise the errno.
//
//go:nosplit
//go:norace
//go:nocheckptr
func WaitFor(word *uint32, value uint32) (errno uintptr) {
	interval := [2]int64{0, 20_000_000} // struct timespec
	_, _, errno = rawSyscall6(sysFutex, uintptr(unsafe.Pointer(word)), futexWait, uintptr(value), uintptr(unsafe.Pointer(&interval)), 0, 0)
	return errno
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

// Work is what the second process does beside this one, with its memory and descriptors. The functions may use nothing of Go's runtime, and are nosplit.
type Work struct {
	Task unsafe.Pointer       // their argument
	Do   func(unsafe.Pointer) // the work
	// Finish is called when the work is done, unless it has been given up. Only then the child may begin.
	Finish func(unsafe.Pointer)
	// Settled is called by another process, with the same root and working directory. It returns when the child can be a copy of that process, which may
	// be while the work is done.
	Settled func(unsafe.Pointer)
}

// WorkAhead has the second process do work, if it is in the namespaces of flags, and reports whether it does. [ForkAhead] waits for its end.
func WorkAhead(flags uintptr, work Work) bool {
	if !readyFor(flags) {
		return false
	}
	ahead.work = work
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
		state = awaitLiving(&ahead.state, stateStarting)
	}
	return state == stateReady && !ended(ahead.second)
}
