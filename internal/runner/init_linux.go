package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nsrun/nsrun/internal/backend"
	"github.com/nsrun/nsrun/internal/spawner"
	"github.com/nsrun/nsrun/internal/wire"
	"github.com/nsrun/nsrun/nsrun/plan"
	"golang.org/x/sys/unix"
)

// ErrNoInit is what [Open] and [Run] answer in a program that has not called [Init].
var ErrNoInit = errors.New("nsrun.Init has not been called: make it the first line of main, and of TestMain")

// initialised says that a process started from this binary knows its role. Without it such a process would be this program once more.
var initialised atomic.Bool

// Init is nsrun.Init.
func Init() {
	spawner.Dispatch()
	initialised.Store(true)
}

// owner is this process's end of its spawner, which is started when it is first needed, and again if it has died.
var owner struct {
	sync.Mutex
	socket int // 0 for none
	ended  <-chan struct{}
}

// Shutdown is nsrun.Shutdown.
func Shutdown() {
	owner.Lock()
	defer owner.Unlock()
	if owner.socket == 0 {
		return
	}
	unix.Close(owner.socket)
	owner.socket = 0
	<-owner.ended
}

// fork is what forks sandboxes here; nil if the spawner does.
var fork func(func())

// ForkHere makes this process fork its sandboxes itself, without a spawner. It is for a process that does nothing but keep sandboxes, and calls it
// before the first of them.
func ForkHere() { fork = backend.ForkThread() }

// newSandbox makes an open sandbox one that is used, once its network is served.
func newSandbox(p *plan.Plan, o backend.Opened, network *backend.Network) (*backend.Sandbox, error) {
	err := network.Serve(o.Network, o.Sockets)
	s := backend.NewSandbox(p, o.Info, o.Socket, o.Pidfd, network)
	if err != nil {
		s.Kill()
		<-s.Done()
		return nil, err
	}
	if p.Explain != nil {
		s.Home, _ = Home()
	}
	return s, nil
}

// requestSandbox opens a sandbox with its network.
func (s *Session) requestSandbox(p *plan.Plan) (*backend.Sandbox, error) {
	network, err := backend.StartNetwork(p, networkHelper(p), s.networkOptions()) // beside what follows
	if err != nil {
		return nil, err
	}
	opened, err := requestOpen(p, s.protected)
	if err != nil {
		network.End()
		return nil, err
	}
	return newSandbox(p, *opened, network)
}

// requestOpen opens a sandbox, or has the spawner open it: where there is no close_range(2), as only a spawner, which has few descriptors, knows
// all those that a sandbox must not have; and where there is no pid namespace, as the processes that end the sandbox must not be in the process
// group of this one, which may be killed as a whole.
func requestOpen(p *plan.Plan, protected []string) (*backend.Opened, error) {
	if fork != nil && p.Mechanisms.CloseRange && !p.Bare() {
		return backend.Open(p, backend.OpenOptions{Protected: protected, Fork: fork})
	}
	order := spawner.NewRequest(p, protected)
	answer, fds, by, err := ask(order)
	if errors.Is(err, io.EOF) && endedBy(by, orderGrace) { // it took the order when it was dying already, and what it has made dies with it
		answer, fds, _, err = ask(order)
	}
	if own := (*Error)(nil); errors.As(err, &own) {
		return nil, own
	}
	if errors.Is(err, io.EOF) {
		return nil, &Error{Stage: "spawner", Err: errors.New("it has ended while it made a sandbox, or has reached its limit on open files"), Hint: moreFiles}
	}
	if err != nil {
		return nil, &Error{Stage: "spawner", Op: "answer", Err: err, Hint: hintOf(err)}
	}
	if answer.Info != nil && len(fds) == 2+len(answer.Info.Network) {
		return &backend.Opened{Info: *answer.Info, Socket: fds[0], Pidfd: fds[1], Sockets: fds[2:]}, nil
	}
	wire.CloseAll(fds) // whose sandbox ends with them
	if answer.Failure != nil {
		return nil, answer.Failure
	}
	return nil, &Error{Stage: "spawner", Err: fmt.Errorf("bug: its answer, with %d descriptors, is none", len(fds))}
}

// orderGrace is how long a spawner that answers nothing may take to end, if that is why.
const orderGrace = time.Second

// endedBy reports whether a spawner ends in time.
func endedBy(ended <-chan struct{}, in time.Duration) bool {
	select {
	case <-ended:
		return true
	case <-time.After(in):
		return false
	}
}

// ask gives an order and returns the answer, with its descriptors, and the channel that is closed when the spawner that has taken the order has ended.
func ask(order spawner.Request) (answer spawner.Answer, fds []int, by <-chan struct{}, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return answer, nil, nil, &Error{Stage: "spawner", Op: "socketpair", Err: err, Hint: hintOf(err)}
	}
	defer unix.Close(pair[0])
	by, err = give(order, pair[1])
	unix.Close(pair[1])
	if err == nil {
		fds, err = wire.Receive(pair[0], &answer)
	}
	return answer, fds, by, err
}

const moreFiles = "raise the limit on open files (ulimit -n)"

// hintOf is what helps against err, if anything does.
func hintOf(err error) string {
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ETOOMANYREFS) { // or too many are on their way in sockets
		return moreFiles
	}
	return ""
}

// give sends an order, and returns the channel that is closed when the spawner has ended that has it. A spawner that has been killed is replaced
// once; one that cannot take the order keeps its sandboxes.
func give(o spawner.Request, reply int) (by <-chan struct{}, err error) {
	owner.Lock()
	defer owner.Unlock()
	for tries := 0; ; tries++ {
		if owner.socket == 0 {
			socket, ended, err := startRole(spawner.Name, nil)
			if err != nil {
				return nil, err
			}
			owner.socket, owner.ended = socket, ended
		}
		err := wire.Send(owner.socket, o, reply)
		if err == nil {
			return owner.ended, nil
		}
		gone := errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET)
		if gone {
			unix.Close(owner.socket)
			owner.socket = 0
		}
		if tries > 0 || !gone {
			return nil, &Error{Stage: "spawner", Op: "order", Err: err, Hint: hintOf(err)}
		}
	}
}

// startRole starts this program's binary as one of its roles, and returns our end of its socket, and a channel that is closed when it has
// ended and was waited for. With files these are its standard descriptors.
func startRole(name string, files []*os.File, environ ...string) (int, <-chan struct{}, error) {
	if !initialised.Load() {
		return 0, nil, ErrNoInit
	}
	fail := func(op string, err error) (int, <-chan struct{}, error) {
		return 0, nil, &Error{Stage: "spawner", Op: op, Err: err, Hint: "the program's own binary must be executable where it runs"}
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fail("socketpair", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "request")
	defer theirs.Close()
	role := &exec.Cmd{Path: "/proc/self/exe", Args: []string{name}, ExtraFiles: []*os.File{theirs},
		Stderr: os.Stderr, // for what Go says of a crash
		// GOMAXPROCS keeps Go from reading cgroup files at its start.
		Env: append(environ, "GOMAXPROCS=2"),
		// A session of its own: a terminal's signals are its owner's to act on.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if files != nil {
		role.Stdin, role.Stdout, role.Stderr = files[0], files[1], files[2]
	}
	if err := role.Start(); err != nil {
		unix.Close(pair[0])
		return fail("start", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = role.Wait()
	}()
	return pair[0], ended, nil
}
