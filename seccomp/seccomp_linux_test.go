package seccomp

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// childEnv makes the test binary do one thing in a process of its own: a filter cannot be taken off again.
const childEnv = "NSRUN_TEST_SECCOMP"

func TestMain(m *testing.M) {
	if todo := os.Getenv(childEnv); todo != "" {
		what, profile, _ := strings.Cut(todo, ":")
		os.Exit(children[what](profile))
	}
	os.Exit(testenv.Main(m.Run))
}

var children = map[string]func(profile string) int{
	"check": childCheck, "acts": childActs, "x32": childX32, "exec": childExec, "hello": childHello, "time": childTime, "deny": childDeny,
}

func child(t testing.TB, todo string) (string, error) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childEnv+"="+todo, "GORACE=atexit_sleep_ms=0") // else a second for each child under -race
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// install applies a profile, or nothing for the name "".
func install(profile string) {
	if profile == "" {
		return
	}
	arch, err := Host()
	must(err)
	f, err := Builtin(profile, arch)
	must(err)
	must(Apply(f))
}

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
}

type act struct {
	name     string
	nr       uintptr
	args     [6]uintptr
	free     []syscall.Errno // what the kernel may say without a filter; 0 is success
	filtered syscall.Errno
}

const badFD = ^uintptr(0)

// acts fail harmlessly without a filter, and otherwise than with one. The two last go through both times.
func acts() []act {
	return []act{
		{name: "TIOCSTI", nr: unix.SYS_IOCTL, args: [6]uintptr{badFD, unix.TIOCSTI}, free: []syscall.Errno{unix.EBADF}, filtered: unix.EPERM},
		{name: "TIOCSTI, high bits", nr: unix.SYS_IOCTL, args: [6]uintptr{badFD, 1<<32 | unix.TIOCSTI}, free: []syscall.Errno{unix.EBADF}, filtered: unix.EPERM},
		{name: "TIOCEXCL", nr: unix.SYS_IOCTL, args: [6]uintptr{badFD, unix.TIOCEXCL}, free: []syscall.Errno{unix.EBADF}, filtered: unix.EPERM},
		{name: "F_SETLEASE", nr: unix.SYS_FCNTL, args: [6]uintptr{badFD, unix.F_SETLEASE}, free: []syscall.Errno{unix.EBADF}, filtered: unix.EACCES},
		{name: "F_GETLEASE", nr: unix.SYS_FCNTL, args: [6]uintptr{badFD, unix.F_GETLEASE}, free: []syscall.Errno{unix.EBADF}, filtered: unix.EBADF},
		{name: "clone3", nr: unix.SYS_CLONE3, free: []syscall.Errno{unix.EINVAL, unix.EFAULT}, filtered: unix.ENOSYS},
		{name: "openat2", nr: unix.SYS_OPENAT2, args: [6]uintptr{badFD}, free: []syscall.Errno{unix.EINVAL}, filtered: unix.ENOSYS},
		{name: "unshare nothing", nr: unix.SYS_UNSHARE, free: []syscall.Errno{0}, filtered: unix.EPERM},
		{name: "prlimit64 of another", nr: unix.SYS_PRLIMIT64, args: [6]uintptr{0x3fffffff}, free: []syscall.Errno{unix.ESRCH}, filtered: unix.EPERM},
		{name: "fchmod 4755", nr: unix.SYS_FCHMOD, args: [6]uintptr{badFD, 0o4755}, free: []syscall.Errno{unix.EBADF}, filtered: unix.EPERM},
		{name: "personality", nr: unix.SYS_PERSONALITY, args: [6]uintptr{0x40000}, free: []syscall.Errno{0}, filtered: unix.EPERM},
		{name: "seccomp listener", nr: unix.SYS_SECCOMP, args: [6]uintptr{1, 8}, free: []syscall.Errno{unix.EFAULT}, filtered: unix.EPERM},
		{name: "SCHED_FIFO", nr: unix.SYS_SCHED_SETSCHEDULER, args: [6]uintptr{0, 1}, free: []syscall.Errno{unix.EINVAL}, filtered: unix.EPERM},
		{name: "ptrace", nr: unix.SYS_PTRACE, args: [6]uintptr{unix.PTRACE_SEIZE, 0x3fffffff}, free: []syscall.Errno{unix.ESRCH}, filtered: unix.EPERM},
		{name: "vmsplice", nr: unix.SYS_VMSPLICE, args: [6]uintptr{badFD}, free: []syscall.Errno{unix.EBADF}, filtered: unix.EPERM},
		{name: "netlink audit", nr: unix.SYS_SOCKET, args: [6]uintptr{16, 3, 22}, free: []syscall.Errno{unix.EPROTONOSUPPORT}, filtered: unix.EAFNOSUPPORT},
		{name: "fchmod 0755", nr: unix.SYS_FCHMOD, args: [6]uintptr{badFD, 0o755}, free: []syscall.Errno{unix.EBADF}, filtered: unix.EBADF},
		{name: "no such number", nr: 1000, free: []syscall.Errno{unix.ENOSYS}, filtered: unix.ENOSYS},
	}
}

