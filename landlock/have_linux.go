package landlock

import (
	"errors"
	"fmt"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// ABI returns the Landlock ABI that the running kernel offers. A kernel without Landlock gives [errors.ErrUnsupported] and ENOSYS, one
// with Landlock not among its active LSMs [errors.ErrUnsupported] and EOPNOTSUPP; any other error means that it could not be told (a
// seccomp filter, for instance).
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
	case errors.Is(err, unix.ENOSYS):
		return 0, fmt.Errorf("the kernel has no Landlock (%w): %w", unix.ENOSYS, errors.ErrUnsupported)
	case errors.Is(err, unix.EOPNOTSUPP):
		return 0, fmt.Errorf("no Landlock among the kernel's active LSMs (%w): %w", unix.EOPNOTSUPP, errors.ErrUnsupported)
	case errors.Is(err, unix.EINVAL):
		return 0, errors.ErrUnsupported
	}
	return 0, err
}

// Accepts reports whether the kernel takes the rights of ABI abi, by making a ruleset of them and closing it: some vendor kernels
// report an ABI and refuse its bits. nil means yes.
func Accepts(abi int) error { return takes(rights(abi)) }

// Usable returns the newest ABI whose rights the kernel takes, and the names of those among them that it refuses all the same: a ruleset
// must leave them out, see [Without]. Errors are those of [ABI]; a kernel that takes no right at all gives [errors.ErrUnsupported].
func Usable() (abi int, refused []string, err error) {
	offered, err := ABI()
	if err != nil {
		return 0, nil, err
	}
	abi, refused = fitKernel(offered, func(r Ruleset) bool { return !errors.Is(takes(r), unix.EINVAL) })
	if abi == 0 {
		return 0, nil, fmt.Errorf("the kernel reports Landlock ABI %d and takes none of its rights: %w", offered, errors.ErrUnsupported)
	}
	return abi, refused, nil
}

func takes(r Ruleset) error {
	var p sys.Program
	fd := p.Slot()
	create(&p, r, fd)
	p.Add(unix.SYS_CLOSE, sys.Of(fd))
	return p.Run()
}
