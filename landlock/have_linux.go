package landlock

import (
	"errors"
	"fmt"

	"github.com/nsrun/nsrun/internal/sys"
	"golang.org/x/sys/unix"
)

// ABI returns the Landlock ABI of the running kernel. The error is [errors.ErrUnsupported] and ENOSYS if the kernel has no Landlock, and
// [errors.ErrUnsupported] and EOPNOTSUPP if Landlock is not among the active LSMs. Any other error means that the ABI is unknown, for
// instance because a seccomp filter refused the call. Source: landlock_create_ruleset(2), LANDLOCK_CREATE_RULESET_VERSION.
func ABI() (int, error) { return query(unix.LANDLOCK_CREATE_RULESET_VERSION) }

// Errata returns the set of errata that the running kernel has fixed for its ABI, with erratum n in bit n-1. A kernel before 6.15 does not
// report them; the error is then [errors.ErrUnsupported].
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

// Accepts returns nil if the kernel accepts the rights of ABI abi. It makes a ruleset of them and closes it, because some vendor kernels
// report an ABI and refuse some of its bits.
func Accepts(abi int) error { return takes(rights(abi)) }

// Usable returns the newest ABI whose rights the kernel accepts, and the names of single rights of that ABI which it refuses. A ruleset
// must leave those out, see [Without]. The errors are those of [ABI]; if the kernel accepts no right at all, the error is
// [errors.ErrUnsupported].
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

// takes returns nil if the kernel accepts a ruleset that handles what r handles.
func takes(r Ruleset) error {
	var p sys.Program
	fd := p.Slot()
	create(&p, r).Keep(fd)
	p.Add(unix.SYS_CLOSE, sys.Of(fd))
	return p.Run()
}
