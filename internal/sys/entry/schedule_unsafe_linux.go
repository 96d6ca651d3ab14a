package entry

import "unsafe"

// This file keeps what runs beside a start out of its way, in a run only whose command nsrun itself starts (guess). Nothing of it is left in the
// command. A program that package os/exec starts may have the timer slack of a thread of Go's: those are clients and probes of other backends, in place
// of the sandbox that was expected.
//
// To load the program's text ahead in the process that makes the namespaces was tried: only real-time priorities gain from it.

// calmMonitor: Go's monitor thread sleeps 20 us at a time while a program starts. In a run that is over 50 wakeups, and each that finds the main
// thread in a system call hands its work to one more thread. It inherits a timer slack by which it sleeps 2 ms: a run takes 0.92 of its time, and
// as bubblewrap 0.95, by the backend landlock 0.94. A slack means nothing to real-time threads (prctl(2), PR_SET_TIMERSLACK).
const calmMonitor = true

// moveHelper: kernels that wake a new process on its parent's processor have the namespaces made while this process waits for its next turn. The
// process that makes them is moved to another processor, and may at once run on any again: held there, it would wait behind what else runs there. A
// run takes 0.93 of its time on such a kernel.
const moveHelper = true

// Timer slack of the threads that Go's runtime makes at its start, in nanoseconds. A start as bubblewrap has one goroutine alone: while that waits, there is
// none for the monitor thread to find another thread for. Most of its runs end before that thread has woken up once.
const (
	slack      = 2_000_000
	slackBwrap = 50_000_000
)

// Operations of prctl(2).
const (
	getSeccomp    = 21
	setTimerSlack = 29
	getTimerSlack = 30
	setNoNewPrivs = 38
)

// cpus is a set of processors, as sched_setaffinity(2) takes it. Where the kernel has more, nobody is moved.
type cpus [16]uintptr

// affinity is that of this process, and of its helpers.
var affinity struct {
	was, others cpus
	moved       bool
	own, theirs cpus // of one moveBack each, as two can run at a time
}

// longSlack sets the timer slack that new threads inherit, in nanoseconds. The thread itself has it until restoreSlack.
//
//go:nosplit
//go:norace
//go:nocheckptr
func longSlack(slack uintptr) {
	now, _, e := rawSyscall6(sysPrctl, getTimerSlack, 0, 0, 0, 0, 0)
	if !calmMonitor || e != 0 || now == 0 || now >= slack { // 0: of a real-time thread
		return
	}
	found.slack = now
	rawSyscall6(sysPrctl, setTimerSlack, slack, 0, 0, 0, 0)
}

// restoreSlack gives the calling thread the timer slack that this process was started with.
//
//go:nosplit
//go:norace
//go:nocheckptr
func restoreSlack() {
	if found.slack != 0 {
		rawSyscall6(sysPrctl, setTimerSlack, found.slack, 0, 0, 0, 0)
	}
}

// moveAway moves a process to another processor than this one.
//
//go:nosplit
//go:norace
//go:nocheckptr
func moveAway(pid uintptr) {
	a := &affinity
	// A filter may kill for the calls that follow, as that of a systemd unit does: SystemCallFilter=~@resources.
	if filtered, _, e := rawSyscall6(sysPrctl, getSeccomp, 0, 0, 0, 0, 0); !moveHelper || e != 0 || filtered != 0 {
		return
	}
	here := uint32(0)
	if _, _, e := rawSyscall6(sysGetcpu, uintptr(unsafe.Pointer(&here)), 0, 0, 0, 0, 0); e != 0 {
		return
	}
	if !getCPUs(0, &a.was) {
		return
	}
	const bits = 8 * unsafe.Sizeof(uintptr(0))
	a.others = a.was
	a.others[uintptr(here)/bits%uintptr(len(a.others))] &^= 1 << (uintptr(here) % bits)
	a.moved = a.others != cpus{}
	if a.moved { // an error can mean that the set has been taken over nevertheless: the process's cpuset was changed meanwhile
		setCPUs(pid, &a.others)
		moveBack(pid, &a.own)
	}
}

// moveBack gives a process, 0 for the calling one, the processors that this process has, and reports whether it has them. set is a place to look
// at them. The second process calls it too, for it may have been started with the processors of the move.
//
// The kernel remembers which processors a process has asked for, and grants no others if its cpuset grows later (cpuset(7)). So the process
// gets all; only if it then has more than before was that somebody's wish, and it gets those again. A wish for just the processors of the cpuset
// cannot be told from none, and ends when the cpuset grows.
//
//go:nosplit
//go:norace
//go:nocheckptr
func moveBack(pid uintptr, set *cpus) bool {
	a := &affinity
	if !a.moved {
		return true
	}
	for i := range set {
		set[i] = ^uintptr(0)
	}
	setCPUs(pid, set)
	if has(pid, set) {
		return true
	}
	setCPUs(pid, &a.was)
	return has(pid, set)
}

// has reports whether a process has the processors that this process has.
//
//go:nosplit
//go:norace
//go:nocheckptr
func has(pid uintptr, set *cpus) bool {
	for i := range set {
		set[i] = 0
	}
	if !getCPUs(pid, set) {
		return false
	}
	for i := range set {
		if set[i] != affinity.was[i] {
			return false
		}
	}
	return true
}

//go:nosplit
//go:norace
//go:nocheckptr
func getCPUs(pid uintptr, set *cpus) bool {
	_, _, e := rawSyscall6(sysSchedGetaffinity, pid, unsafe.Sizeof(*set), uintptr(unsafe.Pointer(set)), 0, 0, 0)
	return e == 0
}

//go:nosplit
//go:norace
//go:nocheckptr
func setCPUs(pid uintptr, set *cpus) {
	rawSyscall6(sysSchedSetaffinity, pid, unsafe.Sizeof(*set), uintptr(unsafe.Pointer(set)), 0, 0, 0)
}
