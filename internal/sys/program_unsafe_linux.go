package sys

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"syscall"
	"unsafe"
)

// Slot names a cell that keeps a call's result for later calls. The zero Slot keeps nothing.
type Slot int

// Step describes the purpose of a run of calls, in the caller's words. Errors name it.
type Step struct {
	Stage string // the part of the set-up: "namespaces", "mount", "exec"
	Index int    // which op of that stage, counted from 1; 0 when the stage has no ops
	Op    string // the op's name: "bind"
	Path  string // its object, if it has one
}

// String returns "mount 7 (bind /a)", or "stage (op path)" for a stage without numbered ops.
func (s Step) String() string {
	text := s.Stage
	if s.Index > 0 {
		text += fmt.Sprintf(" %d", s.Index)
	}
	switch {
	case s.Op != "" && s.Path != "":
		text += " (" + s.Op + " " + s.Path + ")"
	case s.Op != "":
		text += " (" + s.Op + ")"
	}
	return text
}

// kind selects the code of run that carries out a call.
type kind uint8

const (
	kindCall    kind = iota
	kindRepeat       // the call once for every value of Counter()
	kindFail         // no call: fails with errno
	kindSpawn        // fork; the child runs the next n calls, this process skips them
	kindReap         // wait for children until one pid ends, then send its status
	kindCompare      // no call: fails with errno when two buffers differ
	kindCopy         // read from a descriptor to its end, and write it all to another
	kindReport       // send failures to another descriptor
	kindJoin         // fork a sibling that goes on with the program; this process ends
	kindFork         // fork; the child runs the next n calls in a memory of its own, this process skips them
	kindGuard        // wait for children until one pid ends, or until the reader of its status has ended
	kindDrain        // wait for children until there is none
	kindForeign      // a call of another architecture
	kindExpect       // wait for one child, and fail unless it ended as it should
	kindSend         // send a descriptor to another process
	kindReplace      // no call: replace an entry of a list
	kindServe        // start processes on request; a has the index of each part's first call, and of the first call after them
)

// Call is one system call, as the child reads it: fixed size, no interfaces, no strings. Its methods change it and return it, for chaining;
// they must be used before the next call is added.
type Call struct {
	a        [6]uintptr
	into     *int32 // also receives the result
	nr       uint32
	min      int32
	from, to int32 // kindRepeat: values of Counter; kindSpawn: the number of the child's calls, and what it shares; kindReap: the descriptor
	keep     int32
	step     int32
	tol      [maxTolerate]tolerance
	errno    int16 // kindFail
	kind     kind
	slots    uint8 // bit n: argument n names a slot
	counter  uint8 // bit n: argument n is the counter
	ntol     uint8
	ptrs     uint8 // bit n: argument n points to the program's memory
	strs     uint8 // bit n: that is a NUL-terminated string
	when     when
	memory   int32 // the index in Program.alive of the first of those
}

const maxTolerate = 4

// tolerance is an errno that a call may fail with, and how many calls are left out then.
type tolerance struct{ errno, skip int16 }

// Keep stores the result in slot s.
func (c *Call) Keep(s Slot) *Call { c.keep = int32(s); return c }

// Into stores the result in *cell too, which may lie inside a buffer that a later call sends.
func (c *Call) Into(cell *int32) *Call { c.into = cell; return c }

// Min makes any result below n the error EPIPE: a short write, or a read at the end of its stream.
func (c *Call) Min(n int) *Call { c.min = int32(n); return c }

// Any stands for every errno in [Call.Tolerate].
const Any = syscall.Errno(0)

// Tolerate lets the call fail with errno e; the next skip calls are then left out.
func (c *Call) Tolerate(e syscall.Errno, skip int) *Call {
	if c.ntol == maxTolerate || skip > math.MaxInt16 {
		panic("bug: a call tolerates too many errnos, or skips too far")
	}
	c.tol[c.ntol] = tolerance{int16(e), int16(skip)}
	c.ntol++
	return c
}

// Repeat makes the call once for each value from..to of its Counter argument. Tolerances apply to each of them.
func (c *Call) Repeat(from, to int) *Call {
	c.kind, c.from, c.to = kindRepeat, int32(from), int32(to)
	return c
}

