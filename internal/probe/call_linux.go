package probe

import (
	"errors"
	"fmt"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsrun/facts"
	"golang.org/x/sys/unix"
)

// call asks for a system call by arguments that it refuses before it does anything.
type call struct {
	feature facts.Name
	nr      uintptr
	args    [5]uintptr
	refusal unix.Errno // what a kernel that has it says
}

const (
	none  = ^uintptr(0)         // no descriptor
	flags = uintptr(0xffffffff) // all flags, of which some are unknown
)

var calls = [...]call{
	// Sizes below the first version of the struct are EINVAL: openat2(2), mount_setattr(2), clone3(2). Unknown flags are EINVAL, before
	// any privilege is looked at: open_tree(2).
	{facts.Openat2, unix.SYS_OPENAT2, [5]uintptr{none}, unix.EINVAL},
	{facts.MountAPI, unix.SYS_OPEN_TREE, [5]uintptr{none, 0, flags}, unix.EINVAL},
	{facts.MountSetattr, unix.SYS_MOUNT_SETATTR, [5]uintptr{none, 0, flags}, unix.EINVAL},
	{facts.Clone3, unix.SYS_CLONE3, [5]uintptr{}, unix.EINVAL},
	// first after last is EINVAL: close_range(2).
	{facts.CloseR, unix.SYS_CLOSE_RANGE, [5]uintptr{9, 8}, unix.EINVAL},
	{facts.Pidfd, unix.SYS_PIDFD_SEND_SIGNAL, [5]uintptr{none}, unix.EBADF},
}

func (c call) ask() error {
	_, _, err := unix.RawSyscall6(c.nr, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], 0)
	switch err {
	case c.refusal:
		return nil
	case unix.ENOSYS:
		return no(sys.Name(c.nr)+": function not implemented, by the kernel or by a seccomp filter", "")
	case unix.EPERM:
		return no(sys.Name(c.nr)+" is refused by a seccomp filter", "")
	default:
		return fmt.Errorf("%s: unexpected answer: %v", sys.Name(c.nr), err)
	}
}

// cgroupClone asks whether a child can be born in a cgroup. Of what a kernel does not know, E2BIG: clone3(2), on its size; of a descriptor that
// can be none, EINVAL.
func cgroupClone() error {
	var p sys.Program
	p.Add(unix.SYS_CLONE3, sys.Struct(&sys.CloneArgs{Flags: unix.CLONE_INTO_CGROUP, Cgroup: 1 << 40}), sys.Int(88))
	switch err := p.Run(); {
	case errors.Is(err, unix.EINVAL):
		return nil
	case errors.Is(err, unix.E2BIG), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		return no("clone3 into a cgroup: refused by the kernel, or by a seccomp filter", "")
	default:
		return fmt.Errorf("clone3 into a cgroup: unexpected answer: %v", err)
	}
}

// action asks whether filters can return an action: seccomp(2), SECCOMP_GET_ACTION_AVAIL, which is as old as the first of them.
func action(value uint32) error {
	var p sys.Program
	p.Add(unix.SYS_SECCOMP, sys.Int(unix.SECCOMP_GET_ACTION_AVAIL), sys.Int(0), sys.Struct(&value))
	switch err := p.Run(); {
	case err == nil:
		return nil
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return no("seccomp: the action is unknown to this kernel", "")
	default:
		return fmt.Errorf("seccomp: unexpected answer: %w", err)
	}
}
