package backend

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/wire"
	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/rlimit/cgroup"
	"golang.org/x/sys/unix"
)

// Info describes how a server's sandbox was made, for the processes that send it requests.
type Info struct {
	Started  time.Time           `json:"started"`
	Resolved []mounts.Resolved   `json:"resolved,omitempty"`
	Rules    []landlock.PathRule `json:"rules,omitempty"`
	Tried    []plan.Act          `json:"tried,omitempty"`
	Network  []string            `json:"network,omitempty"` // the kind of each socket of its network: see package netmessage
	// Cgroups are the directories of the sandbox's cgroup, and their versions. The sandbox's owner removes them.
	Cgroups []cgroup.Tree `json:"cgroups,omitempty"`
	// Steps are the steps of the program's last calls, each with the index of its first call.
	Steps []StepAt `json:"steps,omitempty"`
}

// StepAt is the step of the calls from index At on.
type StepAt struct {
	At   int      `json:"at"`
	Step sys.Step `json:"step"`
}

// step returns the step of a call.
func (i *Info) step(call int) (sys.Step, bool) {
	for n := len(i.Steps) - 1; n >= 0; n-- {
		if i.Steps[n].At <= call {
			return i.Steps[n].Step, true
		}
	}
	return sys.Step{}, false
}

// Opened is a sandbox that serves. Its owner closes the descriptors.
type Opened struct {
	Info
	Socket  int   // a stream socket for requests; the sandbox ends when it does
	Pidfd   int   // of pid 1, or of the subreaper
	Sockets []int // of its network, which [Network.Serve] takes
}

// OpenOptions are the parameters of Open beside its plan.
type OpenOptions struct {
	Protected []string
	// Fork runs f on the thread that sandboxes are forked from, which must live as long as they do: see [Run].
	Fork   func(f func())
	Inject func(*sys.Program) // may change the program; tests inject faults by it
	seam   seam
}

// ForkThread starts a thread that lives as long as this process, and returns what [OpenOptions] has as Fork: sandboxes die with the thread that
// has forked them (PR_SET_PDEATHSIG(2const)).
func ForkThread() (fork func(f func())) {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return func(f func()) {
		done := make(chan struct{})
		work <- func() { f(); close(done) }
		<-done
	}
}

// Open makes the sandbox of a session, in a small process of a single purpose, and returns when the sandbox serves. The sandbox's first
// process is a child of this one, and is to be reaped: [NewSandbox] does so when it has ended. An error is an [*Error] with the step that failed; no
// process is left then.
func Open(p *plan.Plan, opts OpenOptions) (*Opened, error) {
	if !p.Serves() {
		return nil, &Error{Stage: "backend", Op: p.Backend, Err: errors.ErrUnsupported}
	}
	if err := checkProc(); err != nil {
		return nil, err
	}
	target, own, err := opts.seam.targetFor(p)
	if own != nil {
		defer own.Close()
	}
	if err != nil {
		return nil, &Error{Stage: stages.SelfTestStage, Err: err}
	}
	group, err := makeGroup(p, nil) // a session is in no scope
	if err != nil {
		return nil, err
	}
	report, pair, err := serverChannels()
	if err != nil {
		_ = group.Remove()
		return nil, &Error{Stage: "channels", Err: err}
	}
	defer report[0].Close()
	closeChild := func() { report[1].Close(); unix.Close(pair[1]) }
	out := &Opened{Socket: pair[0], Pidfd: -1}
	abandon := func(err error) (*Opened, error) {
		unix.Close(pair[0])
		if out.Pidfd >= 0 {
			_ = unix.PidfdSendSignal(out.Pidfd, unix.SIGKILL, nil, 0)
			_, _ = await(out.Pidfd, endTimeout) // its cgroup can be removed only after its end
			reap(out.Pidfd)
			unix.Close(out.Pidfd)
		}
		return nil, endGroup(group, &Outcome{}, err)
	}
	f := stages.FDs{Report: int(report[1].Fd()), Status: pair[1], Target: target, Group: group}
	lowered, err := opts.seam.lowered(stages.LowerServer, p, f)
	if err != nil {
		err = wrapLowering(err, p)
	} else if err = protect(p, lowered.Resolved, opts.Protected); err == nil {
		err = lowered.Verified(p, f)
	}
	if err != nil {
		closeChild()
		return abandon(err)
	}
	if opts.Inject != nil {
		opts.Inject(lowered.Program)
	}
	out.Started = time.Now()
	opts.Fork(func() {
		_, out.Pidfd, err = lowered.Program.ForkInto(bornIn(p, group), lowered.Flags, int(report[1].Fd()))
	})
	closeChild()
	if err != nil {
		return abandon(explain(&Error{Stage: "namespaces", Op: "clone", Err: err}, p))
	}
	if out.Network, out.Sockets, err = netSockets(p, pair[0], report[0]); err != nil {
		return abandon(err)
	}
	if err := ready(report[0], lowered, p); err != nil {
		wire.CloseAll(out.Sockets)
		return abandon(err)
	}
	out.Cgroups = group.Made()
	group.Close() // while it has a process, other runs do not remove it as left behind
	out.Resolved, out.Rules, out.Tried, out.Steps = lowered.Resolved, lowered.Rules, stages.Tried(p, target), lastSteps(lowered.Program)
	return out, nil
}

// reap reaps a process that has ended, if it is a child of this process that nobody has reaped.
func reap(pidfd int) { _ = unix.Waitid(unix.P_PIDFD, pidfd, nil, unix.WEXITED|unix.WNOHANG, nil) }

// serverChannels makes the report pipe and the request socket.
func serverChannels() (report [2]*os.File, pair [2]int, err error) {
	report[0], report[1], err = os.Pipe()
	if err != nil {
		return report, pair, err
	}
	pair, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		report[0].Close()
		report[1].Close()
		return report, pair, os.NewSyscallError("socketpair", err)
	}
	return report, pair, nil
}

// ready waits until the server reports that it serves: by a Failure whose errno is 0.
func ready(report *os.File, lowered *stages.Lowered, p *plan.Plan) error {
	buf := make([]byte, sys.FailureSize)
	n, err := io.ReadFull(report, buf)
	f, ok := sys.ParseFailure(buf[:n])
	switch {
	case ok && f.Errno != 0:
		r := run{plan: p, lowered: lowered, failure: &f}
		return r.explainFailure()
	case !ok:
		return &Error{Stage: "server", Err: fmt.Errorf("it ended while it was made: %w", err)}
	}
	return nil
}

// lastSteps returns the steps of the calls that supervisors and commands make.
func lastSteps(p *sys.Program) (steps []StepAt) {
	for i := p.ServeAt(); i < p.Len(); i++ {
		if step := p.Describe(i); len(steps) == 0 || steps[len(steps)-1].Step != step {
			steps = append(steps, StepAt{i, step})
		}
	}
	return steps
}
