package backend

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/internal/scope/fake"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/rlimit/cgroup"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// v2Tree is where cgroups of version 2 are mounted, if they are, and the directory of this process's own.
func v2Tree(t *testing.T) (tree, own string) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/cgroup")
	require.NoError(t, err)
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) != nil || st.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		for line := range strings.SplitSeq(string(text), "\n") {
			if path, ok := strings.CutPrefix(line, "0::"); ok {
				return dir, filepath.Join(dir, path)
			}
		}
	}
	return "", ""
}

// managing is a manager that moves who asks, if this process can be moved. It is ended, and what it made removed, by the function.
func managing(t *testing.T, act fake.Act) (m *fake.Manager, movable bool, end func() []fake.Ask) {
	t.Helper()
	tree, own := v2Tree(t)
	dir, err := os.MkdirTemp("", "s")
	require.NoError(t, err)
	mover := &fake.Mover{Dir: tree}
	move := func(int, string) error { return errors.ErrUnsupported }
	may := func(dir string) bool { return unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) == nil }
	if movable = tree != "" && may(tree) && may(own); movable {
		move = mover.Move
	}
	m, err = fake.Listen(dir, act, move)
	require.NoError(t, err)
	return m, movable, func() []fake.Ask {
		require.NoError(t, mover.Undo(own), "nothing is left in the scope")
		asked, wrong := m.Close()
		require.NoError(t, errors.Join(wrong, os.RemoveAll(dir)))
		return asked
	}
}

// scoped plans a command under a bound on processes, in a scope of the manager's.
func scoped(t *testing.T, socket, tree string, command ...string) *plan.Plan {
	t.Helper()
	known := probe.Quick()
	known.Groups, known.Manager = nil, &facts.Manager{Socket: socket, Tree: tree, Controllers: []string{"pids"}}
	pol := policy.Default("/home/nobody").WithLimit("pids", 20)
	if !known.Can(facts.Landlock) {
		pol.Fallback = policy.Degrade
	}
	p, err := plan.Compile(plan.Request{Policy: pol, Private: plan.PrivatePlace{Dir: filepath.Join(t.TempDir(), "private")}, Command: command, Environ: os.Environ(), Sole: true}, known)
	require.NoError(t, err)
	require.NotNil(t, p.Scope)
	return p
}

// TestALimitInAScope runs a fork bomb in a scope. The manager is one of the test's own, which moves this process for real: to a group with
// controllers as root on a host with cgroups of version 2, where the limit must hold; to one without them, or nowhere, elsewhere, where the
// start must fail with the reason. Either way nothing is left.
func TestALimitInAScope(t *testing.T) {
	tree, _ := v2Tree(t)
	handed, _ := os.ReadFile(filepath.Join(tree, "cgroup.subtree_control"))
	controlled := slices.Contains(strings.Fields(string(handed)), "pids")
	m, movable, end := managing(t, fake.Starts)
	before := children(t, "self")

	const bomb = "exec >/dev/null 2>&1; i=0; while [ $i -lt 100 ]; do sleep 100 & i=$((i+1)); done"
	out, err := Run(scoped(t, m.Socket, tree+"/", "sh", "-c", bomb), Options{})

	require.Len(t, end(), 1)
	assert.Equal(t, before, children(t, "self"))
	var failed *Error
	switch {
	case movable && controlled:
		require.NoError(t, err)
		assert.NotZero(t, out.Status, "the shell ends when it is refused a process")
		assert.NotZero(t, out.Evidence.PidsMax)
		assert.Empty(t, out.Losses)
		return
	case movable:
		require.ErrorContains(t, err, "has not got the controllers pids")
	default:
		require.ErrorContains(t, err, `its job ends with the result "failed"`)
	}
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, Error{Stage: "scope", Op: "enter", Path: m.Socket, Err: failed.Err, Hint: failed.Hint}, *failed)
}

// TestWhoRefusesAScope is any manager that does not do as it should: no command is run.
func TestWhoRefusesAScope(t *testing.T) {
	for _, act := range []fake.Act{fake.Refuses, fake.Fails, fake.Closes} {
		m, _, end := managing(t, act)
		_, err := Run(scoped(t, m.Socket, "/sys/fs/cgroup", "true"), Options{})
		end()
		var failed *Error
		require.ErrorAs(t, err, &failed, string(act))
		assert.Equal(t, "scope", failed.Stage)
	}
}

// TestTreesAreMadeInTheScope has trees of both versions: only the one that is in the scope gets another directory, and the plan stays as
// it is.
func TestTreesAreMadeInTheScope(t *testing.T) {
	tree, _ := v2Tree(t)
	m, movable, end := managing(t, fake.Starts)
	p := scoped(t, m.Socket, tree, "true")
	p.Cgroups = []cgroup.Tree{{Version: 1, Dir: "/v1"}, {Version: 2, Dir: plan.InScope}}
	trees, err := inScope(p, func() error { return nil })
	asked := end()
	require.Len(t, asked, 1)
	assert.Equal(t, plan.InScope, p.Cgroups[1].Dir)
	if !movable {
		require.Error(t, err)
		return
	}
	require.NoError(t, err)
	assert.Equal(t, []cgroup.Tree{{Version: 1, Dir: "/v1"}, {Version: 2, Dir: filepath.Join(tree, asked[0].Unit)}}, trees)
}

// TestWhoWaitsForAScopeHeeds has a manager that says nothing: what ends a run ends the wait as well, and what does not is kept for the command.
func TestWhoWaitsForAScopeHeeds(t *testing.T) {
	received := func(signals ...unix.Signal) Options { return Options{Signals: pipeOf(t, signals...)} }
	cancelled := make(chan struct{})
	close(cancelled)
	ended := exec.Command("true")
	require.NoError(t, ended.Start())
	parent, err := unix.PidfdOpen(ended.Process.Pid, 0)
	require.NoError(t, err)
	defer unix.Close(parent)
	require.NoError(t, ended.Wait())
	for name, c := range map[string]struct {
		w     waiting
		p     func(*plan.Plan)
		stage string
		text  string
	}{
		"cancelled": {waiting{opts: Options{Cancel: cancelled}, parent: -1}, nil, InterruptedStage, "asked to end"},
		"a signal":  {waiting{opts: received(unix.SIGUSR1, unix.SIGTERM), parent: -1}, nil, InterruptedStage, "SIGTERM came before"},
		"an orphan": {waiting{parent: parent}, nil, OrphanStage, "has ended"},
		"its time":  {waiting{opts: received(unix.SIGUSR1), parent: -1}, func(p *plan.Plan) { p.Timeout = plan.Duration(200 * time.Millisecond) }, scopeStage, "no answer within 200ms"},
	} {
		t.Run(name, func(t *testing.T) {
			m, _, end := managing(t, fake.Silent)
			p := scoped(t, m.Socket, "/sys/fs/cgroup", "true")
			if c.p != nil {
				c.p(p)
			}
			_, err := makeGroup(p, c.w.stop) // the stage and the text show that it was not the manager's time that was up
			end()
			var failed *Error
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, c.stage, failed.Stage)
			assert.ErrorContains(t, err, c.text)
			if c.w.opts.Signals != 0 {
				assert.Equal(t, []unix.Signal{unix.SIGUSR1}, c.w.early, "and is not lost")
			}
		})
	}
}
