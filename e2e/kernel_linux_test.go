package e2e

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/internal/testenv"
	"golang.org/x/sys/unix"
)

// amd64 gives an act of a call that only amd64 has, by its number there; elsewhere it is a number that nobody has.
func amd64(nr int, args ...int64) string {
	if runtime.GOARCH != "amd64" {
		nr = 600
	}
	return sys(nr, args...)
}

// kernelCases are attempts to reach parts of the kernel that no ordinary program needs. Arguments are such that without a filter the
// call fails with another errno, or does nothing.
func kernelCases() []attackCase {
	const (
		compat = "the kernel may have no 32-bit ABI"
		config = "the kernel may lack it, or keep it from this user"
		old    = "newer or older kernels do not have it"
	)
	compute := []string{"--seccomp", "compute"}
	none := func(act string) try { return try{act: act, want: "ENOSYS", lone: config} }
	perm := func(act string) try { return try{act: act, want: "EPERM"} }
	root := func(act string) try { return try{act: act, want: "EPERM", user: refused, lone: config} }
	return []attackCase{
		{id: "FS23", what: "open_by_handle_at", tries: []try{root(sys(unix.SYS_OPEN_BY_HANDLE_AT, -1, bad, 0))}},
		{id: "FS24", what: "name_to_handle_at", tries: []try{perm(sys(unix.SYS_NAME_TO_HANDLE_AT, -1, bad, bad, bad, 0))}},
		{id: "FS25", what: "fanotify_init", tries: []try{{act: sys(unix.SYS_FANOTIFY_INIT, 0x200, 0), want: "EPERM", lone: config}}},
		{id: "SC07", what: "getpid of the 32-bit ABI", tries: []try{{act: "int80 20", want: "SIGSYS NA", lone: compat}}},
		{id: "SC08", what: "mount of the 32-bit ABI", tries: []try{{act: "int80 21", want: "SIGSYS NA", lone: compat}}},
		{id: "SC09", what: "a number of the x32 ABI", tries: []try{{act: sys(0x40000000 + unix.SYS_GETPID), want: "SIGSYS ENOSYS", lone: "the kernel may have no x32 ABI"}}},
		{id: "SC10", what: "numbers that nobody has", tries: []try{{act: sys(600), want: "ENOSYS", lone: noEqual}, {act: sys(1023), want: "ENOSYS", lone: noEqual},
			{act: sys(0x7fffffff), want: "ENOSYS SIGSYS", lone: noEqual}, {act: "call 0x80000000", want: "ENOSYS", lone: noEqual}, {act: sys(-1), want: "ENOSYS", lone: noEqual}}},
		{id: "SC11", what: "garbage in the upper half of arguments that are judged", tries: []try{{act: "highbits {work}/dir/inner", want: "EPERM"}}, after: noSetID},
		{id: "SC12", what: "io_uring_setup", tries: []try{none(sys(unix.SYS_IO_URING_SETUP, 1, bad))}},
		{id: "SC13", what: "io_uring_enter on a descriptor that is none", tries: []try{none(sys(unix.SYS_IO_URING_ENTER, -1, 0, 0, 0)), none(sys(unix.SYS_IO_URING_REGISTER, -1, 0, 0, 0))}},
		{id: "SC14", what: "add_key", tries: []try{perm(sys(unix.SYS_ADD_KEY, bad, bad, bad, 1, 0))}},
		{id: "SC15", what: "request_key", tries: []try{perm(sys(unix.SYS_REQUEST_KEY, bad, bad, bad, 0))}},
		{id: "SC16", what: "keyctl", tries: []try{perm(sys(unix.SYS_KEYCTL, 999))}},
		{id: "SC17", what: "bpf", tries: []try{{act: sys(unix.SYS_BPF, 5, bad, 64), want: "ENOSYS", lone: config}}},
		{id: "SC18", what: "perf_event_open", tries: []try{perm(sys(unix.SYS_PERF_EVENT_OPEN, bad, 0, -1, -1, -1))}},
		{id: "SC19", what: "userfaultfd", tries: []try{{act: sys(unix.SYS_USERFAULTFD, 1), want: "ENOSYS", lone: config}}},
		{id: "SC20", what: "process_vm_readv, process_vm_writev", tries: []try{perm(sys(unix.SYS_PROCESS_VM_READV, 0, 0, 0, 0, 0, 1)), perm(sys(unix.SYS_PROCESS_VM_WRITEV, 0, 0, 0, 0, 0, 1))}},
		{id: "SC21", what: "ptrace", tries: []try{perm(sys(unix.SYS_PTRACE, 0x1234, 1<<22-1)), {act: sys(unix.SYS_PTRACE, 0), want: "EPERM", lone: noEqual}}},
		{id: "SC22", what: "pidfd_getfd, kcmp", tries: []try{perm(sys(unix.SYS_PIDFD_GETFD, -1, 0, 0)), {act: sys(unix.SYS_KCMP, 1<<22-1, 1<<22-1, 0), want: "EPERM", lone: config}}},
		{id: "SC23", what: "calls that place memory", tries: []try{perm(sys(unix.SYS_MOVE_PAGES, 0, 1, bad, 0, bad, 0x1000)), perm(sys(unix.SYS_MBIND, 0, 0, 99, 0, 0, 0x1000)),
			perm(sys(unix.SYS_MIGRATE_PAGES, 0, 64, bad, bad)), perm(sys(unix.SYS_SET_MEMPOLICY, 99, 0, 0))}},
		{id: "SC24", what: "personality without address randomization", tries: []try{perm(sys(unix.SYS_PERSONALITY, 0x40000)), perm(sys(unix.SYS_PERSONALITY, 0x100000))}},
		{id: "SC25", what: "modify_ldt", tries: []try{{act: amd64(154, 0, bad, 0), want: "ENOSYS EPERM", lone: config}}},
		{id: "SC26", what: "seccomp with a listener", tries: []try{perm(sys(unix.SYS_SECCOMP, 1, 8, bad)), {act: sys(unix.SYS_SECCOMP, 1, 8|1<<4, bad), want: "EPERM"},
			perm(sys(unix.SYS_SECCOMP, 3, 0, bad))}},
		{id: "SC27", what: "vmsplice, tee, and in compute splice", tries: []try{perm(sys(unix.SYS_VMSPLICE, -1, 0, 0, 0)), none(sys(unix.SYS_TEE, -1, -1, 1, 0)),
			{act: sys(unix.SYS_SPLICE, -1, 0, -1, 0, 1, 0), flags: compute, want: "EINVAL"}}},
		{id: "SC28", what: "memfd_secret", tries: []try{perm(sys(unix.SYS_MEMFD_SECRET, 0))}},
		{id: "SC29", what: "load code into the kernel", tries: []try{root(sys(unix.SYS_INIT_MODULE, bad, 1, bad)), root(sys(unix.SYS_FINIT_MODULE, -1, bad, 0xff)),
			root(sys(unix.SYS_DELETE_MODULE, bad, 0)), root(sys(unix.SYS_KEXEC_LOAD, 0, 1<<20, bad, 0xffff)), root(sys(unix.SYS_KEXEC_FILE_LOAD, -1, -1, 1, bad, 0xffff))}},
		{id: "SC30", what: "reboot, swap, accounting, quotas", tries: []try{root(sys(unix.SYS_REBOOT, 0, 0, 0, 0)), root(sys(unix.SYS_SWAPON, bad, -1)),
			root(sys(unix.SYS_SWAPOFF, bad)), root(sys(unix.SYS_ACCT, bad)), {act: sys(unix.SYS_QUOTACTL, -1, bad, 0, 0), want: "EPERM", lone: config}}},
		{id: "SC31", what: "set the clock", tries: []try{perm(sys(unix.SYS_SETTIMEOFDAY, bad, 0)), perm(sys(unix.SYS_CLOCK_SETTIME, 0, bad)),
			perm(sys(unix.SYS_ADJTIMEX, bad)), perm(sys(unix.SYS_CLOCK_ADJTIME, 0, bad))}},
		{id: "SC32", what: "ports and relics", tries: []try{
			{act: amd64(172, 4), want: "EPERM ENOSYS", lone: config}, {act: amd64(173, -1, 1, 1), want: "EPERM ENOSYS", lone: config},
			{act: sys(unix.SYS_VHANGUP), want: "EPERM", lone: noEqual}, {act: amd64(134, bad), want: "ENOSYS", lone: old},
			{act: amd64(139, 3), want: "ENOSYS", lone: config}, {act: amd64(136, 0xffff, bad), want: "ENOSYS"}}},
		{id: "SC33", what: "real-time scheduling, and in compute what else touches the host's", tries: []try{
			{act: sys(unix.SYS_IOPRIO_GET, 9, 0), flags: compute, want: "ENOSYS", lone: config}, {act: sys(unix.SYS_MLOCKALL, 0), flags: compute, want: "EPERM"},
			perm(sys(unix.SYS_SCHED_SETSCHEDULER, 0, 1, bad)), {act: "fifo-policy", want: "EPERM", user: refused, lone: config}}},
		{id: "SC34", what: "newer calls are decided one by one", tries: []try{
			{act: amd64(216, 0, 0, 0, 0, 0), want: "ENOSYS"}, {act: sys(453, 0, 0x1000, 0xff), want: "ENOSYS", lone: config},
			perm(sys(unix.SYS_PROCESS_MADVISE, -1, bad, 1, 0, 0)), {act: sys(451, -1, bad, bad, 0), want: "ENOSYS", lone: old},
			{act: sys(462, 1, 4096, 0), want: "ENOSYS", lone: old}}},
		{id: "SC35", what: "what every program does works", tries: []try{{act: "works", want: "REACHED"}}},
		{id: "SC37", what: "loosen the filter by another one", tries: []try{{act: "loosen", want: "EPERM"}}},
	}
}

