package backend

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nsrun/nsrun/internal/denial"
	"github.com/nsrun/nsrun/internal/netmessage"
	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/sys/entry"
	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/result"
	"github.com/nsrun/nsrun/rlimit/cgroup"
	"golang.org/x/sys/unix"
)

// Options are the parameters of a run beside its plan.
type Options struct {
	// Signals, if not 0, is the pipe of [sys.SignalPipe], whose signals are passed on to the command: see [Run].
	Signals int
	// Cancel, when closed, ends the run at once.
	Cancel <-chan struct{}
	// DieWithParent ends the run when the process that started this one has ended.
	DieWithParent bool
	// Verify has the sandbox's program checked before it runs. A plan with a self-test is always checked.
	Verify bool
	// Terminal is this process's side of the command's terminal; used when the plan has one.
	Terminal *Terminal
	// Protected lists files of the host, by real path, that no mount of the plan may make writable.
	Protected []string
	// Home is the caller's home directory, for a plan that explains: keys lie below it.
	Home string
	// Helper is the file of the network helper, for a plan with an allow-list: see [HelperName].
	Helper string
	// Network is for a plan with an allow-list.
	Network NetworkOptions
	// Sole means that this process exists only for this run, and no goroutine of it is locked to a thread, so that no thread of it ends. With
	// plan.Bwrap it also gives up its capabilities, the descriptors that its caller has left open, and Go's handlers of signals.
	Sole bool
	// Brief means that nobody reads the receipt of the result: of what was in force it then has the backend and the notes alone.
	Brief bool
	// Inject may change the program before it runs. Tests inject faults by it.
	Inject func(*sys.Program)
	seam   seam
}

// seam replaces parts of a run in tests of this package. Otherwise it is empty.
type seam struct {
	target *stages.SelfTestTarget                    // the test closes it
	lower  func(stages.FDs) (*stages.Lowered, error) // replaces Lower, for a test that lowers once and runs the program many times
}

// Outcome is how a run ended.
type Outcome struct {
	Started  time.Time
	Wall     time.Duration
	Status   unix.WaitStatus // of the command
	Usage    unix.Rusage     // of the command and the processes it waited for
	Full     bool            // next to no room was left in the root's file system
	HomeFull bool            // likewise, in plan.BoundedHome
	TimedOut bool
	Killed   unix.Signal // the signal to this process that ended the command or led to the kill; 0 if none did
	Resolved []mounts.Resolved
	Rules    []landlock.PathRule // the rules that Landlock enforced
	Tried    []plan.Act          // by the self-test
	Losses   []plan.Note         // the parts of the plan that the backend could not carry out
	Evidence cgroup.Evidence     // of the sandbox's cgroup
	Output   [2]Passed           // of standard output and error
	Denials  []result.Denial     // what was refused, if the plan explains
	Explain  *result.Explained   // how that was found out
	Net      *netmessage.Summary // what was reached and refused, by the network allow

	begun bool // the sandbox has reported the command's pidfd
}

