package probe

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsrun/facts"
	"golang.org/x/sys/unix"
)

// PidMax adds to quick facts whether each pid namespace has a kernel.pid_max of its own: for root, whom no RLIMIT_NPROC binds, and where no
// cgroup that is there anyway bounds the number of processes. It forks this process, once, which takes long in a large one.
func PidMax(f facts.Facts) facts.Facts {
	free := slices.ContainsFunc(f.Groups, func(g facts.Group) bool {
		return g.Version == 2 && slices.Contains(g.Controllers, "pids") && !slices.Contains(g.Enable, "pids")
	})
	if f.UID == 0 && !free {
		answer(f, facts.PidMax, ownPidMax())
		f.PidMaxLeast = leastPidMax()
	}
	return f
}

// ownPidMax opens the file to write in a child that is not root, but may do what root may, and writes nothing. Before Linux 6.14 it is the
// host's, and root's alone; then it belongs to whoever administers the namespace (kernel/pid.c, pid_table_root_permissions).
//
// A kernel of that version or later is taken at its word, because a fork of this process takes a millisecond.
func ownPidMax() error {
	pidMax.once.Do(func() { pidMax.err = findPidMax() })
	return pidMax.err
}

// pidMax is what ownPidMax has found out.
var pidMax struct {
	once sync.Once
	err  error
}

func findPidMax() error {
	if since(6, 14) {
		return nil
	}
	runtime.LockOSThread() // see run
	defer runtime.UnlockOSThread()
	var p sys.Program
	p.At(sys.Step{Stage: notRoot})
	const keepCaps = 1 << 2 // SECBIT_NO_SETUID_FIXUP: capabilities(7)
	p.Add(unix.SYS_PRCTL, sys.Words(unix.PR_SET_SECUREBITS, "PR_SET_SECUREBITS"), sys.Int(keepCaps), sys.Int(0), sys.Int(0), sys.Int(0))
	p.Add(unix.SYS_SETRESUID, sys.Int(-1), sys.Int(nobody), sys.Int(-1))
	openPidMax(&p)
	return whosePidMax(run(&p, 0))
}

// since reports whether the kernel says that it is of a version or a later one (uname(2)).
func since(major, minor int) bool {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return false
	}
	return atLeast(unix.ByteSliceToString(name.Release[:]), major, minor)
}

// atLeast reports whether a release such as 6.14.0-rc1 is of a version or a later one.
func atLeast(release string, major, minor int) bool {
	first, rest, _ := strings.Cut(release, ".")
	digits := strings.IndexFunc(rest+".", func(r rune) bool { return r < '0' || r > '9' })
	a, err1 := strconv.Atoi(first)
	b, err2 := strconv.Atoi(rest[:digits])
	return err1 == nil && err2 == nil && (a > major || a == major && b >= minor)
}

const notRoot = "become another user"

// whosePidMax explains the refusals that have one meaning alone.
func whosePidMax(err error) error {
	var r *fault.Error
	switch {
	case !errors.As(err, &r):
	case r.Stage == notRoot && errnoOf(r) == unix.EINVAL:
		return no("the user 65534 is not mapped here, and root itself cannot try it without harm", "start nsrun as another user than root, or where a cgroup is delegated")
	case r.Path == pidMaxFile && errnoOf(r) == unix.EACCES:
		return no("kernel.pid_max is one for all pid namespaces", "")
	}
	return err
}

// OwnPidMax says why this process cannot count on a kernel.pid_max of its pid namespace's own.
func OwnPidMax() error {
	if os.Geteuid() == 0 {
		return ownPidMax()
	}
	return nil // the host's is root's to write
}

// pidMaxOf asks for any user. For one that is not root the namespaces of a sandbox tell.
func pidMaxOf(f facts.Facts) error {
	switch {
	case f.UID == 0:
		return ownPidMax()
	case f.State(facts.PidNS) != facts.Yes:
		return no("it needs a user namespace and a pid namespace", f.Fix(facts.PidNS))
	}
	return whosePidMax(try(unix.CLONE_NEWUSER|unix.CLONE_NEWPID, openPidMax))
}

func openPidMax(p *sys.Program) {
	p.At(sys.Step{Stage: "open", Path: pidMaxFile})
	p.Add(unix.SYS_OPENAT, sys.AtCWD(), sys.Str(pidMaxFile), sys.Words(unix.O_WRONLY|unix.O_CLOEXEC, "O_WRONLY|O_CLOEXEC"), sys.Int(0))
}

const (
	nobody     = 65534
	pidMaxFile = "/proc/sys/kernel/pid_max"
)

// leastPidMax is what the kernel raises its least to (kernel/pid.c, pid_idr_init): a few numbers for each processor that there could be.
func leastPidMax() int {
	text, err := sys.ReadFile("/sys/devices/system/cpu/possible")
	if err != nil {
		return 0
	}
	_, last, ranges := strings.Cut(strings.TrimSpace(string(text)), "-")
	if !ranges {
		last = strings.TrimSpace(string(text))
	}
	n, err := strconv.Atoi(last)
	if err != nil {
		return 0
	}
	return max(301, 8*(n+1))
}
