package sys

import (
	"syscall"
	"unsafe"

	"github.com/nsrun/nsrun/internal/sys/entry"
	"golang.org/x/sys/unix"
)

// A process that runs [Program.Serve], the server, keeps one supervisor ready. The supervisor shares the server's memory, has its own stack,
// and waits for a request on a stream socket. With a request it starts the command by vfork(2), and the server starts the next supervisor.
// The calls that are the same for all commands are part of the server's program; the other calls come with the request.
//
//	server ── clone(CLONE_VM) ──► supervisor ── vfork ──► the request's calls up to its cut, Confine's, the request's other calls
//	   ▲      next, please            │ ▲ ▲
//	   └──────────────────────────────┤ │ │ request, descriptors
//	                                  │ │ │ then 'k': kill all that the command has started
//	caller ◄──────────────────────────┘ └─┘ one Failure, whose Errno is 0 if exec happened, with a pidfd; then one Exit; then the end
//
// The supervisor adopts the command's orphans, and ends after the last of them. When the socket ends, the server goes on with its program:
// the waiting supervisor sees that instead of a request, and the server itself when no process holds the other end any more. If no
// supervisor can be started, for want of pids, the server tries for a second after a request comes, and then refuses the request itself.

// The first slots hold the descriptors of a request, and others that its calls may use.
const (
	SlotChannel  Slot = 1 + iota // the supervisor's end of a SEQPACKET socket
	SlotListener                 // a socket that the listener of the command's filter is sent over; -1 without one
	SlotIn                       // the command's standard descriptors
	SlotOut                      //
	SlotErr                      //
	SlotTerminal                 // the command's end of its terminal, which Service.Terminal opens
	SlotMaster                   // the terminal's other end, which goes to the caller
	SlotUsers                    // a user namespace that the program has made
	servedSlots  = iota
)

// Service describes a server: its descriptors, and the calls that are the same for all requests.
type Service struct {
	Socket  int    // a stream socket that requests come over
	Signals Slot   // a signalfd for SIGCHLD; all signals are blocked
	Prepare func() // adds the calls that each supervisor makes first
	// Terminal adds the calls of a supervisor whose request asks for a terminal.
	Terminal func()
	Confine  func() // adds the calls that each command makes
	// Scope means that Prepare puts the supervisor into a Landlock domain that scopes signals. The supervisor then kills by kill(-1), which
	// no fork can outrun. Without Scope it kills the command's process group.
	Scope bool
	// Die makes a supervisor die with the server, and the command with its supervisor, for sandboxes without a pid namespace.
	Die bool
	// Look is a place whose room the records of commands' ends have; empty is none.
	Look string
}

// ForRequests reserves the slots that requests use by number. It must come before the first [Program.Slot].
func (p *Program) ForRequests() {
	if p.slots != 0 {
		panic("bug: slots are handed out already")
	}
	p.slots = servedSlots
}

// Serve appends a server: see [Service]. The call ends when the server's socket does, and the program goes on after it.
func (p *Program) Serve(s Service) {
	at := len(p.calls)
	c := p.add(Call{kind: kindServe, from: int32(s.Socket), keep: int32(s.Signals), memory: int32(len(p.alive))})
	if s.Look != "" {
		place := Str(s.Look)
		p.set(c, lookAt, &place)
	}
	for i, part := range []func(){s.Prepare, s.Terminal, s.Confine} {
		p.calls[at].a[i] = uintptr(len(p.calls))
		part()
	}
	p.calls[at].a[3] = uintptr(len(p.calls))
	if s.Scope {
		p.calls[at].min = 1
	}
	if s.Die {
		p.calls[at].to = 1
	}
}

const lookAt = 4 // the argument of kindServe that has Service.Look

// requestHead begins a request. Addresses in a request are offsets from its start. Its end lists, as 32-bit offsets, the words that hold
// them.
type requestHead struct {
	Size     uint32
	Calls    uint32
	Cut      uint32 // how many of the calls come before Confine's
	Relocs   uint32 // how many words hold addresses
	Terminal uint32
	Listens  uint32 // a socket for SlotListener comes with it
}