func childActs(profile string) int {
	install(profile)
	for _, a := range acts() {
		_, _, e := syscall.RawSyscall6(a.nr, a.args[0], a.args[1], a.args[2], a.args[3], a.args[4], a.args[5])
		fmt.Println(int(e))
	}
	return 0
}

func TestKernelAgrees(t *testing.T) {
	var got [2][]string
	for i, profile := range []string{"", "default"} {
		out, err := child(t, "acts:"+profile)
		require.NoError(t, err, out)
		got[i] = strings.Fields(out)
		require.Len(t, got[i], len(acts()))
	}
	for i, a := range acts() {
		free, err := strconv.Atoi(got[0][i])
		require.NoError(t, err)
		assert.Contains(t, a.free, syscall.Errno(free), "control: %s without a filter", a.name)
		assert.Equal(t, strconv.Itoa(int(a.filtered)), got[1][i], "%s under the filter", a.name)
	}
}

// SC09 for real. Its control is any kernel's answer but death.
func childX32(profile string) int {
	install(profile)
	syscall.RawSyscall(x32Bit+39, 0, 0, 0)
	return 0
}

func TestX32CallKills(t *testing.T) {
	out, err := child(t, "x32:")
	require.NoError(t, err, out)
	out, err = child(t, "x32:default")
	if runtime.GOARCH != "amd64" {
		require.NoError(t, err, out)
		return
	}
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, out)
	status := exit.Sys().(syscall.WaitStatus)
	assert.True(t, status.Signaled() && status.Signal() == syscall.SIGSYS, "%v", status)
}

// childExec goes on as a new program under the filter, which runs threads, files, timers and children.
func childExec(profile string) int {
	install(profile)
	must(os.Setenv(childEnv, "hello:"))
	must(syscall.Exec("/proc/self/exe", []string{"hello"}, os.Environ()))
	return 0
}

func childHello(string) int {
	done := make(chan error)
	for range 20 {
		go func() {
			runtime.LockOSThread()
			f, err := os.CreateTemp("", "seccomp")
			if err == nil {
				_, err = f.WriteString("x")
				err = errors.Join(err, f.Chmod(0o600), f.Close(), os.Remove(f.Name()))
			}
			time.Sleep(time.Millisecond)
			done <- err
		}()
	}
	for range 20 {
		must(<-done)
	}
	out, err := exec.Command("/bin/sh", "-c", "echo shell | cat").CombinedOutput()
	must(err)
	status, err := os.ReadFile("/proc/thread-self/status")
	must(err)
	fmt.Printf("%s%s", out, status)
	return 0
}

func TestProgramsRunUnderEveryProfile(t *testing.T) {
	for _, name := range Names() {
		out, err := child(t, "exec:"+name)
		require.NoError(t, err, out)
		assert.Contains(t, out, "shell\n")
		assert.Contains(t, out, "\nSeccomp:\t2\n")
		assert.Contains(t, out, "\nNoNewPrivs:\t1\n")
	}
}

// childDeny stacks, in the order that Lower asks for, a deny list that would stop its own installation in another order.
func childDeny(profile string) int {
	arch, err := Host()
	must(err)
	base, err := Builtin(profile, arch)
	must(err)
	deny, err := Deny([]string{"seccomp", "prctl", "getpgid", "clone3"}, arch)
	must(err)
	must(Apply(base, deny))
	_, _, getpgid := syscall.RawSyscall(unix.SYS_GETPGID, 0, 0, 0)
	_, _, again := syscall.RawSyscall(unix.SYS_SECCOMP, 2, 0, 0)
	_, _, clone3 := syscall.RawSyscall(unix.SYS_CLONE3, 0, 0, 0) // ENOSYS in the profile: of equals the last installed answers
	fmt.Println(int(getpgid), int(again), int(clone3))
	return 0
}

