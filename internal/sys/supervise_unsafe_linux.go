package sys

import (
	"syscall"
	"unsafe"

	"github.com/nsrun/nsrun/internal/sys/entry"
	"golang.org/x/sys/unix"
)

// The supervisor of one command, and the command until exec: see Serve. All of it is under the contract of [Program.Fork]'s child. It runs
// in memory that it shares with the server and other supervisors; each of them writes only to its own worker.

// rawMsghdr is unix.Msghdr without pointers: a forked child can run no write barriers.
type rawMsghdr struct {
	name             uintptr
	namelen          uint32
	iov, iovlen      uintptr
	control, ctrllen uintptr
	flags            int32
}

// worker is the state of a supervisor and its command, at the start of a mapping of its own.
type worker struct {
	list, length  uintptr // the next worker, and the size of the mapping
	request, size uintptr // the mapping of the request; 0 before one has come
	pid           uintptr // of the supervisor; the server writes it
	server        uintptr // pid of the server
	self          uintptr // the same, from the supervisor's own getpid
	command       uintptr // pid of the command
	service       *Call
	next          uintptr // the pipe by which it asks the server for the next supervisor
	head          requestHead
	own           machine // runs the program's calls in the supervisor
	confine       machine // runs them in the command
	asked         machine // runs the request's calls in the command
	failed        int     // which machine failed before exec: 0, or a failed constant
	passed        uintptr // how many descriptors came with the request
	cut           bool    // some were lost, for want of free descriptor numbers
	stack         uintptr // top of the command's stack
	entry         uintptr // code address of become
	vector        [2]uintptr
	message       rawMsghdr
	control       [8]uintptr
}

// Values of worker.failed.
const (
	failedSupervisor = 1 + iota
	failedProgram
	failedRequest
)

// supervise is a supervisor from start to end; it does not return. It makes its own calls before a request comes, so that they cost the
// command no time. It exits with 0 if the socket ends instead.
//
//go:nosplit
//go:norace
//go:nocheckptr
func supervise(w *worker) {
	c, m := w.service, &w.own
	if c.to != 0 {
		dieWith(w.server)
		w.self, _, _ = syscall.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
	}
	prepared := run(m, int(c.a[0]), int(c.a[1])) >= 0 // a failure is reported to the request that comes
	if !receive(w, c) {
		exit(0)
	}
	syscall.RawSyscall(unix.SYS_WRITE, w.next, uintptr(unsafe.Pointer(&w.head)), 1) // now, because exec may take long
	if w.cut {
		m.index, m.errno, w.failed = int(c.a[0])-1, uintptr(unix.EMFILE), failedSupervisor // reported as a failure of the serve call
	} else if !prepared || w.head.Terminal != 0 && run(m, int(c.a[1]), int(c.a[2])) < 0 {
		w.failed = failedSupervisor
	} else {
		w.command = entry.Clone(uintptr(unix.SIGCHLD)|unix.CLONE_VM|unix.CLONE_VFORK|unix.CLONE_PIDFD, w.stack, &m.pidfd, w.entry, unsafe.Pointer(w))
		if w.command > ^uintptr(4095) {
			m.index, m.errno, w.failed = int(c.a[0])-1, -w.command, failedSupervisor // reported likewise
		}
	}
	channel := m.slots[SlotChannel]
	switch w.failed {
	case failedSupervisor:
		reportStart(w, channel, m, 0)
	case failedProgram:
		reportStart(w, channel, &w.confine, 0)
	case failedRequest:
		reportStart(w, channel, &w.asked, OfRequest)
	default:
		attend(w, c, m)
	}
	exit(1)
}