// Program is a list of system calls. The zero value is empty and ready to use. A Program is written once and run once; it can be forked
// more than once, because a child works on a copy of its memory.
type Program struct {
	// Trace keeps the arguments, so that the program can be printed. Set it before the first call is added, and only to print: memory
	// that is touched before a fork costs twice.
	Trace bool
	// Ahead lets Fork use namespaces that were made ahead: see package entry. There is one set of them.
	Ahead bool
	// Meanwhile, if it is not nil, is called once by a fork that succeeds: when the child is there, or while another process makes it. That process
	// has the same descriptors, so Meanwhile must close none that was open before.
	Meanwhile func()

	calls []Call
	args  [][]Arg // of each call, when tracing
	steps []Step
	alive []memory // the memory that arguments point to, in the order of the calls
	lists bool     // an argument is a list, whose strings are not in alive
	slots int
	early *early // nil if no process makes early calls
}

// memory is a range of memory that an argument points to.
type memory struct {
	ptr  unsafe.Pointer
	size int
}

// At sets the step of the calls that are added from here on.
func (p *Program) At(s Step) { p.steps = append(p.steps, s) }

// Step returns the step of the calls that are added now.
func (p *Program) Step() (s Step) {
	if n := len(p.steps); n > 0 {
		s = p.steps[n-1]
	}
	return s
}

// Slot returns a new slot.
func (p *Program) Slot() Slot { p.slots++; return Slot(p.slots) }

// Grow makes room for n calls, so that a long program is not copied as it grows.
func (p *Program) Grow(n int) {
	p.calls = slices.Grow(p.calls, n)
	p.alive = slices.Grow(p.alive, n+n/2)
	p.steps = slices.Grow(p.steps, n/2)
}

// Len returns the number of calls.
func (p *Program) Len() int { return len(p.calls) }

// Add appends the system call nr.
func (p *Program) Add(nr uintptr, args ...Arg) *Call {
	if len(args) > 6 {
		panic("bug: " + Name(nr) + " has too many arguments")
	}
	c := p.add(Call{nr: uint32(nr), memory: int32(len(p.alive))})
	for i := range args {
		p.set(c, i, &args[i])
	}
	if p.Trace {
		p.args[len(p.calls)-1] = append([]Arg(nil), args...)
	}
	return c
}

// Fail appends a call that always fails with errno e, for the end of a list of alternatives that must not be reached.
func (p *Program) Fail(e syscall.Errno) { p.add(Call{kind: kindFail, errno: int16(e)}) }

// Then lets the last call fail with one of errnos. If it does, the calls that body adds are left out.
func (p *Program) Then(body func(), errnos ...syscall.Errno) {
	at := len(p.calls) - 1
	body()
	for _, e := range errnos {
		p.calls[at].Tolerate(e, len(p.calls)-1-at)
	}
}

// Else lets the last call fail with one of errnos. The calls that body adds are made only if it does.
func (p *Program) Else(body func(), errnos ...syscall.Errno) {
	for _, e := range errnos {
		p.calls[len(p.calls)-1].Tolerate(e, 1)
	}
	const over = syscall.EEXIST // a jump is a failure that is tolerated
	p.Fail(over)
	p.Then(body, over)
}

// Compare appends a check that the first n bytes of buf equal its last n when the program gets there. It fails with errno e, and makes no
// system call.
func (p *Program) Compare(buf []byte, n int, e syscall.Errno) {
	if len(buf) < 2*n {
		panic("bug: a buffer to compare is too short")
	}
	p.add(Call{kind: kindCompare, errno: int16(e), into: (*int32)(unsafe.Pointer(&buf[0])), from: int32(n), to: int32(len(buf) - n)})
}

// Replace appends the replacement of entry i of a [List], which an earlier or later call is given, by another text.
func (p *Program) Replace(list Arg, i int, text string) {
	c := p.add(Call{kind: kindReplace, into: (*int32)(unsafe.Add(list.ptr, i*wordSize)), memory: int32(len(p.alive))})
	word := Str(text)
	p.set(c, 0, &word)
	p.alive = append(p.alive, memory{list.ptr, list.size})
	if p.Trace {
		p.args[len(p.calls)-1] = []Arg{Int(i), word}
	}
}

// wordSize is the size of a pointer.
const wordSize = int(unsafe.Sizeof(uintptr(0)))

// Spawn appends a vfork(2). The child makes the calls that body adds; it shares this process's memory, and this process stops until the
// child has executed a program or ended. If the child reaches the end of its calls, it ends with the failure ENOEXEC. The child's pid is
// kept in pid. If pidfd is not nil, it receives a close-on-exec pidfd of the child.
func (p *Program) Spawn(pid Slot, pidfd *int32, body func()) { p.spawn(pid, pidfd, spawnShared, body) }

