package landlock

import (
	"errors"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// ABI returns the Landlock ABI that the running kernel offers. A kernel without Landlock, or with Landlock not among its active
// LSMs, gives [errors.ErrUnsupported]; any other error means that it could not be told (a seccomp filter, for instance).
// Source: landlock_create_ruleset(2), LANDLOCK_CREATE_RULESET_VERSION.
func ABI() (int, error) { return query(unix.LANDLOCK_CREATE_RULESET_VERSION) }

// Errata returns the set of errata that the running kernel has fixed for its ABI, erratum n in bit n-1. A kernel before 6.15
// cannot tell and gives [errors.ErrUnsupported].
func Errata() (int, error) { return query(unix.LANDLOCK_CREATE_RULESET_ERRATA) }

func query(flag int) (int, error) {
	var result int32
	var p sys.Program
	p.Add(unix.SYS_LANDLOCK_CREATE_RULESET, sys.Null(), sys.Int(0), sys.Int(flag)).Into(&result)
	err := p.Run()
	switch {
	case err == nil:
		return int(result), nil
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL):
		return 0, errors.ErrUnsupported
	}
	return 0, err
}

// Accepts reports whether the kernel takes the rights of ABI abi, by making a ruleset of them and closing it: some vendor kernels
// report an ABI and refuse its bits. nil means yes.
func Accepts(abi int) error {
	full, _ := Fit(Ruleset{HandledFS: AllFS, HandledNet: BindTCP | ConnectTCP | BindUDP | ConnectSendUDP, Scoped: ScopeAll}, abi)
	var p sys.Program
	fd := p.Slot()
	create(&p, full, fd)
	p.Add(unix.SYS_CLOSE, sys.Of(fd))
	return p.Run()
}
