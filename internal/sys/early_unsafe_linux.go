package sys

import (
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/nsrun/nsrun/internal/sys/entry"
	"golang.org/x/sys/unix"
)

// This file makes a part of a program's calls while the rest is written. To look at the host and to write the calls takes a run 500 us, and to
// make them 1,000 us; with two processors idle, the first half of the mounts is there when the program is complete.
//
// The calls are made by the process that was started in the sandbox's namespaces before Go's runtime ([entry.WorkAhead]), in this process's
// memory and with its descriptors. The program's child is a copy of that process, or of one like it that forks the child meanwhile: it has its root and
// working directory, its umask, and what it has left open. When the early calls have been made, the child makes the others. If that process ends before its
// work is done, the child makes all of them, in new namespaces.

// makeEarly switches all of this off.
const makeEarly = true

// when selects the process that makes a call.
type when uint8

const (
	whenRun   when = iota // the program's child
	whenEarly             // the process ahead, if there is one
	whenLate              // the child, if there is such a process
)

// part selects the calls that a machine makes.
type part uint8

const (
	partAll   part = iota // but not the late ones
	partEarly             // the early ones
	partRest              // all but those
)

// takes reports whether a part includes a call.
//
//go:nosplit
//go:norace
func (p part) takes(c *Call) bool {
	switch p {
	case partEarly:
		return c.when == whenEarly
	case partRest:
		return c.when != whenEarly
	}
	return c.when != whenLate
}

// early is the state of that process.
type early struct {
	m         *machine
	progress  *progress
	settled   uint32 // from here on the calls leave nothing to the child that it needs, but mounts: see settle
	published uint32 // a futex: how many calls may be looked at, and noMore
	asleep    uint32 // it waits for published to change
	marking   bool   // calls that are added are early
	kept      [][]Call
}

// progress is how far the early calls have come. It lies in memory that the child has in common with the process ahead. This process does not read
// it: the sandbox could write there.
type progress struct {
	done   uint32 // a futex: the early calls before this one have been made, or noneLeft
	wanted uint32 // somebody waits until done is as much
	failed uint32 // 1 + the index of the call that has failed, with errno
	errno  uint32
}

// noneLeft means that no early call will be made any more.
const noneLeft = ^uint32(0)

// noMore is a bit of published: no more calls will follow.
const noMore = 1 << 31

// leastFiles is the limit on open files from which on calls are made early.
const leastFiles = 64

// earlySlots is how many slots early calls can use.
const earlySlots = 128

// StartEarly begins to make early calls, if namespaces by flags have been made ahead.
func (p *Program) StartEarly(flags uintptr) {
	if !makeEarly || len(p.calls) > 0 || p.Trace || !entry.MadeAhead(flags) {
		return
	}
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil || files.Cur < leastFiles { // two processes fill one table
		return
	}
	// It is one page until this process ends.
	page, _, errno := syscall.RawSyscall6(unix.SYS_MMAP, 0, unsafe.Sizeof(progress{}), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS, ^uintptr(0), 0)
	if errno != 0 {
		return
	}
	e := &early{m: &machine{slots: make([]uintptr, earlySlots), report: -1, part: partEarly}, progress: (*progress)(pointer(page))}
	e.progress.wanted = noneLeft
	for i := range e.m.slots {
		e.m.slots[i] = ^uintptr(0)
	}
	if entry.WorkAhead(flags, entry.Work{Task: unsafe.Pointer(e), Do: runEarly, Finish: endEarly, Settled: awaitSettled}) {
		p.early = e
	}
}

// Early reports whether calls that are added now are early.
func (p *Program) Early() bool { return p.early != nil && p.early.marking }

// MarkEarly says whether calls that are added from here on may be made before the program is complete and by another process. They must be
// plain system calls, and may depend on slots of early calls alone. Calls between them that are not early are made after all of them, so neither may
// depend on the others.
func (p *Program) MarkEarly(on bool) {
	if p.early != nil {
		p.early.marking = on && p.early.published&noMore == 0
	}
}

// UnmarkEarly has the child make the calls from index from on, which must not have been published, and all calls that will be added.
func (p *Program) UnmarkEarly(from int) {
	for i := range p.calls[from:] {
		p.calls[from+i].when = whenRun
	}
	p.EndEarly()
}

