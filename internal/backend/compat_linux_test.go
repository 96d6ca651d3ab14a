package backend

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/probe"
	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/bwrap"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// parse plans a bubblewrap command line for this host.
func parse(t *testing.T, args ...string) *plan.Plan {
	t.Helper()
	caps := uint64(0)
	if os.Getuid() == 0 {
		caps = 1<<40 - 1
	}
	caller := bwrap.Caller{Argv0: "bwrap", Environ: []string{"PATH=/usr/bin:/bin", "HOME=/"}, UID: os.Getuid(), GID: os.Getgid(), EffectiveUID: os.Geteuid(),
		Caps: caps, Cwd: []string{"/"}, ReadFD: func(int) ([]byte, error) { return []byte("data"), nil }}
	p, err := bwrap.Parse(args, caller, probe.Quick())
	require.NoError(t, err)
	return p
}

// compatTouch plans a command that leaves a marker in a directory that is bound writable.
func compatTouch(t *testing.T, options ...string) (*plan.Plan, string) {
	t.Helper()
	dir := t.TempDir()
	args := append([]string{"--ro-bind", "/", "/", "--tmpfs", "/tmp", "--bind", dir, dir, "--chdir", dir}, options...)
	return parse(t, append(args, "/usr/bin/touch", "marker")...), filepath.Join(dir, "marker")
}

// everything uses each kind of operation once.
var everything = []string{
	"--unshare-all", "--hostname", "x", "--dev", "/dev", "--proc", "/proc", "--dir", "/tmp/a/b", "--file", "9", "/tmp/f", "--bind-data", "9", "/tmp/d",
	"--ro-bind-data", "9", "/tmp/r", "--symlink", "f", "/tmp/l", "--perms", "0700", "--size", "65536", "--tmpfs", "/tmp/t", "--remount-ro", "/tmp/t",
	"--chmod", "0711", "/tmp/a", "--mqueue", "/tmp/m", "--new-session", "--die-with-parent", "--lock-file", "/etc/passwd", "--cap-add", "cap_chown",
}

// overlays are what is left of each kind. Before Linux 5.11 a user namespace has none.
var overlays = []string{"--overlay-src", "/usr", "--overlay-src", "/etc", "--ro-overlay", "/tmp/o", "--overlay-src", "/etc", "--tmp-overlay", "/tmp/w"}

// TestEveryFaultInACompatRunFailsClosed is TestEveryFaultFailsClosed for bubblewrap's rules.
func TestEveryFaultInACompatRunFailsClosed(t *testing.T) {
	plain, everything := func(*plan.Plan) {}, everything
	if probe.Host().Can(facts.Overlay) {
		everything = slices.Concat(everything, overlays)
	}
	for name, c := range map[string]struct {
		options []string
		change  func(*plan.Plan)
	}{
		"everything":               {append(everything, "--disable-userns", "--unshare-user"), plain},
		"everything, by mount(2)":  {everything, func(p *plan.Plan) { p.Mechanisms = plan.Mechanisms{} }},
		"as pid 1":                 {[]string{"--unshare-pid", "--as-pid-1", "--unshare-user"}, plain},
		"nothing but the own root": {nil, plain},
	} {
		t.Run(name, func(t *testing.T) {
			p, marker := compatTouch(t, c.options...)
			c.change(p)
			f := newPoints(t, p, stages.Lower)
			good := func(when string) {
				out, err := Run(p, Options{seam: f.seam()})
				require.NoError(t, err, "the good run, %s", when)
				require.Equal(t, 0, out.Status.ExitStatus())
				require.FileExists(t, marker, "positive control, %s", when)
				require.NoError(t, os.Remove(marker))
				reapEvery(t)
			}
			good("before")
			inBatches(t, f.sample(), func(i int) { injectCompat(t, f, marker, i) }, func() { reapEvery(t) })
			good("after")
			require.Less(t, f.times, 3, "one program serves all runs")
		})
	}
}