func TestDenyStacksInTheKernel(t *testing.T) {
	out, err := child(t, "deny:default")
	require.NoError(t, err, out)
	assert.Equal(t, "1 1 1\n", out)
}

// childCheck offers the kernel what Check refuses, and then one filter of every operation that it passes.
func childCheck(string) int {
	must(Apply()) // no_new_privs
	offer := func(f Filter) error {
		var p sys.Program
		Lower(&p, f)
		return p.Run()
	}
	for fault, f := range invalid() {
		if err := offer(f); !errors.Is(err, unix.EINVAL) {
			fmt.Printf("%s: %v\n", fault, err)
		}
	}
	all := Filter{{opStore, 0, 0, 0}, {opStoreX, 0, 0, 1}}
	for code := range uint16(256) {
		ins := Instruction{Code: code, K: 1}
		switch {
		case code == opRet || code == opRetA || code == opJump: // would end the filter, and this thread with it
		case ins.fault(0, 3) == "" || code == opLoad:
			all = append(all, ins)
		case offer(Filter{ins, {opRet, 0, 0, uint32(Allow)}}) == nil:
			fmt.Printf("code 0x%02x is taken, but not by Check\n", code)
		}
	}
	for i, ins := range all {
		if ins.Code == opLoad {
			all[i].K = offArch
		}
	}
	all = append(all, Instruction{opRet, 0, 0, uint32(Allow)})
	arch, err := Host()
	must(err)
	if verdict, err := Interpret(all, Data{Arch: arch.Audit()}); err != nil || verdict != Allow {
		must(fmt.Errorf("the filter of every operation says %s, %w", verdict, err)) // it would kill this thread
	}
	must(offer(all))
	return 0
}

func TestKernelChecksAlike(t *testing.T) {
	out, err := child(t, "check:")
	require.NoError(t, err, out)
	assert.Empty(t, out)
}

func TestLowerPrints(t *testing.T) {
	f, err := Deny([]string{"ptrace"}, AMD64)
	require.NoError(t, err)
	p := sys.Program{Trace: true}
	Lower(&p, f, nil, make(Filter, MaxLen+1))
	assert.Equal(t, fmt.Sprintf(`   0  seccomp(SECCOMP_SET_MODE_FILTER, 0, {%d instructions})
   1  fail(EINVAL)
   2  fail(EINVAL)
`, len(f)), p.String(), "what cannot be installed fails, and is not left out")
	require.ErrorContains(t, Apply(f, nil), "empty", "before anything is installed")
}

func TestHaveIsTrueWhereFiltersInstall(t *testing.T) {
	_, err := child(t, "exec:default")
	if err == nil {
		require.NoError(t, Have())
	} else {
		require.Error(t, Have())
	}
}

