package verify

import (
	"slices"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/landlock"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/rlimit"
	"github.com/nsrun/nsrun/seccomp"
)

// Input is a program, the plan that it was written for, and what lowering knew of the host beside the plan.
type Input struct {
	Program        *sys.Program
	Plan           *plan.Plan
	Flags          uintptr             // of the clone(2) that runs it
	Resolved       []mounts.Resolved   // what lowering saw of each mount
	Rules          []landlock.PathRule // of Landlock, at the places that lowering saw
	Filters        []seccomp.Filter    // the plan's, compiled
	Limits         []rlimit.Limit      // the command's, by what is in force
	LowersFiles    bool                // whether that on open files is not above the one in force
	Report, Status int                 // numbers of the channels to the caller
	Output         [2]int              // numbers of the pipes that become standard output and error; 0 is none
	Arguments      sys.Area            // this process's arguments and environment, which pid 1 overwrites
	Caller         int                 // pid of this process, which a subreaper must not be able to signal
	TerminalSize   []byte              // struct winsize of the command's terminal; nil is none
	By             Runner              // Remote or Container, if the program is only what such a process does
	TestReport     int                 // a Remote's self-test: number of the pipe that its processes report to
}

// Check returns nil if the program is what the plan says, or the first [*Violation]. It changes nothing and makes no system call.
// Programs under the name bwrap are not checked.
func Check(in Input) (found *Violation) {
	c := &checker{Input: in, matcher: matcher{p: in.Program, at: -1, end: in.Program.Len(), claim: Order}}
	defer func() {
		switch v := recover().(type) {
		case nil:
		case *Violation:
			found = v
		default:
			panic(v)
		}
	}()
	if in.Plan.Bwrap != nil { // called as bwrap: not checked yet
		return nil
	}
	if in.By != 0 {
		c.stages(Confinement[:], in.By)
	} else {
		c.namespaces()
		c.stages(Init[:], c.runner())
	}
	c.process()
	return nil
}

// checker is the state of one Check.
type checker struct {
	Input
	matcher

	op            int     // index of the plan's mount at hand
	layers        []layer // what is mounted and linked where, in this order
	root, null    sys.Slot
	first, second int // numbers that descriptors get to be named by paths
	terminal      sys.Slot
	children      sys.Slot // a signalfd
	ruleset       sys.Slot
	command       sys.Slot // pid
	raw           []byte   // a filter as the kernel has it
	parents       uint64   // address of the cells that hold the parent's pid twice
}

func (c *checker) serves() bool { return c.p.ServeAt() < c.p.Len() }

func (c *checker) bare() bool {
	return c.Plan.Backend == plan.BackendLandlock || c.Plan.Backend == plan.BackendNone
}

func (c *checker) runner() Runner {
	switch {
	case c.bare() && c.serves():
		return SubreaperServer
	case c.bare():
		return Subreaper
	case c.serves():
		return Server
	}
	return Pid1
}

func (c *checker) stages(table []Stage, by Runner) {
	for _, s := range table {
		if s.By&by != 0 {
			c.stage(s.ID)
		}
	}
}

// namespaces requires the plan's namespaces of the clone. That of cgroups is made later, once the process is in its cgroup.
func (c *checker) namespaces() {
	c.claim, c.at = OldRoot, 0
	var want uintptr
	for _, ns := range c.Plan.Namespaces {
		want |= cloneFlags[ns]
	}
	if len(c.Plan.Cgroups) > 0 {
		want &^= cloneFlags[plan.Cgroup]
	}
	if c.Flags != want {
		c.fail("clone has the flags %#x, not %#x", c.Flags, want)
	}
	c.at = -1
}

func (c *checker) owns(ns string) bool { return slices.Contains(c.Plan.Namespaces, ns) }
