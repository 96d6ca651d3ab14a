package probe

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/seccomp"
	"golang.org/x/sys/unix"
)

// Calls returns the facts that a bubblewrap command line is planned by: what the kernel's newer system calls answer.
func Calls() facts.Facts {
	f := facts.Facts{Arch: runtime.GOARCH, UID: os.Geteuid(), GID: os.Getegid(), LastCap: lastCap(),
		Answers: make(map[facts.Name]facts.Answer, 17)} // as many as Quick asks for
	for _, call := range calls {
		answer(f, call.feature, call.ask())
	}
	return f
}

// Quick returns what a few harmless system calls tell. Namespaces stay unknown.
func Quick() facts.Facts { return addGroups(usual(), thisHost()) }

// Usual is Quick, but reads what there is of cgroups only if one of version 2 could be used, at one of the usual places. It is for a policy
// that names no limit that takes a cgroup: its default limits use no other cgroup, and no service manager.
func Usual() facts.Facts {
	f, h := usual(), thisHost()
	if h.mayHaveGroupV2(mayWrite) {
		return addGroups(f, h)
	}
	return f
}

// addGroups adds where cgroups can be made.
func addGroups(f facts.Facts, h files) facts.Facts {
	f.Groups, f.Manager = h.groups(strconv.Itoa(os.Getpid()), f.UID, mayWrite)
	return f
}

// mayWrite reports whether this process may write to a file.
func mayWrite(path string) bool { return unix.Access(path, unix.W_OK) == nil }

// usual returns the facts of Quick without the cgroups.
func usual() facts.Facts {
	f := Calls()
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		f.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	abi, refused, err := landlock.Usable()
	f.LandlockABI, f.LandlockRefused = abi, refused
	if err == nil {
		f.LandlockErrata, _ = landlock.Errata()
	}
	err = withoutLandlock(err)
	answer(f, facts.Landlock, err)
	for _, row := range landlockRows {
		answer(f, row.name, row.within(abi, refused, err))
	}
	answer(f, facts.Seccomp, seccomp.Have())
	answer(f, facts.SeccompKill, action(unix.SECCOMP_RET_KILL_PROCESS))
	answer(f, facts.SeccompNotify, action(unix.SECCOMP_RET_USER_NOTIF))
	f.ListenerKillable = seccomp.HaveKillable()
	answer(f, facts.CgroupClone, cgroupClone())
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		f.MemoryMB = int64(uint64(info.Totalram) * uint64(info.Unit) >> 20)
	}
	return f
}

// Full is [Host] and [Backends].
func Full() facts.Facts { return Backends(Host()) }

func answer(f facts.Facts, name facts.Name, err error) { found(f, name, "", err) }

// found is an answer with a word on what is there.
func found(f facts.Facts, name facts.Name, detail string, err error) {
	a := facts.Answer{State: facts.Yes, Detail: detail}
	var u *fault.Error
	switch {
	case errors.As(err, &u):
		a = facts.Answer{State: facts.No, Detail: err.Error(), Fix: u.Hint}
	case errors.Is(err, errors.ErrUnsupported):
		a = facts.Answer{State: facts.No, Detail: err.Error()}
	case err != nil:
		a = facts.Answer{State: facts.Unknown, Detail: err.Error()}
	}
	f.Answers[name] = a
}

// no is a no with a reason and, if the cause is known, the one action that changes it.
func no(reason, fix string) error { return &fault.Error{Err: errors.New(reason), Hint: fix} }

const noLandlock = "the kernel has no Landlock"

// landlockRow is a feature that comes with an ABI of Landlock, and the rights that it is made of.
type landlockRow struct {
	name   facts.Name
	abi    int
	rights string // separated by spaces
}

var landlockRows = [...]landlockRow{
	{facts.LandlockNet, 4, "bind_tcp connect_tcp"},
	{facts.LandlockScope, 6, "scope_abstract_unix scope_signal"},
	{facts.LandlockUnix, 9, "resolve_unix"},
}

// withoutLandlock tells a kernel that has none, as far as it says, from one where it is off. See hidden.
func withoutLandlock(err error) error {
	switch {
	case errors.Is(err, unix.ENOSYS):
		return no(noLandlock, "use a kernel from 5.13 on that is built with CONFIG_SECURITY_LANDLOCK")
	case errors.Is(err, unix.EOPNOTSUPP):
		return no("Landlock is not among the kernel's active LSMs", "")
	}
	return err
}

func (r landlockRow) within(abi int, refused []string, err error) error {
	if err != nil {
		return err
	}
	if abi < r.abi {
		return no(fmt.Sprintf("the kernel has Landlock ABI %d, and this needs %d", abi, r.abi), "")
	}
	for _, right := range strings.Fields(r.rights) {
		if slices.Contains(refused, right) {
			return no(fmt.Sprintf("the kernel has Landlock ABI %d, and refuses %s of it", abi, right), "")
		}
	}
	return nil
}

// lastCap finds the highest capability without opening a file: capabilities(7), PR_CAPBSET_READ.
func lastCap() int {
	known := func(n int) bool {
		_, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(n), 0, 0, 0)
		return err == nil
	}
	n := unix.CAP_LAST_CAP
	for n > 0 && !known(n) {
		n--
	}
	for n < 63 && known(n+1) {
		n++
	}
	return n
}
