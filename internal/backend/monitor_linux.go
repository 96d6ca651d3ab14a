package backend

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/sys/entry"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// monitor is the caller's side of a sandbox by bubblewrap's rules. Unlike run, it ends as soon as it knows how the command ended. Processes
// that the command has left then go on or die, as the plan says.
type monitor struct {
	plan    *plan.Plan
	lowered *stages.Lowered
	ch      *channels
	pid     int // pid 1 or the command, in this process's view
	pidfd   int
	parent  int // pidfd of the process that started this one, or -1

	// What it waits for, made by listen: orphan in every wait, next in until, status and end in await.
	orphan, next, status, end *source
	came                      bool            // by next
	result                    unix.WaitStatus // of the command
	failure                   error           // of what sent status, or of end

	sole      bool // Options.Sole
	witnessed bool // the exec stages have reached exec
	released  bool // the set-up may go on
}

// runCompat runs a plan that has plan.Bwrap. It returns before the sandbox is gone, so the process should end soon.
func runCompat(p *plan.Plan, opts Options) (Outcome, error) {
	defer lockThread(opts)()
	ch, err := openChannels()
	if err != nil {
		return Outcome{}, &Error{Stage: "channels", Err: err}
	}
	defer ch.close()
	theirs := []int{ch.report, ch.status}
	lowered, err := opts.seam.lowered(stages.Lower, p, stages.FDs{Report: ch.childReport, Status: ch.childStatus, Theirs: theirs,
		Early: opts.Sole && opts.Inject == nil})
	if err != nil {
		return Outcome{}, wrapLowering(err, p)
	}
	if opts.Inject != nil {
		opts.Inject(lowered.Program)
	}
	m := &monitor{plan: p, lowered: lowered, ch: ch, parent: -1, pidfd: -1, sole: opts.Sole}
	m.listen()
	defer m.close()
	if err := m.start(); err != nil {
		if m.pid > 0 {
			m.waitGone()
		}
		return Outcome{}, err
	}
	out := Outcome{Started: time.Now(), Resolved: lowered.Resolved}
	status, err := m.supervise()
	out.Status, out.Wall = status, time.Since(out.Started)
	return out, err
}

// listen makes the sources, before the fork: see settle.
func (m *monitor) listen() {
	m.orphan = &source{fd: -1}
	m.orphan.ready = func() bool {
		m.orphaned()
		m.orphan.fd = -1
		return true
	}
	m.next = &source{ready: func() bool { m.came = true; return false }}
	m.status = &source{fd: m.ch.status, ready: m.readStatus}
	m.end = once(-1, func() { m.result, m.failure = m.reap() })
}

// start forks the sandbox, and finds the pid of the process to wait for.
func (m *monitor) start() (err error) {
	if m.sole {
		defaultSignals()
	}
	if stages.Joins(m.plan.Bwrap) {
		if err := unix.SetsockoptInt(m.ch.status, unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
			return &Error{Stage: "channels", Err: err}
		}
	}
	if b := m.plan.Bwrap; !stages.Informs(b) && !stages.Joins(b) {
		// There is nobody to inform. The message waits in the socket, and the sandbox does not wait for this process to wake up.
		if err := sendRelease(m.ch.status); err != nil {
			return err
		}
		m.released = true
	}
	m.lowered.Program.Ahead = true
	if m.sole {
		settle()
	}
	m.pid, m.pidfd, err = m.lowered.Program.Fork(m.lowered.Flags, m.ch.childReport)
	m.ch.closeChild()
	if err != nil {
		return &Error{Stage: "namespaces", Op: "clone", Err: err}
	}
	if m.plan.Bwrap.DieWithParent {
		if m.parent, err = parent(); err != nil {
			return err
		}
		m.orphan.fd = m.parent
		if m.parent < 0 { // the parent is in another pid namespace; a death signal of this thread is better than none
			_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
		}
	}
	if stages.Joins(m.plan.Bwrap) {
		return m.awaitJoined()
	}
	return nil
}

// awaitJoined gets the pid of the process that has joined the namespaces from the credentials of its message (unix(7), SCM_CREDENTIALS).
func (m *monitor) awaitJoined() error {
	buf, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	n, oobn, _, _, err := unix.Recvmsg(m.ch.status, buf, oob, unix.MSG_CMSG_CLOEXEC)
	if err == nil && n == 1 {
		messages, _ := unix.ParseSocketControlMessage(oob[:oobn])
		for i := range messages {
			if cred, err := unix.ParseUnixCredentials(&messages[i]); err == nil {
				unix.Close(m.pidfd)
				m.pid = int(cred.Pid)
				m.pidfd, err = unix.PidfdOpen(m.pid, 0)
				return err
			}
		}
	}
	if failure := m.report(); failure != nil {
		return failure
	}
	return &Error{Stage: "namespaces", Op: "clone", Err: errors.New("the process that joins them has ended")}
}

