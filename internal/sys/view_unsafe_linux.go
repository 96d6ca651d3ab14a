package sys

import (
	"math/bits"
	"syscall"
	"unsafe"
)

// View is one call of a finished program as the kernel will read it. It reads the memory that the call's arguments point to, not their
// printed text, so the program needs no [Program.Trace].
type View struct {
	p *Program
	c *Call
}

// View returns call i. Where there is none, the view is of a kind that no call has.
func (p *Program) View(i int) View {
	if i < 0 || i >= len(p.calls) {
		return View{p, &Call{kind: ^kind(0)}}
	}
	return View{p, &p.calls[i]}
}

// Kind is the kind of a call.
type Kind = kind

// The kinds. All but the first two are no system calls of their own: see the methods of [Program] that add them.
const (
	KindCall    = kindCall
	KindRepeat  = kindRepeat
	KindFail    = kindFail
	KindSpawn   = kindSpawn
	KindReap    = kindReap
	KindCompare = kindCompare
	KindReplace = kindReplace
	KindCopy    = kindCopy
	KindReport  = kindReport
	KindJoin    = kindJoin
	KindFork    = kindFork
	KindGuard   = kindGuard
	KindDrain   = kindDrain
	KindForeign = kindForeign
	KindExpect  = kindExpect
	KindSend    = kindSend
	KindServe   = kindServe
)

// Kind returns the call's kind.
func (v View) Kind() Kind { return v.c.kind }

// The sharing between a spawned child and its parent: the second number of [View.Range].
const (
	ShareMemory      = int(spawnShared)
	ShareNothing     = int(spawnApart)
	ShareDescriptors = int(spawnHelper) // and memory
)

// NR returns the number of the system call.
func (v View) NR() uintptr { return uintptr(v.c.nr) }

// Arg returns argument i as a number: a pointer's address, a slot's number.
func (v View) Arg(i int) uint64 { return uint64(v.c.a[i]) }

// IsSlot reports whether argument i is the value in a slot, whose number [View.Arg] returns.
func (v View) IsSlot(i int) bool { return v.c.slots>>i&1 != 0 }

// IsCounter reports whether argument i is the counter of a repeated call.
func (v View) IsCounter(i int) bool { return v.c.counter>>i&1 != 0 }

// Mem returns the memory that argument i points to, or nil if the argument is no pointer. A string's has its NUL.
func (v View) Mem(i int) []byte {
	if v.c.ptrs>>i&1 == 0 {
		return nil
	}
	m := v.p.alive[int(v.c.memory)+bits.OnesCount8(v.c.ptrs&(1<<i-1))]
	if addr(m.ptr) != v.c.a[i] {
		return nil
	}
	return unsafe.Slice((*byte)(m.ptr), m.size)
}

// Str returns argument i, and whether it is a string that ends with a NUL.
func (v View) Str(i int) (string, bool) {
	if v.c.strs>>i&1 == 0 {
		return "", false
	}
	b := v.Mem(i)
	n := len(b) - 1
	if n < 0 {
		return "", false
	}
	return unsafe.String(unsafe.SliceData(b), n), b[n] == 0
}

// ListIs reports whether argument i is a NULL-terminated array of exactly these strings.
func (v View) ListIs(i int, words []string) bool {
	b := v.Mem(i)
	if len(b) != 8*(len(words)+1) {
		return false
	}
	pointers := unsafe.Slice((**byte)(unsafe.Pointer(unsafe.SliceData(b))), len(words)+1)
	for n, w := range words {
		if pointers[n] == nil || !startsWith(pointers[n], w) {
			return false
		}
	}
	return pointers[len(words)] == nil
}

// startsWith reports whether the NUL-terminated string at p is s. It reads no further than the first byte that differs.
func startsWith(p *byte, s string) bool {
	for i := range len(s) {
		if *(*byte)(unsafe.Add(unsafe.Pointer(p), i)) != s[i] {
			return false
		}
	}
	return *(*byte)(unsafe.Add(unsafe.Pointer(p), len(s))) == 0
}

// FilterIs reports whether argument i is a struct sock_fprog with exactly the instructions in raw, which has the kernel's encoding.
func (v View) FilterIs(i int, raw []byte) bool {
	b := v.Mem(i)
	if len(b) != int(unsafe.Sizeof(syscall.SockFprog{})) {
		return false
	}
	f := (*syscall.SockFprog)(unsafe.Pointer(unsafe.SliceData(b)))
	size := int(f.Len) * int(unsafe.Sizeof(syscall.SockFilter{}))
	return size == len(raw) && (size == 0 || string(unsafe.Slice((*byte)(unsafe.Pointer(f.Filter)), size)) == string(raw))
}

// Keep returns the slot that receives the result, or 0.
func (v View) Keep() Slot { return Slot(v.c.keep) }

// Into returns the address that also receives the result, or 0. For [Program.Compare] and [Program.Copy] it is the address of the buffer.
func (v View) Into() uint64 { return uint64(uintptr(unsafe.Pointer(v.c.into))) }

// Min returns the least result that is not a failure.
func (v View) Min() int { return int(v.c.min) }

// Range returns the first and the last value of a repeated call's counter. For other kinds it returns two numbers that the method of
// [Program] has noted, such as a spawned child's number of calls and its sharing.
func (v View) Range() (from, to int) { return int(v.c.from), int(v.c.to) }

// Tolerated returns errno number j that the call may fail with, and how many calls are left out then.
func (v View) Tolerated(j int) (e syscall.Errno, skip int, ok bool) {
	if j >= int(v.c.ntol) {
		return 0, 0, false
	}
	return syscall.Errno(v.c.tol[j].errno), int(v.c.tol[j].skip), true
}

// Errno returns the error of a call that is no system call.
func (v View) Errno() syscall.Errno { return syscall.Errno(v.c.errno) }
