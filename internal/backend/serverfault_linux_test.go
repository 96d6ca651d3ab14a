package backend

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/wire"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestEveryFaultOfAServerFailsClosed makes each call of a session's sandbox fail in turn: either it is not opened, or the command is not
// started; the error names a step, the command has not run, and nothing is left.
func TestEveryFaultOfAServerFailsClosed(t *testing.T) {
	for name, change := range map[string]func(*plan.Plan){
		"new mount API":          func(*plan.Plan) {},
		"mount(2), name by name": func(p *plan.Plan) { p.Mechanisms = plan.Mechanisms{} },
		"self-test": func(p *plan.Plan) {
			p.SelfTest = slices.DeleteFunc(slices.Clone(plan.Acts[:]), func(a plan.Act) bool { return a == plan.ActForeign && runtime.GOARCH != "amd64" })
		},
		"landlock": func(*plan.Plan) {},
		"allow":    func(*plan.Plan) {},
	} {
		t.Run(name, func(t *testing.T) {
			p, marker := touch(t, func(pol *policy.Policy) {
				if name == "landlock" {
					pol.Backend = policy.BackendLandlock
				}
				if name == "allow" {
					allowing(pol)
				}
			})
			if name == "landlock" && (!probe.Quick().Can(facts.Landlock) || !p.KillScope) {
				t.Skip("this kernel has no Landlock that scopes signals")
			}
			change(p)
			fork := forker(t)
			f := newPoints(t, p, stages.LowerServer)
			good := func(when string) {
				require.NoError(t, tryServer(t, f, fork, nil, false), "the good run, %s", when)
				require.FileExists(t, marker, "positive control, %s", when)
				require.NoError(t, os.Remove(marker))
			}
			good("before")
			least := 100
			if name == "landlock" && os.Getuid() != 0 { // who has no secrets to grant around
				least = 84
			}
			require.Greater(t, f.lowered.Program.Len(), least, "a refactoring must not shrink what is injected unnoticed")
			inBatches(t, f.sample(), func(i int) { injectServer(t, f, fork, marker, i) }, func() {})
			good("after")
			require.Less(t, f.times, 3, "one program serves all runs")
		})
	}
}

func injectServer(t *testing.T, points *points, fork func(func()), marker string, i int) {
	t.Helper()
	must := false
	f := injection{i: i}
	err := tryServer(t, points, fork, func(program *sys.Program) {
		f.inject(program, func(program *sys.Program) {
			must = !program.IsFail(i) && !program.Tolerates(i, unix.EIO) && !program.Conditional(i) && f.step.Op != "watchdog" && (f.step.Stage != "subreaper" || f.step.Op != "kill")
		})
	}, points.lowered.Program.Describe(i).Stage == "terminal")
	f.end()
	_, statErr := os.Stat(marker)
	_ = os.Remove(marker)
	if !must {
		return
	}
	var failed *Error
	assert.Error(t, err, "call %d (%s)", i, f.step)
	assert.True(t, errors.As(err, &failed) && failed.Stage != "" || errors.Is(err, ErrSandboxEnded) || errors.Is(err, ErrLost), "call %d (%s): %v", i, f.step, err)
	assert.ErrorIs(t, statErr, os.ErrNotExist, "call %d (%s): the command has run", i, f.step)
}

// tryServer opens a sandbox, has it start the plan's command, and ends it.
func tryServer(t *testing.T, points *points, fork func(func()), inject func(*sys.Program), terminal bool) error {
	t.Helper()
	p := points.plan
	o, err := Open(p, OpenOptions{Fork: fork, Inject: inject, seam: points.seam()})
	if err != nil {
		for { // those that did not get as far as to be known
			if _, e := unix.Wait4(-1, nil, 0, nil); e != nil && !errors.Is(e, unix.EINTR) {
				return err
			}
		}
	}
	wire.CloseAll(o.Sockets) // nobody connects
	s := NewSandbox(p, o.Info, o.Socket, o.Pidfd, nil)
	defer func() {
		s.Kill()
		for {
			if _, e := unix.Wait4(-1, nil, 0, nil); e != nil && !errors.Is(e, unix.EINTR) {
				break
			}
		}
		<-s.Done()
	}()
	null, err := os.OpenFile(filepath.Join("/dev", "null"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer null.Close()
	c := stages.Command{Args: p.Command, Env: p.Env, Dir: p.Dir, Files: [3]*os.File{null, null, null}}
	if terminal {
		c.Files, c.Terminal = [3]*os.File{}, &unix.Winsize{Row: 24, Col: 80}
	}
	process, err := s.Start(c, nil)
	if err != nil {
		return err
	}
	defer process.Close()
	_, err = process.Wait()
	return err
}
