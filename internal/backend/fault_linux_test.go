package backend

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// touch plans a command that leaves a marker in a writable directory, and returns the marker's path on the host.
func touch(t testing.TB, change func(*policy.Policy)) (*plan.Plan, string) {
	t.Helper()
	dir := t.TempDir()
	pol := policy.Default("/home/nobody").Grant(dir, true, "test")
	pol, _ = policy.Normalize(pol, policy.Operator{})
	pol.Dir = dir
	if !probe.Quick().Can(facts.Landlock) {
		pol.Fallback = policy.Degrade
	}
	if change != nil {
		change(&pol)
	}
	p, err := plan.Compile(plan.Request{Policy: pol, Private: plan.PrivatePlace{Dir: filepath.Join(t.TempDir(), "private")}, Command: []string{"touch", "marker"}, Environ: os.Environ()}, probe.Quick())
	require.NoError(t, err)
	return p, filepath.Join(dir, "marker")
}

func mountinfo(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	return string(data)
}

// openFDs counts this process's descriptors.
func openFDs(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// children lists the threads that one, such as "self", has and has not waited for.
func children(t *testing.T, of string) string {
	t.Helper()
	var out []string
	threads, err := filepath.Glob("/proc/" + of + "/task/*/children")
	require.NoError(t, err)
	for _, f := range threads {
		data, _ := os.ReadFile(f)
		out = append(out, string(data))
	}
	return strings.TrimSpace(strings.Join(out, ""))
}

func TestRunLeavesNothing(t *testing.T) {
	p, marker := touch(t, nil)
	before, fds := mountinfo(t), openFDs(t)
	for range 20 {
		out, err := Run(p, Options{})
		require.NoError(t, err)
		require.Equal(t, 0, out.Status.ExitStatus())
		require.FileExists(t, marker)
		require.NoError(t, os.Remove(marker))
	}
	assert.Equal(t, before, mountinfo(t))
	assert.Equal(t, fds, openFDs(t))
	assert.Empty(t, children(t, "self"))
}

// TestEveryFaultFailsClosed makes each call of a good run fail in turn. The command must never have run, but where the fault comes
// after exec, in pid 1; the error must name a step; and nothing may be left. The fast tier takes a sample of the calls: [testenv.Sample].
func TestEveryFaultFailsClosed(t *testing.T) {
	for name, change := range map[string]func(*plan.Plan){
		"new mount API": func(*plan.Plan) {},
		"mount(2), name by name": func(p *plan.Plan) {
			p.Mechanisms = plan.Mechanisms{}
		},
		"self-test": func(p *plan.Plan) {
			p.SelfTest = slices.Clone(plan.Acts[:])
			if runtime.GOARCH != "amd64" { // a 64-bit program has no way to make a foreign call there
				p.SelfTest = slices.DeleteFunc(p.SelfTest, func(a plan.Act) bool { return a == plan.ActForeign })
			}
		},
		"landlock": func(p *plan.Plan) {},
		"cgroup":   func(p *plan.Plan) {},
		"allow":    func(p *plan.Plan) {},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "landlock" && !probe.Quick().Can(facts.Landlock) {
				t.Skip("this kernel has no Landlock")
			}
			p, marker := touch(t, func(pol *policy.Policy) {
				if name == "landlock" {
					pol.Backend, pol.SelfTest = policy.BackendLandlock, true
				}
				if name == "cgroup" { // or, where none can be made, rlimits
					*pol = pol.WithLimit("memory_mb", 512).WithLimit("output_bytes", 1000)
				}
				if name == "allow" {
					allowing(pol)
				}
			})
			change(p)
			helper := ""
			if name == "allow" {
				helper = filepath.Join(t.TempDir(), HelperName)
				require.NoError(t, testenv.Build(helper, "../../cmd/"+HelperName))
			}
			f := newPoints(t, p, stages.Lower)
			good := func(when string) {
				_, err := Run(p, Options{seam: f.seam(), Helper: helper})
				require.NoError(t, err, "the good run, %s", when)
				require.FileExists(t, marker, "positive control, %s", when)
				require.NoError(t, os.Remove(marker))
			}
			good("before")
			require.Greater(t, f.lowered.Program.Len(), 150, "a refactoring must not shrink what is injected unnoticed")
			inBatches(t, f.sample(), func(i int) { injectOne(t, f, marker, helper, i) }, func() {})
			good("after")
			require.Less(t, f.times, 3, "one program serves all runs")
		})
	}
}

