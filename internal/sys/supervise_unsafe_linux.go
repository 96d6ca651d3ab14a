package sys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The supervisor of one command, and the command's way to exec: see Serve. All of it is under the contract of [Program.Fork]'s child, in memory
// that it shares with the server and other supervisors: each writes to its own worker alone.

// rawMsghdr is unix.Msghdr without pointers, since there are no write barriers in a forked child.
type rawMsghdr struct {
	name             uintptr
	namelen          uint32
	iov, iovlen      uintptr
	control, ctrllen uintptr
	flags            int32
}

// worker is a supervisor with its command, at the begin of a mapping of its own.
type worker struct {
	list, length  uintptr // the next worker, and the size of the mapping
	request, size uintptr // a mapping of the request's, if there is one
	pid           uintptr // of the supervisor, as the server knows it
	server        uintptr // pid of the server
	self          uintptr // pid of the supervisor, as itself knows it
	command       uintptr // pid of the command
	service       *Call
	next          uintptr // the pipe to ask for the next supervisor with
	head          requestHead
	own           machine // runs the program's calls in the supervisor
	confine       machine // runs them in the command
	asked         machine // runs the request's calls in the command
	failed        int     // whose call failed before exec: 0, or one of these
	passed        uintptr // how many descriptors have come
	cut           bool    // not all have: there were no numbers left for them
	stack         uintptr // top of the command's
	entry         uintptr
	vector        [2]uintptr
	message       rawMsghdr
	control       [8]uintptr
}

const (
	failedSupervisor = 1 + iota
	failedProgram
	failedRequest
)

// supervise is the life of a supervisor, which does not return. It ends without an error when the socket has.
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
	prepared := run(m, int(c.a[0]), int(c.a[1])) >= 0
	if !receive(w, c) {
		exit(0)
	}
	syscall.RawSyscall(unix.SYS_WRITE, w.next, uintptr(unsafe.Pointer(&w.head)), 1) // the next one, however long exec takes
	if w.cut {
		m.index, m.errno, w.failed = int(c.a[0])-1, uintptr(unix.EMFILE), failedSupervisor // of the serve call itself
	} else if !prepared || w.head.Terminal != 0 && run(m, int(c.a[1]), int(c.a[2])) < 0 {
		w.failed = failedSupervisor
	} else {
		w.command = vclone(uintptr(unix.SIGCHLD)|unix.CLONE_VM|unix.CLONE_VFORK|unix.CLONE_PIDFD, w.stack, &m.pidfd, w.entry, unsafe.Pointer(w))
		if w.command > ^uintptr(4095) {
			m.index, m.errno, w.failed = int(c.a[0])-1, -w.command, failedSupervisor // of the serve call, too
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

// receive waits for a request, and maps memory that it reads it into. It reports whether there was one that can be answered.
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
	if w.message.ctrllen >= 16 && w.control[0] >= 16 { // a cmsghdr has 16 bytes
		w.passed = min((w.control[0]-16)/4, maxPassed)
		for i := uintptr(0); i < w.passed; i++ {
			*(*uintptr)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(w.own.slots)), 8*(uintptr(SlotChannel)+i))) =
				uintptr(*(*int32)(unsafe.Add(unsafe.Pointer(&w.control), 16+4*i)))
		}
	}
	w.cut = w.message.flags&unix.MSG_CTRUNC != 0
	if w.passed == 0 { // nobody can be told
		return false
	}
	size := uintptr(w.head.Size)
	at, e := mapMemory(size)
	if e != 0 {
		return false
	}
	w.request, w.size = at, size
	for done := headSize; done < size; {
		n, _, e := syscall.RawSyscall(unix.SYS_READ, uintptr(c.from), at+done, size-done)
		if e == unix.EINTR {
			continue
		}
		if e != 0 || n == 0 {
			w.request = 0 // there is none
			return false
		}
		done += n
	}
	relocs := at + size - 4*uintptr(w.head.Relocs)
	for i := uintptr(0); i < uintptr(w.head.Relocs); i++ {
		*(*uintptr)(pointer(at + uintptr(*(*uint32)(pointer(relocs + 4*i))))) += at
	}
	setSlice(unsafe.Pointer(&w.asked.code), at+headSize, uintptr(w.head.Calls))
	return true
}

