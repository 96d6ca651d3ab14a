package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

func callActs() map[string]act {
	return map[string]act{
		"call":        {1, call},
		"int80":       {1, int80},
		"families":    {0, families},
		"highbits":    {1, highBits},
		"loosen":      {0, loosen},
		"tiocsti":     {1, tiocsti},
		"readv":       {1, readv},
		"seize":       {1, seize},
		"getfd":       {1, getfd},
		"prlimit":     {1, prlimit},
		"kill":        {2, kill},
		"setuid":      {1, setuid},
		"euid":        {0, func([]string) error { fmt.Println("euid", os.Geteuid()); return silent }},
		"fifo-policy": {0, fifoPolicy},
		"key":         {0, key},
	}
}

// address is that of a slice's first byte.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// call makes one system call: a number, then up to six numbers. The verdict is its errno.
func call(args []string) error {
	var words [7]uintptr
	for i, a := range args {
		n, err := strconv.ParseInt(a, 0, 64)
		if err != nil {
			u, err := strconv.ParseUint(a, 0, 64)
			if err != nil {
				return err
			}
			n = int64(u)
		}
		words[i] = uintptr(n)
	}
	r, _, errno := unix.Syscall6(words[0], words[1], words[2], words[3], words[4], words[5], words[6])
	if errno != 0 {
		return errno
	}
	return reached("%d", int64(r))
}

// int80 makes a system call of the 32-bit ABI. Where the kernel, or what runs it as a guest, has not got that ABI, the instruction faults (SIGSEGV): no
// answer, inside and outside.
func int80(args []string) (err error) {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	debug.SetPanicOnFault(true)
	defer func() {
		if fault := recover(); fault != nil {
			err = na("no int 0x80 here: %v", fault)
		}
	}()
	r, ok := compat(uint32(n))
	switch {
	case !ok:
		return na("no int 0x80 on %s", runtime.GOARCH)
	case r < 0 && r > -4096:
		return unix.Errno(-r)
	}
	return reached("%d", r)
}

// families is reached by every address family that a socket can be made of, but Unix, Internet and netlink.
func families([]string) error {
	var open []string
	var last error
	for family := 3; family < 46; family++ {
		if family == unix.AF_INET6 || family == unix.AF_NETLINK {
			continue
		}
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW, unix.SOCK_SEQPACKET} {
			fd, err := unix.Socket(family, kind, 0)
			if err == nil {
				unix.Close(fd)
			}
			if err == nil || err != unix.EAFNOSUPPORT { // any other answer is the family's own
				open = append(open, strconv.Itoa(family))
				break
			}
			last = err
		}
	}
	if len(open) > 0 {
		return reached("families %s", strings.Join(open, " "))
	}
	return last
}

// highBits repeats what a filter refuses with garbage in the upper half of the deciding argument, which the kernel does not read.
func highBits(args []string) error {
	const high = 1 << 36
	name, err := unix.BytePtrFromString(args[0])
	if err != nil {
		return err
	}
	path := uintptr(unsafe.Pointer(name))
	cwd := uintptr(0xffffffffffffff9c)
	var open []string
	for _, c := range []struct {
		what   string
		nr     uintptr
		a      [4]uintptr
		errnos []unix.Errno
	}{
		{"socket AF_VSOCK", unix.SYS_SOCKET, [4]uintptr{high | unix.AF_VSOCK, unix.SOCK_STREAM}, []unix.Errno{unix.EAFNOSUPPORT}},
		{"ioctl TIOCLINUX", unix.SYS_IOCTL, [4]uintptr{0, high | unix.TIOCLINUX, 1}, []unix.Errno{unix.EPERM}},
		{"clone NEWUSER", unix.SYS_CLONE, [4]uintptr{high | unix.CLONE_NEWUSER | unix.CLONE_SIGHAND}, []unix.Errno{unix.EPERM}},
		{"personality", unix.SYS_PERSONALITY, [4]uintptr{high | 0x40000}, []unix.Errno{unix.EPERM}},
		{"prlimit64 of pid 1", unix.SYS_PRLIMIT64, [4]uintptr{high | 1, unix.RLIMIT_NOFILE}, []unix.Errno{unix.EPERM}},
		{"fchmodat 4755", unix.SYS_FCHMODAT, [4]uintptr{cwd, path, high | 0o4755}, []unix.Errno{unix.EPERM}},
		{"mknodat char", unix.SYS_MKNODAT, [4]uintptr{cwd, path, high | unix.S_IFCHR | 0o600, 0x103}, []unix.Errno{unix.EPERM}},
		{"sched_setscheduler FIFO", unix.SYS_SCHED_SETSCHEDULER, [4]uintptr{0, high | 1, 1}, []unix.Errno{unix.EPERM}},
		{"seccomp NEW_LISTENER", unix.SYS_SECCOMP, [4]uintptr{high | 1, high | 8, 1}, []unix.Errno{unix.EPERM}},
	} {
		_, _, errno := unix.Syscall6(c.nr, c.a[0], c.a[1], c.a[2], c.a[3], 0, 0)
		if errno != c.errnos[0] {
			open = append(open, fmt.Sprintf("%s: %s", c.what, unix.ErrnoName(errno)))
		}
	}
	if len(open) > 0 {
		return reached("%s", strings.Join(open, ", "))
	}
	return unix.EPERM
}

