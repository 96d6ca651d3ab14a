package seccomp

import (
	"errors"
	"fmt"
	"runtime"
	"sort"
)

// Arch is an architecture for which filters can be compiled. The zero Arch is none.
type Arch uint8

// The architectures. Both are little-endian with 64-bit arguments, which the compiler relies on.
const (
	AMD64 Arch = iota + 1
	ARM64
)

// Arches returns every [Arch].
func Arches() []Arch { return []Arch{AMD64, ARM64} }

// Host returns the architecture for which this program was built. If filters for it cannot be compiled, the error is
// [errors.ErrUnsupported].
func Host() (Arch, error) {
	for _, a := range Arches() {
		if a.String() == runtime.GOARCH {
			return a, nil
		}
	}
	return 0, fmt.Errorf("seccomp for %s: %w", runtime.GOARCH, errors.ErrUnsupported)
}

// String returns the name in Go (GOARCH), or "none".
func (a Arch) String() string {
	switch a {
	case AMD64:
		return "amd64"
	case ARM64:
		return "arm64"
	}
	return "none"
}

// Audit returns the AUDIT_ARCH_* value that a filter sees for a native call (include/uapi/linux/audit.h), or 0 for no Arch.
func (a Arch) Audit() uint32 {
	switch a {
	case AMD64:
		return 0xc000003e // EM_X86_64 | __AUDIT_ARCH_64BIT | __AUDIT_ARCH_LE; x32 calls have it too
	case ARM64:
		return 0xc00000b7 // EM_AARCH64 | __AUDIT_ARCH_64BIT | __AUDIT_ARCH_LE
	}
	return 0
}

// sysnum is one row of the generated tables.
type sysnum struct {
	nr   uint16
	name string
}

// rows returns the table in the order of numbers and, for each name in alphabetical order, its index in that table.
func (a Arch) rows() ([]sysnum, []uint16) {
	switch a {
	case AMD64:
		return amd64ByNumber[:], amd64ByName[:]
	case ARM64:
		return arm64ByNumber[:], arm64ByName[:]
	}
	return nil, nil
}

// Name returns the name of system call nr, and whether it has one.
func (a Arch) Name(nr uint32) (string, bool) {
	rows, _ := a.rows()
	i := sort.Search(len(rows), func(i int) bool { return uint32(rows[i].nr) >= nr })
	if i == len(rows) || uint32(rows[i].nr) != nr {
		return "", false
	}
	return rows[i].name, true
}

// Number returns the number of the system call called name, and whether the architecture has it.
func (a Arch) Number(name string) (uint32, bool) {
	rows, order := a.rows()
	i := sort.Search(len(order), func(i int) bool { return rows[order[i]].name >= name })
	if i == len(order) || rows[order[i]].name != name {
		return 0, false
	}
	return uint32(rows[order[i]].nr), true
}

// known reports whether any architecture has a call of this name.
func known(name string) bool {
	for _, a := range Arches() {
		if _, ok := a.Number(name); ok {
			return true
		}
	}
	return false
}
