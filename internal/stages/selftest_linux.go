package stages

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// SelfTestTarget holds the objects that a self-test tries to reach. This process has checked that they exist, or has made them.
type SelfTestTarget struct {
	Outside []string `json:"outside,omitempty"` // directories of the host that can be opened without a sandbox
	Inside  string   `json:"inside,omitempty"`  // a directory in which nothing may be written
	Socket  string   `json:"socket,omitempty"`  // name of an abstract Unix socket that is listened on
	Pid     int      `json:"pid,omitempty"`     // a process outside

	listener int
}

// SelfTestStage is the stage of acts that must fail. ActDone is the errno that reports an act which succeeded; no system call returns it.
const (
	SelfTestStage = "self-test"
	ActDone       = unix.ENOTUNIQ
)

// NewSelfTestTarget finds or makes the objects that the plan's self-test tries to reach.
func NewSelfTestTarget(p *plan.Plan) (*SelfTestTarget, error) {
	c := &SelfTestTarget{listener: -1}
	if len(p.SelfTest) == 0 {
		return c, nil
	}
	c.Outside, c.Inside, c.Pid = outside(p), readOnly(p), os.Getpid()
	if !slices.Contains(p.SelfTest, plan.ActSocket) {
		return c, nil
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil { // nsrun itself runs in a sandbox that refuses Unix sockets
		return c, nil //nolint:nilerr // the act is left out, and the receipt says so
	}
	c.listener = fd
	if c.Socket, err = listenAbstract(fd); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// listenAbstract makes a socket listen, and returns the abstract name that the kernel picks for it (autobind: unix(7)).
func listenAbstract(fd int) (name string, err error) {
	if err := unix.Bind(fd, &unix.SockaddrUnix{}); err != nil {
		return "", os.NewSyscallError("bind", err)
	}
	if err := unix.Listen(fd, 1); err != nil {
		return "", os.NewSyscallError("listen", err)
	}
	at, err := unix.Getsockname(fd)
	if un, ok := at.(*unix.SockaddrUnix); ok {
		name = strings.TrimPrefix(un.Name, "@")
	}
	return name, os.NewSyscallError("getsockname", err)
}

// Close closes the socket.
func (c *SelfTestTarget) Close() {
	if c.listener >= 0 {
		unix.Close(c.listener)
	}
	c.listener = -1
}

// outside returns directories of the host that this process can open, so that the same act succeeds without a sandbox. The plan shows
// neither them nor anything in or above them.
func outside(p *plan.Plan) (found []string) {
	home, _ := os.UserHomeDir()
	for _, dir := range []string{home, "/sys/kernel", "/root", "/home", "/boot", "/srv", "/mnt", "/run", "/var/lib", "/var/log"} {
		clear := dir != "" && !slices.ContainsFunc(p.Mounts, func(op mounts.Op) bool {
			return Inside(dir, op.Dest) || Inside(op.Dest, dir) || Inside(dir, op.Source) || Inside(op.Source, dir)
		})
		if !clear || slices.Contains(found, dir) || len(found) == 3 {
			continue
		}
		if fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
			unix.Close(fd)
			found = append(found, dir)
		}
	}
	return found
}

// Tried returns the acts of the plan's self-test that have an object to try.
func Tried(p *plan.Plan, c *SelfTestTarget) (acts []plan.Act) {
	for _, act := range p.SelfTest {
		var on bool
		switch act {
		case plan.ActRead:
			on = len(c.Outside) > 0
		case plan.ActWrite:
			on = c.Inside != ""
		case plan.ActSocket:
			on = c.Socket != ""
		case plan.ActSignal: // in a pid namespace the number means another process
			on = c.Pid > 1 && !slices.Contains(p.Namespaces, plan.Pid)
		default:
			on = true
		}
		if on {
			acts = append(acts, act)
		}
	}
	return acts
}

// Inside reports whether the absolute path name is dir or lies below it.
func Inside(name, dir string) bool {
	return dir != "" && (name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/"))
}

// readOnly returns a directory that the plan shows read-only and this process may write to, or "".
func readOnly(p *plan.Plan) string {
	for _, op := range p.Mounts {
		var st unix.Stat_t
		if op.Kind != mounts.Bind || !op.Flags.Has(mounts.ReadOnly) || op.Source == "/proc" ||
			unix.Lstat(op.Source, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		if unix.Access(op.Source, unix.W_OK) == nil {
			return op.Dest
		}
	}
	return ""
}

// selfTest makes a process with the command's own confinement try acts that must fail, and stops the start if one succeeds. The process has
// no capabilities, and is in the user namespace that owns the mounts, where a command never is: an act that fails there fails for the
// command, too.
func (l *Lowering) selfTest() error {
	if len(l.plan.SelfTest) == 0 {
		return nil
	}
	if l.testReport != nil { // no signal may reach a child that shares this process's memory; the stage mask unblocks signals
		l.step(SelfTestStage, "block signals")
		l.Program.Add(unix.SYS_RT_SIGPROCMASK, sys.Words(unix.SIG_SETMASK, "SIG_SETMASK"), sys.Bytes(slices.Repeat([]byte{0xff}, 8)), sys.Null(), sys.Int(8))
	}
	tester, foreign := l.Program.Slot(), slices.Contains(l.plan.SelfTest, plan.ActForeign)
	var err error
	spawn := func(by verify.Runner, apart bool, body func()) {
		l.step(SelfTestStage, "start")
		start := l.Program.SpawnApart
		if !apart {
			start = func(pid sys.Slot, body func()) { l.Program.Spawn(pid, nil, body) }
		}
		start(tester, func() {
			if fd := l.TestReportFD(); fd != 0 {
				l.Program.ReportTo(fd)
			}
			if err == nil {
				err = l.Append(verify.Confinement[:], by)
			}
			body()
		})
		l.step(SelfTestStage, "end")
	}
	groups, raw := [][]plan.Act{Tried(l.plan, l.target)}, l.plan.Seccomp != nil && len(l.plan.Seccomp.Raw) > 0
	// The caller's own filter may kill the process that tries an act, which is as good as an errno. Then each act needs its own process.
	if raw {
		groups = slices.Collect(slices.Chunk(groups[0], 1))
	}
	for _, acts := range groups {
		spawn(verify.Tester, raw, func() {
			for _, act := range acts {
				l.try(act)
			}
			l.step(SelfTestStage, "end")
			l.Program.Add(unix.SYS_EXIT_GROUP, sys.Int(0))
		})
		l.Program.Expect(tester, raw, unix.ECHILD)
	}
	if foreign { // the filter kills the process that does this
		spawn(verify.ForeignTester, true, func() {
			l.step(SelfTestStage, string(plan.ActForeign))
			l.Program.Foreign()
			l.Program.Fail(ActDone)
		})
		l.Program.Expect(tester, true, unix.ECHILD)
	}
	return err
}

// refused appends a call that must fail, with any errno.
func (l *Lowering) refused(act plan.Act, object string, nr uintptr, args ...sys.Arg) {
	l.Program.At(sys.Step{Stage: SelfTestStage, Op: string(act), Path: object})
	l.Program.Add(nr, args...).Tolerate(sys.Any, 1)
	l.Program.Fail(ActDone)
}

// try appends the calls of one act.
func (l *Lowering) try(act plan.Act) {
	switch act {
	case plan.ActRead:
		for _, dir := range l.target.Outside {
			l.refused(act, dir, unix.SYS_OPENAT, sys.AtCWD(), sys.Str(dir), sys.Words(unix.O_RDONLY|unix.O_DIRECTORY, "O_RDONLY|O_DIRECTORY"))
		}
	case plan.ActWrite:
		dir := l.target.Inside // if this succeeds, O_TMPFILE leaves no file behind
		l.refused(act, dir, unix.SYS_OPENAT, sys.AtCWD(), sys.Str(dir), sys.Words(unix.O_WRONLY|unix.O_TMPFILE, "O_WRONLY|O_TMPFILE"), sys.Int(0o600))
	case plan.ActSocket:
		l.tryConnect()
	case plan.ActVsock:
		l.refused(act, "", unix.SYS_SOCKET, sys.Words(unix.AF_VSOCK, "AF_VSOCK"), sys.Words(unix.SOCK_STREAM, "SOCK_STREAM"), sys.Int(0))
	case plan.ActUser:
		l.refused(act, "", unix.SYS_UNSHARE, sys.Words(unix.CLONE_NEWUSER, "CLONE_NEWUSER"))
	case plan.ActMount:
		l.refused(act, "/tmp", unix.SYS_MOUNT, sys.Str("none"), sys.Str("/tmp"), sys.Str("tmpfs"), sys.Int(0), sys.Null())
	case plan.ActTrace:
		l.step(SelfTestStage, string(act))
		parent := l.Program.Slot()
		l.Program.Add(unix.SYS_GETPPID).Keep(parent)
		l.refused(act, "", unix.SYS_PTRACE, sys.Words(unix.PTRACE_SEIZE, "PTRACE_SEIZE"), sys.Of(parent), sys.Int(0), sys.Int(0))
	case plan.ActSignal:
		l.refused(act, fmt.Sprint(l.target.Pid), unix.SYS_KILL, sys.Int(l.target.Pid), sys.Int(0))
	}
}

// tryConnect appends a connection to the target's socket. If the process gets no socket at all, the act has failed, too.
func (l *Lowering) tryConnect() {
	address := append([]byte{unix.AF_UNIX, 0, 0}, l.target.Socket...) // native byte order; both architectures are little-endian
	l.step(SelfTestStage, string(plan.ActSocket))
	fd := l.Program.Slot()
	l.Program.Add(unix.SYS_SOCKET, sys.Words(unix.AF_UNIX, "AF_UNIX"), sys.Words(unix.SOCK_STREAM, "SOCK_STREAM"), sys.Int(0)).Keep(fd)
	l.Program.Then(func() {
		l.refused(plan.ActSocket, "", unix.SYS_CONNECT, sys.Of(fd), sys.Bytes(address), sys.Int(len(address)))
	}, sys.Any)
}

// ReportTests opens a pipe for the self-test's failure, for a program that this process runs itself.
func (l *Lowering) ReportTests() error {
	if len(l.plan.SelfTest) == 0 {
		return nil
	}
	r, w, err := os.Pipe()
	l.testReport = &[2]*os.File{r, w}
	return err
}

// TestReportFD returns the number of the descriptor that the self-test's processes report to, or 0.
func (l *Lowering) TestReportFD() int {
	if l.testReport == nil {
		return 0
	}
	return int(l.testReport[1].Fd())
}

// Failure returns the failure that the self-test's child has reported, if there is one, and otherwise err.
func (l *Lowering) Failure(err error) error {
	if l.testReport == nil {
		return err
	}
	l.testReport[1].Close()
	buf := make([]byte, sys.FailureSize)
	n, _ := l.testReport[0].Read(buf)
	if f, ok := sys.ParseFailure(buf[:max(n, 0)]); ok {
		return l.Program.Failed(f)
	}
	return err
}

// Close closes the pipe.
func (l *Lowering) Close() {
	if l.testReport != nil {
		l.testReport[0].Close()
		l.testReport[1].Close()
	}
}