// SpawnApart is [Program.Spawn] by fork(2): the child has a copy of this process's memory, and this process goes on. It is for a child that
// may be killed by a signal that dumps core, such as a seccomp filter's SIGSYS: before Linux 5.16 that ends all processes that share the
// memory (commit 0258b5fd7c71).
func (p *Program) SpawnApart(pid Slot, body func()) { p.spawn(pid, nil, spawnApart, body) }

// SpawnHelper is [Program.Spawn] of a child that also shares this process's descriptors, and ends after its calls. Such a child enters a
// namespace to open a descriptor there for this process.
func (p *Program) SpawnHelper(pid Slot, body func()) { p.spawn(pid, nil, spawnHelper, body) }

const (
	spawnShared = int32(iota) // shares the memory
	spawnApart                // shares nothing
	spawnHelper               // shares the memory and the descriptors
)

// spawn appends the fork, and notes how many calls body adds.
func (p *Program) spawn(pid Slot, pidfd *int32, shares int32, body func()) {
	p.add(Call{kind: kindSpawn, keep: int32(pid), into: pidfd, to: shares})
	at := len(p.calls) - 1
	body()
	p.calls[at].from = int32(len(p.calls) - 1 - at)
}

// Beside appends a fork(2). The child makes the calls that body adds, in a copy of this process's memory, while this process goes on. The
// child ends after its calls. If one of them fails, the child ends and reports nothing.
func (p *Program) Beside(body func()) {
	p.add(Call{kind: kindFork})
	at := len(p.calls) - 1
	body()
	p.calls[at].from = int32(len(p.calls) - 1 - at)
}

// set sets argument i of the last call.
func (p *Program) set(c *Call, i int, a *Arg) {
	c.a[i] = a.val
	switch a.kind {
	case argSlot:
		c.slots |= 1 << i
	case argCounter:
		c.counter |= 1 << i
	case argStr:
		c.strs |= 1 << i
	case argList:
		p.lists = true
	}
	if a.ptr != nil {
		c.ptrs |= 1 << i
		p.alive = append(p.alive, memory{a.ptr, a.size})
	}
}

// Reap appends the wait of an init process: it waits for any child until the one in slot pid ends, then writes that child's [Exit] record
// to descriptor fd. It fails with ECHILD if there is no such child, and ignores an error of the write. With all it waits on until there is
// no child left, the process ends with the exit code that a shell would give that child, and the record has no Root. If look is not empty, the
// record has how full that place is, too.
func (p *Program) Reap(pid Slot, fd int, all bool, look string) {
	c := p.add(Call{kind: kindReap, keep: int32(pid), from: int32(fd), memory: int32(len(p.alive))})
	if look != "" {
		place := Str(look)
		p.set(c, 0, &place)
	}
	if all {
		c.to = 1
	}
}

// Guard appends the wait of a process that watches others and is not their pid 1. It waits for any child until the one in slot pid ends,
// then writes that child's [Exit] record to descriptor fd. It stops at once when the other end of fd, a socket, is closed or shut down.
// With group it then kills the process group of that child, before the kernel can give the child's pid to another process. Slot signals has
// a signalfd for SIGCHLD, which must be blocked.
func (p *Program) Guard(pid Slot, fd int, signals Slot, group bool) {
	c := p.add(Call{kind: kindGuard, keep: int32(pid), from: int32(fd), to: int32(signals)})
	if group {
		c.min = 1
	}
}

// Drain appends a wait until there is no child left.
func (p *Program) Drain() { p.add(Call{kind: kindDrain}) }

// Expect appends a wait for the child in slot pid. It fails with errno e unless that child has ended with exit code 0, or, with killed, by
// a signal.
func (p *Program) Expect(pid Slot, killed bool, e syscall.Errno) {
	c := p.add(Call{kind: kindExpect, keep: int32(pid), errno: int16(e)})
	if killed {
		c.to = 1
	}
}

// Foreign appends a harmless system call, getpid(2), of another architecture: i386's, by int $0x80, on amd64. On arm64 there is no such
// instruction, and the call does nothing.
func (p *Program) Foreign() { p.add(Call{kind: kindForeign}) }