// Run starts the plan's command and waits until no process of the sandbox is alive. It forks this process, so this should be a small
// process of a single purpose, like the nsrun command.
//
// An error means that the command did not run: an [*Error] with the step that failed. SIGINT, SIGQUIT, SIGHUP and SIGWINCH go to the
// command's process group, as a terminal would send them, other signals to the command alone. After SIGTERM or SIGINT, or when the plan's
// time is up, the command has the plan's grace to end; then, or at a second SIGINT, the whole sandbox is killed.
//
// A plan with plan.Bwrap runs by bubblewrap's rules: Run passes no signal on, and returns when the command has ended, even if processes
// that the command has started go on.
func Run(p *plan.Plan, opts Options) (out Outcome, err error) {
	if p.Bwrap != nil {
		return runCompat(p, opts)
	}
	switch p.Backend {
	case plan.BackendNative, plan.BackendLandlock, plan.BackendNone:
	case plan.BackendBwrap, plan.BackendDocker:
		entry.EndAhead() // another program makes the sandbox: the processes ahead would wait until that ends
		run := runBwrap
		if p.Backend == plan.BackendDocker {
			run = runDocker
		}
		if out, err = run(p, opts); opts.Verify {
			out.Losses = append(out.Losses, plan.Note{Feature: "verify", Loss: "another program makes this sandbox, whose system calls nsrun cannot check", Fix: "use --backend native"})
		}
		return out, err
	default:
		return Outcome{}, &Error{Stage: "backend", Op: p.Backend, Err: errors.ErrUnsupported}
	}
	// The kernel kills the sandbox when the thread that forked it ends (prctl(2), PR_SET_PDEATHSIG), so this one must not.
	defer lockThread(opts)()
	check := checkHost
	if p.Bare() { // a subreaper writes no id maps, so it needs no /proc
		check = checkDescriptors
	}
	if err := check(); err != nil {
		return Outcome{}, err
	}
	w := &waiting{opts: opts, parent: -1}
	if opts.DieWithParent {
		if w.parent, err = parent(); err != nil {
			return Outcome{}, err
		}
		defer unix.Close(w.parent)
	}
	served, err := startHelper(p, opts.Helper, opts.Network) // beside all that follows
	defer served.finish()
	if err != nil {
		entry.EndAhead()
		return Outcome{}, err
	}
	group, err := makeGroup(p, w.stop)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { err = endGroup(group, &out, err) }()
	s, err := prepare(p, opts, group)
	defer s.close()
	if err != nil {
		entry.EndAhead()
		return Outcome{}, err
	}
	r := &run{plan: p, opts: opts, lowered: s.lowered, parent: w.parent, before: w.early, command: -1, ch: s.ch, pumps: s.pumps, helper: served}
	r.listen()
	if opts.Sole {
		settle()
	}
	s.lowered.Program.Ahead, s.lowered.Program.Meanwhile = true, func() { r.broken = s.addLater(p, opts) }
	started := time.Now()
	r.pid, r.pidfd, err = s.lowered.Program.ForkInto(bornIn(p, group), s.lowered.Flags, s.ch.childReport)
	s.closeChild()
	if err != nil {
		return Outcome{}, explain(&Error{Stage: "namespaces", Op: "clone", Err: err}, p)
	}
	entry.EndAhead()
	defer r.close()
	if r.broken != nil {
		r.kill()
	}
	out, err = r.finish()
	if p.Explain != nil {
		out.Denials, out.Explain = r.explained()
	}
	if out.Net = served.finish(); served != nil {
		out.Losses = append(out.Losses, helperNote(served)...)
	}
	out.Output, out.Losses = s.pumps.passed(), append(out.Losses, s.pumps.notes()...)
	out.Started, out.Wall, out.Resolved = started, time.Since(started), s.lowered.Resolved
	out.Rules, out.Tried = s.lowered.Rules, stages.Tried(p, s.target)
	return out, err
}

// run is one sandbox from the fork to the end of its last process. The goroutine that forked serves channels, clocks and
// signals.
type run struct {
	plan     *plan.Plan
	opts     Options
	lowered  *stages.Lowered
	ch       *channels
	pumps    *pumps
	pid      int
	pidfd    int
	parent   int           // pidfd of the process that started this one, or -1; close leaves it open
	orphaned bool          // that process has ended
	before   []unix.Signal // signals that came before there was a sandbox
	failure  *sys.Failure
	released bool  // the command was allowed to begin
	broken   error // why this process cannot communicate with the sandbox any more
	exit     *sys.Exit

	sources []*source // of wait; made by listen
	report  *source   // one of them; its fd is -1 once it has been read

	deadline time.Time // when the plan's time is up

	watch *denial.Watch // of the command's listener; nil until it has come

	helper   *helper   // serves the network; nil if it needs none
	helping  *source   // of wait
	helperBy time.Time // when it has to be ready; zero before it has the sockets, and once it is ready or has failed
	reported bool      // pid 1 has said that the caller's end will end it

	mu      sync.Mutex
	command int       // pidfd of the command; -1 until it is known
	early   []pending // signals that came before command was known
	out     Outcome
	asked   bool // the command was sent a signal to end
	killed  bool // kill was called
	ended   bool // pid 1 was waited for, so its pidfd is useless
}

// close releases the descriptors of a run that has ended, and this process's terminal.
func (r *run) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	unix.Close(r.pidfd)
	if r.command >= 0 {
		unix.Close(r.command)
	}
	if r.opts.Terminal != nil {
		r.opts.Terminal.finish()
	}
}