// close closes the pidfds.
func (m *monitor) close() {
	if m.pidfd >= 0 {
		unix.Close(m.pidfd)
	}
	if m.parent >= 0 {
		unix.Close(m.parent)
	}
}

// kill ends the sandbox. Without a pid namespace it kills only the first process; the others end when their channels do.
func (m *monitor) kill() { _ = unix.PidfdSendSignal(m.pidfd, unix.SIGKILL, nil, 0) }

// supervise reports the sandbox to the caller's descriptors, lets it go on, and waits for the command's end.
func (m *monitor) supervise() (unix.WaitStatus, error) {
	if err := m.inform(); err != nil {
		m.waitGone()
		return 0, err
	}
	var err error
	if !m.released {
		err = sendRelease(m.ch.status)
	}
	if m.sole { // while the sandbox is set up
		closeInherited(m.plan.Bwrap.StatusFD)
		giveUp()
	}
	entry.EndAhead() // not before, since the sandbox waits for the release
	if err == nil {
		err = m.answer()
	}
	if err != nil {
		m.waitGone()
		return 0, err
	}
	// This process sleeps until the command has ended. Only then it reads whether the command was executed at all.
	status, err := m.await()
	if failure := m.report(); failure != nil {
		m.waitGone()
		return 0, failure
	}
	if err == nil && m.witnessed {
		_, err = unix.Write(*m.plan.Bwrap.StatusFD, []byte(fmt.Sprintf("{ \"exit-code\": %d }\n", exitCode(status))))
		if err != nil {
			err = &Error{Stage: "info", Op: "write", Err: err}
		}
	}
	return status, err
}

