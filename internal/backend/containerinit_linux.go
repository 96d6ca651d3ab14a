package backend

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/nsrun/nsrun/internal/wire"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// containerRequest is the request for pid 1 of a container.
type containerRequest struct {
	RemoteRequest
	Late       []made          `json:"late,omitempty"` // entries for it to make in the container's own file systems
	Mechanisms plan.Mechanisms `json:"mechanisms"`
}

// remoteExit is how the command ended.
type remoteExit struct {
	Status uint32
	Usage  unix.Rusage
}

// pid1 is nsrun's binary as pid 1 of a container.
type pid1 struct {
	channel int
	request containerRequest
}

// ContainerInit is the part of nsrun's binary that runs as pid 1 of a container. It receives a request from the process that started the
// container, starts the command, and reports how the command ended. It returns only if it cannot receive the request.
func ContainerInit() error {
	runtime.LockOSThread() // fork needs it: see [sys.Program.Fork]
	// The command runs as the same user. It must not read this process's memory or take its connection (pidfd_getfd(2), ptrace(2)).
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	// From its own pid namespace a pid 1 gets only the signals that it has handlers for (pid_namespaces(7)). Go has a handler for each.
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGPIPE, unix.SIGVTALRM,
		unix.SIGXCPU, unix.SIGXFSZ, unix.SIGIO, unix.SIGPWR, unix.SIGWINCH, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGSTKFLT)
	channel, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Connect(channel, &unix.SockaddrUnix{Name: channelName})
	}
	if err != nil {
		return fmt.Errorf("inside of the container: whoever started it cannot be reached: %w", err)
	}
	p := &pid1{channel: channel}
	if err := p.receiveRequest(); err != nil {
		return fmt.Errorf("inside the container: request: %w", err)
	}
	go p.dieWithCaller()
	p.send('F', p.supervise())
	os.Exit(1)
	return nil
}

// receiveRequest receives the request and the command's standard descriptors.
func (p *pid1) receiveRequest() error {
	files, err := wire.Receive(p.channel, &p.request)
	if err == nil && len(files) != 3 {
		err = fmt.Errorf("%d descriptors came with them", len(files))
	}
	if err != nil {
		return err
	}
	for i, fd := range files {
		if err := unix.Dup3(fd, i, 0); err != nil {
			return os.NewSyscallError("dup3", err)
		}
		unix.Close(fd)
	}
	return nil
}

// dieWithCaller exits when the connection ends, which ends the container.
func (p *pid1) dieWithCaller() {
	for {
		n, err := unix.Read(p.channel, make([]byte, 1))
		if !errors.Is(err, unix.EINTR) && (err != nil || n == 0) {
			os.Exit(1)
		}
	}
}

// send sends a message. An error means that the receiver has ended, so send ignores it.
func (p *pid1) send(kind byte, what any) {
	data, err := json.Marshal(what)
	if err != nil {
		data = []byte("{}")
	}
	_ = unix.Send(p.channel, append([]byte{kind}, data...), unix.MSG_NOSIGNAL)
}

// supervise starts the command and reaps children until the command ends. It returns if the command could not be started.
func (p *pid1) supervise() *Error {
	if f := p.ready(); f != nil {
		return f
	}
	command, f := p.startCommand()
	if f != nil {
		return f
	}
	if null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
		for fd := range 3 { // so that the caller's pipes end when the command closes them
			_ = unix.Dup3(null, fd, 0)
		}
		unix.Close(null)
	}
	for {
		var exit remoteExit
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, &exit.Usage)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return &Error{Stage: "wait", Err: err}
		case err == nil && pid == command:
			exit.Status = uint32(status)
			p.send('X', exit)
			os.Exit(0) // the kernel then kills all others: pid_namespaces(7)
		}
	}
}

// ready checks the mount points, and makes the entries that only a process in the container can make.
func (p *pid1) ready() *Error {
	if f := p.request.checkLocations(); f != nil {
		return f
	}
	unix.Umask(0)
	for _, m := range p.request.Late {
		op, err := "mkdir", error(nil)
		if m.Target == "" {
			err = unix.Mkdir(m.Path, m.Mode)
		} else {
			op, err = "symlink", unix.Symlink(m.Target, m.Path)
		}
		if err != nil {
			return &Error{Stage: "mount", Op: op, Path: m.Path, Err: errnoOf(err)}
		}
	}
	return nil
}

// errnoOf returns the errno in err, or EIO.
func errnoOf(err error) (errno syscall.Errno) {
	if !errors.As(err, &errno) {
		return unix.EIO
	}
	return errno
}

// startCommand forks the process that runs the exec stages and becomes the command, and reports its pidfd to the caller.
func (p *pid1) startCommand() (int, *Error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return 0, &Error{Stage: "channels", Err: errnoOf(err)}
	}
	own := remotePlan(&p.request.RemoteRequest)
	own.Mechanisms = p.request.Mechanisms
	own.Mechanisms.Openat2 = false // the container's own filter may refuse it: Docker's did before 20.10
	own.LastCap = -1               // the bounding set is empty already
	l := stages.New(own, nil, stages.FDs{Report: pipe[1], Status: pipe[1], Target: p.request.Target}, false)
	if err := l.Append(verify.Confinement[:], verify.Container); err != nil {
		return 0, &Error{Stage: "prepare", Err: err}
	}
	pid, pidfd, err := l.Program.Fork(0, pipe[1])
	unix.Close(pipe[1])
	if err != nil {
		return 0, &Error{Stage: "command", Op: "fork", Err: errnoOf(err)}
	}
	report := make([]byte, sys.FailureSize)
	n, err := unix.Read(pipe[0], report)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Read(pipe[0], report)
	}
	unix.Close(pipe[0])
	if failed, ok := sys.ParseFailure(report[:max(n, 0)]); ok {
		return 0, l.Program.Failed(failed)
	}
	_ = unix.Sendmsg(p.channel, []byte{'P'}, unix.UnixRights(pidfd), nil, unix.MSG_NOSIGNAL)
	unix.Close(pidfd)
	return pid, nil
}
