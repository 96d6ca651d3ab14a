package seccomp

import (
	"errors"
	"fmt"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// Have reports whether the kernel can install filters of this package: nil means yes, [errors.ErrUnsupported] no, and any other error that
// it is unknown. Have changes nothing. It asks whether SECCOMP_RET_KILL_PROCESS exists (Linux 4.14), and then passes a filter at address
// NULL. A kernel with CONFIG_SECCOMP_FILTER answers that with EFAULT before it checks privileges (seccomp(2)).
func Have() error {
	if _, err := Host(); err != nil {
		return err
	}
	kill := uint32(Kill)
	err := ask(int(unix.SECCOMP_GET_ACTION_AVAIL), 0, sys.Struct(&kill))
	if err == nil {
		err = ask(int(unix.SECCOMP_SET_MODE_FILTER), 0, sys.Null())
	}
	switch {
	case errors.Is(err, unix.EFAULT):
		return nil
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("seccomp filters: %w (%w)", errors.ErrUnsupported, err)
	case err == nil:
		return errors.New("seccomp filters: the kernel took a filter at address NULL")
	}
	return fmt.Errorf("seccomp filters: %w", err)
}

// HaveKillable reports whether calls that a listener has received wait for its answer whatever signals come: see [ListenerFlags].
func HaveKillable() bool {
	flags, _ := ListenerFlags(true)
	return errors.Is(ask(int(unix.SECCOMP_SET_MODE_FILTER), flags, sys.Null()), unix.EFAULT)
}

// ask makes one seccomp(2) call.
func ask(op, flags int, arg sys.Arg) error {
	var p sys.Program
	p.Add(unix.SYS_SECCOMP, sys.Int(op), sys.Int(flags), arg)
	return p.Run()
}