func kernelTests() []attackCase {
	return []attackCase{
		{id: "SC01", what: "hold a capability", test: capabilities("CapEff", "CapPrm", "CapInh", "CapAmb")},
		{id: "SC02", what: "hold one in the bounding set", test: capabilities("CapBnd")},
		{id: "SC03", what: "run without no_new_privs", test: flagged("NoNewPrivs", "1")},
		{id: "SC04", what: "run without a filter", test: flagged("Seccomp", "2")},
		{id: "SC05", what: "do what only Landlock forbids", test: onlyLandlock},
		{id: "SC06", what: "become root", test: becomeRoot},
		{id: "SC36", what: "have a thread or program without a filter", test: everyThread},
	}
}

// capabilities asserts that sets are empty. The control is that the host's root has some; a bounding set has everyone.
func capabilities(sets ...string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		inside, outside := statusOf(w.probe(t, nil, "status")), statusOf(w.outside(t, "status"))
		for _, set := range sets {
			assert.Equal(t, strings.Repeat("0", 16), inside[set], set)
			if set == "CapBnd" || w.uid == 0 && (set == "CapEff" || set == "CapPrm") {
				assert.NotEqual(t, strings.Repeat("0", 16), outside[set], "the control of %s", set)
			}
		}
	}
}

func flagged(name, want string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		assert.Equal(t, want, statusOf(w.probe(t, nil, "status"))[name])
		if outside := statusOf(w.outside(t, "status"))[name]; outside == want {
			t.Logf("no credit: this test runs with %s %s itself", name, want)
		}
	}
}

