package sys

import (
	"fmt"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/sys/entry"
	"golang.org/x/sys/unix"
)

// The runtime's own hooks around fork. They block signals, and the third one resets handlers in the child. Their names are kept
// stable for gVisor (see runtime/proc.go).

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// Failure is the record that a child sends when a call failed. A child sends nothing else about it.
type Failure struct {
	Index uint32
	Errno uint32
}

// Failed returns a failure as the error of its step.
func (p *Program) Failed(f Failure) *fault.Error {
	s := p.Describe(int(f.Index))
	return &fault.Error{Stage: s.Stage, Index: s.Index, Op: s.Op, Path: s.Path, Err: syscall.Errno(f.Errno)}
}

// Exit is the record that [Program.Reap] sends: the wait status and the resources of one process and those it waited for.
type Exit struct {
	Status uint64 // as wait4(2) returns it
	Usage  unix.Rusage
	Root   unix.Statfs_t // of "/", as the process has left it; zero if that is not known
	Place  unix.Statfs_t // likewise, of what the program looks at: see [Program.Reap]
}

// Full reports whether so little room is left in the root's file system that the process may have failed for want of it: a 64th. A program often
// removes what it could not finish.
func (e Exit) Full() bool { return full(&e.Root) }

// PlaceFull is Full for the place that the program looks at.
func (e Exit) PlaceFull() bool { return full(&e.Place) }

func full(s *unix.Statfs_t) bool {
	const part = 64
	return s.Blocks > 0 && s.Bavail < s.Blocks/part || s.Files > 0 && s.Ffree < s.Files/part
}

// Sizes of the two records on the wire.
const (
	FailureSize = int(unsafe.Sizeof(Failure{}))
	ExitSize    = int(unsafe.Sizeof(Exit{}))
)

// ParseFailure reads a record that came over the report descriptor.
func ParseFailure(b []byte) (Failure, bool) {
	if len(b) != FailureSize {
		return Failure{}, false
	}
	return *(*Failure)(unsafe.Pointer(unsafe.SliceData(b))), true
}

// ParseExit reads a record that came over Reap's descriptor.
func ParseExit(b []byte) (Exit, bool) {
	var e Exit
	if len(b) != ExitSize {
		return e, false
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&e)), ExitSize), b)
	return e, true
}

// CloneArgs is struct clone_args of clone3(2), as of Linux 5.7.
type CloneArgs struct {
	Flags, Pidfd, ChildTID, ParentTID, Signal, Stack, StackSize, TLS, SetTID, SetTIDSize, Cgroup uint64
}

// String returns "{flags, cgroup}".
func (a *CloneArgs) String() string {
	return fmt.Sprintf("{flags=%#x, cgroup=%d}", a.Flags, int64(a.Cgroup))
}

// machine is the state of the loop that runs a program. It is allocated before the fork.
type machine struct {
	code    []Call
	slots   []uintptr
	report  int // descriptor for a Failure; -1 for none
	failure Failure
	exit    Exit
	pidfd   int32
	polls   [3]unix.PollFd // of guard, serve and attend
	info    [32]uint32     // a siginfo_t, or a signalfd_siginfo
	sent    sent           // of kindSend
	// The state of the current call. These are fields, not results, because a nosplit chain has few bytes of stack.
	index  int
	errno  uintptr
	to     int     // of a child: the index after its last call
	helper bool    // of a child: to reach that index is success
	last   uintptr // the exit code of this process, if reap has set one
	child  *machine
	stack  []uintptr // of a child
	entry  uintptr   // of spawned
	server *server   // of serve
	part   part
	early  *early // of a child that makes the rest
}

// stackWords is the size of a spawned child's stack. A nosplit chain needs at most some 800 bytes.
const stackWords = 1024

// assemble allocates everything that the run of p needs: after the fork nothing can be allocated.
func assemble(p *Program, report int) *machine {
	m := &machine{code: p.calls, slots: make([]uintptr, p.slots+1), report: report}
	for i := range p.calls {
		switch kind := p.calls[i].kind; {
		case kind == kindSpawn && m.child == nil:
			c := &machine{code: m.code, slots: m.slots, report: report, stack: make([]uintptr, stackWords)}
			fn := spawned
			m.child, m.entry = c, **(**uintptr)(unsafe.Pointer(&fn)) // a func value points to its entry
		case kind == kindServe:
			m.server = newServer(m)
			m.server.gaps = unneeded(p, m, i)
		}
	}
	return m
}

// Run makes the calls in this process, on this thread. If that matters, the caller has locked the goroutine to it. An error is a
// [*fault.Error] with the step of the call that failed.
func (p *Program) Run() error {
	m := assemble(p, -1)
	end := run(m, 0, len(m.code))
	runtime.KeepAlive(p)
	if end < 0 {
		return p.Failed(Failure{Index: uint32(m.index), Errno: uint32(m.errno)})
	}
	return nil
}

