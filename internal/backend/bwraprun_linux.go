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

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// bwrapRun is one run under a real bubblewrap.
type bwrapRun struct {
	run
	stderr  *os.File // bubblewrap's
	channel int
	failed  *Error
}

// runBwrap runs a plan whose backend is bubblewrap. How the command ended is told by bubblewrap's exit status, in which a signal is 128+n.
func runBwrap(p *plan.Plan, opts Options) (Outcome, error) {
	if err := checkHost(); err != nil {
		return Outcome{}, err
	}
	name, err := FindBwrap()
	if err != nil {
		return Outcome{}, &Error{Stage: "bwrap", Op: "find", Err: err, Hint: "install bubblewrap, or use --backend native"}
	}
	target, err := newSelfTestTarget(p)
	defer target.close()
	if err != nil {
		return Outcome{}, &Error{Stage: selfTestStage, Err: err}
	}
	call, err := RenderBwrap(p, target)
	if err != nil {
		return Outcome{}, err
	}
	if err := protect(p, call.Resolved, opts.Protected); err != nil {
		return Outcome{}, err
	}
	o := &bwrapRun{channel: -1, run: run{plan: p, opts: opts, pidfd: -1, parent: -1, command: -1}}
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
	return out, err
}

func (o *bwrapRun) close() {
	o.stderr.Close()
	if o.ch != nil {
		o.ch.close()
	}
	for _, fd := range []int{o.channel, o.parent} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	o.run.close()
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
	o.lowered, err = lowerWatchdog(o.plan, fds{report: o.ch.childReport, status: o.ch.childStatus}, bwrapStart{name: name, args: call.Args, files: theirs})
	if err != nil {
		return wrapLowering(err)
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

// connect opens the channels to the watchdog. It moves what the process needs that becomes bubblewrap, files and the report, beyond the places
// that files take in it: none may be overwritten before it is in its place, or has been used.
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

// moved is a file by a descriptor from least on, in the place of the one that it had. It is f itself where that fails.
func moved(f *os.File, least int) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, least) // Fd makes a pipe's end block, as bubblewrap expects it
	if err != nil {
		return f, os.NewSyscallError("fcntl", err)
	}
	f.Close()
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// files makes bubblewrap's descriptors from 2 on, and our ends of them. It returns those that it has made when it fails, too.
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
	files = []*os.File{theirStderr, channel, request, stderr} // as bwrapChannel and its neighbours say
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

func duplicate(fd int) (*os.File, error) {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(n), "duplicate"), nil
}

// supervise waits for the message of the exec stages, then for the end of everything.
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
	if o.opts.Signals != nil {
		go o.watch(o.opts.Signals(), done)
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
	case o.killed && o.broken == nil && o.exit == nil: // a step that fails of that is no reason
		o.out.Status = unix.WaitStatus(unix.SIGKILL)
		return nil
	case o.failure != nil && (o.broken == nil || o.released): // as in [run.reap]
		return o.explainFailure()
	case o.broken != nil:
		return o.broken
	case err != nil:
		return broken("end", err, o.released)
	}
	o.out.Status = watchdog // killed, by us or by someone outside
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

// arrive waits for the process that runs the exec stages and becomes the command, and reports whether it came to that.
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

// receiveFailure waits until the channel ends, which says that the command is executed, or brings a failure.
func (o *bwrapRun) receiveFailure() {
	buf := make([]byte, 1<<14)
	for o.until(o.channel) {
		n, err := unix.Read(o.channel, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		f := new(Error)
		switch {
		case err != nil && !errors.Is(err, unix.ECONNRESET): // which is an end too
			o.breaks(broken("receive", err, true))
		case n > 0 && json.Unmarshal(buf[:n], f) == nil:
			o.failed = f
		}
		return
	}
}

// untilEnd waits until the watchdog has ended, which it does with bubblewrap.
func (o *bwrapRun) untilEnd() { o.until(-1) }

// until waits until something comes over fd, and serves the clock and the caller's end meanwhile. It is false if the watchdog has ended
// and nothing came.
func (o *bwrapRun) until(fd int) bool {
	came := false
	if err := o.serve(once(fd, func() { came = true }), once(o.pidfd, func() {})); err != nil {
		o.breaks(broken("poll", err, o.released))
	}
	return came
}

// explainBwrap makes an error of what bubblewrap has printed before it gave up.
func (o *bwrapRun) explainBwrap(status unix.WaitStatus) error {
	printed, _ := io.ReadAll(io.LimitReader(o.stderr, 1<<14))
	text := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(string(printed)), "bwrap: "))
	if text == "" {
		text = fmt.Sprintf("it ended with status %d and reported nothing", exitCode(status))
	}
	return &Error{Stage: "bwrap", Err: errors.New(text), Hint: "run nsrun doctor, or use --backend native"}
}

// ExecStages is what nsrun's binary does inside a bubblewrap: it reads a request from one descriptor, reports over another, and becomes the
// command. It returns only if that fails.
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
		return errors.Join(errors.New("whoever started this is gone"), err)
	}
	if f := o.checkLocations(); f != nil {
		return send(f, channel)
	}
	l := remoteLowering(&o)
	defer l.closeTest()
	if err := l.openTestReport(); err != nil {
		return err
	}
	if err := l.stages(verify.Confinement[:], verify.Remote); err != nil {
		return err
	}
	return l.reportFailure(channel, l.p.Run())
}

// triedRemotely is what the self-test tries in a pid namespace of another program's.
func triedRemotely(p *plan.Plan, c *SelfTestTarget) []plan.Act {
	return tried(&plan.Plan{SelfTest: p.SelfTest, Namespaces: []string{plan.Pid}}, c)
}

// remoteLowering is the lowering of a request, which has what the exec stages need of a plan.
func remoteLowering(o *RemoteRequest) *lowering {
	p := &plan.Plan{Mounts: []mounts.Op{{Kind: mounts.Dev, Dest: o.Dev}}, // for ownNull
		Namespaces: []string{plan.Pid}, Command: o.Command, Env: o.Env, Dir: o.Dir, Limits: o.Limits, SoftCaps: o.SoftCaps, Landlock: o.Landlock, Seccomp: o.Seccomp, SelfTest: o.SelfTest}
	l := &lowering{p: &sys.Program{}, plan: p, target: o.Target}
	if l.target == nil {
		l.target = &SelfTestTarget{}
	}
	return l
}

func (l *lowering) reportFailure(channel int, err error) error {
	if f, ok := l.testFailure(); ok {
		err = l.p.Failed(f)
	}
	if step := (*Error)(nil); errors.As(err, &step) {
		return send(step, channel)
	}
	return err
}

// send sends an error to the other end.
func send(f *Error, channel int) error {
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return unix.Send(channel, data, unix.MSG_NOSIGNAL)
}