// answer lets the command begin once the sandbox has requested that: see stage Report of package verify. If the sandbox has ended, its report has the
// reason.
func (m *monitor) answer() error {
	for m.until(m.ch.status, unix.POLLIN) {
		if _, err := unix.Read(m.ch.status, make([]byte, 1)); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return sendRelease(m.ch.status)
}

// report returns the error of the start, if the command was not executed. It waits until that is known.
func (m *monitor) report() error {
	var printed []byte
	buf := make([]byte, sys.FailureSize+1)
	for m.until(m.ch.report, unix.POLLIN) {
		n, err := unix.Read(m.ch.report, buf)
		printed = append(printed, buf[:max(n, 0)]...)
		if err != nil && !errors.Is(err, unix.EINTR) || err == nil && n == 0 {
			break
		}
	}
	if len(printed) == 1 || len(printed) == 1+sys.FailureSize {
		m.witnessed, printed = printed[0] == stages.Witness, printed[1:]
	}
	if f, ok := sys.ParseFailure(printed); ok {
		return m.failed(f)
	}
	return nil
}

// until waits until fd is ready, and reports whether it became so. If the process that started this one ends meanwhile, until kills the
// sandbox, and also this process if it exists only for the sandbox.
func (m *monitor) until(fd int, events int16) bool {
	m.came, m.next.fd, m.next.events = false, fd, events
	_ = loop(nil, m.orphan, m.next)
	return m.came
}

// orphaned ends what --die-with-parent ends, when the process that started this one has ended.
func (m *monitor) orphaned() {
	m.kill()
	if m.sole {
		_ = unix.Kill(unix.Getpid(), unix.SIGKILL)
	}
}

// failed returns the error of a failure that the sandbox has reported.
func (m *monitor) failed(f sys.Failure) error {
	return m.lowered.Program.Failed(f)
}

// await returns how the command ended: from the waiter's report, or from the first process if there is no report.
func (m *monitor) await() (end unix.WaitStatus, err error) {
	m.end.fd = m.pidfd
	if !m.plan.Bwrap.Waiter { // nobody reports, and the socket ends when the command is executed
		m.status.fd = -1
	}
	if failed := loop(nil, m.status, m.orphan, m.end); failed != nil { // status first: the end of the process must not hide the report
		return 0, &Error{Stage: "wait", Err: failed}
	}
	return m.result, m.failure
}

// readStatus reads the waiter's report, and reports whether the end of the first process is still to be waited for.
func (m *monitor) readStatus() bool {
	buf := make([]byte, sys.ExitSize+1)
	n, _ := unix.Read(m.status.fd, buf)
	if e, ok := sys.ParseExit(buf[:max(n, 0)]); ok {
		m.result = unix.WaitStatus(e.Status)
		return false
	}
	if f, ok := sys.ParseFailure(buf[:max(n, 0)]); ok {
		m.failure = m.failed(f)
		return false
	}
	m.status.fd = -1
	return true
}

// reap waits for the first process.
func (m *monitor) reap() (status unix.WaitStatus, err error) {
	for {
		_, err = unix.Wait4(m.pid, &status, 0, nil)
		if !errors.Is(err, unix.EINTR) {
			return status, err
		}
	}
}

// waitGone ends a sandbox that could not be started.
func (m *monitor) waitGone() {
	m.kill()
	_, _ = m.reap()
}

// exitCode returns the exit code that a shell gives a wait status.
func exitCode(status unix.WaitStatus) int {
	switch {
	case status.Exited():
		return status.ExitStatus()
	case status.Signaled():
		return 128 + int(status.Signal())
	}
	return 255
}

// reportedNamespaces are the namespaces whose numbers inform writes, in bubblewrap's order: bubblewrap's name, the file in /proc/PID/ns,
// the plan's name.
var reportedNamespaces = []struct{ name, file, ns string }{
	{"cgroup", "cgroup", plan.Cgroup}, {"ipc", "ipc", plan.Ipc}, {"mnt", "mnt", plan.Mount},
	{"net", "net", plan.Net}, {"pid", "pid", plan.Pid}, {"uts", "uts", plan.Uts},
}

// inform writes the documents of --info-fd and --json-status-fd, and waits for the process that writes the id maps (--userns-block-fd).
func (m *monitor) inform() error {
	b := m.plan.Bwrap
	if b.InfoFD != nil || b.StatusFD != nil {
		members := []string{fmt.Sprintf("\"child-pid\": %d", m.pid)}
		for _, r := range reportedNamespaces {
			var st unix.Stat_t
			if slices.Contains(m.plan.Namespaces, r.ns) && unix.Stat(fmt.Sprintf("/proc/%d/ns/%s", m.pid, r.file), &st) == nil {
				members = append(members, fmt.Sprintf("\"%s-namespace\": %d", r.name, st.Ino))
			}
		}
		if err := m.writeDocument(b.InfoFD, "{\n    "+strings.Join(members, ",\n    ")+"\n}\n"); err != nil {
			return err
		}
		if b.InfoFD != nil {
			unix.Close(*b.InfoFD)
		}
		if err := m.writeDocument(b.StatusFD, "{ "+strings.Join(members, ", ")+" }\n"); err != nil {
			return err
		}
	}
	if b.UsernsBlockFD != nil {
		for m.until(*b.UsernsBlockFD, unix.POLLIN) {
			if _, err := unix.Read(*b.UsernsBlockFD, make([]byte, 1)); !errors.Is(err, unix.EINTR) {
				break
			}
		}
	}
	return nil
}

// writeDocument writes a whole document to one of the caller's descriptors. It waits only between writes: a document is shorter than a pipe
// that is ready can take.
func (m *monitor) writeDocument(fd *int, document string) error {
	if fd == nil {
		return nil
	}
	err := error(unix.EBADF)
	if sys.Inherited(*fd) {
		for rest := []byte(document); len(rest) > 0 && m.until(*fd, unix.POLLOUT); {
			var n int
			if n, err = unix.Write(*fd, rest); err != nil && !errors.Is(err, unix.EINTR) {
				break
			}
			rest = rest[max(n, 0):]
		}
	}
	if err != nil {
		return &Error{Stage: "info", Op: "write", Err: err}
	}
	return nil
}

// closeInherited closes the caller's descriptors, which the command has now. The reader of a pipe waits until every process has closed the
// pipe's write end.
func closeInherited(keep *int) {
	var room [64]int // on the stack: see package sys
	open, err := sys.OpenFDs(room[:0])
	if err != nil {
		return
	}
	for _, fd := range open {
		if fd > 2 && (keep == nil || fd != *keep) && sys.Inherited(fd) {
			unix.Close(fd)
		}
	}
}

// perThreadSignal is what syscall.AllThreadsSyscall sends each thread (Go's runtime/os_linux.go, sigPerThreadSyscall).
const perThreadSignal = unix.Signal(33)

// defaultSignals restores the actions of the signals that Go's runtime handles, so that they end this process at once, without a message, or
// are ignored as its caller wants it. SIGURG, which Go sends its threads, does neither by default. For SIGCHLD see settle.
//
// Go's runtime keeps perThreadSignal: callers that start programs by glibc's posix_spawn(3) have it ignored, and giveUp would wait for ever.
func defaultSignals() {
	ignored := entry.Ignored()
	for _, sig := range []unix.Signal{unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGVTALRM, unix.SIGXCPU, unix.SIGXFSZ,
		unix.SIGIO, unix.SIGPWR, unix.SIGSTKFLT, unix.SIGSYS, unix.SIGABRT, unix.SIGPIPE, unix.SIGSEGV, unix.SIGBUS, unix.SIGILL, unix.SIGFPE, unix.SIGTRAP} {
		if ignored>>(sig-1)&1 == 0 {
			sys.SetAction(sig, false)
		}
	}
	for _, sig := range stages.IgnoredSignals() {
		if sig != perThreadSignal {
			sys.SetAction(sig, true)
		}
	}
}
