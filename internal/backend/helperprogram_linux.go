package backend

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Helper is the program that serves the network of a plan with an allow-list. The zero value is none.
type Helper struct {
	// Path is where it is: see [HelperName].
	Path string
	// Program is the program itself, if this one has it. It is run from memory, and Path where the host forbids that (vm.memfd_noexec).
	Program string
}

// programNumber is where the helper has its own program, if that is run from memory. What the child puts elsewhere cannot be in the way there.
const programNumber = 4

// start calls start with a path to execute, and the file that the child has at programNumber then, if there is one. An error is that of the last path.
func (h Helper) start(start func(path string, program *os.File) error) error {
	if h.Program != "" {
		f, err := programFile(h.Program)
		if err == nil {
			defer f.Close()
			err = start(fmt.Sprintf("/proc/self/fd/%d", programNumber), f)
		}
		if err == nil || !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return start(h.Path, nil)
}

// look looks for the program.
func (h Helper) look() error {
	return h.start(func(path string, program *os.File) error {
		if program != nil {
			return nil
		}
		return unix.Access(path, unix.X_OK)
	})
}

// programFile is a sealed file in memory with a program.
func programFile(program string) (*os.File, error) {
	const forPrograms = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(HelperName, forPrograms|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate(HelperName, forPrograms)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), HelperName)
	if _, err = f.WriteString(program); err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
