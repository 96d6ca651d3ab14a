package backend

import (
	"slices"
	"testing"

	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// lowerFunc is Lower or lowerServer.
type lowerFunc func(*plan.Plan, mounts.Resolver, stages.FDs, bool) (*stages.Lowered, error)

// points holds the program of one plan, which a test runs once for each fault. Lowering a plan takes about as long as it takes the kernel
// to make the sandbox, so it is lowered once, and again only if a run's descriptors have got other numbers: those are part of the program.
type points struct {
	t       *testing.T
	plan    *plan.Plan
	lower   lowerFunc
	target  *stages.SelfTestTarget
	lowered *stages.Lowered
	fds     stages.FDs
	times   int // how often it was lowered
}

func newPoints(t *testing.T, p *plan.Plan, lower lowerFunc) *points {
	t.Helper()
	target, err := stages.NewSelfTestTarget(p) // its socket has a new name each time, which is part of the program too
	require.NoError(t, err)
	t.Cleanup(target.Close)
	return &points{t: t, plan: p, lower: lower, target: target}
}

func (f *points) seam() seam { return seam{target: f.target, lower: f.again} }

func (f *points) again(now stages.FDs) (*stages.Lowered, error) {
	if f.lowered != nil && now.Report == f.fds.Report && now.Status == f.fds.Status && now.Output == f.fds.Output && slices.Equal(now.Theirs, f.fds.Theirs) {
		return f.lowered, nil
	}
	var host mounts.Host
	defer host.Close()
	f.times++
	lowered, err := f.lower(f.plan, &host, now, false)
	f.lowered, f.fds = lowered, now
	return lowered, err
}

// sample returns the calls that this tier makes fail, after a good run. A class of calls is one system call of one kind of step.
func (f *points) sample() []int {
	f.t.Helper()
	program := f.lowered.Program
	calls := testenv.Sample(f.t, program.Len(), func(i int) string {
		step := program.Describe(i)
		return step.Stage + "\x00" + step.Op + "\x00" + program.CallName(i)
	})
	testenv.Count(f.t, "fault points", len(calls))
	return calls
}

// injection is one call of a program that is made to fail.
type injection struct {
	i       int
	step    sys.Step
	restore func()
}

// inject makes call i of the next run fail. look sees the program before that.
func (f *injection) inject(program *sys.Program, look func(*sys.Program)) {
	f.step = program.Describe(f.i)
	look(program)
	f.restore = program.Inject(f.i, unix.EIO)
}

// end repairs the program after the run.
func (f *injection) end() {
	if f.restore != nil {
		f.restore()
	}
}

// left is what a test that makes sandboxes must leave as it was.
type left struct {
	mounts   string
	fds      int
	children string
}

func leftNow(t *testing.T) left {
	t.Helper()
	return left{mountinfo(t), openFDs(t), children(t, "self")}
}

// batch is how many faults a test injects before it looks whether something is left, which takes as long as to inject one.
const batch = 16

// inBatches calls each for every call of the list, and checks after every batch that nothing is left, once settle has returned.
func inBatches(t *testing.T, calls []int, each func(i int), check func()) {
	t.Helper()
	before := leftNow(t)
	require.Empty(t, before.children)
	for part := range slices.Chunk(calls, batch) {
		for _, i := range part {
			each(i)
		}
		check()
		require.Equal(t, before, leftNow(t), "one of the calls %v has left something; %s=N injects into call N alone", part, testenv.PointVar)
	}
}