// TestConstants compares the hand-written numbers with golang.org/x/sys.
func TestConstants(t *testing.T) {
	for _, pair := range [][2]uint32{
		{afUnix, unix.AF_UNIX}, {afInet, unix.AF_INET}, {afInet6, unix.AF_INET6}, {afNetlink, unix.AF_NETLINK},
		{sockStream, unix.SOCK_STREAM}, {sockDgram, unix.SOCK_DGRAM}, {protoICMP, unix.IPPROTO_ICMP}, {protoICMPv6, unix.IPPROTO_ICMPV6},
		{protoTCP, unix.IPPROTO_TCP}, {protoUDP, unix.IPPROTO_UDP},
		{cloneNew, unix.CLONE_NEWTIME | unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
			unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET},
		{openCreates, unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY}, {modeSetID, unix.S_ISUID | unix.S_ISGID}, {modeType, unix.S_IFMT},
		{modeFile, unix.S_IFREG}, {modeFIFO, unix.S_IFIFO}, {modeSocket, unix.S_IFSOCK}, {tiocsti, unix.TIOCSTI}, {tiocsetd, unix.TIOCSETD}, {tiocexcl, unix.TIOCEXCL},
		{memfdNoExecSeal, unix.MFD_NOEXEC_SEAL}, {setLease, unix.F_SETLEASE}, {setDeleg, unix.F_SETDELEG},
		{setModeFilter, unix.SECCOMP_SET_MODE_FILTER}, {newListener, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER}, {getNotifSizes, unix.SECCOMP_GET_NOTIF_SIZES},
		{schedOther, unix.SCHED_NORMAL}, {schedBatch, unix.SCHED_BATCH}, {schedIdle, unix.SCHED_IDLE},
		{schedResetOnFork, unix.SCHED_RESET_ON_FORK}, {uint32(Kill), unix.SECCOMP_RET_KILL_PROCESS}, {uint32(Allow), unix.SECCOMP_RET_ALLOW},
		{uint32(actionErrno), unix.SECCOMP_RET_ERRNO}, {uint32(actionTrap), unix.SECCOMP_RET_TRAP}, {uint32(actionLog), unix.SECCOMP_RET_LOG},
		{uint32(actionTrace), unix.SECCOMP_RET_TRACE}, {uint32(actionNotify), unix.SECCOMP_RET_USER_NOTIF},
		{AMD64.Audit(), unix.AUDIT_ARCH_X86_64}, {ARM64.Audit(), unix.AUDIT_ARCH_AARCH64}, {MaxLen, unix.BPF_MAXINSNS},
		{uint32(eperm), uint32(actionErrno) | uint32(unix.EPERM)}, {uint32(enosys), uint32(actionErrno) | uint32(unix.ENOSYS)},
		{uint32(eacces), uint32(actionErrno) | uint32(unix.EACCES)}, {uint32(einval), uint32(actionErrno) | uint32(unix.EINVAL)},
		{uint32(eprotonosupport), uint32(actionErrno) | uint32(unix.EPROTONOSUPPORT)},
		{uint32(eafnosupport), uint32(actionErrno) | uint32(unix.EAFNOSUPPORT)},
	} {
		assert.Equal(t, pair[1], pair[0])
	}
	for nr, name := range map[uint32]string{unix.SYS_READ: "read", unix.SYS_CLONE: "clone", unix.SYS_LISTNS: "listns", unix.SYS_SECCOMP: "seccomp"} {
		arch, err := Host()
		require.NoError(t, err)
		got, ok := arch.Name(nr)
		assert.True(t, ok && got == name)
	}
}

func childTime(profile string) int {
	f := Filter{{opLoad, 0, 0, offNR}}
	for range 10 { // twelve instructions
		f = append(f, Instruction{opJeq, 0, 0, 0x40000001})
	}
	f = append(f, Instruction{opRet, 0, 0, uint32(Allow)})
	arch, err := Host()
	must(err)
	if file, ok := strings.CutPrefix(profile, "/"); ok {
		raw, err := os.ReadFile("/" + file)
		must(err)
		f, err = ParseRaw(raw)
		must(err)
	} else if profile != "" {
		f, err = Builtin(profile, arch)
		must(err)
	}
	must(Apply()) // no_new_privs
	var p sys.Program
	Lower(&p, f)
	fmt.Println(testenv.CPUTime(func() { must(p.Run()) }).Nanoseconds())
	return 0
}

// BenchmarkInstall measures the CPU time that installing costs, in fresh processes. On the development machine (Linux 6.18, KVM), in µs of the
// wall clock, minimum and median of 300: twelve instructions 29 and 46, default 59 and 62; what libseccomp 2.5.4 makes of default with
// SetOptimize(2) 256 and 265, and of default without any argument conditions 79 and 82. NSRUN_TEST_SECCOMP_RAW names a raw filter to measure
// too.
func BenchmarkInstall(b *testing.B) {
	what := []string{"", "default", "compute"}
	if raw := os.Getenv("NSRUN_TEST_SECCOMP_RAW"); raw != "" {
		what = append(what, raw)
	}
	for _, w := range what {
		b.Run(cmp.Or(w, "twelve instructions"), func(b *testing.B) {
			var all int
			for range b.N {
				out, err := child(b, "time:"+w)
				require.NoError(b, err, out)
				ns, err := strconv.Atoi(strings.TrimSpace(out))
				require.NoError(b, err)
				all += ns
			}
			b.ReportMetric(float64(all)/float64(b.N), "install-ns/op")
		})
	}
}
