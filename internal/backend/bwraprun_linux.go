package backend

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// bwrapRun is one run of a real bubblewrap.
type bwrapRun struct {
	run
	stderr  *os.File // bubblewrap's
	channel int
	failed  *Error
	rules   []landlock.PathRule // Landlock's
}

// runBwrap runs a plan with the backend bwrap. The command's status is that of bubblewrap, which turns a signal n into 128+n.
func runBwrap(p *plan.Plan, opts Options) (Outcome, error) {
	if err := checkHost(); err != nil {
		return Outcome{}, err
	}
	name, err := FindBwrap()
	if err != nil {
		return Outcome{}, &Error{Stage: "bwrap", Op: "find", Err: err, Hint: "install bubblewrap, or use --backend native"}
	}
	target, err := stages.NewSelfTestTarget(p)
	if err != nil {
		return Outcome{}, &Error{Stage: stages.SelfTestStage, Err: err}
	}
	defer target.Close()
	call, err := RenderBwrap(p, target)
	if err != nil {
		return Outcome{}, err
	}
	if err := protect(p, call.Resolved, opts.Protected); err != nil {
		return Outcome{}, err
	}
	o := &bwrapRun{channel: -1, rules: call.Rules, run: run{plan: p, opts: opts, pidfd: -1, parent: -1, command: -1}}
	defer o.close()
	undo, err := adoptOrphans()
	if err != nil {
		return Outcome{}, &Error{Stage: "bwrap", Op: "adopt orphans", Err: err}
	}
	defer undo()
	started := time.Now()
	if err := o.start(name, call); err != nil {
		return Outcome{}, err
	}
	err = o.supervise()
	out := o.out
	out.Started, out.Wall, out.Resolved, out.Losses = started, time.Since(started), call.Resolved, call.Losses
	out.Rules, out.Tried = call.Rules, triedRemotely(p, target)
	if p.Explain != nil {
		out.Denials, out.Explain = o.explained()
	}
	return out, err
}

// close releases the descriptors of a run.
func (o *bwrapRun) close() {
	o.run.close() // before the channels: kill uses them until then
	o.stderr.Close()
	if o.ch != nil {
		o.ch.close()
	}
	closeEach(&o.channel, &o.parent)
}

// start starts the watchdog, which starts bubblewrap with its descriptors in their places.
func (o *bwrapRun) start(name string, call *BwrapCall) (err error) {
	files, err := o.files(call)
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	var theirs []int
	if err == nil {
		theirs, err = o.connect(files)
	}
	if err != nil {
		return &Error{Stage: "channels", Err: err}
	}
	o.lowered, err = stages.LowerWatchdog(o.plan, stages.FDs{Report: o.ch.childReport, Status: o.ch.childStatus}, stages.BwrapStart{Name: name, Args: call.Args, Files: theirs})
	if err != nil {
		return wrapLowering(err, o.plan)
	}
	if o.opts.Inject != nil {
		o.opts.Inject(o.lowered.Program)
	}
	o.pid, o.pidfd, err = o.lowered.Program.Fork(0, o.ch.childReport)
	o.ch.closeChild()
	if err != nil {
		return &Error{Stage: "bwrap", Op: "fork", Err: err}
	}
	return nil
}

// connect opens the channels to the watchdog. It moves files and the report channel to numbers above those that files get in bubblewrap, so
// that the watchdog's dup3 calls overwrite none of them too early.
func (o *bwrapRun) connect(files []*os.File) (theirs []int, err error) {
	if o.ch, err = openChannels(); err != nil {
		return nil, err
	}
	beyond := 2 + len(files)
	for i := range files {
		if files[i], err = moved(files[i], beyond); err != nil {
			return nil, err
		}
		theirs = append(theirs, int(files[i].Fd()))
	}
	report, err := unix.FcntlInt(uintptr(o.ch.childReport), unix.F_DUPFD_CLOEXEC, beyond)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	unix.Close(o.ch.childReport)
	o.ch.childReport = report
	return theirs, nil
}

