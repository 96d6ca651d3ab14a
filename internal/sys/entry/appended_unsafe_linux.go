package entry

import "unsafe"

// This file runs a second program that is appended to the file of this one: in a release of nsrun that is the network helper. execve(2) starts the first
// program of a file alone, and from a copy in memory the second one would start 3 ms later. Both are static, and the second one is linked for addresses
// above the first (go build -ldflags '-T ...'). Called by its name, the entry point maps it as the kernel would (load_elf_binary in fs/binfmt_elf.c), and
// goes on at its entry point, with the stack that the kernel has made.

// AppendedName is the name of the appended program. By this name its file is called to run it.
const AppendedName = "nsrun-helper"

// A file with a program appended ends with AppendedMark, the offset of that program as AppendedDigits hexadecimal digits, and a line feed. The offset is a
// multiple of the program's alignment.
const (
	AppendedMark   = "\n" + AppendedName + " at "
	AppendedDigits = 16
)

// elfHeader and elfPart are Elf64_Ehdr and Elf64_Phdr of elf(5).
type elfHeader struct {
	ident                            [4]byte
	_                                [12]byte
	_, _                             uint16
	_                                uint32
	entry, headers, _                uint64
	_                                uint32
	_, headerSize, headerCount, _, _ uint16
	_                                uint16
}

type elfPart struct {
	kind, flags                                 uint32
	offset, address, _, fileSize, memorySize, _ uint64
}

// appended is the beginning of the appended program. Its header says that the others follow at once.
var appended struct {
	elfHeader
	parts [16]elfPart
}

// mark is the end of the file.
var mark [len(AppendedMark) + AppendedDigits + 1]byte

// selfPath is a C string.
var selfPath = [...]byte{'/', 'p', 'r', 'o', 'c', '/', 's', 'e', 'l', 'f', '/', 'e', 'x', 'e', 0}

// Arguments of openat(2).
const (
	currentDir = ^uintptr(99) // AT_FDCWD
	readOnly   = 0x80000      // O_RDONLY|O_CLOEXEC
)

// runAppended maps the appended program, and returns the address to go on at. It ends the process if there is none.
//
//go:nosplit
//go:norace
//go:nocheckptr
func runAppended(stack unsafe.Pointer) uintptr {
	const end = 2 // SEEK_END
	if auxiliary(stack, auxSecure) != 0 {
		lacks("it has privileges that its caller does not have, and the helper takes none")
	}
	fd, _, e := rawSyscall6(sysOpenat, currentDir, uintptr(unsafe.Pointer(&selfPath)), readOnly, 0, 0, 0)
	if e != 0 {
		lacks("its file cannot be read")
	}
	size, _, _ := rawSyscall6(sysLseek, fd, 0, end, 0, 0, 0)
	readAt(fd, unsafe.Pointer(&mark), unsafe.Sizeof(mark), size-unsafe.Sizeof(mark))
	offset, ok := markedOffset()
	if !ok {
		lacks("it has no network helper in it: use a release of nsrun, or install " + AppendedName + " beside it")
	}
	readAt(fd, unsafe.Pointer(&appended), unsafe.Sizeof(appended), offset)
	h := &appended.elfHeader
	if h.ident != [4]byte{0x7f, 'E', 'L', 'F'} || h.headers != uint64(unsafe.Sizeof(*h)) || uintptr(h.headerSize) != unsafe.Sizeof(elfPart{}) || int(h.headerCount) > len(appended.parts) {
		lacks("the network helper in it is damaged")
	}
	page, entered := auxiliary(stack, auxPageSize), false
	for i := range int(h.headerCount) {
		const load, writable, executable = 1, 2, 1 // PT_LOAD, PF_W, PF_X
		p := &appended.parts[i]
		if p.kind != load {
			continue
		}
		if p.memorySize > p.fileSize && p.flags&writable == 0 {
			lacks("the network helper in it is damaged")
		}
		if !mapPart(fd, offset, p, page) {
			lacks("the network helper in it cannot be mapped")
		}
		entered = entered || p.flags&executable != 0 && p.address <= h.entry && h.entry-p.address < p.fileSize
	}
	if !entered {
		lacks("the network helper in it is damaged")
	}
	rawSyscall6(sysClose, fd, 0, 0, 0, 0, 0)
	return uintptr(h.entry)
}

// readAt fills size bytes from a file. What is not there stays zero.
//
//go:nosplit
//go:norace
//go:nocheckptr
func readAt(fd uintptr, to unsafe.Pointer, size, offset uintptr) {
	rawSyscall6(sysPread64, fd, uintptr(to), size, offset, 0, 0)
}

// markedOffset reads the number in mark.
//
//go:nosplit
//go:norace
//go:nocheckptr
func markedOffset() (offset uintptr, ok bool) {
	if !begins(unsafe.Pointer(&mark), AppendedMark) {
		return 0, false
	}
	for i := range AppendedDigits {
		switch c := *(*byte)(unsafe.Add(unsafe.Pointer(&mark), len(AppendedMark)+i)); {
		case '0' <= c && c <= '9':
			offset = offset<<4 | uintptr(c-'0')
		case 'a' <= c && c <= 'f':
			offset = offset<<4 | uintptr(c-'a'+10)
		default:
			return 0, false
		}
	}
	return offset, true
}

// mapPart maps one part of the program that begins at an offset of the file, where nothing is mapped yet. What memory has beyond the file is zero.
//
//go:nosplit
//go:norace
//go:nocheckptr
func mapPart(fd, offset uintptr, p *elfPart, page uintptr) bool {
	const (
		private   = 0x2      // MAP_PRIVATE
		anonymous = 0x20     // MAP_ANONYMOUS
		fixed     = 0x100000 // MAP_FIXED_NOREPLACE: Linux 4.17
	)
	// PF_R, PF_W and PF_X are the bits of PROT_READ, PROT_WRITE and PROT_EXEC in the opposite order.
	protection := uintptr(p.flags>>2&1 | p.flags&2 | p.flags&1<<2)
	address, inFile := uintptr(p.address), uintptr(p.fileSize)
	within := address & (page - 1)
	at, _, e := rawSyscall6(sysMmap, address-within, (within+inFile+page-1)&^(page-1), protection, private|fixed, fd, offset+uintptr(p.offset)-within)
	if e != 0 || at != address-within {
		return false
	}
	end := address + uintptr(p.memorySize)
	next := (address + inFile + page - 1) &^ (page - 1)
	for a := address + inFile; a < min(next, end); a++ {
		*(*byte)(*text(unsafe.Pointer(&a))) = 0
	}
	if end <= next {
		return true
	}
	at, _, e = rawSyscall6(sysMmap, next, end-next, protection, private|anonymous|fixed, ^uintptr(0), 0)
	return e == 0 && at == next
}

// lacks ends this process, which was to be the appended program.
//
//go:nosplit
//go:norace
//go:nocheckptr
func lacks(why string) {
	say(AppendedName + ": nsrun was called by this name, and ")
	say(why)
	say("\n")
	end(false)
}
