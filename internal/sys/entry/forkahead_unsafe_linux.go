package entry

import (
	"sync/atomic"
	"unsafe"
)

// This file is the side of the process that has started the others.

// ForkAhead starts a child in the namespaces that were made ahead, if they are those of flags. The child has a copy of this process's memory,
// and calls the function at address run with argument. It has the actions of signals that this process was started with, but for
// SIGCHLD, whose action is the default, and every signal is blocked: see [Restore]. worked means that [WorkAhead] has returned true. Then meanwhile is called
// as soon as there is nothing to do but to wait, beside the fork. The child can inherit what meanwhile has open at that moment, so meanwhile opens
// only what is close-on-exec, and a child that goes on without an exec closes all descriptors that it does not need (close_range(2)).
//
// ok is false if there are no such namespaces, the work took too long, or a process ahead was killed before it forked; there is no child then. With ok, pid is
// a negative errno if one was killed later: a child may have begun.
func ForkAhead(flags, run uintptr, argument unsafe.Pointer, worked bool, meanwhile func()) (pid uintptr, pidfd int, ok bool) {
	ahead.run, ahead.argument, ahead.pidfd = run, argument, -1
	beside := false
	if worked && atomic.LoadUint32(&ahead.state) == stateWork {
		if third := atomic.LoadInt32(&ahead.third); third != 0 && !ended(third) {
			beside = tellForker(forkerGo)
		}
		meanwhile()
		// What hinders it hinders the child, too; but this process serves signals and clocks while the child waits.
		if awaitFor(&ahead.state, stateWork, longestWork) == stateWork && atomic.CompareAndSwapUint32(&ahead.state, stateWork, stateCancel) {
			EndAhead()
			return 0, -1, false
		}
		worked = false
	}
	killed := awaitLiving(&ahead.state, stateWorked) == stateWorked
	if beside {
		killed = killed || awaitLiving(&ahead.forker, forkerGo) == forkerGo
	} else if !killed {
		if !readyFor(flags) {
			EndAhead()
			return 0, -1, false
		}
		if tell(stateGo); worked {
			meanwhile()
		}
		killed = awaitLiving(&ahead.state, stateGo) == stateGo
	}
	if killed {
		EndAhead()
		if beside && ahead.pidfd < 0 { // no child was forked: an ordinary fork has the last word
			return 0, -1, false
		}
		const eagain = 11 // what a fork says that meets a lack of something: it is no reason to take another backend
		return ^uintptr(eagain - 1), -1, true
	}
	if ahead.pid > ^uintptr(4095) { // an ordinary fork has the last word
		EndAhead()
		return 0, -1, false
	}
	ahead.used = true
	ForgetOwner()
	return ahead.pid, int(ahead.pidfd), true
}

// OwnerEnded reports whether the process that started the others has ended, to a child that was forked beside work. A death signal
// (PR_SET_PDEATHSIG(2const)) does not suffice: where that process ends before the child first runs, the signal is requested too late. Nor does getppid(2),
// which is 0 in another pid namespace.
//
//go:nosplit
//go:norace
//go:nocheckptr
func OwnerEnded() bool {
	if ahead.ownerFD == 0 {
		return false
	}
	poll := [2]int32{ahead.ownerFD, 1} // struct pollfd, with POLLIN
	var now [2]int64                   // struct timespec: it does not wait
	n, _, e := rawSyscall6(sysPpoll, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	return e == 0 && n != 0
}

// ForgetOwner closes what [OwnerEnded] asks, in the process that calls it.
//
//go:nosplit
//go:norace
//go:nocheckptr
func ForgetOwner() {
	if ahead.ownerFD > 0 {
		rawSyscall6(sysClose, uintptr(ahead.ownerFD), 0, 0, 0, 0, 0)
		ahead.ownerFD = 0
	}
}

// Discarded reports whether namespaces were made ahead and not used. They count against their limits for some milliseconds after the process
// in them has ended (user_namespaces(7), namespaces(7)).
func Discarded() bool { return ahead.discarded }

// awaitLiving waits until ahead.state or ahead.forker is another one than was, and returns that. It returns was if the process that would change
// it has ended.
func awaitLiving(word *uint32, was uint32) uint32 { return awaitFor(word, was, 1<<62) }

// longestWork is how many intervals of awaitFor ForkAhead waits for work to end.
const longestWork = 5

// awaitFor is awaitLiving, but also returns was after some intervals of [WaitFor].
func awaitFor(word *uint32, was uint32, intervals int) uint32 {
	for ; intervals > 0; intervals-- {
		if now := atomic.LoadUint32(word); now != was {
			return now
		}
		if WaitFor(word, was) == 0 {
			continue
		}
		// ETIMEDOUT, or EINTR: Go interrupts a goroutine that runs for 10 ms. The first process is looked at before there may be a second.
		gone := ended(ahead.first)
		if second := atomic.LoadInt32(&ahead.second); second != 0 {
			gone = ended(second)
		}
		if word == &ahead.forker {
			gone = ended(ahead.third)
		}
		if gone && atomic.LoadUint32(word) == was {
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
	dismiss()
	if second := atomic.LoadInt32(&ahead.second); second != 0 {
		ahead.discarded = !ahead.used
		endRaising(second)
		killAndReap(second)
		if third := atomic.LoadInt32(&ahead.third); third != 0 { // the second one has started it, or never will
			killAndReap(third)
		}
	}
	ForgetOwner()
	if ahead.run != 0 && !ahead.used && ahead.pidfd >= 0 {
		endChild()
	}
	ahead.first, ahead.second, ahead.third, ahead.state = 0, 0, 0, stateNone
}

// dismiss tells the second and the third process to end, if they wait for what there is to do. This process may have given up by now what it would
// need to kill them.
func dismiss() {
	tellForker(forkerQuits)
	if atomic.CompareAndSwapUint32(&ahead.state, stateReady, stateCancel) {
		Wake(&ahead.state)
	}
}

// endChild ends a child that ForkAhead will not return, because something went wrong after its start. The kernel has stored its pidfd, if not its pid. If
// the clone failed after that, the number is not that of a child.
func endChild() {
	const (
		byPidfd = 3          // P_PIDFD
		exited  = 0x00000004 // WEXITED
		look    = 0x01000005 // WEXITED, WNOHANG, WNOWAIT
		eintr   = 4
	)
	pidfd := uintptr(ahead.pidfd)
	ahead.run = 0 // there is nothing more to end
	if _, _, e := rawSyscall6(sysWaitid, byPidfd, pidfd, 0, look, 0, 0); e != 0 {
		return
	}
	rawSyscall6(sysPidfdSendSignal, pidfd, sigkill, 0, 0, 0, 0)
	for {
		if _, _, e := rawSyscall6(sysWaitid, byPidfd, pidfd, 0, exited, 0, 0); e != eintr {
			break
		}
	}
	rawSyscall6(sysClose, pidfd, 0, 0, 0, 0, 0)
}

// killAndReap ends a child.
func killAndReap(pid int32) {
	rawSyscall6(sysKill, uintptr(pid), sigkill, 0, 0, 0, 0)
	reap(pid)
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