// moved returns f under a descriptor of at least the given number, and closes the old one. If that fails, it returns f itself.
func moved(f *os.File, least int) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, least) // Fd makes a pipe's end block, as bubblewrap expects it
	if err != nil {
		return f, os.NewSyscallError("fcntl", err)
	}
	f.Close()
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// files makes bubblewrap's descriptors from 2 on, and this process's ends of them. If it fails, it returns those that it has made.
func (o *bwrapRun) files(call *BwrapCall) (files []*os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	o.channel = pair[0]
	channel := os.NewFile(uintptr(pair[1]), "channel")
	if err := unix.SetsockoptInt(o.channel, unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		return []*os.File{channel}, os.NewSyscallError("setsockopt", err)
	}
	theirStderr, err1 := (*os.File)(nil), error(nil)
	o.stderr, theirStderr, err1 = os.Pipe()
	request, err2 := sys.MemoryFile(call.Request)
	stderr, err3 := duplicate(2)
	files = []*os.File{theirStderr, channel, request, stderr} // in the order of bwrapChannel and the constants after it
	err = errors.Join(err1, err2, err3)
	for _, b := range call.Data {
		if err != nil {
			break
		}
		var f *os.File
		f, err = sys.MemoryFile(b.Data)
		files = append(files, f)
	}
	return files, err
}

// duplicate returns a close-on-exec copy of fd with a number from 3 on.
func duplicate(fd int) (*os.File, error) {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(n), "duplicate"), nil
}

// supervise waits for the message of the exec stages, and then until every process of the sandbox has ended.
func (o *bwrapRun) supervise() (err error) {
	if o.opts.DieWithParent {
		if o.parent, err = parent(); err != nil {
			o.kill()
			_, _ = o.gone()
			return err
		}
	}
	done := make(chan struct{})
	defer close(done)
	if o.opts.Cancel != nil {
		go o.killOn(o.opts.Cancel, done)
	}
	if o.plan.Timeout > 0 {
		o.deadline = time.Now().Add(time.Duration(o.plan.Timeout))
	}
	arrived := o.arrive()
	if arrived {
		if err := sendRelease(o.channel); err != nil {
			o.breaks(err)
		} else {
			o.released = true
			o.receiveFailure()
		}
	}
	o.untilEnd()
	watchdog, err := o.gone()
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.failed != nil:
		return explain(o.failed, o.plan)
	case o.killed && o.broken == nil && o.exit == nil: // a step that failed because of the kill is no error of the run
		o.out.Status = unix.WaitStatus(unix.SIGKILL)
		return nil
	case o.failure != nil && (o.broken == nil || o.released): // as in [run.reap]
		return o.explainFailure()
	case o.broken != nil:
		return o.broken
	case err != nil:
		return broken("end", err, o.released)
	}
	o.out.Status = watchdog // killed, by nsrun or by another process
	if o.exit != nil {
		o.out.Status, o.out.Usage = unix.WaitStatus(o.exit.Status), o.exit.Usage
	}
	if status := o.out.Status; !arrived && !o.asked {
		return o.explainBwrap(status)
	} else if arrived && status.Exited() && status.ExitStatus() != 128+int(o.out.Killed) { // bubblewrap reports a signal as 128+n
		o.out.Killed = 0
	}
	return nil
}

