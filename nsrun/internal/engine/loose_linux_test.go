package engine

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/mounts"
	"github.com/nsrun/nsrun/nsrun/bwrap"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/nsrun/nsrun/nsrun/internal/probe"
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

// looseTouch plans a command that leaves a marker in a directory that is bound writable.
func looseTouch(t *testing.T, options ...string) (*plan.Plan, string) {
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

// TestEveryFaultInALooseRunFailsClosed is TestEveryFaultFailsClosed for bubblewrap's rules.
func TestEveryFaultInALooseRunFailsClosed(t *testing.T) {
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
			p, marker := looseTouch(t, c.options...)
			c.change(p)
			out, err := Run(p, Options{})
			require.NoError(t, err, "the good run")
			require.Equal(t, 0, out.Status.ExitStatus())
			require.FileExists(t, marker, "positive control")
			require.NoError(t, os.Remove(marker))
			l, err := Preview(p)
			require.NoError(t, err)
			before, fds := mountinfo(t), openFDs(t)
			for i := range l.Program.Len() {
				injectLoose(t, p, marker, i)
			}
			assert.Equal(t, before, mountinfo(t))
			assert.Equal(t, fds, openFDs(t))
			assert.Empty(t, children(t, "self"))
		})
	}
}

func injectLoose(t *testing.T, p *plan.Plan, marker string, i int) {
	t.Helper()
	var step sys.Step
	expected, spawned, conditional := true, false, false
	out, err := Run(p, Options{Inject: func(program *sys.Program) {
		step = program.Describe(i)
		spawned = program.AfterSpawn(i)
		expected = !program.IsFail(i) && !program.Tolerates(i, unix.EIO) && step.Op != noHeader
		conditional = program.Conditional(i)
		program.Inject(i, unix.EIO)
	}})
	_, statErr := os.Stat(marker)
	_ = os.Remove(marker)
	reapAll()
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

// TestTheCommandWaitsForItsMonitor has one that is slow to give up its privileges.
func TestTheCommandWaitsForItsMonitor(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for name, options := range map[string][]string{"with a waiter": {"--unshare-pid", "--unshare-user"}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			p, marker := looseTouch(t, options...)
			ch, err := openChannels()
			require.NoError(t, err)
			defer ch.close()
			var host mounts.Host
			defer host.Close()
			lowered, err := Lower(p, &host, fds{report: ch.childReport, status: ch.childStatus, theirs: []int{int(ch.report.Fd()), int(ch.status.Fd())}}, false)
			require.NoError(t, err)
			m := &monitor{plan: p, lowered: lowered, ch: ch, parent: -1, pidfd: -1}
			defer m.close()
			require.NoError(t, m.start())
			m.goOn()
			time.Sleep(testenv.Scale(200 * time.Millisecond))
			assert.NoFileExists(t, marker)
			m.goOn()
			require.NoError(t, m.report())
			status, err := m.await()
			require.NoError(t, err)
			assert.Zero(t, status)
			assert.FileExists(t, marker, "positive control")
			reapAll()
		})
	}
}

// TestLooseRunEndsWithTheCommand checks that what a command leaves behind goes on, and with --die-with-parent ends.
func TestLooseRunEndsWithTheCommand(t *testing.T) {
	p := parse(t, "--ro-bind", "/", "/", "--dev", "/dev", "--unshare-pid", "sh", "-c", "sleep 2 & exit 3")
	start := time.Now()
	out, err := Run(p, Options{})
	require.NoError(t, err)
	assert.Equal(t, 3, out.Status.ExitStatus())
	assert.Less(t, time.Since(start), 2*time.Second, "the run waits for the command alone")
	assert.Eventually(t, func() bool { reapAll(); return len(children(t, "self")) == 0 }, 10*time.Second, 20*time.Millisecond, "the rest ends by itself")
}
