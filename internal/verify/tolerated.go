package verify

import (
	"syscall"

	"github.com/nsrun/nsrun/internal/sys"
)

// tolerated is an error that a call may fail with, and the reason why the program can go on.
type tolerated struct {
	errno syscall.Errno
	why   string
}

// The tolerated errors. No call may fail with any other (claim Tolerance).
var (
	callerSilent     = tolerated{syscall.EAGAIN, "the caller is alive and has sent nothing"}
	noSuchDescriptor = tolerated{syscall.EBADF, "it is closed already: the listing of open descriptors was one itself"}
	noAmbientSet     = tolerated{syscall.EINVAL, "before Linux 4.3 there is no ambient set"}
	notAllowedToDrop = tolerated{syscall.EPERM, "an ordinary user may not drop it and need not: no_new_privs keeps the other sets empty"}
	noKeyrings       = tolerated{syscall.ENOSYS, "a kernel without keyrings has none that the command could reach"}
	keyringsRefused  = tolerated{syscall.EPERM, "a container that refuses the call refuses it to the command, too"}
	unblockable      = tolerated{syscall.EINVAL, "SIGKILL and SIGSTOP have no handler to reset"}
	noHidepid        = tolerated{syscall.EINVAL, "before Linux 5.8 permissions alone keep pid 1 out of reach"}
	readOnlySysctl   = tolerated{syscall.EROFS, "a container mounts /proc/sys read-only; what is not bounded there is refused by the filter, or is a note in the plan"}
	maskedSysctl     = tolerated{syscall.EACCES, "a container masks it: as for EROFS"}
	missingSysctl    = tolerated{syscall.ENOENT, "the kernel has no such limit: as for EROFS"}
	notLink          = tolerated{syscall.EINVAL, "what was opened is no symlink, which is what the call is to find out"}
	notLinkEither    = tolerated{syscall.ENOENT, "likewise, as other file systems say it"}
	otherMount       = tolerated{syscall.EXDEV, "the new root is a mount of its own, which is what the call is to find out"}
	noHostProc       = tolerated{syscall.ENOENT, "the new root is empty, which is what the call is to find out"}
	cannotSignal     = tolerated{syscall.EPERM, "the Landlock domain keeps it from signalling its caller, which is what the call is to find out"}
	nobodyLeft       = tolerated{syscall.ESRCH, "no process is left to kill"}
	nobodyInReach    = tolerated{syscall.EPERM, "no process is left in the domain to kill"}
	goneByNow        = tolerated{syscall.ENOENT, "an entry of a granted directory has gone since: a rule less grants less"}
	refusedAct       = tolerated{sys.Any, "an act of the self-test has to fail, whatever the error"}
	watcherGoesOn    = tolerated{sys.Any, "the watchdog kills the processes that remain, whatever failed before"}
	hasListener      = tolerated{syscall.EBUSY, "the caller is under another program's listener: the plan's own filters follow"}
	noListener       = tolerated{syscall.EMFILE, "the limit on open files leaves none for a listener: likewise"}
	doesNotListen    = tolerated{syscall.EBADF, "nsrun does not want a listener of this command: the plan's own filters follow"}
	noSocket         = tolerated{syscall.EBADF, "likewise: what is at its number is closed"}
	keepsSocket      = tolerated{syscall.EEXIST, "the listener's socket is in place, and stays"}
	sameFile         = tolerated{syscall.EINVAL, "it has the number already"}
	notOpen          = tolerated{syscall.EBADF, "there is nothing to close"}
	listens          = tolerated{syscall.EEXIST, "the listening filter is in place, and stands for what is left out"}
	noHeader         = tolerated{syscall.ENOEXEC, "a file without a header is run by /bin/sh, as execvp(3) does"}
	notThere         = tolerated{syscall.ENOENT, "the next place of PATH is tried"}
	notDirectory     = tolerated{syscall.ENOTDIR, "the next place of PATH is tried"}
	kernelContent    = tolerated{syscall.EAGAIN, "the kernel has answered nothing, so it has nothing against what it was sent"}
	noIPv6           = tolerated{syscall.EAFNOSUPPORT, "without IPv6 in the kernel nothing can be sent by it"}
	noIPv6Address    = tolerated{syscall.EADDRNOTAVAIL, "without an IPv6 address in the namespace nothing can be sent by it"}
	notExecutable    = tolerated{syscall.EACCES, "the next place of PATH is tried, and the error is remembered"}
)
