package sys

import (
	"runtime"
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
// memory and with its descriptors. Later the program's child is a copy of that process: it has its root and working directory, its umask, and what it
// has left open. The child makes the other calls. If that process ends before its work is done, the child makes all of them, in new namespaces.

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
	published uint32 // a futex: how many calls may be looked at, and noMore
	asleep    uint32 // it waits for published to change
	failed    uint32 // a call has failed: m has which one, and the errno
	marking   bool   // calls that are added are early
	kept      [][]Call
}

// noMore is a bit of published: no more calls will follow.
const noMore = 1 << 31

// earlySlots is how many slots early calls can use.
const earlySlots = 128

// StartEarly begins to make early calls, if namespaces by flags have been made ahead.
func (p *Program) StartEarly(flags uintptr) {
	if !makeEarly || len(p.calls) > 0 || p.Trace || !entry.MadeAhead(flags) {
		return
	}
	e := &early{m: &machine{slots: make([]uintptr, earlySlots), report: -1, part: partEarly}}
	for i := range e.m.slots {
		e.m.slots[i] = ^uintptr(0)
	}
	if entry.WorkAhead(flags, runEarly, unsafe.Pointer(e)) {
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

// UnmarkEarly has the calls from index from on made by the child, and all that follow. They must not have been published.
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
		if to := int(n &^ noMore); i < to {
			if run(e.m, i, to) < 0 {
				e.failed = 1
				return
			}
			i = to
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

// forkEarly starts p's child in namespaces that were made ahead, if there are such and p is to use them. Otherwise it ends what has made
// early calls. Either way nothing of that is left open when it returns: a descriptor of the child's may get such a number.
func (p *Program) forkEarly(group int, flags uintptr, m *machine) (pid, pidfd int, err error, ok bool) {
	p.EndEarly()
	if group < 0 && p.Ahead {
		pid, pidfd, err, ok = forkAhead(m, flags, p.early, p.meanwhile)
	} else if p.early != nil {
		entry.EndAhead()
	}
	p.closeEarly()
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
	if e := m.early; e != nil {
		for i := 0; i < len(m.slots) && i < len(e.m.slots); i++ {
			m.slots[i] = e.m.slots[i]
		}
		if e.failed != 0 { // the calls before it come first, as if it were this process's own
			if run(m, 0, e.m.index) >= 0 {
				m.index, m.errno = e.m.index, e.m.errno
			}
			fail(m)
		}
	}
	child(m, 0, len(m.code))
}

// closeEarly closes what the process ahead has left open, in the table of descriptors that it shared with this process: those that the
// child has its own copy of, or any where a call has failed or that process was killed. Early calls keep nothing but descriptors, and the umask.
func (p *Program) closeEarly() {
	if p.early == nil {
		return
	}
	slots := p.early.m.slots
	for i := range p.calls {
		c := &p.calls[i]
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