// Fork starts a child by clone(2) with flags and lets it run p. It returns the child's pid and a close-on-exec pidfd.
//
// The child is single-threaded and under the contract of Go's forkAndExecInChild. When a call of p fails, the child (or the one
// it spawned) writes a [Failure] to descriptor report and exits with 127; at the end of p it exits with 0. The calling goroutine
// must be locked to a thread that lives as long as the child should: PR_SET_PDEATHSIG follows the thread.
func (p *Program) Fork(flags uintptr, report int) (pid, pidfd int, err error) {
	return p.ForkInto(-1, flags, report)
}

// ForkInto is [Program.Fork] by clone3(2). The kernel starts the child inside the version-2 cgroup whose directory descriptor is group
// (Linux 5.7): to move the child there later takes a grace period of RCU, which is milliseconds. If group is -1, the child stays in this
// process's cgroup.
func (p *Program) ForkInto(group int, flags uintptr, report int) (pid, pidfd int, err error) {
	m := assemble(p, report)
	if pid, pidfd, err, ok := p.forkEarly(group, flags, m); ok {
		if err == nil {
			p.meanwhile()
		}
		return pid, pidfd, err
	}
	m.pidfd = -1
	nr, args := uintptr(unix.SYS_CLONE), [3]uintptr{flags | uintptr(unix.SIGCHLD) | unix.CLONE_PIDFD, 0, uintptr(unsafe.Pointer(&m.pidfd))}
	into := &CloneArgs{Flags: uint64(flags | unix.CLONE_PIDFD | unix.CLONE_INTO_CGROUP), Signal: uint64(unix.SIGCHLD), Cgroup: uint64(group)}
	if group >= 0 {
		into.Pidfd = uint64(uintptr(unsafe.Pointer(&m.pidfd)))
		nr, args = unix.SYS_CLONE3, [3]uintptr{uintptr(unsafe.Pointer(into)), unsafe.Sizeof(*into)}
	}
	r, errno := fork(nr, args, m)
	for tries := 0; errno == uintptr(unix.ENOSPC) && entry.Discarded() && tries < 100; tries++ {
		time.Sleep(5 * time.Millisecond) // those that were discarded count against the limit until the kernel has freed them
		r, errno = fork(nr, args, m)
	}
	runtime.KeepAlive(p)
	runtime.KeepAlive(into)
	runtime.KeepAlive(m)
	if errno != 0 {
		return 0, -1, syscall.Errno(errno)
	}
	p.meanwhile()
	return int(r), int(m.pidfd), nil
}

// fork makes the clone call nr. In the child it runs the program and does not return.
//
//go:noinline
//go:norace
//go:nocheckptr
func fork(nr uintptr, args [3]uintptr, m *machine) (pid, errno uintptr) {
	beforeFork()
	pid, _, e := syscall.RawSyscall6(nr, args[0], args[1], args[2], 0, 0, 0)
	if e != 0 || pid != 0 {
		afterFork()
		return pid, uintptr(e)
	}
	afterForkInChild() // before any call of the program: it resets signal handlers
	entry.Restore()
	child(m, 0, len(m.code))
	return 0, 0 // not reached
}

// child runs code[from:to] as a process of its own, and does not return.
//
//go:nosplit
//go:norace
//go:nocheckptr
func child(m *machine, from, to int) {
	if run(m, from, to) < 0 {
		fail(m)
	}
	exit(m.last)
}

// exit ends this process: by exit_group(2), or by a fault if a seccomp filter refuses that call.
//
//go:nosplit
//go:norace
func exit(code uintptr) {
	syscall.RawSyscall(unix.SYS_EXIT_GROUP, code, 0, 0)
	crash()
}

// crash ends this process by SIGSEGV.
//
//go:noescape
func crash()

// run makes the calls code[i:to] and returns to, or -1 with the failed call in m.
//
//go:nosplit
//go:norace
//go:nocheckptr
func run(m *machine, i, to int) int {
	for i < to {
		c := &m.code[i]
		if !m.part.takes(c) {
			i++
			continue
		}
		m.index = i
		next := i + 1
		switch c.kind {
		case kindCall:
			do(m, c, 0)
		case kindRepeat:
			for n := int(c.from); n <= int(c.to); n++ {
				if do(m, c, n); m.errno != 0 && skip(m, c) < 0 {
					return -1
				}
			}
			m.errno = 0
		case kindFail:
			m.errno = uintptr(c.errno)
		case kindSpawn:
			spawn(m, c, i)
			next += int(c.from)
		case kindFork:
			if beside(m) {
				to = next + int(c.from)
			} else {
				next += int(c.from)
			}
		case kindReap:
			reap(m, c)
		case kindCompare:
			compare(m, c)
		case kindReplace:
			*(*uintptr)(unsafe.Pointer(c.into)), m.errno = c.a[0], 0
		case kindCopy:
			copyAll(m, c)
		case kindReport:
			m.report, m.errno = int(c.from), 0
		case kindJoin:
			join(m)
		case kindGuard:
			guard(m, c)
		case kindDrain:
			reapAll(m)
		case kindExpect:
			expect(m, c)
		case kindForeign:
			foreign()
			m.errno = 0
		case kindSend:
			sendDescriptor(m, c)
		case kindServe:
			serve(m, c)
			next = int(c.a[3])
		}
		if m.errno != 0 {
			n := skip(m, c)
			if n < 0 {
				return -1
			}
			next += n
		}
		i = next
	}
	return to
}

