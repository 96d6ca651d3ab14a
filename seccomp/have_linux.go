package seccomp

import (
	"errors"
	"fmt"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// Have says whether this kernel can install the filters made here: nil for yes, [errors.ErrUnsupported] for no, anything else for
// could not tell. It changes nothing: it asks whether SECCOMP_RET_KILL_PROCESS exists (Linux 4.14), then offers a filter at
// address NULL, which a kernel with CONFIG_SECCOMP_FILTER answers with EFAULT, before it looks at privileges (seccomp(2)).
func Have() error {
	if _, err := Host(); err != nil {
		return err
	}
	kill := uint32(Kill)
	err := ask(int(unix.SECCOMP_GET_ACTION_AVAIL), sys.Struct(&kill))
	if err == nil {
		err = ask(int(unix.SECCOMP_SET_MODE_FILTER), sys.Null())
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

func ask(op int, arg sys.Arg) error {
	var p sys.Program
	p.Add(unix.SYS_SECCOMP, sys.Int(op), sys.Int(0), arg)
	return p.Run()
}
