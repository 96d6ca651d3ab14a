package main

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
)

// writeNothing writes a static program that does nothing: an ELF header, one segment, and exit_group(0).
func writeNothing(name string) error {
	machine, code := uint16(62), []byte{0x31, 0xff, 0xb8, 0xe7, 0, 0, 0, 0x0f, 0x05} // xor edi, edi; mov eax, 231; syscall
	if runtime.GOARCH == "arm64" {
		machine, code = 183, []byte{0, 0, 0x80, 0xd2, 0xc8, 0x0b, 0x80, 0xd2, 1, 0, 0, 0xd4} // mov x0, 0; mov x8, 94; svc 0
	}
	const base, headers = 0x400000, 64 + 56
	le := binary.LittleEndian
	elf := append([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, make([]byte, 9)...)
	for _, v := range []uint16{2, machine} {
		elf = le.AppendUint16(elf, v)
	}
	elf = le.AppendUint32(elf, 1)
	for _, v := range []uint64{base + headers, 64, 0} {
		elf = le.AppendUint64(elf, v)
	}
	elf = le.AppendUint32(elf, 0)
	for _, v := range []uint16{64, 56, 1, 0, 0, 0} {
		elf = le.AppendUint16(elf, v)
	}
	elf = le.AppendUint32(le.AppendUint32(elf, 1), 5) // PT_LOAD, to be read and executed
	size := uint64(headers + len(code))
	for _, v := range []uint64{0, base, base, size, size, 0x1000} {
		elf = le.AppendUint64(elf, v)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, append(elf, code...), 0o755)
}
