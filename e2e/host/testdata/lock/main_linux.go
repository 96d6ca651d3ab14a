// Lock makes this process's surroundings as locked-down hosts are, and then becomes a command:
//
//	lock KIND[,KIND...] UID COMMAND ARG...
//
// It changes nothing outside: each kind is made in namespaces of its own, or of this process alone.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kinds are in the order they are made, whatever the order they are named in.
var kinds = []struct {
	name string
	make func() error
}{
	{"pidns", ownProc}, {"no-sys", noSys}, {"masked-proc", maskedProc}, {"hidepid", hidePid}, {"chroot", changeRoot}, {"no-proc", noProc},
	{"no-user", func() error { return zero("user") }}, {"no-net", func() error { return zero("net") }}, {"no-pid", func() error { return zero("pid") }},
	{"no-mnt", func() error { return zero("mnt") }}, {"no-ipc", func() error { return zero("ipc") }},
	{"overmounted", mountOverRoot}, {"container", containerFilter}, {"landlock-no-op", landlockNoOp}, {"listener", listener},
}

func main() {
	runtime.LockOSThread()
	if len(os.Args) < 4 {
		fail(fmt.Errorf("usage: lock KIND,... UID COMMAND ARG"))
	}
	wanted := strings.Split(os.Args[1], ",")
	has := func(name string) bool { return slices.Contains(wanted, name) }
	uid, err := strconv.Atoi(os.Args[2])
	fail(err)
	first := os.Getenv(againEnv) == ""
	zeroes := strings.Contains(os.Args[1], "no-user") || strings.Contains(os.Args[1], "no-net") || strings.Contains(os.Args[1], "no-pid") || strings.Contains(os.Args[1], "no-mnt") || strings.Contains(os.Args[1], "no-ipc")
	if first && has("pidns") {
		again(&syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL})
	}
	if os.Geteuid() == 0 && !zeroes {
		check(unix.Unshare(unix.CLONE_NEWNS), "unshare")
		check(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), "private")
	}
	become := func() {
		if uid != os.Geteuid() {
			check(unix.Setgroups(nil), "setgroups")
			check(unix.Setresgid(uid, uid, uid), "setresgid")
			check(unix.Setresuid(uid, uid, uid), "setresuid")
			check(unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0), "dumpable") // else its maps belong to root
		}
	}
	if first && zeroes {
		become()
		inOwnUsers()
	}
	for _, k := range kinds {
		if k.name == "container" || k.name == "landlock-no-op" || k.name == "listener" {
			become() // the filter is the user's
		}
		if has(k.name) {
			check(k.make(), k.name)
		}
	}
	become()
	os.Unsetenv(againEnv)
	check(unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "ambient")
	path, err := exec.LookPath(os.Args[3])
	fail(err)
	fail(syscall.Exec(path, os.Args[3:], os.Environ()))
}

func check(err error, what string) {
	if err != nil {
		fail(fmt.Errorf("%s: %w", what, err))
	}
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "lock:", err)
		os.Exit(111)
	}
}

// again runs this program once more, and ends as it does.
func again(attr *syscall.SysProcAttr) {
	cmd := exec.Command(os.Args[0], os.Args[1:]...) // not /proc/self/exe, which belongs to root once the user has changed
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = os.Stdin, os.Stdout, os.Stderr, attr
	cmd.Env = append(os.Environ(), againEnv+"=1")
	err := cmd.Run()
	if exit, ok := err.(*exec.ExitError); ok {
		os.Exit(exit.ExitCode())
	}
	fail(err)
	os.Exit(0)
}

// againEnv marks the second run.
const againEnv = "LOCK_AGAIN"

func ownProc() error { return unix.Mount("proc", "/proc", "proc", 0, "") }
func noSys() error   { return unix.Mount("none", "/sys", "tmpfs", unix.MS_RDONLY, "size=4k") }
func noProc() error  { return unix.Mount("none", "/proc", "tmpfs", unix.MS_RDONLY, "size=4k") }

// hidePid mounts a procfs of a pid namespace's own. Not by a remount: the options belong to the namespace's one procfs, which without
// pidns is the host's.
func hidePid() error {
	if os.Getpid() != 1 {
		return fmt.Errorf("hidepid takes pidns")
	}
	return unix.Mount("proc", "/proc", "proc", 0, "hidepid=2")
}

