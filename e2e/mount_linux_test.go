package e2e

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// sys gives the act of one bare system call. bad is a pointer that leads nowhere: a call that fails with EFAULT has been reached.
func sys(nr int, args ...int64) string {
	s := "call " + strconv.Itoa(nr)
	for _, a := range args {
		s += fmt.Sprintf(" %d", a)
	}
	return s
}

const (
	bad       = 1
	sysSyslog = unix.SYS_SYSLOG
)

// mountCases are attempts to mount, to leave the root, and to make namespaces.
func mountCases() []attackCase {
	// late is why a bare call shows nothing outside: the kernel asks for a privilege first, and its errno is that of the filter.
	const late = "without privilege the kernel refuses it in the same way"
	here := func(act string) try { return try{act: act, want: "EPERM", lone: noEqual} }
	return []attackCase{
		{id: "MN01", what: "mount a tmpfs", tries: []try{here("mount tmpfs /tmp tmpfs"), {act: sys(unix.SYS_MOUNT, bad, bad, bad, 0, 0), want: "EPERM"}}},
		{id: "MN02", what: "remount /usr writable", tries: []try{here("mount none /usr none remount bind"), here("mount none / none remount bind")}},
		{id: "MN03", what: "unmount /proc", tries: []try{here("umount /proc"), {act: sys(unix.SYS_UMOUNT2, bad, 2), want: "EPERM"}}},
		{id: "MN04", what: "bind one place on another", tries: []try{here("mount /usr /tmp none bind"), here("mount {work} /tmp none bind")}},
		{id: "MN05", what: "fsopen", tries: []try{{act: sys(unix.SYS_FSOPEN, bad, 0), want: "ENOSYS"}}},
		{id: "MN06", what: "open_tree", tries: []try{{act: sys(unix.SYS_OPEN_TREE, -1, bad, 1), want: "ENOSYS"}, {act: sys(unix.SYS_OPEN_TREE, -1, bad, 0), want: "ENOSYS"}}},
		{id: "MN07", what: "fspick", tries: []try{{act: sys(unix.SYS_FSPICK, -1, bad, 0), want: "ENOSYS"}}},
		{id: "MN08", what: "mount_setattr", tries: []try{{act: sys(unix.SYS_MOUNT_SETATTR, -1, bad, 0, bad, 32), want: "ENOSYS", lone: lacking(unix.SYS_MOUNT_SETATTR, "since Linux 5.12")}}},
		{id: "MN09", what: "move_mount", tries: []try{{act: sys(unix.SYS_MOVE_MOUNT, -1, bad, -1, bad, 0), want: "ENOSYS"}}},
		{id: "MN10", what: "newer calls of the mount API, by number", tries: []try{
			{act: sys(467, -1, bad, 0, bad, 32), want: "ENOSYS", lone: "since Linux 6.15"}, {act: sys(457, bad, bad, 64, 0), want: "ENOSYS", lone: "since Linux 6.8"},
			{act: sys(458, bad, bad, 8, 0), want: "ENOSYS", lone: "since Linux 6.8"}}},
		{id: "MN11", what: "chroot", tries: []try{{act: sys(unix.SYS_CHROOT, bad), want: "EPERM"}}},
		{id: "MN12", what: "pivot_root", tries: []try{{act: sys(unix.SYS_PIVOT_ROOT, bad, bad), want: "EPERM", user: late}}},
		{id: "MN13", what: "join a mount namespace", tries: []try{
			{act: "stat /proc/1/ns/mnt", control: "stat /proc/{pid}/ns/mnt", want: "ENOENT EACCES"},
			{act: sys(unix.SYS_SETNS, -1, 0), want: "EPERM"}}},
		{id: "MN14", what: "unshare a user namespace", tries: []try{{act: "unshare user", want: "EPERM"}, {act: "unshare user", flags: []string{"--seccomp", "off"}, want: "ENOSPC"}}},
		{id: "MN15", what: "be root of a nested user namespace, and open a netfilter socket", tries: []try{{act: "nested netfilter", want: "EPERM ENOSPC"}}},
		{id: "MN16", what: "be root of nested namespaces, and remount writable", tries: []try{{act: "nested remount /usr", want: "EPERM ENOSPC", lone: noEqual}}},
		{id: "MN17", what: "be root of nested namespaces, and unmount a mask", tries: []try{{act: "nested umount /proc/keys", want: "EPERM ENOSPC", lone: noEqual}}},
		{id: "MN18", what: "unshare the other namespaces", tries: []try{
			{act: "unshare mnt", want: "EPERM", user: refused}, {act: "unshare net", want: "EPERM", user: refused}, {act: "unshare pid", want: "EPERM", user: refused},
			{act: "unshare ipc", want: "EPERM", user: refused}, {act: "unshare uts", want: "EPERM", user: refused},
			{act: "unshare cgroup", want: "EPERM", user: refused}, {act: "unshare time", want: "EPERM", user: refused}}},
		{id: "MN19", what: "clone a user namespace", tries: []try{{act: "clone user", want: "EPERM"}, {act: "clone user", flags: []string{"--seccomp", "off"}, want: "ENOSPC"}}},
		{id: "MN20", what: "clone3 a user namespace", tries: []try{{act: "clone3-newuser", want: "ENOSYS"}}},
		{id: "MN21", what: "clone3 with a bad pointer says ENOSYS, so that libraries fall back", tries: []try{{act: sys(unix.SYS_CLONE3, bad, 88), want: "ENOSYS"}}},
		{id: "MN22", what: "find the old root", tries: []try{
			{act: "open r /..{secret}", want: "ENOENT"}, {act: "stat /oldroot", want: "ENOENT", lone: noEqual}, {act: "stat /newroot", want: "ENOENT", lone: noEqual},
			{act: "list / bin dev etc home lib lib32 lib64 libx32 opt proc root run sbin srv sys tmp usr var", want: "ENOENT", lone: "a host may have no more"}}},
		{id: "MN23", what: "name the host", tries: []try{
			{act: sys(unix.SYS_SETHOSTNAME, bad, 4), want: "EPERM", user: late}, {act: sys(unix.SYS_SETDOMAINNAME, bad, 4), want: "EPERM", user: late}}},
	}
}

// lacking is an excuse on a kernel that has not got a call, and none on others.
func lacking(nr uintptr, excuse string) string {
	if _, _, errno := unix.Syscall6(nr, ^uintptr(0), 0, 0, 0, 0, 0); errno == unix.ENOSYS {
		return excuse
	}
	return ""
}
