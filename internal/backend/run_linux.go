package backend

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/rlimit/cgroup"
	"golang.org/x/sys/unix"
)

// Options is what a run needs beside its plan.
type Options struct {
	// Signals, if not nil, is called while the sandbox is made, and the command waits for it to return. It returns a channel that was
	// given to signal.Notify; what comes over it is passed on to the command: see [Run].
	Signals func() <-chan os.Signal
	// Cancel, when closed, ends the run at once.
	Cancel <-chan struct{}
	// DieWithParent ends the run when the process that started this one has ended.
	DieWithParent bool
	// Verify has the sandbox's program checked before it runs; where there is a self-test it always is.
	Verify bool
	// Terminal is this process's side of the command's terminal; used when the plan has one.
	Terminal *Terminal
	// Protected lists files of the host, by real path, that no mount of the plan may make writable.
	Protected []string
	// Sole says that a plan with plan.Bwrap is all that this process is for: it gives up its capabilities, the descriptors that its caller
	// has left open, and what Go makes of signals that would end it.
	Sole bool
	// Inject may change the program before it runs: faults for tests.
	Inject func(*sys.Program)
	seam   seam
}

// seam is what a test puts in the place of a run's own. It is empty but in tests of this package.
type seam struct {
	target *SelfTestTarget             // the test closes it
	lower  func(fds) (*Lowered, error) // instead of Lower: a test that runs one program many times lowers it once
}

// Outcome is how a run ended.
type Outcome struct {
	Started  time.Time
	Wall     time.Duration
	Status   unix.WaitStatus // of the command
	Usage    unix.Rusage     // of the command and what it waited for
	TimedOut bool
	Killed   unix.Signal // the signal to this process that ended the command, or led to the kill, if one did
	Resolved []mounts.Resolved
	Rules    []landlock.PathRule // that Landlock enforced
	Tried    []plan.Act          // by the self-test
	Losses   []plan.Note         // what the backend could not carry
	Evidence cgroup.Evidence     // of the sandbox's cgroup
	Output   [2]Passed           // of standard output and error

	begun bool // the command was told to have been executed
}

