package main

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func spaceActs() map[string]act {
	return map[string]act{
		"mount":          {3, mount},
		"umount":         {1, func(a []string) error { return unix.Unmount(a[0], unix.MNT_DETACH) }},
		"unshare":        {1, unshare},
		"clone":          {1, clone},
		"clone3-newuser": {0, clone3},
		"nested":         {1, nested},
		"in-nested":      {1, inNested},
	}
}

// mount SOURCE TARGET TYPE FLAG...
func mount(args []string) error {
	var flags uintptr
	for _, f := range args[3:] {
		flags |= map[string]uintptr{"bind": unix.MS_BIND, "remount": unix.MS_REMOUNT}[f]
	}
	return unix.Mount(args[0], args[1], args[2], flags, "")
}

var spaces = map[string]uintptr{
	"user": unix.CLONE_NEWUSER, "mnt": unix.CLONE_NEWNS, "net": unix.CLONE_NEWNET, "pid": unix.CLONE_NEWPID,
	"ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP, "time": unix.CLONE_NEWTIME,
}

// child runs this program with one act, and gives the errno that stood in the way of its start.
func child(attr *syscall.SysProcAttr, words ...string) error {
	cmd := exec.Command("/proc/self/exe", words...)
	cmd.Path, cmd.Args[0] = os.Args[0], os.Args[0]
	cmd.SysProcAttr = attr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	return verdict(strings.TrimSpace(string(out)))
}

// unshare makes namespaces by unshare(2), in a child with one thread.
func unshare(args []string) error {
	var first error
	for _, name := range args {
		cmd := exec.Command(os.Args[0], "getcwd")
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: spaces[name]}
		err := cmd.Run()
		if err == nil {
			return reached("%s", name)
		}
		var exit *exec.ExitError
		if errors.As(err, &exit) { // it was made: the child ran
			return reached("%s", name)
		}
		first = err
	}
	return first
}

// clone makes them by clone(2).
func clone(args []string) error {
	var flags uintptr
	for _, name := range args {
		flags |= spaces[name]
	}
	return child(&syscall.SysProcAttr{Cloneflags: flags}, "kill", "0", "0")
}

func clone3([]string) error {
	args := [8]uint64{unix.CLONE_NEWUSER, 0, 0, 0, uint64(unix.SIGCHLD)}
	pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		for {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	var status unix.WaitStatus
	_, _ = unix.Wait4(int(pid), &status, 0, nil)
	return nil
}

// nested does an act as root of a user namespace below.
func nested(args []string) error {
	id := func(n int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: n, Size: 1}} }
	return child(&syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET,
		UidMappings: id(os.Getuid()), GidMappings: id(os.Getgid())}, append([]string{"in-nested"}, args...)...)
}

func inNested(args []string) error {
	switch args[0] {
	case "netfilter":
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)
		if err != nil {
			return err
		}
		unix.Close(fd)
		data, err := os.ReadFile("/proc/self/status")
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(data)) {
			if bits, ok := strings.CutPrefix(line, "CapEff:"); ok {
				n, _ := strconv.ParseUint(strings.TrimSpace(bits), 16, 64)
				if n&(1<<unix.CAP_NET_ADMIN) != 0 {
					return nil
				}
			}
		}
		return unix.EPERM
	case "remount":
		return unix.Mount("none", args[1], "", unix.MS_REMOUNT|unix.MS_BIND, "")
	case "umount":
		return unix.Unmount(args[1], unix.MNT_DETACH)
	}
	return na("no act %q", args[0])
}