// loosen installs a filter that allows everything, and then tries what was refused before.
func loosen([]string) error {
	runtime.LockOSThread()
	code := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0x7fff0000}} // SECCOMP_RET_ALLOW
	prog := unix.SockFprog{Len: 1, Filter: &code[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return na("no_new_privs: %v", err)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, 1, 0, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return na("the second filter: %v", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_PTRACE, 0x1234, 1<<22-1, 0); errno == unix.EPERM || errno == unix.ENOSYS {
		return errno
	}
	return nil
}

// tiocsti pushes two bytes into the terminal at descriptor 0.
func tiocsti(args []string) error {
	request, err := strconv.ParseUint(args[0], 0, 64)
	if err != nil {
		return err
	}
	for _, c := range []byte("X\n") {
		b := []byte{c}
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, 0, uintptr(request), address(b)); errno != 0 {
			return errno
		}
	}
	return nil
}

// target is a pid, or a process of the same user that the caller names.
func target(s string) (int, error) { return strconv.Atoi(s) }

// readv reads from where a static Go program has its text.
func readv(args []string) error {
	pid, err := target(args[0])
	if err != nil {
		return err
	}
	buf := make([]byte, 8)
	local := []unix.Iovec{{Base: &buf[0], Len: 8}}
	_, err = unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
	return err
}

func seize(args []string) error {
	pid, err := target(args[0])
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	if _, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil // the tracee is let go when this thread ends
}

func getfd(args []string) error {
	pid, err := target(args[0])
	if err != nil {
		return err
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	_, err = unix.PidfdGetfd(pidfd, 0, 0)
	return err
}

func prlimit(args []string) error {
	pid, err := target(args[0])
	if err != nil {
		return err
	}
	var old unix.Rlimit
	return unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old)
}

func kill(args []string) error {
	pid, err := target(args[0])
	if err != nil {
		return err
	}
	sig, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	return unix.Kill(pid, unix.Signal(sig))
}

func setuid(args []string) error {
	uid, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETUID, uintptr(uid), 0, 0); errno != 0 {
		return errno
	}
	return reached("euid %d", os.Geteuid())
}

// fifoPolicy asks for real-time scheduling.
func fifoPolicy([]string) error {
	runtime.LockOSThread()
	param := [1]int32{1}
	if _, _, errno := unix.RawSyscall(unix.SYS_SCHED_SETSCHEDULER, 0, 1, uintptr(unsafe.Pointer(&param))); errno != 0 {
		return errno
	}
	return nil
}

// key looks for a key of the caller's session keyring, and reads it.
func key([]string) error {
	id, err := unix.KeyctlSearch(unix.KEY_SPEC_SESSION_KEYRING, "user", keyName, 0)
	if err != nil {
		return err
	}
	buf := make([]byte, 64)
	n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, id, buf, 0)
	if err != nil {
		return err
	}
	return reached("%q", buf[:n])
}

const keyName = "nsrun-e2e-canary"
