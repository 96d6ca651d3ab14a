package seccomp

import "strconv"

// Action is the answer of a filter: a SECCOMP_RET_* value with its data in the low 16 bits (seccomp(2)). The zero Action kills the thread.
type Action uint32

// The actions of profiles that are not errors.
const (
	Kill  Action = 0x80000000 // SECCOMP_RET_KILL_PROCESS, since Linux 4.14
	Allow Action = 0x7fff0000 // SECCOMP_RET_ALLOW
)

const (
	actionKillThread Action = 0
	actionTrap       Action = 0x00030000
	actionErrno      Action = 0x00050000
	actionNotify     Action = 0x7fc00000
	actionTrace      Action = 0x7ff00000
	actionLog        Action = 0x7ffc0000
	actionFull       Action = 0xffff0000
)

// Errors as actions. Numbers are Linux's, written out so that tables mean the same on any GOOS.
const (
	eperm           = actionErrno | 1
	eacces          = actionErrno | 13
	einval          = actionErrno | 22
	enosys          = actionErrno | 38
	eprotonosupport = actionErrno | 93
	eafnosupport    = actionErrno | 97
)

// Errno returns the action that fails the call with a Linux errno. The kernel limits it to MAX_ERRNO, 4095.
func Errno(n uint16) Action { return actionErrno | Action(n) }

// String returns, for example, "allow", "kill process" or "errno EPERM".
func (a Action) String() string {
	switch a & actionFull {
	case Kill:
		return "kill process"
	case actionKillThread:
		return "kill thread"
	case actionTrap:
		return "trap"
	case actionErrno:
		return "errno " + errnoName(uint16(a))
	case actionNotify:
		return "notify"
	case actionTrace:
		return "trace " + strconv.Itoa(int(uint16(a)))
	case actionLog:
		return "log"
	case Allow:
		return "allow"
	}
	return "unknown action 0x" + strconv.FormatUint(uint64(a), 16) + " (kills the process)"
}

func errnoName(n uint16) string {
	switch Errno(n) {
	case eperm:
		return "EPERM"
	case eacces:
		return "EACCES"
	case einval:
		return "EINVAL"
	case enosys:
		return "ENOSYS"
	case eprotonosupport:
		return "EPROTONOSUPPORT"
	case eafnosupport:
		return "EAFNOSUPPORT"
	}
	return strconv.Itoa(int(n))
}

// stricter reports whether the kernel prefers a to b if two filters differ. It takes the lower value as a signed number
// (seccomp_run_filters in kernel/seccomp.c).
func stricter(a, b Action) bool { return int32(a&actionFull) < int32(b&actionFull) }
