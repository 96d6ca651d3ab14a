package stages

import (
	"fmt"
	"os"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/rlimit"
	"github.com/nsrun/nsrun/rlimit/cgroup"
	"github.com/nsrun/nsrun/seccomp"
	"golang.org/x/sys/unix"
)

// FDs are the descriptors, by number, and the other things of this process that a program uses. Report and Status are the child's ends of the
// two channels to the caller; both are close-on-exec.
type FDs struct {
	Report int             // a stream socket: one sys.Failure, or its end, which means that exec happened
	Status int             // a SEQPACKET socket: the terminal, the command's pidfd, then one sys.Exit; of a session's server a stream socket for requests
	Theirs []int           // the caller's ends: a child that keeps inherited descriptors must close these
	Target *SelfTestTarget // of the self-test
	Group  *cgroup.Group
	Output [2]int        // the pipes that become standard output and error; 0 leaves the descriptor as it is
	Size   *unix.Winsize // of the command's terminal; nil leaves it without a size
	// Ruleset, if it is not 0, is a Landlock ruleset to which the caller adds the rules of Lowered.AddLater before it lets the command begin.
	Ruleset int
	Early   bool // the program is forked as soon as it is written, so a part of it may be made before: see sys.Program.StartEarly
}

// Lowered is a plan as system calls for this host.
type Lowered struct {
	Program  *sys.Program
	Flags    uintptr           // of clone
	Resolved []mounts.Resolved // one for each mount of the plan
	Rules    []landlock.PathRule
	Forked   int // the index of the parent's first call after it has forked the command's process
	later    *later
	open     []int // descriptors that were open, for a kernel without close_range(2)
}

var cloneFlags = [...]struct {
	name string
	flag uintptr
}{
	{plan.User, unix.CLONE_NEWUSER}, {plan.Mount, unix.CLONE_NEWNS}, {plan.Pid, unix.CLONE_NEWPID}, {plan.Ipc, unix.CLONE_NEWIPC},
	{plan.Uts, unix.CLONE_NEWUTS}, {plan.Net, unix.CLONE_NEWNET}, {plan.Cgroup, unix.CLONE_NEWCGROUP},
}

// cloneFlag returns the flag of a namespace; 0 if there is none of that name.
func cloneFlag(name string) uintptr {
	for _, row := range cloneFlags {
		if row.name == name {
			return row.flag
		}
	}
	return 0
}

// Lowering is the state in which the stages append their calls.
type Lowering struct {
	Program  *sys.Program
	plan     *plan.Plan
	fds      FDs
	resolved []mounts.Resolved

	tty     sys.Slot // the command's end of its terminal
	command sys.Slot // pid of the process that becomes the command
	forked  int      // see [Lowered]
	open    []int    // see [Lowered]
	proc    sys.Slot // the host's procfs, by bubblewrap's rules
	umask   sys.Slot // the caller's
	parents []byte   // the pid of the waiter or subreaper, and the result of the command's getppid

	bounds []rlimit.Limit // see limits

	children   sys.Slot        // the signalfd of a subreaper or server
	prepared   sys.Slot        // the Landlock ruleset of a server
	target     *SelfTestTarget // of the self-test
	bwrap      *BwrapStart     // the bubblewrap that a watchdog starts
	request    Command         // of a session
	environ    sys.Arg         // of a command under the name bwrap
	by         verify.Runner   // whose stages are appended
	execAt     int             // the first call of exec
	resolver   mounts.Resolver // of paths on the host
	rules      []landlock.PathRule
	later      *later // see [Lowered.AddLater]
	compiled   []seccomp.Filter
	testReport *[2]*os.File // a pipe for the self-test's failure, where the run has no report channel
}

// Lower returns p as the program of a sandbox's pid 1, or of the process that replaces pid 1. It looks at the host for the plan's mounts,
// and changes nothing. With trace the program can be printed.
//
// The order is the security argument: see doc/security.md.
func Lower(p *plan.Plan, resolver mounts.Resolver, f FDs, trace bool) (*Lowered, error) {
	by := verify.Pid1
	switch {
	case p.Bwrap != nil:
		by = verify.Compat
	case p.Bare():
		by = verify.Subreaper
	}
	return New(p, resolver, f, trace).Lower(by)
}

// New returns a lowering without calls.
func New(p *plan.Plan, resolver mounts.Resolver, f FDs, trace bool) *Lowering {
	l := &Lowering{Program: &sys.Program{Trace: trace}, plan: p, resolver: resolver, fds: f, target: f.Target}
	if l.target == nil {
		l.target = &SelfTestTarget{}
	}
	return l
}

// Lower appends the stages that the process by runs.
func (l *Lowering) Lower(by verify.Runner) (*Lowered, error) {
	most := 400
	if by == verify.Compat {
		most = 220
	}
	l.Program.Grow(most + 13*len(l.plan.Mounts)) // ten calls for a bind and three for its Landlock rule
	var flags uintptr
	for _, ns := range l.plan.Namespaces {
		flag := cloneFlag(ns)
		if flag == 0 {
			return nil, fmt.Errorf("bug: namespace %q is not known", ns)
		}
		flags |= flag
	}
	switch {
	case by == verify.Compat && Joins(l.plan.Bwrap):
		flags = 0 // enterNamespaces makes them, after it has joined the given ones
	case len(l.plan.Cgroups) > 0:
		flags &^= unix.CLONE_NEWCGROUP // joinGroup makes it: its root is the cgroup of the process that makes it
	}
	if has := l.plan.Mechanisms; l.fds.Early && (by == verify.Compat || by == verify.Pid1 && has.MountAPI && has.Openat2 && has.CloseRange) {
		l.Program.StartEarly(flags)
	}
	if err := l.Append(verify.Init[:], by); err != nil {
		return nil, err
	}
	out := l.Lowered()
	out.Flags = flags
	return out, nil
}

// Lowered returns the program as far as it is written, and what lowering has found.
func (l *Lowering) Lowered() *Lowered {
	return &Lowered{Program: l.Program, Resolved: l.resolved, Rules: l.rules, later: l.later, open: l.open, Forked: l.forked}
}

// step begins a step: errors of the calls after it name it.
func (l *Lowering) step(stage, op string) { l.Program.At(sys.Step{Stage: stage, Op: op}) }

// Text prints the clone and the program, one call a line.
func (l *Lowered) Text() string {
	text := "# namespaces (clone)\n      clone("
	for _, f := range []struct {
		flag uintptr
		name string
	}{
		{unix.CLONE_NEWUSER, "CLONE_NEWUSER"}, {unix.CLONE_NEWNS, "CLONE_NEWNS"}, {unix.CLONE_NEWPID, "CLONE_NEWPID"},
		{unix.CLONE_NEWIPC, "CLONE_NEWIPC"}, {unix.CLONE_NEWUTS, "CLONE_NEWUTS"}, {unix.CLONE_NEWNET, "CLONE_NEWNET"},
		{unix.CLONE_NEWCGROUP, "CLONE_NEWCGROUP"},
	} {
		if l.Flags&f.flag != 0 {
			text += f.name + "|"
		}
	}
	return text + "CLONE_PIDFD|SIGCHLD)\n" + l.Program.String()
}