// Copy appends a loop that reads descriptor from to its end and writes all of it to the descriptor in slot to.
func (p *Program) Copy(from int, to Slot) {
	buf := make([]byte, copySize)
	p.add(Call{kind: kindCopy, from: int32(from), keep: int32(to), into: (*int32)(unsafe.Pointer(&buf[0]))})
}

// copySize is the size of Copy's buffer in bytes.
const copySize = 1 << 16

// Send appends a message of one byte on a socket, with the descriptor in slot s (unix(7), SCM_RIGHTS). The message lies in memory of the process's
// own, so that commands of a server, which share the program's, can send at the same time.
func (p *Program) Send(socket int, kind byte, s Slot) {
	p.add(Call{kind: kindSend, keep: int32(s), from: int32(socket), to: int32(kind)})
}

// ReportTo makes later failures go to descriptor fd.
func (p *Program) ReportTo(fd int) { p.add(Call{kind: kindReport, from: int32(fd)}) }

// Join appends a clone(2) with CLONE_PARENT: a child of this process's parent goes on with the program, and this process ends. A process
// gets into a pid namespace that it has chosen for its children (setns(2), unshare(2)) only by such a fork.
func (p *Program) Join() { p.add(Call{kind: kindJoin}) }

// Hold notes memory that a struct of the last call's arguments points to, so that it stays.
func Hold[T any](p *Program, s []T) {
	var v T
	p.alive = append(p.alive, memory{unsafe.Pointer(unsafe.SliceData(s)), len(s) * int(unsafe.Sizeof(v))})
}

// add appends a call under the current step.
func (p *Program) add(c Call) *Call {
	c.step = int32(len(p.steps) - 1)
	if p.Early() {
		if c.kind != kindCall && c.kind != kindFail {
			panic("bug: an early call that is no plain system call")
		}
		c.when = whenEarly
	}
	p.calls = append(p.calls, c)
	if p.Trace {
		p.args = append(p.args, nil)
	}
	return &p.calls[len(p.calls)-1]
}

// Inject replaces call i by one that fails with errno e and tolerates the same errnos: a fault for tests. restore puts the call back.
func (p *Program) Inject(i int, e syscall.Errno) (restore func()) {
	c := &p.calls[i]
	was := *c
	if c.kind == kindRepeat {
		c.to = c.from
	}
	c.kind, c.errno, c.into = kindFail, int16(e), nil
	return func() { *c = was }
}

// IsFail reports whether call i was added by [Program.Fail]. A run without faults does not reach such a call.
func (p *Program) IsFail(i int) bool { return p.calls[i].kind == kindFail }

// Tolerates reports whether call i may fail with errno e.
func (p *Program) Tolerates(i int, e syscall.Errno) bool {
	c := &p.calls[i]
	return slices.ContainsFunc(c.tol[:c.ntol], func(t tolerance) bool { return t.errno == int16(e) || t.errno == int16(Any) })
}

// Conditional reports whether a run may leave call i out, because an earlier call skips it when it fails.
func (p *Program) Conditional(i int) bool {
	for j := range p.calls[:i] {
		c := &p.calls[j]
		for _, t := range c.tol[:c.ntol] {
			if j+int(t.skip) >= i {
				return true
			}
		}
	}
	return false
}

// AfterSpawn reports whether call i comes after a spawned child's calls, in the process that spawned the child.
func (p *Program) AfterSpawn(i int) bool {
	for j := range p.calls[:i] {
		if c := &p.calls[j]; c.kind == kindSpawn && i > j+int(c.from) {
			return true
		}
	}
	return false
}

// Describe returns the step that call i belongs to.
func (p *Program) Describe(i int) Step {
	if i < 0 || i >= len(p.calls) || p.calls[i].step < 0 {
		return Step{Stage: "bug: unknown call"}
	}
	return p.steps[p.calls[i].step]
}

// AllThreads makes a system call on every thread of this process, with up to three arguments. The program must be free of cgo.
func AllThreads(nr uintptr, args ...Arg) error {
	var a [3]uintptr
	for i := range args {
		a[i] = args[i].val
	}
	_, _, errno := syscall.AllThreadsSyscall(nr, a[0], a[1], a[2])
	runtime.KeepAlive(args)
	if errno != 0 {
		return errno
	}
	return nil
}

// ServeAt returns the index of the call that [Program.Serve] has added, or Len if there is none.
func (p *Program) ServeAt() int {
	i := slices.IndexFunc(p.calls, func(c Call) bool { return c.kind == kindServe })
	if i < 0 {
		return len(p.calls)
	}
	return i
}