const (
	callSize = unsafe.Sizeof(Call{})
	headSize = unsafe.Sizeof(requestHead{})
	// MaxRequest is the size of the largest request. A command without a path has a list of its arguments for each directory of PATH.
	MaxRequest = 128 << 20
	// OfRequest marks the Index of a Failure that happened in a call of the request.
	OfRequest = 1 << 31
	// maxPassed is the number of descriptors that come with a request.
	maxPassed = 5
)

// server is the state of kindServe. It is allocated before the fork.
type server struct {
	workers uintptr // the list of *worker
	idle    uintptr // the worker that has not asked for its successor yet, or 0
	tries   uintptr // failed attempts to start a worker while a request waits
	over    bool    // a request could not even be refused: the server ends
	next    [2]int32
	word    [1]uintptr
	nslots  uintptr
	pid     uintptr
	pause   [2]uintptr // a timespec
	entries [2]uintptr // of supervise and become
	gaps    []span     // the memory that it does not need: see release
	held    [2]span    // of that, what release keeps
}

// newServer returns the state of a server. The entries are code addresses: entry.Clone starts supervisors and commands at them.
func newServer(m *machine) *server {
	s := &server{nslots: uintptr(len(m.slots))}
	supervisor, command := supervise, become
	s.entries = [2]uintptr{**(**uintptr)(unsafe.Pointer(&supervisor)), **(**uintptr)(unsafe.Pointer(&command))}
	return s
}

// serve runs the server until its socket ends, or until it cannot go on. It keeps one supervisor waiting for the next request, and reaps
// those that have ended.
//
//go:nosplit
//go:norace
//go:nocheckptr
func serve(m *machine, c *Call) {
	s := m.server
	release(s)
	_, _, e := syscall.RawSyscall(unix.SYS_PIPE2, uintptr(unsafe.Pointer(&s.next)), unix.O_CLOEXEC, 0)
	if m.errno = uintptr(e); e != 0 {
		return
	}
	s.pid, _, _ = syscall.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
	for {
		var wait uintptr // 0 is for ever; if no supervisor could be started, serve tries again soon
		if s.idle == 0 && !startWorker(m, c) {
			if s.over {
				return
			}
			s.pause = [2]uintptr{0, 10e6} // set each time: ppoll(2) may change it
			wait = uintptr(unsafe.Pointer(&s.pause))
		}
		m.polls[0] = unix.PollFd{Fd: int32(m.slots[c.keep]), Events: unix.POLLIN}
		m.polls[1] = unix.PollFd{Fd: s.next[0], Events: unix.POLLIN}
		m.polls[2] = unix.PollFd{Fd: c.from} // for POLLHUP: the supervisor that reads it may be stopped, or missing
		n, _, e := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&m.polls)), 3, wait, 0, 0, 0)
		if e == unix.EINTR || e == 0 && n == 0 {
			continue
		}
		if m.errno = uintptr(e); e != 0 || m.polls[2].Revents != 0 {
			return
		}
		if m.polls[1].Revents != 0 {
			syscall.RawSyscall(unix.SYS_READ, uintptr(s.next[0]), uintptr(unsafe.Pointer(&s.word)), 1)
			s.idle = 0
		}
		if m.polls[0].Revents != 0 {
			syscall.RawSyscall(unix.SYS_READ, m.slots[c.keep], uintptr(unsafe.Pointer(&m.info)), unsafe.Sizeof(m.info))
			if reapWorkers(s) {
				return
			}
		}
	}
}

// reapWorkers reaps ended children, and unmaps the memory of ended supervisors. An orphan whose supervisor was killed is reaped like any
// other child. It reports whether the server must end: because a supervisor has ended without a request, which means that the socket has
// ended; or because a supervisor was killed, and nothing but the server's end can still kill what its command has started.
//
//go:nosplit
//go:norace
//go:nocheckptr
func reapWorkers(s *server) (over bool) {
	for {
		pid, _, e := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&s.word)), unix.WNOHANG, 0, 0, 0)
		if e == unix.EINTR {
			continue
		}
		if e != 0 || pid == 0 {
			return over
		}
		link := &s.workers
		for *link != 0 {
			w := (*worker)(pointer(*link))
			if w.pid != pid {
				link = &w.list
				continue
			}
			if s.word[0]&0x7f != 0 {
				return true // killed: its command may still use the memory of w on the way to exec
			}
			over = over || w.request == 0 // not s.idle: the worker's message in the pipe may be unread
			*link = w.list
			syscall.RawSyscall(unix.SYS_MUNMAP, w.request, w.size, 0)
			syscall.RawSyscall(unix.SYS_MUNMAP, uintptr(unsafe.Pointer(w)), w.length, 0)
			break
		}
	}
}

