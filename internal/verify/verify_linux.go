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

// Input is a program, the plan that it was written for, and the facts about the host that lowering used beside the plan. The program is
// checked against all the rest, and the rest is believed; but Rules must also be justified by the plan and the mounts.
type Input struct {
	Program        *sys.Program
	Plan           *plan.Plan
	Flags          uintptr             // of the clone(2) that starts the process which runs it
	Resolved       []mounts.Resolved   // what lowering found for each mount
	Rules          []landlock.PathRule // of Landlock, at the paths that lowering resolved
	Filters        []seccomp.Filter    // the plan's, compiled
	Limits         []rlimit.Limit      // the command's, capped by those in force
	LowersFiles    bool                // whether the limit on open files is at most the one in force
	Report, Status int                 // descriptor numbers of the channels to the caller
	Output         [2]int              // descriptor numbers of the pipes that become standard output and error; 0 is none
	Arguments      sys.Area            // this process's arguments and environment, which pid 1 overwrites
	Caller         int                 // pid of this process, which a subreaper must be unable to signal
	Groups         []int               // descriptor numbers of the cgroup.procs files, one for each of the plan's cgroups
	Null           [3]int              // access mode of each standard descriptor, or file of a Request, that is the host's /dev/null; -1 for the others
	Open           []int               // descriptors that are open, for a kernel without close_range(2)
	TerminalSize   []byte              // struct winsize of the command's terminal; nil is none
	By             Runner              // Remote, Container or Request, if the program is only the part that such a process runs
	Cut            int                 // of a Request: how many calls come before those that all commands share
	TestReport     int                 // the self-test of a Remote: descriptor number of the pipe that its processes report to
	// Device returns where the host's device of a name in /dev is, which may be a symlink there. Lowering has compared the device number.
	Device func(name string) string
}

// Check returns nil if the program matches the plan, and otherwise the first [*Violation]. It changes nothing and makes no system call. It
// does not check the programs of the compat mode (called as bwrap) and returns nil for them.
func Check(in Input) (found *Violation) {
	c := &checker{Input: in, matcher: matcher{p: in.Program, at: -1, end: in.Program.Len(), claim: Order}, made: map[string]uint32{}}
	defer func() {
		switch v := recover().(type) {
		case nil:
		case *Violation:
			found = v
		default:
			panic(v)
		}
	}()
	if in.Plan.Bwrap != nil { // compat mode: not checked
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

// checker is the state of one [Check].
type checker struct {
	Input
	matcher

	op            int               // index of the plan's current mount
	made          map[string]uint32 // permissions of the directories that operations have made
	layers        []layer           // what has been mounted or linked at which path, in order
	root, null    sys.Slot          // the new root; the first mask of a file; before Linux 5.12, the host's /dev/null
	first, second int               // descriptor numbers that paths in /proc/self/fd name
	terminal      sys.Slot          // the command's end
	children      sys.Slot          // a signalfd
	ruleset       sys.Slot
	command       sys.Slot // its pid
	raw           []byte   // a buffer for one filter as the kernel reads it
	exact         map[exactRule]landlock.Access
	masked        []string
	parents       uint64 // address of two words for the parent's pid: before the fork, and at the comparison
}

// serves reports whether the program is a session: it starts commands on request.
func (c *checker) serves() bool { return c.p.ServeAt() < c.p.Len() }

// runner returns which kind of process the program is for, and so which rows of [Init] apply.
func (c *checker) runner() Runner {
	switch {
	case c.Plan.Bare() && c.serves():
		return SubreaperServer
	case c.Plan.Bare():
		return Subreaper
	case c.serves():
		return Server
	}
	return Pid1
}

// stages requires the stages of table that a runner of this kind has: each once, in the order of the table (claim Order).
func (c *checker) stages(table []Stage, by Runner) {
	for _, s := range table {
		if s.By&by != 0 {
			c.stage(s.ID)
		}
	}
}

// namespaces requires that clone(2) makes exactly the plan's namespaces. The cgroup namespace is made later, when the process is in its
// cgroup: the namespace's root is the cgroup of the moment (cgroup_namespaces(7)).
func (c *checker) namespaces() {
	c.claim, c.at = OldRoot, 0
	var want uintptr
	for _, ns := range c.Plan.Namespaces {
		want |= cloneFlag(ns)
	}
	if len(c.Plan.Cgroups) > 0 {
		want &^= cloneFlag(plan.Cgroup)
	}
	if c.Flags != want {
		c.fail("clone has the flags %#x, not %#x", c.Flags, want)
	}
	c.at = -1
}

// owns reports whether the plan has a namespace of this kind.
func (c *checker) owns(ns string) bool { return slices.Contains(c.Plan.Namespaces, ns) }