// finish waits for the end of the sandbox that has been forked.
func (r *run) finish() (Outcome, error) {
	err := r.wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out.begun = r.command >= 0
	return r.out, err
}

// listen makes the sources of wait, before the fork: see settle.
func (r *run) listen() {
	r.report = &source{fd: r.ch.report}
	r.report.ready = func() bool { r.readReport(); r.report.fd = -1; return true }
	status := &source{fd: r.ch.status, ready: func() bool { return r.readStatus() && r.exit == nil }}
	r.sources = append(r.pumps.sources(r.kill), r.report, status, r.orphan(), r.signals())
	if r.helper != nil {
		r.helping = &source{fd: r.helper.socket, ready: r.heard}
		r.sources = append(r.sources, r.helping)
	}
}

// wait serves the channels, the clock and the end of the caller until pid 1 has sent everything, and reaps pid 1. One thread does all of
// it: a second one would cost a start on the way to the command, and a switch on the way back.
func (r *run) wait() error {
	if r.opts.Cancel != nil {
		done := make(chan struct{})
		defer close(done)
		go r.killOn(r.opts.Cancel, done)
	}
	for _, sig := range r.before {
		r.forward(sig)
	}
	if r.plan.Bare() { // a subreaper requests no death signal and no answer: it watches for the end of the socket
		r.release()
	}
	if r.plan.Timeout > 0 {
		r.deadline = time.Now().Add(time.Duration(r.plan.Timeout))
	}
	if err := loop(r.clock, r.sources...); err != nil {
		r.breaks(broken("poll", err, r.released))
		return r.reap()
	}
	if r.report.fd >= 0 {
		r.readReport()
	}
	err := r.reap()
	if r.plan.Backend == plan.BackendNone {
		r.pumps.stopBehind()
	}
	if !r.pumps.rest(r.deadline, r.unwanted, r.signals()) && r.deadline.Before(time.Now()) && !r.deadline.IsZero() {
		r.out.TimedOut = true
	}
	return err
}

// serve serves sources, the clock and the end of the caller.
func (r *run) serve(sources ...*source) error {
	return loop(r.clock, append(sources, r.orphan(), r.signals())...)
}

// orphan is the source that ends the run when the process that started this one has ended.
func (r *run) orphan() *source {
	s := &source{fd: r.parent}
	if r.orphaned {
		s.fd = -1
	}
	s.ready = func() bool {
		r.kill()
		s.fd, r.orphaned = -1, true
		return true
	}
	return s
}

// unwanted reports whether the run was ended early: nsrun does not wait for the rest of the output then.
func (r *run) unwanted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.killed || r.out.TimedOut
}

// readReport reads the report channel: a failure of the set-up, or its end, which means that exec happened.
func (r *run) readReport() {
	buf := make([]byte, sys.FailureSize)
	n, _ := sys.Read(r.ch.report, buf)
	if f, ok := sys.ParseFailure(buf[:max(n, 0)]); ok {
		failure := f // the heap is for a failure alone: see settle
		r.failure = &failure
	}
}

// release lets the command's process go on, or ends the sandbox if the message cannot be sent: see [sendRelease]. With a helper it does so when that is
// ready, and in a sandbox that is broken not at all.
func (r *run) release() {
	if r.reported = true; r.helper != nil && !r.helper.ready || r.broken != nil { // pid 1 may have reported before it was killed
		return
	}
	if err := sendRelease(r.ch.status); err != nil {
		r.breaks(err)
		return
	}
	r.released = true
}

// breaks ends the sandbox because of an error in the communication with it.
func (r *run) breaks(err error) {
	r.broken = err
	r.kill()
}

// readStatus reads one message from pid 1, and reports whether more may come.
func (r *run) readStatus() bool {
	var room [32]byte // for one descriptor: on the stack, see settle
	buf, oob := make([]byte, sys.ExitSize+1), room[:unix.CmsgSpace(4)]
	n, oobn, err := sys.Recvmsg(r.ch.status, buf, oob, unix.MSG_CMSG_CLOEXEC)
	if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNRESET) { // it comes once: see takeMessage
		return true
	}
	if err != nil {
		r.breaks(broken("receive", err, r.released))
	}
	if err != nil || n == 0 {
		return false
	}
	if fd, ok := passedFD(oob[:oobn]); ok {
		r.passed(buf[0], fd)
	} else if n == 1 && buf[0] == stages.Reported {
		r.release()
	} else if e, ok := sys.ParseExit(buf[:n]); ok {
		exit := e
		r.exit = &exit
		r.helper.leave() // the end of pid 1 kills the other processes
	}
	return true
}