// receive waits for a request and reads it into memory that it maps. It reports whether a request came that can be answered.
//
//go:nosplit
//go:norace
//go:nocheckptr
func receive(w *worker, c *Call) bool {
	w.vector = [2]uintptr{uintptr(unsafe.Pointer(&w.head)), headSize}
	for {
		w.message = rawMsghdr{iov: uintptr(unsafe.Pointer(&w.vector)), iovlen: 1, control: uintptr(unsafe.Pointer(&w.control)), ctrllen: unsafe.Sizeof(w.control)}
		n, _, e := syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(c.from), uintptr(unsafe.Pointer(&w.message)), unix.MSG_CMSG_CLOEXEC|unix.MSG_WAITALL)
		if e == unix.EINTR {
			continue
		}
		if e != 0 || n != headSize || uintptr(w.head.Size) < headSize || w.head.Size > MaxRequest {
			return false
		}
		break
	}
	*(*uintptr)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(w.own.slots)), 8*uintptr(SlotListener))) = ^uintptr(0)
	if w.message.ctrllen >= 16 && w.control[0] >= 16 { // a cmsghdr has 16 bytes
		w.passed = min((w.control[0]-16)/4, maxPassed)
		for i := uintptr(0); i < w.passed; i++ {
			*(*uintptr)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(w.own.slots)), 8*slotOf(w, i))) =
				uintptr(*(*int32)(unsafe.Add(unsafe.Pointer(&w.control), 16+4*i)))
		}
	}
	w.cut = w.message.flags&unix.MSG_CTRUNC != 0
	if w.passed == 0 { // no channel to answer over
		return false
	}
	size := uintptr(w.head.Size)
	at, e := mapMemory(size)
	if e != 0 {
		return false
	}
	w.request, w.size = at, size
	// The rest of the message. A sender writes a request as a whole, so no other request comes in between.
	for done := headSize; done < size; {
		n, _, e := syscall.RawSyscall(unix.SYS_READ, uintptr(c.from), at+done, size-done)
		if e == unix.EINTR {
			continue
		}
		if e != 0 || n == 0 {
			w.request = 0 // it is not complete
			return false
		}
		done += n
	}
	// Offsets become addresses. They are not checked, because the sandbox's owner writes the requests.
	relocs := at + size - 4*uintptr(w.head.Relocs)
	for i := uintptr(0); i < uintptr(w.head.Relocs); i++ {
		*(*uintptr)(pointer(at + uintptr(*(*uint32)(pointer(relocs + 4*i))))) += at
	}
	setSlice(unsafe.Pointer(&w.asked.code), at+headSize, uintptr(w.head.Calls))
	return true
}

// slotOf is where descriptor i of a request belongs.
//
//go:nosplit
//go:norace
//go:nocheckptr
func slotOf(w *worker, i uintptr) uintptr {
	if i > 0 && w.head.Listens == 0 {
		i++
	}
	return uintptr(SlotChannel) + i
}

// refuse answers a request in the place of a supervisor that could not be started, and reports whether it could.
//
//go:nosplit
//go:norace
//go:nocheckptr
func refuse(w *worker, c *Call) bool {
	ok := receive(w, c)
	if ok {
		w.own.index, w.own.errno = int(c.a[0])-1, -w.pid // the errno of clone(2), as a failure of the serve call
		reportStart(w, w.own.slots[SlotChannel], &w.own, 0)
	}
	for i := uintptr(0); i < w.passed; i++ {
		syscall.RawSyscall(unix.SYS_CLOSE, w.own.slots[slotOf(w, i)], 0, 0)
	}
	if w.request != 0 {
		syscall.RawSyscall(unix.SYS_MUNMAP, w.request, w.size, 0)
	}
	return ok
}

// become is the command's process until exec; it does not return. It makes the request's calls up to the cut, those of Confine, and the
// request's other calls, which end in exec.
//
//go:nosplit
//go:norace
//go:nocheckptr
func become(w *worker) {
	c := w.service
	w.failed = failedRequest
	if run(&w.asked, 0, int(w.head.Cut)) >= 0 {
		if c.to != 0 { // no pid namespace ends the command with its supervisor
			dieWith(w.self)
		}
		w.failed = failedProgram
		if run(&w.confine, int(c.a[2]), int(c.a[3])) >= 0 {
			w.failed = 0
			// The supervisor goes on when exec succeeds or this process ends; failed stays 0 only if exec succeeds.
			if run(&w.asked, int(w.head.Cut), int(w.head.Calls)) >= 0 {
				w.asked.errno = uintptr(unix.ENOEXEC) // the calls ended without exec
			}
			w.failed = failedRequest
		}
	}
	exit(127)
}

// dieWith requests SIGKILL for the time when the parent ends. It exits if this process has another parent already, because the signal would
// never come.
//
//go:nosplit
//go:norace
//go:nocheckptr
func dieWith(parent uintptr) {
	_, _, e := syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0)
	if now, _, _ := syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); e != 0 || now != parent {
		exit(127)
	}
}

// reportStart sends the caller one Failure: that of the machine of; or, if of is nil, one that means success, with the descriptors for the
// caller: 2, and 3 for a terminal. It reports whether it was sent.
//
//go:nosplit
//go:norace
//go:nocheckptr
func reportStart(w *worker, channel uintptr, of *machine, mark uint32) bool {
	m := &w.own
	m.failure = Failure{}
	w.vector = [2]uintptr{uintptr(unsafe.Pointer(&m.failure)), unsafe.Sizeof(m.failure)}
	w.message = rawMsghdr{iov: uintptr(unsafe.Pointer(&w.vector)), iovlen: 1}
	if of != nil {
		m.failure.Index, m.failure.Errno = uint32(of.index)|mark, uint32(of.errno)
		if of.errno == 0 { // the command was killed before exec
			m.failure.Errno = uint32(unix.EINTR)
		}
	} else {
		w.control[0], w.control[1], w.control[2] = 16+4, unix.SOL_SOCKET|unix.SCM_RIGHTS<<32, 2
		if w.head.Terminal != 0 {
			w.control[0] += 4
			w.control[2] |= 3 << 32
		}
		w.message.control, w.message.ctrllen = uintptr(unsafe.Pointer(&w.control)), 24
	}
	_, _, e := syscall.RawSyscall(unix.SYS_SENDMSG, channel, uintptr(unsafe.Pointer(&w.message)), unix.MSG_NOSIGNAL)
	return e == 0
}