func injectCompat(t *testing.T, points *points, marker string, i int) {
	t.Helper()
	expected, spawned, conditional := true, false, false
	f := injection{i: i}
	out, err := Run(points.plan, Options{seam: points.seam(), Inject: func(program *sys.Program) {
		f.inject(program, func(program *sys.Program) {
			spawned = program.AfterSpawn(i)
			expected = !program.IsFail(i) && !program.Tolerates(i, unix.EIO) && f.step.Op != stages.NoHeader
			conditional = program.Conditional(i)
		})
	}})
	f.end()
	step := f.step
	reapEvery(t) // a command whose waiter has failed can still leave its marker, and not to the next call
	_, statErr := os.Stat(marker)
	_ = os.Remove(marker)
	switch {
	case spawned: // in the waiter: the command may have been faster
		assert.True(t, err != nil || exitCode(out.Status) != 0, "call %d (%s)", i, step)
	case conditional && err == nil: // left out
		assert.NoError(t, statErr, "call %d (%s)", i, step)
	case !expected:
		assert.NoError(t, err, "call %d (%s)", i, step)
	case err == nil || statErr == nil:
		t.Errorf("call %d (%s): not fail-closed: error %v, command ran: %v", i, step, err, statErr == nil)
	default:
		var e *Error
		require.ErrorAs(t, err, &e)
		assert.ErrorIs(t, err, unix.EIO, "call %d (%s)", i, step)
	}
}

// reapAll waits for what the runs before have left to its own end.
func reapAll() {
	for {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); pid <= 0 && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// reapEvery waits until the runs before have ended with all that they have left to its own end.
func reapEvery(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, func() bool { reapAll(); return children(t, "self") == "" }, "the end of what the commands have left")
}

// TestTheCommandWaitsForItsMonitor has one that is slow to give up its privileges.
func TestTheCommandWaitsForItsMonitor(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for name, options := range map[string][]string{"with a waiter": {"--unshare-pid", "--unshare-user"}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			p, marker := compatTouch(t, options...)
			ch, err := openChannels()
			require.NoError(t, err)
			defer ch.close()
			var host mounts.Host
			defer host.Close()
			lowered, err := stages.Lower(p, &host, stages.FDs{Report: ch.childReport, Status: ch.childStatus, Theirs: []int{ch.report, ch.status}}, false)
			require.NoError(t, err)
			m := &monitor{plan: p, lowered: lowered, ch: ch, parent: -1, pidfd: -1}
			m.listen()
			defer m.close()
			require.NoError(t, m.start()) // which lets the set-up go on: there is nobody to inform
			testenv.Eventually(t, func() bool {
				n, err := unix.Poll([]unix.PollFd{{Fd: int32(ch.status), Events: unix.POLLIN}}, 0)
				return err == nil && n == 1
			}, "the sandbox to ask for an answer")
			time.Sleep(testenv.Scale(20 * time.Millisecond))
			assert.NoFileExists(t, marker)
			m.answer()
			require.NoError(t, m.report())
			status, err := m.await()
			require.NoError(t, err)
			assert.Zero(t, status)
			assert.FileExists(t, marker, "positive control")
			reapAll()
		})
	}
}

// TestCompatRunEndsWithTheCommand checks that a run ends while a process that the command has left behind goes on.
func TestCompatRunEndsWithTheCommand(t *testing.T) {
	stay := filepath.Join(t.TempDir(), "stay")
	require.NoError(t, os.WriteFile(stay, nil, 0o644))
	p := parse(t, "--ro-bind", "/", "/", "--dev", "/dev", "--unshare-pid", "sh", "-c", `while test -e "$0"; do sleep 0.02; done & exit 3`, stay)
	out, err := Run(p, Options{})
	require.NoError(t, err)
	assert.Equal(t, 3, out.Status.ExitStatus())
	assert.NotEmpty(t, children(t, "self"), "the run waits for the command alone")
	require.NoError(t, os.Remove(stay))
	reapEvery(t)
}