func injectOne(t *testing.T, points *points, marker, helper string, i int) {
	t.Helper()
	reached, refused := true, false
	f := injection{i: i}
	out, err := Run(points.plan, Options{seam: points.seam(), Helper: helper, Inject: func(program *sys.Program) {
		f.inject(program, func(program *sys.Program) {
			// What comes after the first execve that succeeds is reached only when that one fails.
			reached = !program.IsFail(i) && (f.step.Stage != "exec" || f.step.Op != stages.NoHeader && i <= firstHit(program))
			refused = f.step.Stage == stages.SelfTestStage && program.Tolerates(i, unix.EIO) // an act that fails is as it should be
		})
	}})
	f.end()
	step := f.step
	_, statErr := os.Stat(marker)
	ran := statErr == nil
	_ = os.Remove(marker)
	switch {
	case step.Stage == "init" && (step.Op == "no capabilities" || step.Op == "close all" || step.Op == "wait"), step.Op == "report pidfd":
		if step.Op == "wait" && err == nil {
			t.Errorf("call %d (%s): the run is a success although pid 1 could not wait: %+v", i, step, out)
		}
		if err != nil {
			assert.ErrorIs(t, err, ErrEnd, "call %d (%s)", i, step)
		}
	case step.Stage == "subreaper" && step.Op == "watchdog": // in a process of its own, that nobody needs while all goes well
		require.NoError(t, err, "call %d (%s)", i, step)
	case step.Stage == "subreaper" && (step.Op == "close all" || step.Op == "wait" || step.Op == "kill" || step.Op == "drain"):
		if step.Op == "wait" && err == nil && out.Status.Exited() {
			t.Errorf("call %d (%s): the run is a success although the subreaper could not wait: %+v", i, step, out)
		}
	case !reached, refused:
		require.NoError(t, err, "call %d (%s)", i, step)
	default:
		if err == nil || ran {
			t.Errorf("call %d (%s): not fail-closed: error %v, command ran: %v", i, step, err, ran)
			return
		}
		var e *Error
		require.ErrorAs(t, err, &e)
		assert.NotEmpty(t, e.Stage, "call %d", i)
		assert.ErrorIs(t, err, unix.EIO, "call %d (%s)", i, step)
	}
}

// firstHit is the index of the execve that finds the command.
func firstHit(program *sys.Program) int {
	for i := range program.Len() {
		if s := program.Describe(i); s.Stage == "exec" && s.Path == "/usr/bin/touch" {
			return i
		}
	}
	return -1
}

// TestKilledAtAnyMoment kills pid 1 from outside while it sets up, at moments spread over a run.
func TestKilledAtAnyMoment(t *testing.T) {
	p, marker := touch(t, nil)
	before := mountinfo(t)
	for i := range 40 {
		cancel := make(chan struct{})
		go func() {
			for range i * 2000 {
				_ = strconv.Itoa(i)
			}
			close(cancel)
		}()
		out, err := Run(p, Options{Cancel: cancel})
		if err == nil && out.Status.Exited() {
			assert.Equal(t, 0, out.Status.ExitStatus())
		}
		_ = os.Remove(marker)
	}
	assert.Equal(t, before, mountinfo(t))
	assert.Empty(t, children(t, "self"))
}

func TestHintsAreReachable(t *testing.T) {
	for _, h := range hints {
		e := &Error{Stage: h.stage, Op: h.op, Err: h.errno}
		if h.op == "" {
			e.Op = "x"
		}
		require.ErrorIs(t, explain(e, &plan.Plan{}), h.errno)
		assert.NotEmpty(t, e.Hint)
	}
}

func TestADirectoryAsStandardInputIsRefused(t *testing.T) {
	p, marker := touch(t, nil)
	saved, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 3)
	require.NoError(t, err)
	defer func() {
		require.NoError(t, unix.Dup3(saved, 0, 0))
		unix.Close(saved)
	}()
	dir, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Dup3(dir, 0, 0))
	unix.Close(dir)
	_, err = Run(p, Options{})
	require.ErrorContains(t, err, "standard input is a directory")
	assert.NoFileExists(t, marker)
}

func TestProtectedFilesAreNotMadeWritable(t *testing.T) {
	p, marker := touch(t, nil)
	real, err := filepath.EvalSymlinks(filepath.Dir(marker))
	require.NoError(t, err)
	_, err = Run(p, Options{Protected: []string{"/etc/passwd", filepath.Join(real, "manifest.json")}})
	require.ErrorContains(t, err, "manifest.json writable")
	assert.NoFileExists(t, marker)
	_, err = Run(p, Options{Protected: []string{"/etc/passwd", real + "x/manifest.json"}})
	require.NoError(t, err)
	assert.FileExists(t, marker)
}

// TestTheHostsNodesCannotBeChanged tries, as root on its own device nodes, what an ordinary user is refused anyway.
func TestTheHostsNodesCannotBeChanged(t *testing.T) {
	before, err := os.Stat("/dev/null")
	require.NoError(t, err)
	p, _ := touch(t, nil)
	p.Command = []string{"sh", "-c", "chmod 606 /dev/null; chmod 606 /proc/kallsyms; chmod 606 /dev/stdin; touch -d 2001-01-01 /dev/null; echo x >/dev/null"}
	out, err := Run(p, Options{})
	require.NoError(t, err)
	assert.Equal(t, 0, out.Status.ExitStatus(), "and it can still be written to")
	after, err := os.Stat("/dev/null")
	require.NoError(t, err)
	assert.Equal(t, before.Mode(), after.Mode())
	assert.Equal(t, before.ModTime(), after.ModTime())
}

// TestASignalDoesNotHideThatTheCommandNeverRan sends one while a set-up fails.
func TestASignalDoesNotHideThatTheCommandNeverRan(t *testing.T) {
	p, marker := touch(t, nil)
	p.Command = []string{"/no/such/command"}
	_, err := Run(p, Options{Signals: pipeOf(t, unix.SIGTERM)})
	require.ErrorIs(t, err, ErrNotFound)
	assert.NoFileExists(t, marker)
}

// pipeOf returns what [sys.SignalPipe] returns, when signals have come.
func pipeOf(t *testing.T, signals ...unix.Signal) int {
	t.Helper()
	var pipe [2]int
	require.NoError(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
	t.Cleanup(func() { unix.Close(pipe[0]); unix.Close(pipe[1]) })
	for _, sig := range signals {
		_, err := unix.Write(pipe[1], []byte{byte(sig)})
		require.NoError(t, err)
	}
	return pipe[0]
}
