package sys

import (
	"encoding/binary"
	"unsafe"
)

// Request returns p as a message for a process that runs [Program.Serve]. Its first cut calls come before the calls of Service.Confine. The
// others come after them, and must end in an exec. p must have Trace set. Its arguments can be numbers, slots, strings, lists, and buffers
// that the kernel only reads.
func (p *Program) Request(cut int, terminal, listens bool) []byte {
	if !p.Trace {
		panic("bug: a request without its arguments")
	}
	r := request{strings: map[*byte]uint32{}, lists: map[unsafe.Pointer]uint32{}}
	calls := int(headSize) + len(p.calls)*int(callSize)
	r.data = make([]byte, calls, calls+4096)
	for i := range p.calls {
		c := p.calls[i]
		if c.into != nil || c.kind != kindCall && c.kind != kindFail {
			panic("bug: a request has a call that only a program can make")
		}
		at := int(headSize) + i*int(callSize)
		for j := range p.args[i] {
			if offset, ok := r.argument(&p.args[i][j]); ok {
				c.a[j] = uintptr(offset)
				r.relocs = append(r.relocs, uint32(at)+uint32(unsafe.Offsetof(c.a))+uint32(8*j))
			}
		}
		copy(r.data[at:], unsafe.Slice((*byte)(unsafe.Pointer(&c)), callSize))
	}
	for len(r.data)%8 != 0 {
		r.data = append(r.data, 0)
	}
	for _, at := range r.relocs {
		r.data = binary.NativeEndian.AppendUint32(r.data, at)
	}
	head := requestHead{Size: uint32(len(r.data)), Calls: uint32(len(p.calls)), Cut: uint32(cut), Relocs: uint32(len(r.relocs))}
	if terminal {
		head.Terminal = 1
	}
	if listens {
		head.Listens = 1
	}
	copy(r.data, unsafe.Slice((*byte)(unsafe.Pointer(&head)), headSize))
	return r.data
}

// request is a message under construction.
type request struct {
	data    []byte
	relocs  []uint32
	strings map[*byte]uint32          // offsets of strings and lists in data, by their addresses in this process
	lists   map[unsafe.Pointer]uint32 //
}

// argument appends the memory that an argument points to, and returns its offset. It returns false for an argument that is no pointer.
func (r *request) argument(a *Arg) (uint32, bool) {
	switch a.kind {
	case argStr:
		return r.text(a.text), true
	case argBytes:
		b := a.obj.([]byte)
		at := uint32(len(r.data))
		r.data = append(r.data, b...)
		return at, true
	case argList:
		if at, ok := r.lists[a.ptr]; ok {
			return at, true
		}
		at := r.list(a.obj.([]string))
		r.lists[a.ptr] = at
		return at, true
	case argStruct, argCounter:
		panic("bug: a request has an argument that only a program can have")
	}
	return 0, false
}

// text appends a NUL-terminated string, or finds the copy that is there, and returns its offset.
func (r *request) text(s string) uint32 {
	key := unsafe.StringData(s)
	if at, ok := r.strings[key]; ok && s != "" && string(r.data[at:min(int(at)+len(s)+1, len(r.data))]) == s+"\x00" {
		return at
	}
	at := uint32(len(r.data))
	r.data = append(append(r.data, s...), 0)
	if s != "" {
		r.strings[key] = at
	}
	return at
}

// list appends a NULL-terminated array of strings and returns its offset. Each pointer is listed for relocation.
func (r *request) list(words []string) uint32 {
	offsets := make([]uint32, len(words))
	for i, w := range words {
		offsets[i] = r.text(w)
	}
	for len(r.data)%8 != 0 {
		r.data = append(r.data, 0)
	}
	at := uint32(len(r.data))
	for i, offset := range offsets {
		r.relocs = append(r.relocs, at+uint32(8*i))
		r.data = binary.NativeEndian.AppendUint64(r.data, uint64(offset))
	}
	r.data = binary.NativeEndian.AppendUint64(r.data, 0)
	return at
}
