package backend

import (
	"errors"
	"os"
	"runtime"

	"github.com/nsrun/nsrun/internal/denial"
	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/nsrun/result"
	"golang.org/x/sys/unix"
)

// explain answers the listener of the command's filter, which it takes over. If it cannot, the listener is closed, and the command's calls fail.
func (r *run) explain(listener int, rules []landlock.PathRule) {
	var err error
	if r.watch, err = watch(listener, denial.Config{Plan: r.plan, Rules: rules, Home: r.opts.Home, All: r.plan.Explain.All}); err != nil {
		r.breaks(&Error{Stage: "explain", Err: err})
	}
}

// explained is what was refused. No process of the sandbox is alive any more.
func (r *run) explained() ([]result.Denial, *result.Explained) {
	if r.watch == nil {
		return nil, unavailable()
	}
	return r.watch.Finish()
}

func unavailable() *result.Explained {
	return &result.Explained{Level: "off", Unavailable: "this process is under another program's seccomp listener, or may open no more files"}
}

// watch answers a listener of a plan's command, which it takes over.
func watch(listener int, c denial.Config) (*denial.Watch, error) {
	if c.Plan.Seccomp != nil {
		var err error
		if c.Filters, err = c.Plan.Seccomp.Filters(runtime.GOARCH); err != nil {
			unix.Close(listener)
			return nil, err
		}
	}
	return denial.Start(listener, c)
}

// explains reports whether what is refused to a command of a session is to be reported.
func (s *Sandbox) explains(c stages.Command) bool {
	return s.Plan.Explain != nil && c.Explain
}

// listening waits for the listener of a command of a session, and has it answered.
type listening struct {
	end   *os.File
	over  chan struct{} // closed when the listener has come, or cannot come any more
	watch *denial.Watch // nil if it has not
	err   error
}

// listen returns what waits for a listener, and the socket that it is to come over.
func (s *Sandbox) listen(all bool) (l *listening, theirs int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, -1, &Error{Stage: "channels", Op: "socketpair", Err: err}
	}
	l = &listening{end: os.NewFile(uintptr(pair[0]), "listener"), over: make(chan struct{})}
	c := denial.Config{Plan: s.Plan, Rules: s.Info.Rules, Home: s.Home, All: s.Plan.Explain.All && all}
	go func() {
		defer close(l.over)
		if fd := l.receive(); fd >= 0 {
			l.watch, l.err = watch(fd, c)
		}
	}()
	return l, pair[1], nil
}

// receive waits for the listener, and returns -1 when nobody can send it any more.
func (l *listening) receive() (listener int) {
	listener = -1
	conn, err := l.end.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Read(func(fd uintptr) bool {
		oob := make([]byte, unix.CmsgSpace(4))
		n, oobn, err := takeMessage(int(fd), make([]byte, 1), oob)
		if errors.Is(err, unix.EAGAIN) {
			return false
		}
		if err == nil && n == 1 {
			listener = passedIn(oob[:oobn])
		}
		return true
	})
	return listener
}

// cause is why a command has not begun, if that is because its listener is not answered. nil listening knows nothing.
func (l *listening) cause(err error) error {
	if l == nil || err == nil {
		return err
	}
	l.close()
	if <-l.over; l.err != nil {
		return &Error{Stage: "explain", Err: l.err}
	}
	return err
}

func (l *listening) close() {
	if l != nil {
		l.end.Close()
	}
}

// Explained is what was refused to a command that has ended, and how that was found out; nil if nobody wanted to know.
func (p *Process) Explained() ([]result.Denial, *result.Explained) {
	if p.explain == nil {
		return nil, nil
	}
	p.explain.close()
	if <-p.explain.over; p.explain.watch == nil {
		return nil, unavailable()
	}
	return p.explain.watch.Report()
}