// skip returns how many calls to leave out after c failed with m.errno, or -1 if c does not tolerate that errno.
//
//go:nosplit
//go:norace
func skip(m *machine, c *Call) int {
	for j := 0; j < int(c.ntol); j++ {
		if e := uintptr(c.tol[j].errno); e == m.errno || e == uintptr(Any) {
			return int(c.tol[j].skip)
		}
	}
	return -1
}

// do makes one system call, with slots and counter filled in, and repeats it after EINTR. It leaves the errno in m.
//
//go:nosplit
//go:norace
//go:nocheckptr
func do(m *machine, c *Call, n int) {
	a := c.a
	if c.slots|c.counter != 0 {
		for j := range a {
			if c.slots>>j&1 != 0 {
				a[j] = m.slots[a[j]]
			} else if c.counter>>j&1 != 0 {
				a[j] = uintptr(n)
			}
		}
	}
	if c.nr == unix.SYS_CLOSE && c.slots != 0 { // before the call: after it the number can be another file's
		m.slots[c.a[0]] = ^uintptr(0)
	}
	for {
		r, _, e := syscall.RawSyscall6(uintptr(c.nr), a[0], a[1], a[2], a[3], a[4], a[5])
		if e == unix.EINTR && c.nr != unix.SYS_CLOSE { // an interrupted close has closed: close(2)
			continue
		}
		m.errno = uintptr(e)
		if e != 0 {
			return
		}
		if int(r) < int(c.min) {
			m.errno = uintptr(unix.EPIPE)
			return
		}
		store(m, c, r)
		return
	}
}

// store keeps a result in the slot and the cell that c names.
//
//go:nosplit
//go:norace
//go:nocheckptr
func store(m *machine, c *Call, r uintptr) {
	if c.keep != 0 {
		m.slots[c.keep] = r
	}
	if c.into != nil {
		*c.into = int32(r)
	}
}

// spawn starts a child that shares this process's memory, on a stack of its own: vfork(2). This process stops until the child has executed
// a program or ended. That saves two copies of the page tables on the way to the command. A child of SpawnApart has a copy of the memory
// instead, and this process does not stop.
//
//go:nosplit
//go:norace
//go:nocheckptr
func spawn(m *machine, c *Call, i int) {
	flags := uintptr(unix.SIGCHLD)
	// With CLONE_VM alone both processes would change the same memory at the same time: CLONE_VFORK stops this one.
	if c.to != spawnApart {
		flags |= unix.CLONE_VM | unix.CLONE_VFORK
	}
	if c.to == spawnHelper {
		flags |= unix.CLONE_FILES
	}
	if c.into != nil {
		flags |= unix.CLONE_PIDFD
	}
	child := m.child
	child.index, child.to, child.helper = i+1, i+1+int(c.from), c.to == spawnHelper
	pid := entry.Clone(flags, uintptr(unsafe.Pointer(&child.stack[stackWords-4])), c.into, m.entry, unsafe.Pointer(child))
	m.errno = 0
	if pid > ^uintptr(4095) {
		m.errno = -pid
		return
	}
	m.slots[c.keep] = pid
}

// beside forks a child that runs the next calls, and reports whether this process is the child. The child sends no failures.
//
//go:nosplit
//go:norace
func beside(m *machine) bool {
	pid, _, e := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if m.errno = uintptr(e); e != 0 || pid != 0 {
		return false
	}
	m.report = -1
	return true
}

// spawned is a child of spawn from start to end; it does not return.
//
//go:nosplit
//go:norace
//go:nocheckptr
func spawned(m *machine) {
	if run(m, m.index, m.to) >= 0 {
		if m.helper {
			exit(0)
		}
		m.errno = uintptr(unix.ENOEXEC) // the calls ended without exec
	}
	fail(m)
}

// fail reports m.index and m.errno and ends this process.
//
//go:nosplit
//go:norace
//go:nocheckptr
func fail(m *machine) {
	m.failure.Index, m.failure.Errno = uint32(m.index), uint32(m.errno)
	syscall.RawSyscall(unix.SYS_WRITE, uintptr(m.report), uintptr(unsafe.Pointer(&m.failure)), unsafe.Sizeof(m.failure))
	exit(127)
}

// foreign makes a system call of another architecture.
//
//go:noescape
func foreign()

// join ends this process after it has started a sibling that goes on from here.
//
//go:nosplit
//go:norace
func join(m *machine) {
	pid, _, e := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.CLONE_PARENT|int(unix.SIGCHLD)), 0, 0, 0, 0, 0)
	m.errno = uintptr(e)
	if e == 0 && pid != 0 {
		exit(0)
	}
}