// onlyLandlock opens the caller's file by the descriptor that it passes: mounts and permissions allow it, as the run without
// Landlock shows.
func onlyLandlock(t *testing.T, w *world) {
	need(t, testenv.Landlock() > 0, "Landlock")
	f, err := os.Open(w.secret)
	require.NoError(t, err)
	defer f.Close()
	for _, c := range []struct {
		flags []string
		want  string
	}{{[]string{"--no-landlock"}, "REACHED"}, {nil, "EACCES"}} {
		cmd := w.nsrun(c.flags, built.probe, "open", "r", "/proc/self/fd/0")
		e := w.do(t, from(f), cmd...)
		assert.True(t, try{want: c.want}.stopped(e), "%q: %s\n%v", c.flags, c.want, e)
	}
}

// becomeRoot tries other ids, and a set-uid program that is in the view.
func becomeRoot(t *testing.T, w *world) {
	id := "0"
	if w.uid == 0 {
		id = "1"
	}
	e := w.probe(t, nil, "setuid "+id)
	assert.True(t, try{want: "EINVAL EPERM"}.stopped(e), e)
	if w.uid == 0 || os.Getuid() != 0 {
		return
	}
	data, err := os.ReadFile(built.probe)
	require.NoError(t, err)
	name := filepath.Join(filepath.Dir(built.probe), "set-uid")
	require.NoError(t, os.WriteFile(name, data, 0o755))
	defer os.Remove(name)
	require.NoError(t, os.Chmod(name, os.ModeSetuid|0o755))
	require.Equal(t, "euid 0\n", w.do(t, nil, name, "euid").stdout, "the control: the file system honours the bit")
	e = w.in(t, nil, name, "euid")
	assert.Equal(t, 0, e.code, e)
	assert.NotEqual(t, "euid 0\n", e.stdout, "the bit does nothing inside")
}

func everyThread(t *testing.T, w *world) {
	e := w.probe(t, nil, "threads")
	lines := strings.Split(strings.TrimSpace(e.stdout), "\n")
	assert.GreaterOrEqual(t, len(lines), 10, "two programs with at least five threads each\n%v", e)
	for _, line := range lines {
		assert.Equal(t, "Seccomp: 2", line)
	}
}