// Run starts the plan's command and waits until nothing of the sandbox is alive. It forks this process, so this should be a small
// one of a single purpose, like the nsrun command.
//
// An error means that the command did not run: a [*Error] with the step that failed. SIGINT, SIGQUIT, SIGHUP and SIGWINCH go to
// the command's process group, as a terminal would send them, other signals to the command alone. After SIGTERM or SIGINT, or when
// the plan's time is up, the command has the plan's grace to end; then, or at a second SIGINT, the whole sandbox is killed.
//
// A plan with plan.Bwrap is run by bubblewrap's rules: no signal is passed on, and Run returns when the command has ended, whatever it
// has left behind.
func Run(p *plan.Plan, opts Options) (out Outcome, err error) {
	if p.Bwrap != nil {
		return runCompat(p, opts)
	}
	switch p.Backend {
	case plan.BackendNative, plan.BackendLandlock, plan.BackendNone:
	case plan.BackendBwrap, plan.BackendDocker:
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
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	check := checkHost
	if usesSubreaper(p) { // which writes no maps
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
	group, err := makeGroup(p, w.stop)
	if err != nil {
		return Outcome{}, err
	}
	defer func() { err = endGroup(group, &out, err) }()
	s, err := prepare(p, opts, group)
	defer s.close()
	if err != nil {
		return Outcome{}, err
	}
	started := time.Now()
	pid, pidfd, err := s.lowered.Program.ForkInto(bornIn(p, group), s.lowered.Flags, s.ch.childReport)
	s.ch.closeChild()
	if err != nil {
		return Outcome{}, explain(&Error{Stage: "namespaces", Op: "clone", Err: err}, p)
	}
	s.pumps.closeChild()
	r := &run{plan: p, opts: opts, lowered: s.lowered, pid: pid, pidfd: pidfd, parent: w.parent, before: w.early, command: -1, ch: s.ch, pumps: s.pumps}
	defer r.close()
	out, err = r.finish()
	out.Output, out.Losses = s.pumps.passed(), append(out.Losses, s.pumps.notes()...)
	out.Started, out.Wall, out.Resolved = started, time.Since(started), s.lowered.Resolved
	out.Rules, out.Tried = s.lowered.Rules, tried(p, s.target)
	return out, err
}

// prepared is what a run has made before it forks.
type prepared struct {
	ch      *channels
	pumps   *pumps
	own     *SelfTestTarget // to be closed
	target  *SelfTestTarget
	lowered *Lowered
}

// targetFor returns what the plan's self-test tries to reach, and own, which the caller closes if it is not nil.
func (s *seam) targetFor(p *plan.Plan) (target, own *SelfTestTarget, err error) {
	if s.target != nil {
		return s.target, nil, nil
	}
	own, err = newSelfTestTarget(p)
	return own, own, err
}

// lowered lowers a plan by looking at this host.
func (s *seam) lowered(lower func(*plan.Plan, mounts.Resolver, fds, bool) (*Lowered, error), p *plan.Plan, f fds) (*Lowered, error) {
	if s.lower != nil {
		return s.lower(f)
	}
	host := hostFor(p)
	defer host.Close()
	return lower(p, host, f, false)
}

// hostFor returns what looks at the host for a plan. A bubblewrap command line reaches what belongs to the caller by the capabilities of its
// own user namespace; nsrun's sandboxes show what the caller itself may look at.
func hostFor(p *plan.Plan) *mounts.Host {
	return &mounts.Host{Mapped: p.Bwrap != nil && slices.Contains(p.Namespaces, plan.User)}
}

// prepare makes all that can fail without a process. What it has made is to be closed whether it failed or not.
func prepare(p *plan.Plan, opts Options, group *cgroup.Group) (s prepared, err error) {
	if s.ch, err = openChannels(); err != nil {
		return s, &Error{Stage: "channels", Err: err}
	}
	if s.pumps, err = openPumps(p); err != nil {
		return s, &Error{Stage: "channels", Err: err}
	}
	if s.target, s.own, err = opts.seam.targetFor(p); err != nil {
		return s, &Error{Stage: selfTestStage, Err: err}
	}
	var size *unix.Winsize
	if p.Terminal && opts.Terminal != nil {
		size = opts.Terminal.size()
	}
	f := fds{report: s.ch.childReport, status: s.ch.childStatus, target: s.target, group: group, output: s.pumps.child, size: size}
	s.lowered, err = opts.seam.lowered(Lower, p, f)
	if err != nil {
		return s, wrapLowering(err)
	}
	if err := protect(p, s.lowered.Resolved, opts.Protected); err != nil {
		return s, err
	}
	if opts.Verify || len(p.SelfTest) > 0 {
		if err := s.lowered.verified(p, f); err != nil {
			return s, err
		}
	}
	if opts.Inject != nil {
		opts.Inject(s.lowered.Program)
	}
	return s, nil
}

func (s *prepared) close() {
	if s.own != nil {
		s.own.close()
	}
	if s.pumps != nil {
		s.pumps.close()
	}
	if s.ch != nil {
		s.ch.close()
	}
}

// run is one sandbox from fork to the end of its last process. The goroutine that forked serves channels and clocks; another one passes
// signals on.
type run struct {
	plan     *plan.Plan
	opts     Options
	lowered  *Lowered
	ch       *channels
	pumps    *pumps
	pid      int
	pidfd    int
	parent   int           // pidfd of the process that started this one, or -1; not its own
	orphaned bool          // that has ended
	before   []unix.Signal // that came before there was a sandbox
	failure  *sys.Failure
	released bool  // the command has been let go
	broken   error // why the sandbox can be neither heard nor told anything
	exit     *sys.Exit

	deadline time.Time // when the plan's time is up

	mu      sync.Mutex
	command int       // pidfd of the command, once known
	early   []pending // signals that came before it was
	out     Outcome
	asked   bool // the command has been asked to end
	killed  bool // everything has been told to end at once
	ended   bool // pid 1 has been waited for: its pidfd means nothing any more
}

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

// wait serves the channels, the clocks and the caller's end until pid 1 has nothing more to say, and reaps it. One thread does all
// of it: a second one would cost a start on the way to the command, and a switch on the way back.
func (r *run) wait() error {
	done := make(chan struct{})
	defer close(done)
	if r.opts.Cancel != nil {
		go r.killOn(r.opts.Cancel, done)
	}
	for _, sig := range r.before {
		r.forward(sig)
	}
	if r.opts.Signals != nil {
		go r.watch(r.opts.Signals(), done)
	}
	if usesSubreaper(r.plan) { // a subreaper asks for no death signal, and for no answer: it waits for the socket's end
		r.release()
	}
	if r.plan.Timeout > 0 {
		r.deadline = time.Now().Add(time.Duration(r.plan.Timeout))
	}
	report := &source{fd: int(r.ch.report.Fd())}
	report.ready = func() bool { r.readReport(); report.fd = -1; return true }
	status := &source{fd: int(r.ch.status.Fd()), ready: func() bool { return r.readStatus() && r.exit == nil }}
	if err := r.serve(append(r.pumps.sources(r.kill), report, status)...); err != nil {
		r.breaks(broken("poll", err, r.released))
		return r.reap()
	}
	if report.fd >= 0 {
		r.readReport()
	}
	err := r.reap()
	if r.plan.Backend == plan.BackendNone {
		r.pumps.stopBehind()
	}
	if !r.pumps.rest(r.deadline, r.unwanted) && r.deadline.Before(time.Now()) && !r.deadline.IsZero() {
		r.out.TimedOut = true
	}
	return err
}

// serve serves sources, and beside them the clock and the caller's end.
func (r *run) serve(sources ...*source) error { return loop(r.clock, append(sources, r.orphan())...) }

// orphan is the caller's end. It ends the run.
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

// unwanted reports whether the run has been told to end at once: what the command has written last is not waited for then.
func (r *run) unwanted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.killed || r.out.TimedOut
}

// readReport reads what became of the set-up: a failure, or the end that means that exec happened.
func (r *run) readReport() {
	buf := make([]byte, sys.FailureSize)
	n, _ := r.ch.report.Read(buf)
	if f, ok := sys.ParseFailure(buf[:max(n, 0)]); ok {
		r.failure = &f
	}
}

// release lets the process go on that becomes the command, or ends the sandbox if it cannot: see [sendRelease].
func (r *run) release() {
	if err := sendRelease(int(r.ch.status.Fd())); err != nil {
		r.breaks(err)
		return
	}
	r.released = true
}

// breaks ends the sandbox for an error that nothing can be done about.
func (r *run) breaks(err error) {
	r.broken = err
	r.kill()
}

// readStatus reads one message of init's, and says whether there may be more.
func (r *run) readStatus() bool {
	buf, oob := make([]byte, sys.ExitSize+1), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(int(r.ch.status.Fd()), buf, oob, unix.MSG_CMSG_CLOEXEC)
	if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNRESET) { // that comes once: see takeMessage
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
	} else if n == 1 && buf[0] == reported {
		r.release()
	} else if e, ok := sys.ParseExit(buf[:n]); ok {
		r.exit = &e
	}
	return true
}