// keepChannels closes all descriptors of a supervisor but its channel (as 0), the signalfd (as 1), and those that go to the caller (from 2
// on). Otherwise the command's pipes would not end when the command closes them.
//
//go:nosplit
//go:norace
//go:nocheckptr
func keepChannels(w *worker, c *Call, m *machine) {
	syscall.RawSyscall(unix.SYS_DUP3, m.slots[SlotChannel], 0, 0)
	syscall.RawSyscall(unix.SYS_DUP3, m.slots[c.keep], 1, 0)
	syscall.RawSyscall(unix.SYS_DUP3, uintptr(m.pidfd), 2, 0)
	rest := uintptr(3)
	if w.head.Terminal != 0 {
		syscall.RawSyscall(unix.SYS_DUP3, m.slots[SlotMaster], 3, 0)
		rest = 4
	}
	if _, _, e := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, rest, 1<<31-1, 0); e != 0 {
		for fd := rest; fd < 1024; fd++ { // before Linux 5.9; a server holds few
			syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
		}
	}
}

// attend waits for the command and the processes that it leaves behind, and kills them at the caller's request. It reports the start of a
// command that ends within fastExit only when the command has ended: the caller waits for both messages, and wakes up once.
//
//go:nosplit
//go:norace
//go:nocheckptr
func attend(w *worker, c *Call, m *machine) {
	keepChannels(w, c, m)
	m.polls[0] = unix.PollFd{Fd: 1, Events: unix.POLLIN}
	m.polls[1] = unix.PollFd{Fd: 0, Events: unix.POLLIN}
	w.vector = [2]uintptr{0, fastExit} // a timespec; the vector is not in use now
	syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&m.polls)), 1, uintptr(unsafe.Pointer(&w.vector)), 0, 0, 0)
	// The pidfd and the terminal go to the caller with the report; after that the supervisor needs neither.
	if !reportStart(w, 0, nil, 0) { // the caller has ended: no process has the command's pidfd
		killAll(w, c)
	}
	syscall.RawSyscall(unix.SYS_CLOSE, 2, 0, 0)
	syscall.RawSyscall(unix.SYS_CLOSE, 3, 0, 0)
	for !alone(w, m) {
		_, _, e := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&m.polls)), 2, 0, 0, 0, 0)
		if e == unix.EINTR {
			continue
		}
		if e != 0 {
			return
		}
		if m.polls[0].Revents != 0 {
			syscall.RawSyscall(unix.SYS_READ, 1, uintptr(unsafe.Pointer(&m.info)), unsafe.Sizeof(m.info))
		}
		if m.polls[1].Revents != 0 {
			n, _, e := syscall.RawSyscall(unix.SYS_READ, 0, uintptr(unsafe.Pointer(&m.info)), 1)
			switch {
			case e != 0: // ECONNRESET comes once, before the caller's last messages: unix_release_sock in net/unix/af_unix.c
			case n == 1:
				killAll(w, c)
			default:
				m.polls[1].Fd = -1 // the caller has closed the channel: the processes that the command left go on
			}
		}
	}
}

// fastExit is a time in nanoseconds: a command that ends within it is reported once, when it ends.
const fastExit = 2e6

// killAll kills the command and everything that it has started, or, without a Landlock scope, its process group.
//
//go:nosplit
//go:norace
//go:nocheckptr
func killAll(w *worker, c *Call) {
	if c.min != 0 {
		syscall.RawSyscall(unix.SYS_KILL, ^uintptr(0), uintptr(unix.SIGKILL), 0)
	} else if w.command != 0 {
		syscall.RawSyscall(unix.SYS_KILL, -w.command, uintptr(unix.SIGKILL), 0)
	}
}

// alone reaps children that have ended, reports how the command ended, and returns whether no child is left.
//
//go:nosplit
//go:norace
//go:nocheckptr
func alone(w *worker, m *machine) bool {
	for {
		pid, _, e := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&m.exit.Status)), unix.WNOHANG,
			uintptr(unsafe.Pointer(&m.exit.Usage)), 0, 0)
		switch {
		case e == unix.EINTR:
			continue
		case e != 0: // ECHILD
			return true
		case pid == 0:
			return false
		}
		if pid == w.command {
			w.command = 0 // the kernel may give its pid to another process from now on
			lookAtRoot(m, w.service.a[lookAt])
			syscall.RawSyscall6(unix.SYS_SENDTO, 0, uintptr(unsafe.Pointer(&m.exit)), unsafe.Sizeof(m.exit), unix.MSG_NOSIGNAL, 0, 0)
		}
	}
}