// arrive waits for the message of the process that runs the exec stages and becomes the command, and reports whether it came.
func (o *bwrapRun) arrive() bool {
	buf, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	for o.until(o.channel) {
		n, oobn, _, _, err := unix.Recvmsg(o.channel, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil && !errors.Is(err, unix.ECONNRESET) {
			o.breaks(broken("receive", err, false))
		}
		if err != nil || n == 0 {
			return false
		}
		messages, _ := unix.ParseSocketControlMessage(oob[:oobn])
		for i := range messages {
			cred, err := unix.ParseUnixCredentials(&messages[i])
			if err != nil {
				continue
			}
			if fd, err := unix.PidfdOpen(int(cred.Pid), 0); err == nil {
				o.passed('P', fd)
			}
		}
		return true
	}
	return false
}

// receiveFailure waits for a failure from the exec stages, or for the end of the channel, which means that the command is executed.
func (o *bwrapRun) receiveFailure() {
	buf, oob := make([]byte, 1<<14), make([]byte, unix.CmsgSpace(unix.SizeofUcred)+unix.CmsgSpace(4))
	for o.until(o.channel) {
		n, oobn, _, _, err := unix.Recvmsg(o.channel, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil && n == 1 && buf[0] == stages.Listener {
			if listener := passedIn(oob[:oobn]); listener >= 0 && o.plan.Explain != nil && o.watch == nil {
				o.explain(listener, o.rules)
			}
			continue
		}
		f := new(Error)
		switch {
		case err != nil && !errors.Is(err, unix.ECONNRESET): // ECONNRESET is an end, too
			o.breaks(broken("receive", err, true))
		case n > 0 && json.Unmarshal(buf[:n], f) == nil:
			o.failed = f
		}
		return
	}
}

// passedIn is the descriptor that has come with a message, or -1.
func passedIn(oob []byte) int {
	messages, _ := unix.ParseSocketControlMessage(oob)
	for i := range messages {
		if fds, err := unix.ParseUnixRights(&messages[i]); err == nil && len(fds) == 1 {
			return fds[0]
		}
	}
	return -1
}

// untilEnd waits until the watchdog has ended. It ends when bubblewrap does.
func (o *bwrapRun) untilEnd() { o.until(-1) }

// until waits until fd is ready, and serves the clock and the end of the caller meanwhile. It returns false if the watchdog has ended and
// fd was not ready.
func (o *bwrapRun) until(fd int) bool {
	came := false
	if err := o.serve(once(fd, func() { came = true }), once(o.pidfd, func() {})); err != nil {
		o.breaks(broken("poll", err, o.released))
	}
	return came
}

// explainBwrap returns an error with the message that bubblewrap has printed.
func (o *bwrapRun) explainBwrap(status unix.WaitStatus) error {
	printed, _ := io.ReadAll(io.LimitReader(o.stderr, 1<<14))
	text := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(string(printed)), "bwrap: "))
	if text == "" {
		text = fmt.Sprintf("it ended with status %d and reported nothing", exitCode(status))
	}
	return &Error{Stage: "bwrap", Err: errors.New(text), Hint: "run nsrun doctor, or use --backend native"}
}

// ExecStages is the part of nsrun's binary that runs inside a bubblewrap: it reads a request from one descriptor, reports over another, and
// becomes the command. It returns only if that fails.
func ExecStages(channel, requestFD, stderrFD int) error {
	runtime.LockOSThread() // the thread that is confined is the one that executes
	file := os.NewFile(uintptr(requestFD), "request")
	var o RemoteRequest
	err := json.NewDecoder(bufio.NewReader(file)).Decode(&o)
	if err == nil {
		err = unix.Dup3(stderrFD, 2, 0)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(channel), unix.F_SETFD, unix.FD_CLOEXEC)
	}
	if err != nil {
		return err
	}
	file.Close()
	closeInherited(nil)
	if err := unix.Send(channel, []byte{'P'}, unix.MSG_NOSIGNAL); err != nil {
		return err
	}
	if n, err := unix.Read(channel, make([]byte, 1)); err != nil || n != 1 {
		return errors.Join(errors.New("the process that started this one has ended"), err)
	}
	if f := o.checkLocations(); f != nil {
		return send(f, channel)
	}
	l := stages.New(remotePlan(&o), nil, stages.FDs{Status: channel, Target: o.Target}, false)
	defer l.Close()
	if err = l.ReportTests(); err == nil {
		err = l.Append(verify.Confinement[:], verify.Remote)
	}
	if err == nil {
		err = l.Failure(l.Program.Run())
	}
	if step := (*Error)(nil); errors.As(err, &step) {
		return send(step, channel)
	}
	return err
}

// triedRemotely returns the acts that the self-test tries in another program's pid namespace.
func triedRemotely(p *plan.Plan, c *stages.SelfTestTarget) []plan.Act {
	return stages.Tried(&plan.Plan{SelfTest: p.SelfTest, Namespaces: []string{plan.Pid}}, c)
}

// remotePlan returns a plan with the parts that the exec stages use.
func remotePlan(o *RemoteRequest) *plan.Plan {
	return &plan.Plan{Mounts: []mounts.Op{{Kind: mounts.Dev, Dest: o.Dev}}, // for the stage OwnNull
		Namespaces: []string{plan.Pid}, Command: o.Command, Env: o.Env, Dir: o.Dir, Limits: o.Limits, SoftCaps: o.SoftCaps, Landlock: o.Landlock, Seccomp: o.Seccomp, Explain: o.Explain, SelfTest: o.SelfTest}
}

// send sends an error to the other end of the channel.
func send(f *Error, channel int) error {
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return unix.Send(channel, data, unix.MSG_NOSIGNAL)
}