// maskedProc covers places in /proc as Docker does.
func maskedProc() error {
	for _, dir := range []string{"/proc/acpi", "/proc/scsi", "/proc/tty"} {
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_RDONLY, "size=4k"); err != nil {
			return err
		}
	}
	if err := unix.Mount("/dev/null", "/proc/keys", "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if err := unix.Mount("/proc/sys", "/proc/sys", "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return unix.Mount("/proc/sys", "/proc/sys", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

// changeRoot makes a plain directory, which holds all that the host has, the root.
func changeRoot() error {
	dir := os.Getenv("LOCK_ROOT")
	for _, name := range []string{"usr", "etc", "proc", "dev", "sys", "srv", "home", "var", "tmp"} {
		at := dir + "/" + name
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("/"+name, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return err
		}
	}
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		if to, err := os.Readlink("/" + name); err == nil {
			_ = os.Symlink(to, dir+"/"+name)
		}
	}
	if err := unix.Chroot(dir); err != nil {
		return err
	}
	return os.Chdir("/")
}

// mountOverRoot mounts all that the host has over /, and stays below: the kernel then takes this process for one in a chroot.
func mountOverRoot() error { return unix.Mount("/", "/", "", unix.MS_BIND|unix.MS_REC, "") }

// landlockNoOp has landlock_restrict_self succeed without an effect, as on a kernel that pretends to have Landlock: a filter answers 0 for it.
func landlockNoOp() error {
	const jumpUnless, ret = 0x15, 0x06
	_, err := filter(0, []unix.SockFilter{{Code: 0x20}, {Code: jumpUnless, Jf: 1, K: unix.SYS_LANDLOCK_RESTRICT_SELF}, {Code: ret, K: unix.SECCOMP_RET_ERRNO}, {Code: ret, K: unix.SECCOMP_RET_ALLOW}})
	return err
}

// listener puts a filter with a listener on this process, which the command inherits, as WSL 2 does in its mirrored networking mode.
func listener() error {
	fd, err := filter(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, []unix.SockFilter{{Code: 0x06, K: unix.SECCOMP_RET_ALLOW}})
	if err == nil {
		_, err = unix.FcntlInt(fd, unix.F_SETFD, 0)
	}
	return err
}

func filter(flags uintptr, prog []unix.SockFilter) (uintptr, error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return 0, errno
	}
	return fd, nil
}

// zero allows no more namespaces of a kind, in a user namespace of this process's own.
func zero(kind string) error {
	return os.WriteFile("/proc/sys/user/max_"+kind+"_namespaces", []byte("0"), 0)
}

// inOwnUsers runs this program once more in a user namespace of its own, which knows the present ids alone.
func inOwnUsers() {
	uid, gid := os.Geteuid(), os.Getegid()
	again(&syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}, GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_RESOURCE, unix.CAP_DAC_OVERRIDE}})
}

// containerFilter refuses what Docker's default profile refuses to a container without CAP_SYS_ADMIN: namespaces, mounts.
func containerFilter() error {
	const eperm, enosys, allow = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM), unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS), unix.SECCOMP_RET_ALLOW
	load := func(offset uint32) unix.SockFilter { return unix.SockFilter{Code: 0x20, K: offset} }
	ret := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: 0x06, K: k} }
	prog := []unix.SockFilter{load(0)}
	refuse := func(nr int, answer uint32) {
		prog = append(prog, unix.SockFilter{Code: 0x15, Jf: 1, K: uint32(nr)}, ret(answer))
	}
	for _, nr := range []int{unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT,
		unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_MOUNT_SETATTR, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_BPF} {
		refuse(nr, eperm)
	}
	refuse(unix.SYS_CLONE3, enosys)
	// clone with any CLONE_NEW flag: load the first argument and test its bits.
	prog = append(prog, unix.SockFilter{Code: 0x15, Jf: 3, K: unix.SYS_CLONE}, load(16), unix.SockFilter{Code: 0x45, Jf: 1, K: 0x7e020000}, ret(eperm), ret(allow))
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&fprog)), 0, 0)
}