// refuse answers a request in the place of a supervisor that could not be started, and reports whether it could.
//
//go:nosplit
//go:norace
//go:nocheckptr
func refuse(w *worker, c *Call) bool {
	ok := receive(w, c)
	if ok {
		w.own.index, w.own.errno = int(c.a[0])-1, -w.pid // of the serve call itself
		reportStart(w, w.own.slots[SlotChannel], &w.own, 0)
	}
	for i := uintptr(0); i < w.passed; i++ {
		syscall.RawSyscall(unix.SYS_CLOSE, w.own.slots[uintptr(SlotChannel)+i], 0, 0)
	}
	if w.request != 0 {
		syscall.RawSyscall(unix.SYS_MUNMAP, w.request, w.size, 0)
	}
	return ok
}

// become is the way of a process to the command, which does not return.
//
//go:nosplit
//go:norace
//go:nocheckptr
func become(w *worker) {
	c := w.service
	w.failed = failedRequest
	if run(&w.asked, 0, int(w.head.Cut)) >= 0 {
		if c.to != 0 {
			dieWith(w.self)
		}
		w.failed = failedProgram
		if run(&w.confine, int(c.a[2]), int(c.a[3])) >= 0 {
			w.failed = 0
			// From here on the supervisor's memory says that exec has happened, unless it fails.
			if run(&w.asked, int(w.head.Cut), int(w.head.Calls)) >= 0 {
				w.asked.errno = uintptr(unix.ENOEXEC) // fell off the end
			}
			w.failed = failedRequest
		}
	}
	exit(127)
}

// dieWith asks for SIGKILL when the parent ends, and ends this process if another is its parent by now: that signal never comes.
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

// reportStart sends the caller a Failure of a machine's; or, of none, that there was none, with the descriptors that it is to have: 2, and with a
// terminal 3. It reports whether that was sent.
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
		if of.errno == 0 { // killed on its way
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

// keepChannels leaves a supervisor nothing but its channel, as descriptor 0, the signalfd, as 1, and what goes to the caller: a pipe of the
// command's must end when the command lets go of it.
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

// attend waits for the command and whatever it leaves behind, and kills them when it is told to. A command that ends at once is told of
// when it has: the caller, who waits for both words, wakes up once.
//
//go:nosplit
//go:norace
//go:nocheckptr
func attend(w *worker, c *Call, m *machine) {
	keepChannels(w, c, m)
	m.polls[0] = unix.PollFd{Fd: 1, Events: unix.POLLIN}
	m.polls[1] = unix.PollFd{Fd: 0, Events: unix.POLLIN}
	w.vector = [2]uintptr{0, fastExit} // a timespec, which the call changes
	syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&m.polls)), 1, uintptr(unsafe.Pointer(&w.vector)), 0, 0, 0)
	if !reportStart(w, 0, nil, 0) { // nobody has its pidfd, and nobody waits for it
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
			case e != 0: // ECONNRESET comes once, before what the caller said last: unix_release_sock in net/unix/af_unix.c
			case n == 1:
				killAll(w, c)
			default:
				m.polls[1].Fd = -1 // the caller has no more to say: what the command has left lives on
			}
		}
	}
}

// fastExit is how soon a command may end to be told of only then, in nanoseconds.
const fastExit = 2e6

// killAll kills the command and all that it has started.
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

// alone reaps what has ended, tells how the command has, and reports whether no child is left.
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
			w.command = 0 // its number can mean another from now on
			syscall.RawSyscall6(unix.SYS_SENDTO, 0, uintptr(unsafe.Pointer(&m.exit)), unsafe.Sizeof(m.exit), unix.MSG_NOSIGNAL, 0, 0)
		}
	}
}
