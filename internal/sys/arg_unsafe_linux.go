package sys

import (
	"fmt"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// argKind selects how an argument prints, and how the child computes its value.
type argKind uint8

const (
	argInt argKind = iota
	argHex
	argWords // a number that prints as words
	argStr
	argBytes
	argStruct
	argList // a NULL-terminated array of strings
	argSlot
	argCounter
)

// Arg is one argument of a system call: its value for the kernel, and its text for people.
type Arg struct {
	kind argKind
	val  uintptr
	text string
	ptr  unsafe.Pointer // keeps the memory alive that val points to
	size int            // of that memory, in bytes
	obj  any            // the value to print; it is formatted only then
}

// Int is a number, printed in decimal.
func Int[T ~int | ~int32 | ~int64 | ~uint32 | ~uint64 | ~uintptr](n T) Arg {
	return Arg{kind: argInt, val: uintptr(n)}
}

// Hex is a number, printed in hexadecimal.
func Hex(n uint64) Arg { return Arg{kind: argHex, val: uintptr(n)} }

// Words is a number that prints as words: Words(unix.MS_BIND, "MS_BIND").
func Words[T ~int | ~uint32 | ~uint64 | ~uintptr](n T, words string) Arg {
	return Arg{kind: argWords, val: uintptr(n), text: words}
}

// AtCWD is AT_FDCWD.
func AtCWD() Arg {
	cwd := unix.AT_FDCWD
	return Arg{kind: argWords, val: uintptr(cwd), text: "AT_FDCWD"}
}

// Null is the pointer NULL.
func Null() Arg { return Arg{kind: argWords, text: "NULL"} }

// Str is a string, NUL-terminated for the kernel. A NUL inside it would cut it short, so callers must have checked it.
func Str(s string) Arg {
	b := make([]byte, len(s)+1)
	copy(b, s)
	return Arg{kind: argStr, val: addr(unsafe.Pointer(&b[0])), ptr: unsafe.Pointer(&b[0]), size: len(b), text: s}
}

// Bytes is a pointer to b, which the kernel may read or write; NULL when b is empty.
func Bytes(b []byte) Arg {
	if len(b) == 0 {
		return Null()
	}
	return Arg{kind: argBytes, val: addr(unsafe.Pointer(&b[0])), ptr: unsafe.Pointer(&b[0]), size: len(b), obj: b}
}

// Struct is a pointer to *v, laid out as the kernel expects it. If *v points to other memory, the caller calls [Hold] for that. It prints by its String method, or as Go prints *v.
func Struct[T any](v *T) Arg {
	return Arg{kind: argStruct, val: addr(unsafe.Pointer(v)), ptr: unsafe.Pointer(v), size: int(unsafe.Sizeof(*v)), obj: v}
}

// List is a NULL-terminated array of strings, as execve(2) expects its argv.
func List(words []string) Arg {
	ptrs := make([]*byte, len(words)+1)
	for i, w := range words {
		b := make([]byte, len(w)+1)
		copy(b, w)
		ptrs[i] = &b[0]
	}
	return Arg{kind: argList, val: addr(unsafe.Pointer(&ptrs[0])), ptr: unsafe.Pointer(&ptrs[0]), size: 8 * len(ptrs), obj: words}
}

// Addr returns the address of v for a struct field. The caller keeps v alive.
func Addr[T any](v *T) uint64 { return uint64(addr(unsafe.Pointer(v))) }

// Size returns the size of *v in bytes, as an argument.
func Size[T any](v *T) Arg { return Int(unsafe.Sizeof(*v)) }

// Of is the value that the program has kept in slot s.
func Of(s Slot) Arg { return Arg{kind: argSlot, val: uintptr(s)} }

// Counter is the running value of a call under [Call.Repeat].
func Counter() Arg { return Arg{kind: argCounter} }

// addr converts a pointer to a number. It is the only place that does: Go's collector does not move heap objects, and Arg.ptr keeps them
// alive.
func addr(p unsafe.Pointer) uintptr { return uintptr(p) }

const maxShown = 64 // the bytes of a buffer that are printed

// print returns the text of an argument of call c.
func (a Arg) print(c *Call) string {
	switch a.kind {
	case argInt:
		return strconv.FormatInt(int64(a.val), 10)
	case argHex:
		return "0x" + strconv.FormatUint(uint64(a.val), 16)
	case argStr:
		return strconv.Quote(a.text)
	case argBytes:
		b := a.obj.([]byte)
		if len(b) > maxShown {
			return strconv.Quote(string(b[:maxShown])) + "..."
		}
		return strconv.Quote(string(b))
	case argStruct:
		return strings.TrimPrefix(fmt.Sprintf("%+v", a.obj), "&")
	case argList:
		return fmt.Sprintf("%q", a.obj)
	case argSlot:
		return "$" + strconv.Itoa(int(a.val))
	case argCounter:
		return fmt.Sprintf("%d..%d", c.from, c.to)
	}
	return a.text
}

// Memory is the address of an area, which must hold nothing that Go owns: see [ArgArea].
func Memory(a Area) Arg { return Arg{kind: argHex, val: a.start} }

// Area is a range of this process's memory.
type Area struct{ start, end uintptr }

// Len returns its length in bytes.
func (a Area) Len() int { return int(a.end - a.start) }

// Addr returns its start address.
func (a Area) Addr() uint64 { return uint64(a.start) }

// ArgArea returns the memory where the kernel put the strings of argv and of the environment, which /proc/PID/cmdline and environ show.
// Go's strings of os.Args and os.Environ point into it, so only a process that never reads them again may overwrite it.
func ArgArea(args, environ []string) Area {
	if len(args) == 0 || len(args[0]) == 0 {
		return Area{}
	}
	first := addr(unsafe.Pointer(unsafe.StringData(args[0])))
	a := Area{first, first}
	const most = 8 << 20 // the largest size of argv and environment: execve(2), a quarter of the stack limit
	for _, s := range append(args[:len(args):len(args)], environ...) {
		if len(s) == 0 {
			continue
		}
		at := addr(unsafe.Pointer(unsafe.StringData(s)))
		if at >= first && at-first < most { // a string that the process has set itself lies on the heap
			a.end = max(a.end, at+uintptr(len(s)))
		}
	}
	return a
}

// Cell is the first four bytes of b as a cell for [Call.Into]. The caller keeps b alive.
func Cell(b []byte) *int32 {
	if len(b) < 4 {
		panic("bug: a cell has four bytes")
	}
	return (*int32)(unsafe.Pointer(unsafe.SliceData(b)))
}

// BytePointer is the address of *v in the type that structures of x/sys use.
func BytePointer[T any](v *T) *byte { return (*byte)(unsafe.Pointer(v)) }
