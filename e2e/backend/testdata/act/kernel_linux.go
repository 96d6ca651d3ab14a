package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// params is filled by io_uring_setup(2).
var params [120]byte

var tmpfs = []byte("tmpfs\x00")

func kernelActs() map[string]act {
	call := func(nr uintptr, args ...uintptr) act {
		return func([]string) (any, error) {
			var a [3]uintptr
			copy(a[:], args)
			if _, _, errno := unix.RawSyscall(nr, a[0], a[1], a[2]); errno != 0 {
				return nil, errno
			}
			return nil, nil
		}
	}
	return map[string]act{
		"privileges":  privileges,
		"setid":       setID,
		"euid":        func([]string) (any, error) { return os.Geteuid(), nil },
		"domains":     domains,
		"unfiltered":  unfiltered,
		"io_uring":    call(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params))),
		"fsopen":      call(unix.SYS_FSOPEN, uintptr(unsafe.Pointer(&tmpfs[0])), 0),
		"userfaultfd": call(unix.SYS_USERFAULTFD, 1 /* UFFD_USER_MODE_ONLY */),
		"gain":        gain,
		"capable":     func([]string) (any, error) { return status("CapEff"), nil },
		"userns":      userNamespace,
		"key": func(a []string) (any, error) {
			return unix.KeyctlSearch(unix.KEY_SPEC_SESSION_KEYRING, "user", a[0], 0)
		},
		"request-key": func(a []string) (any, error) { return unix.RequestKey("user", a[0], "", 0) },
		"user-key":    userKey, "forget-key": forgetKey,
		"limit":      limit,
		"unconfined": unconfined,
	}
}

// status is a line of /proc/self/status, of this thread, without its name.
func status(name string) string {
	data, _ := os.ReadFile("/proc/thread-self/status")
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// privileges is done if there is a capability, or if there is a way to gain one.
func privileges([]string) (any, error) {
	found := map[string]string{}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} { // what is left in CapBnd nobody gets, if there are no new privileges
		if value := status(set); strings.Trim(value, "0") != "" || value == "" {
			found[set] = value
		}
	}
	if value := status("NoNewPrivs"); value != "1" {
		found["NoNewPrivs"] = value
	}
	if len(found) == 0 {
		return nil, errors.New("there are none, and none to gain")
	}
	return found, nil
}

// setID is done if a program that is set-id runs with its owner's id.
func setID(args []string) (any, error) {
	out, err := exec.Command(args[0], "euid").Output()
	if err != nil {
		return nil, err
	}
	if !strings.Contains(string(out), `"found":`+args[1]+"}") {
		return string(out), errors.New("the id is the caller's")
	}
	return nil, nil
}

// domains is done if there is no Landlock domain yet: 16 can be stacked (landlock(7)).
func domains([]string) (any, error) {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	for n := range 17 {
		attr := [1]uint64{unix.LANDLOCK_ACCESS_FS_MAKE_FIFO} // struct landlock_ruleset_attr
		fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), 8, 0)
		if errno != 0 {
			return n, fmt.Errorf("no ruleset: %w", errno)
		}
		_, _, errno = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0)
		unix.Close(int(fd))
		if errno == unix.E2BIG && n == 16 {
			return n, nil
		}
		if errno != 0 {
			return n, fmt.Errorf("after %d more: %w", n, errno)
		}
	}
	return 17, errors.New("bug: more than 16")
}

func unfiltered([]string) (any, error) {
	if mode := status("Seccomp"); mode != "0" {
		return mode, errors.New("a filter is on")
	}
	return nil, nil
}

func userNamespace([]string) (any, error) {
	cmd := exec.Command(os.Args[0], "nothing")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
	return nil, cmd.Run()
}

// userKey reads a key of the user's keyring, by way of the session's.
func userKey(args []string) (any, error) {
	if _, err := unix.KeyctlInt(unix.KEYCTL_LINK, unix.KEY_SPEC_USER_KEYRING, unix.KEY_SPEC_SESSION_KEYRING, 0, 0); err != nil {
		return nil, err
	}
	id, err := unix.KeyctlSearch(unix.KEY_SPEC_SESSION_KEYRING, "user", args[0]+"-user", 0)
	if err != nil {
		return nil, err
	}
	_, err = unix.KeyctlBuffer(unix.KEYCTL_READ, id, make([]byte, 64), 0)
	return nil, err
}

func forgetKey(args []string) (any, error) {
	id, err := unix.KeyctlSearch(unix.KEY_SPEC_USER_KEYRING, "user", args[0]+"-user", 0)
	if err != nil {
		return nil, err
	}
	return unix.KeyctlInt(unix.KEYCTL_UNLINK, id, unix.KEY_SPEC_USER_KEYRING, 0, 0)
}

// gain is done if a user namespace of one's own brings capabilities: those are over nothing else, but the kernel's code behind them is open.
func gain([]string) (any, error) {
	cmd := exec.Command(os.Args[0], "capable")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN}} // which execve keeps
	out, err := cmd.Output()
	if err == nil && strings.Contains(string(out), `"found":"0000000000000000"`) {
		err = errors.New("a user namespace without capabilities")
	}
	return string(out), err
}

// limit is done if no more descriptors than so many can be open.
func limit(args []string) (any, error) {
	var most int
	if _, err := fmt.Sscan(args[0], &most); err != nil {
		return nil, err
	}
	for range 4096 {
		fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.EMFILE) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if fd >= most {
			return fd, errors.New("a descriptor beyond the limit")
		}
	}
	return nil, errors.New("bug: thousands of descriptors below the limit")
}

// unconfined is done if nothing at all tells this process from its caller's, whose mount namespace is named.
func unconfined(args []string) (any, error) {
	mount, err := os.Readlink("/proc/self/ns/mnt")
	found := []string{"NoNewPrivs " + status("NoNewPrivs"), "Seccomp " + status("Seccomp"), mount}
	if !slices.Equal(found, []string{"NoNewPrivs 0", "Seccomp 0", args[0]}) {
		err = errors.Join(err, errors.New("it is confined"))
	}
	return found, err
}
