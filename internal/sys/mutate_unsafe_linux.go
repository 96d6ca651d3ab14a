package sys

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Mutant is a program that differs from another one in a single call. Tests of what judges programs use it. It must never run.
type Mutant struct {
	*Program
	Class string // how: "delete", "swap", "tolerate", "number", "argument" or "memory"
	What  string // what exactly, for example "2 without 0x1": the third argument lacks this bit
}

// Mutants yields a program for each way to change call i of p: the call is left out or exchanged with the next one; it may fail with any
// error, or leaves out more calls when it fails; each bit of an argument is taken away, and the lowest is changed; each other number is one
// more or less; a byte is changed in the memory that an argument points to, in a word of a list, and in a filter's first instruction.
//
// A mutant is valid until the next one is asked for. At the end p is as it was. The garbage collector must not run in between, because it
// would follow the pointers that are changed: see debug.SetGCPercent.
func (p *Program) Mutants(i int) iter.Seq[Mutant] {
	return func(yield func(Mutant) bool) {
		m := mutation{p, i, &p.calls[i], p.calls[i], yield}
		_ = m.missing() && m.swapped() && m.tolerating() && m.numbers() && m.arguments() && m.memory()
	}
}

// mutation changes one call of a program. Its methods return false when no more mutants are wanted.
type mutation struct {
	p     *Program
	at    int
	c     *Call
	was   Call
	yield func(Mutant) bool
}

// try yields the program with a change to the call.
func (m *mutation) try(class, what string, change func()) bool {
	change()
	ok := m.yield(Mutant{m.p, class, what})
	*m.c = m.was
	return ok
}

// counts reports whether a call has numbers that say where other calls are.
func (c *Call) counts() bool { return c.kind == kindServe || c.kind == kindSpawn || c.kind == kindFork }

// missing leaves the call out, as if it had never been added: what counts calls counts one less.
func (m *mutation) missing() bool {
	if m.c.counts() {
		return true
	}
	q := *m.p
	q.calls = slices.Delete(slices.Clone(q.calls), m.at, m.at+1)
	for j := range q.calls {
		c := &q.calls[j]
		for k := range c.tol[:c.ntol] {
			if j < m.at && j+int(c.tol[k].skip) >= m.at {
				c.tol[k].skip--
			}
		}
		if c.counts() && c.kind != kindServe && j < m.at && j+int(c.from) >= m.at {
			c.from--
		}
		for k := range c.a[:4] {
			if c.kind == kindServe && int(c.a[k]) > m.at {
				c.a[k]--
			}
		}
	}
	return m.yield(Mutant{&q, "delete", ""})
}

// swapped exchanges the call with the next one, unless they are the same.
func (m *mutation) swapped() bool {
	if m.at+1 == len(m.p.calls) || m.c.counts() || m.p.calls[m.at+1].counts() {
		return true
	}
	q := *m.p
	q.calls = slices.Clone(q.calls)
	a, b := &q.calls[m.at], &q.calls[m.at+1]
	*a, *b = *b, *a
	if a.step = b.step; *a == *b {
		return true
	}
	return m.yield(Mutant{&q, "swap", ""})
}

// tolerating lets the call fail with any error, and leaves out more calls when it fails.
func (m *mutation) tolerating() bool {
	c := m.c
	ok := c.ntol == maxTolerate || m.try("tolerate", "any", func() { c.Tolerate(Any, 0) })
	for k, t := range m.was.tol[:m.was.ntol] {
		ok = ok && m.try("tolerate", "skip more", func() { c.tol[k].skip++ })
		ok = ok && (t.errno == int16(Any) || m.try("tolerate", "any instead", func() { c.tol[k].errno = int16(Any) }))
	}
	return ok
}

// numbers changes what is not an argument.
func (m *mutation) numbers() bool {
	c, ok := m.c, true
	for name, n := range map[string]*int32{"min": &c.min, "from": &c.from, "to": &c.to, "keep": &c.keep} {
		ok = ok && m.try("number", name+" more", func() { *n++ }) && (*n == 0 || m.try("number", name+" less", func() { *n-- }))
	}
	ok = ok && m.try("number", "errno", func() { c.errno++ })
	return ok && (c.into == nil || m.try("number", "into", func() { c.into = new(int32) }))
}

// arguments changes the numbers and addresses that are the arguments.
func (m *mutation) arguments() bool {
	for n, was := range m.was.a {
		ok := m.try("argument", fmt.Sprintf("%d with another bit 0", n), func() { m.c.a[n] ^= 1 })
		for rest := uint64(was); ok && rest != 0; rest &= rest - 1 {
			bit := uintptr(1) << bits.TrailingZeros64(rest)
			ok = m.try("argument", fmt.Sprintf("%d without %#x", n, bit), func() { m.c.a[n] &^= bit })
		}
		if !ok {
			return false
		}
	}
	return true
}

// memory changes what the arguments point to.
func (m *mutation) memory() bool {
	v := m.p.View(m.at)
	for n := range 6 {
		ok, mem := true, v.Mem(n)
		switch {
		case v.Kind() == KindCall && v.NR() == unix.SYS_EXECVE && n > 0 && len(mem) > 0:
			for _, word := range unsafe.Slice((**byte)(unsafe.Pointer(&mem[0])), len(mem)/8-1) {
				ok = ok && m.flip(unsafe.Slice(word, 1), n)
			}
		case v.Kind() == KindCall && v.NR() == unix.SYS_SECCOMP && len(mem) > 0:
			filter := (*unix.SockFprog)(unsafe.Pointer(&mem[0])).Filter
			ok = m.flip(unsafe.Slice((*byte)(unsafe.Pointer(filter)), unsafe.Sizeof(*filter)), n) && m.flip(mem[:2], n)
		default:
			ok = m.flip(mem[:min(len(mem), 256)], n)
		}
		if !ok {
			return false
		}
	}
	return true
}

// flip changes the lowest bit of each byte of data, which belongs to argument n.
func (m *mutation) flip(data []byte, n int) bool {
	for k := range data {
		data[k] ^= 1
		ok := m.yield(Mutant{m.p, "memory", fmt.Sprintf("%d, byte %d", n, k)})
		data[k] ^= 1
		if !ok {
			return false
		}
	}
	return true
}