func passedFD(oob []byte) (int, bool) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 {
		return 0, false
	}
	got, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(got) != 1 {
		return 0, false
	}
	return got[0], true
}

// passed takes a descriptor that init sent.
func (r *run) passed(kind byte, fd int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case kind == 'P':
		r.command = fd
		for _, p := range r.early {
			r.deliver(p)
		}
		r.early = nil
	case kind == 'T' && r.opts.Terminal != nil:
		r.opts.Terminal.attach(fd)
	default:
		unix.Close(fd)
	}
}

func (r *run) killOn(cancel, done <-chan struct{}) {
	select {
	case <-cancel:
		r.kill()
	case <-done:
	}
}

// clock asks the command to end when the plan's time is up, and returns the time until then.
func (r *run) clock(bool) (time.Duration, bool) {
	r.timeUp()
	if r.deadline.IsZero() {
		return -1, true
	}
	return max(time.Until(r.deadline), 0), true
}

// timeUp asks the command to end when the plan's time is up.
func (r *run) timeUp() {
	if r.deadline.IsZero() || time.Now().Before(r.deadline) {
		return
	}
	r.deadline = time.Time{}
	r.mu.Lock()
	r.out.TimedOut = true
	r.mu.Unlock()
	r.end(unix.SIGTERM, true)
}

// reap waits for pid 1, which the kernel ends last of the sandbox's processes, and says how it went.
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
	case r.killed && r.broken == nil && r.exit == nil: // a step that fails of that is no reason
		r.out.Status = unix.WaitStatus(unix.SIGKILL)
		return nil
	case r.failure != nil && (r.broken == nil || r.released): // whatever else came to pass, the command has not run
		return r.explainFailure()
	case r.broken != nil:
		return r.broken
	case r.exit != nil:
		r.endedBy(unix.WaitStatus(r.exit.Status)) // time that was up stays so
		r.out.Status, r.out.Usage = unix.WaitStatus(r.exit.Status), r.exit.Usage
		return nil
	case status.Signaled(): // by someone outside
		r.out.Status = status
		return nil
	}
	return broken("end", fmt.Errorf("pid 1 ended with status %d and reported nothing", status.ExitStatus()), r.released)
}
