package sys

import (
	"bytes"
	"cmp"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A server is a fork of a process with a heap, whose pages both have until one of them writes to its own. Of these the server needs a few: the
// image of the program, and what its own calls use. The others it unmaps when its sandbox is ready. Otherwise each sandbox would keep a copy of
// nearly all that the process had at that time, which makes a megabyte and more as soon as that process goes on.

// span is a range of memory, whole pages.
type span struct{ start, end uintptr }

// pages returns the pages of an object.
func pages(at unsafe.Pointer, size uintptr) span {
	pageSize := uintptr(os.Getpagesize())
	return span{addr(at) &^ (pageSize - 1), (addr(at) + size + pageSize - 1) &^ (pageSize - 1)}
}

// layout is where this program lies: its image with its variables. Everything is between the limits.
type layout struct {
	keep   []span
	limits span
}

// mapped is the layout, which is read once: it never changes.
var mapped struct {
	once   sync.Once
	layout layout
}

// ownLayout returns the layout. Without /proc it has no limits.
func ownLayout() layout {
	mapped.once.Do(func() { mapped.layout = readLayout() })
	return mapped.layout
}

func readLayout() (l layout) {
	maps, err := ReadFile("/proc/self/maps")
	if err != nil {
		return l
	}
	fn := release
	code, image, end := **(**uintptr)(unsafe.Pointer(&fn)), "", uintptr(0)
	var all []mapping
	for line := range bytes.Lines(maps) {
		m := parseMapping(string(line))
		if all = append(all, m); m.start <= code && code < m.end {
			image = m.path
		}
	}
	for _, m := range all {
		if m.path == "[vsyscall]" { // it is in the kernel's half
			continue
		}
		if l.limits.start == 0 {
			l.limits.start = m.start
		}
		l.limits.end = m.end
		if m.path == image || m.path == "" && m.start == end { // the variables that are zero lie behind the others
			l.keep, end = append(l.keep, m.span), m.end
		}
	}
	if image == "" {
		return layout{}
	}
	return l
}

// mapping is a line of /proc/PID/maps: proc_pid_maps(5).
type mapping struct {
	span
	path string
}

func parseMapping(line string) (m mapping) {
	const beforePath = 5 // fields
	fields := strings.Fields(line)
	start, end, _ := strings.Cut(fields[0], "-")
	m.start, m.end = hexadecimal(start), hexadecimal(end)
	if len(fields) > beforePath {
		m.path = fields[beforePath]
	}
	return m
}

func hexadecimal(text string) uintptr {
	n, _ := strconv.ParseUint(text, 16, 64)
	return uintptr(n)
}

// unneeded returns what the server whose call is p.calls[at] does not need: nothing if that is unknown.
func unneeded(p *Program, m *machine, at int) []span {
	l := ownLayout()
	if l.limits.end == 0 || p.lists {
		return nil
	}
	rest := p.calls[at:]
	keep := append(slices.Clone(l.keep), object(m), object(m.server), array(m.slots), array(rest))
	memory := len(p.alive)
	for i := range rest {
		c := &rest[i]
		switch {
		case c.kind == kindSpawn, c.kind == kindCopy:
			return nil
		case c.kind == kindCompare:
			keep = append(keep, pages(unsafe.Pointer(c.into), uintptr(c.to+c.from)))
		case c.into != nil:
			keep = append(keep, object(c.into))
		}
		if c.ptrs != 0 {
			memory = min(memory, int(c.memory))
		}
	}
	for _, m := range p.alive[memory:] { // it is in the order of the calls
		keep = append(keep, pages(m.ptr, uintptr(m.size)))
	}
	gaps := make([]span, 0, len(keep)+2)
	keep = append(keep, array(gaps[:cap(gaps)]))
	slices.SortFunc(keep, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	from := l.limits.start
	for _, k := range keep {
		if k.start > from {
			gaps = append(gaps, span{from, k.start})
		}
		from = max(from, k.end)
	}
	return append(gaps, span{from, max(from, l.limits.end)})
}

func object[T any](v *T) span { return pages(unsafe.Pointer(v), unsafe.Sizeof(*v)) }

func array[T any](s []T) span {
	var v T
	return pages(unsafe.Pointer(unsafe.SliceData(s)), uintptr(len(s))*unsafe.Sizeof(v))
}

// near is how much of the stack, and of what the thread pointer points to, is kept on both sides: a nosplit chain needs at most some 800 bytes,
// and the C library has the area of rseq(2) there.
const near = 16 << 10

// release unmaps what a server does not need.
//
//go:nosplit
//go:norace
//go:nocheckptr
func release(s *server) {
	s.held[0] = around(uintptr(unsafe.Pointer(&s)))
	readThreadPointer(uintptr(unsafe.Pointer(&s.word)))
	s.held[1] = around(s.word[0])
	if s.held[1].start < s.held[0].start {
		s.held[0], s.held[1] = s.held[1], s.held[0]
	}
	for i := 0; i < len(s.gaps); i++ {
		g := &s.gaps[i]
		for j := 0; j < len(s.held); j++ {
			if h := &s.held[j]; h.start < g.end && h.end > g.start {
				unmap(g.start, h.start)
				g.start = h.end
			}
		}
		unmap(g.start, g.end)
	}
}

// around returns the pages near an address.
//
//go:nosplit
//go:norace
func around(at uintptr) span {
	return span{at&^(near-1) - min(near, at&^(near-1)), at&^(near-1) + 2*near}
}

// unmap unmaps a range, if there is one.
//
//go:nosplit
//go:norace
func unmap(start, end uintptr) {
	if start < end {
		syscall.RawSyscall(unix.SYS_MUNMAP, start, end-start, 0)
	}
}