// passedFD returns the one descriptor that a message carries: cmsg(3).
func passedFD(oob []byte) (int, bool) {
	const head, fdSize = unix.SizeofCmsghdr, 4 // struct cmsghdr: a length of 8 bytes, a level, a type; then the descriptor
	if len(oob) < head+fdSize {
		return 0, false
	}
	size, level, kind := binary.NativeEndian.Uint64(oob), binary.NativeEndian.Uint32(oob[8:]), binary.NativeEndian.Uint32(oob[12:])
	return int(int32(binary.NativeEndian.Uint32(oob[head:]))), size == head+fdSize && level == unix.SOL_SOCKET && kind == unix.SCM_RIGHTS
}

// passed takes a descriptor that pid 1 sent: the command's pidfd (P), whose early signals it then delivers, or the terminal's master (T).
func (r *run) passed(kind byte, fd int) {
	if socket, ok := stages.NetSocket(kind); ok && r.helper != nil && !r.helper.served {
		if err := r.helper.take(socket, fd); err != nil {
			r.breaks(err)
		} else if r.helper.served {
			r.helperBy = time.Now().Add(r.helperTime())
		}
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case kind == 'P':
		r.command = fd
		for _, p := range r.early {
			r.deliver(p)
		}
		r.early = nil
	case kind == stages.Listener && r.plan.Explain != nil && r.watch == nil:
		r.explain(fd, r.lowered.Rules)
	case kind == 'T' && r.opts.Terminal != nil:
		r.opts.Terminal.attach(fd)
	default:
		unix.Close(fd)
	}
}

// killOn kills the sandbox when cancel is closed before done.
func (r *run) killOn(cancel, done <-chan struct{}) {
	select {
	case <-cancel:
		r.kill()
	case <-done:
	}
}

// clock calls timeUp, and returns the time that is left until the next deadline.
func (r *run) clock(bool) (time.Duration, bool) {
	r.helperLate() // first: a command that has not begun is not out of time
	r.timeUp()
	next := r.deadline
	if !r.helperBy.IsZero() && (next.IsZero() || r.helperBy.Before(next)) {
		next = r.helperBy
	}
	if next.IsZero() {
		return -1, true
	}
	return max(time.Until(next), 0), true
}

// timeUp requests the command's end when the plan's time is up.
func (r *run) timeUp() {
	if r.deadline.IsZero() || time.Now().Before(r.deadline) {
		return
	}
	r.deadline = time.Time{} // once; the grace that follows has a timer of its own: see end
	r.mu.Lock()
	r.out.TimedOut = true
	r.mu.Unlock()
	r.end(unix.SIGTERM, true)
}

// reap waits for pid 1, which ends after all other processes of its pid namespace (pid_namespaces(7)), and returns how the run ended.
func (r *run) reap() error {
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(r.pid, &status, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			r.kill()
			return broken("end", err, r.released)
		}
		break
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	switch {
	case r.killed && r.broken == nil && r.exit == nil: // a step that failed because of the kill is no error of the run
		r.out.Status = unix.WaitStatus(unix.SIGKILL)
		return nil
	case r.failure != nil && (r.broken == nil || r.released): // whatever else happened, the command has not run
		return r.explainFailure()
	case r.broken != nil:
		return r.broken
	case r.exit != nil:
		r.endedBy(unix.WaitStatus(r.exit.Status)) // TimedOut stays as it is
		r.out.Status, r.out.Usage = unix.WaitStatus(r.exit.Status), r.exit.Usage
		r.out.Full, r.out.HomeFull = r.exit.Full(), r.exit.PlaceFull()
		return nil
	case status.Signaled(): // another process killed pid 1
		r.out.Status = status
		return nil
	}
	return broken("end", fmt.Errorf("pid 1 ended with status %d and reported nothing", status.ExitStatus()), r.released)
}