// setSlice writes a slice of memory outside of the heap, without a write barrier.
//
//go:nosplit
//go:norace
//go:nocheckptr
func setSlice(into unsafe.Pointer, at, n uintptr) { *(*[3]uintptr)(into) = [3]uintptr{at, n, n} }

// pointer converts an address outside of the heap to a pointer.
//
//go:nosplit
//go:norace
//go:nocheckptr
func pointer(at uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&at)) }

// maxStartTries is how many times the server tries to start a supervisor for a waiting request before it refuses the request: for a second,
// if nothing else happens. Processes that have ended may not have freed their pids yet.
const maxStartTries = 100

// startWorker starts a supervisor, and reports whether it could. After too many attempts it refuses the request that waits.
//
//go:nosplit
//go:norace
//go:nocheckptr
func startWorker(m *machine, c *Call) bool {
	const page = 4096
	s := m.server
	length := (unsafe.Sizeof(worker{}) + 8*s.nslots + 2*8*stackWords + page - 1) &^ (page - 1)
	at, e := mapMemory(length)
	if e != 0 {
		s.over = hopeless(m, c) // without memory the request cannot be refused
		return false
	}
	w := (*worker)(pointer(at))
	w.length, w.next, w.server = length, uintptr(s.next[1]), s.pid
	slots := at + unsafe.Sizeof(*w)
	for i := uintptr(0); i < s.nslots; i++ {
		*(*uintptr)(pointer(slots + 8*i)) = m.slots[i]
	}
	code := uintptr(unsafe.Pointer(unsafe.SliceData(m.code)))
	setSlice(unsafe.Pointer(&w.own.code), code, uintptr(len(m.code)))
	setSlice(unsafe.Pointer(&w.confine.code), code, uintptr(len(m.code)))
	setSlice(unsafe.Pointer(&w.own.slots), slots, s.nslots)
	setSlice(unsafe.Pointer(&w.confine.slots), slots, s.nslots)
	setSlice(unsafe.Pointer(&w.asked.slots), slots, s.nslots)
	w.own.report, w.confine.report, w.asked.report = -1, -1, -1
	*(*uintptr)(unsafe.Pointer(&w.service)) = uintptr(unsafe.Pointer(c))
	stacks := (slots + 8*s.nslots + 15) &^ 15
	w.stack, w.entry = stacks+2*8*stackWords-64, s.entries[1]
	// Without CLONE_VFORK: the server goes on, and the supervisor has its own stack, slots and machines.
	w.pid = entry.Clone(uintptr(unix.SIGCHLD)|unix.CLONE_VM, stacks+8*stackWords-64, nil, s.entries[0], unsafe.Pointer(w))
	if w.pid > ^uintptr(4095) { // a negated errno
		s.over = hopeless(m, c) && !refuse(w, c)
		syscall.RawSyscall(unix.SYS_MUNMAP, at, length, 0)
		return false
	}
	w.list, s.workers, s.idle, s.tries = s.workers, at, at, 0
	return true
}

// hopeless reports whether a request waits and maxStartTries attempts to start a supervisor for it have failed. It counts them.
//
//go:nosplit
//go:norace
//go:nocheckptr
func hopeless(m *machine, c *Call) bool {
	m.server.pause = [2]uintptr{}
	m.polls[0] = unix.PollFd{Fd: c.from, Events: unix.POLLIN}
	n, _, e := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&m.polls)), 1, uintptr(unsafe.Pointer(&m.server.pause)), 0, 0, 0)
	if e != 0 || n != 1 || m.polls[0].Revents != unix.POLLIN {
		return false
	}
	m.server.tries++
	return m.server.tries > maxStartTries
}

// mapMemory maps private memory that is all zero.
//
//go:nosplit
//go:norace
func mapMemory(length uintptr) (at uintptr, errno syscall.Errno) {
	at, _, errno = syscall.RawSyscall6(unix.SYS_MMAP, 0, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, ^uintptr(0), 0)
	return at, errno
}
