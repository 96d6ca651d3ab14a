package vm

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// locked does something while nobody else has the lock that a file stands for: apt does not wait for another apt.
func locked(name string, do func() error) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return &os.PathError{Op: "lock", Path: name, Err: err}
	}
	return do()
}