// Publish lets the early calls that have been added be made. They cannot be changed any more.
func (p *Program) Publish() {
	e := p.early
	if e == nil || e.published&noMore != 0 {
		return
	}
	if p.slots >= earlySlots {
		panic("bug: too many slots for early calls")
	}
	e.publish(p.calls, uint32(len(p.calls)))
}

// EndEarly says that no early call will follow.
func (p *Program) EndEarly() {
	if e := p.early; e != nil && e.published&noMore == 0 {
		e.marking = false
		e.publish(p.calls, e.published|noMore)
	}
}

// publish changes published. The calls that it counts stay where they are, should the program be copied as it grows.
func (e *early) publish(calls []Call, n uint32) {
	if was := e.m.code; unsafe.SliceData(was) != unsafe.SliceData(calls) {
		e.kept = append(e.kept, was)
	}
	// The other process reads the slice without a lock. The new calls are there before the pointer to them is (arm64 needs the atomic store); it
	// looks at no more of them than are published.
	code := (*struct {
		data     unsafe.Pointer
		len, cap int
	})(unsafe.Pointer(&e.m.code))
	code.len, code.cap = len(calls), cap(calls)
	atomic.StorePointer(&code.data, unsafe.Pointer(unsafe.SliceData(calls)))
	atomic.StoreUint32(&e.published, n)
	if atomic.LoadUint32(&e.asleep) != 0 {
		entry.Wake(&e.published)
	}
}

// runEarly is what the process ahead does.
//
//go:nosplit
//go:norace
//go:nocheckptr
func runEarly(task unsafe.Pointer) {
	e := (*early)(task)
	for i := 0; ; {
		n := atomic.LoadUint32(&e.published)
		if i < int(n&^noMore) {
			if i = run(e.m, i, int(n&^noMore)); i < 0 {
				e.progress.fail(e.m)
				return
			}
			e.progress.advance(uint32(i))
			continue
		}
		if n&noMore != 0 {
			return
		}
		atomic.StoreUint32(&e.asleep, 1)
		entry.Wait(&e.published, n)
		atomic.StoreUint32(&e.asleep, 0)
	}
}

// endEarly says that no early call will be made any more.
//
//go:nosplit
//go:norace
//go:nocheckptr
func endEarly(task unsafe.Pointer) { (*early)(task).progress.advance(noneLeft) }

// advance sets how far the early calls have come. It is not inlined, for the stack of its caller has no room for more.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func (p *progress) advance(done uint32) {
	atomic.StoreUint32(&p.done, done)
	if done >= atomic.LoadUint32(&p.wanted) {
		entry.Wake(&p.done)
	}
}

// fail notes the call that has failed.
//
//go:nosplit
//go:noinline
//go:norace
//go:nocheckptr
func (p *progress) fail(m *machine) { p.failed, p.errno = uint32(m.index)+1, uint32(m.errno) }

// awaitSettled waits until the child can be forked.
//
//go:nosplit
//go:norace
//go:nocheckptr
func awaitSettled(task unsafe.Pointer) {
	e := (*early)(task)
	for p := e.progress; ; {
		atomic.StoreUint32(&p.wanted, e.settled)
		done := atomic.LoadUint32(&p.done)
		if done >= e.settled {
			atomic.StoreUint32(&p.wanted, noneLeft)
			return
		}
		entry.Wait(&p.done, done)
	}
}

// takeOver has the child wait until the early calls have been made. It returns the one that has failed, or -1.
//
// The process that makes them ends with this child's parent, and then this child ends, too.
//
//go:nosplit
//go:norace
//go:nocheckptr
func takeOver(m *machine) (failed int) {
	e := m.early
	syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0)
	p := e.progress
	atomic.StoreUint32(&p.wanted, noneLeft)
	for {
		if entry.OwnerEnded() {
			exit(1)
		}
		done := atomic.LoadUint32(&p.done)
		if done == noneLeft {
			break
		}
		entry.WaitFor(&p.done, done)
	}
	entry.ForgetOwner()
	for i := 0; i < len(m.slots) && i < len(e.m.slots); i++ {
		m.slots[i] = e.m.slots[i]
	}
	return int(p.failed) - 1
}

// settle finds the call from which on the early calls leave nothing to the child that it needs, but mounts. Before it they have changed the root, the
// working directory and the umask, and opened the descriptors that they leave open. The child also has those that are open for a moment when it is
// forked. All are close-on-exec, and a child that executes nothing closes them before there is a command (stages, closeOwn).
func (e *early) settle(calls []Call) {
	last := 0
	var opened [earlySlots]int
	for i := range calls {
		c := &calls[i]
		if c.when != whenEarly {
			continue
		}
		switch c.nr {
		case unix.SYS_FCHDIR, unix.SYS_CHDIR, unix.SYS_PIVOT_ROOT, unix.SYS_UMASK:
			last = i + 1
		case unix.SYS_CLOSE:
			if c.slots != 0 {
				opened[c.a[0]] = 0
			}
		}
		if c.keep != 0 {
			opened[c.keep] = i + 1
		}
	}
	e.settled = uint32(max(last, slices.Max(opened[:])))
}

// forkEarly starts p's child in namespaces that were made ahead, if there are such and p is to use them. Otherwise it ends what has made
// early calls. Either way nothing of that is left open when it returns: a descriptor of the child's may get such a number. Only what a process opened that
// was killed before it could note it stays, close-on-exec.
func (p *Program) forkEarly(group int, flags uintptr, m *machine) (pid, pidfd int, err error, ok bool) {
	p.EndEarly()
	if p.early != nil {
		p.early.settle(p.calls)
	}
	if group < 0 && p.Ahead {
		pid, pidfd, err, ok = forkAhead(m, flags, p.early, p.meanwhile)
	} else if p.early != nil {
		entry.EndAhead()
	}
	p.closeEarly(!ok)
	runtime.KeepAlive(p)
	return pid, pidfd, err, ok
}

// forkAhead starts the child in namespaces that were made ahead, if there are such: see [entry.ForkAhead].
func forkAhead(m *machine, flags uintptr, e *early, meanwhile func()) (pid, pidfd int, err error, ok bool) {
	fn := born
	if m.early = e; e != nil {
		m.part = partRest
	}
	r, pidfd, ok := entry.ForkAhead(flags, **(**uintptr)(unsafe.Pointer(&fn)), unsafe.Pointer(m), e != nil, meanwhile)
	m.part = partAll
	runtime.KeepAlive(m)
	if ok && r > ^uintptr(4095) {
		return 0, -1, syscall.Errno(-r), true
	}
	return int(r), pidfd, nil, ok
}

// born is such a child from start to end.
//
//go:nosplit
//go:norace
//go:nocheckptr
func born(m *machine) {
	entry.Restore()
	if m.early != nil {
		if failed := takeOver(m); failed >= 0 { // the calls before it come first, as if it were this process's own
			if run(m, 0, failed) >= 0 {
				m.index, m.errno = failed, uintptr(m.early.progress.errno)
			}
			fail(m)
		}
	}
	child(m, 0, len(m.code))
}

// closeEarly closes what the process ahead has left open, in the table of descriptors that it shared with this process: those that the
// child has its own copy of, or any where a call has failed or, with lost, that process was ended. Early calls keep nothing but descriptors, and the umask.
func (p *Program) closeEarly(lost bool) {
	if p.early == nil {
		return
	}
	slots := p.early.m.slots
	for i := range p.calls {
		c := &p.calls[i]
		if lost && c.when == whenEarly && c.nr == unix.SYS_DUP3 { // the numbers are spare ones: SpareFD
			unix.Close(int(c.a[1]))
		}
		if c.when != whenEarly || c.keep == 0 {
			continue
		}
		if fd := int(slots[c.keep]); fd >= 0 && c.nr != unix.SYS_UMASK {
			unix.Close(fd)
		}
		slots[c.keep] = ^uintptr(0)
	}
}

// Late has the call made only if the process ahead has made the early ones. A descriptor that it keeps is one that an early call has opened:
// the child opens it anew, if it has closed all that it has not opened itself (close_range(2)).
func (c *Call) Late() *Call { c.when = whenLate; return c }
