package backend

import (
	"net"
	"os"
	"runtime"
	"testing"

	"github.com/nsrun/nsrun/internal/stages"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsrun/plan"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestSelfTestFindsWhatDoesNotHold takes one protection away behind the plan's back: the self-test must notice and nothing may start.
func TestSelfTestFindsWhatDoesNotHold(t *testing.T) {
	for _, tt := range []struct {
		act    plan.Act
		change func(*plan.Plan)
	}{
		{plan.ActVsock, func(p *plan.Plan) { p.Seccomp = nil }},
		{plan.ActForeign, func(p *plan.Plan) { p.Seccomp = nil }},
		{plan.ActWrite, func(p *plan.Plan) { // the directory is writable, and the plan says that it is not
			p.Landlock = nil
			p.Mounts[len(p.Mounts)-1].Flags = nil
		}},
		{plan.ActSocket, func(p *plan.Plan) { // the network namespace is the host's, and nothing scopes
			if p.Landlock != nil {
				p.Landlock.Scoped = 0
			}
			p.Namespaces = without(p.Namespaces, plan.Net)
		}},
	} {
		t.Run(string(tt.act), func(t *testing.T) {
			if tt.act == plan.ActForeign && !foreignCalls(t) {
				t.Skip("a 64-bit program has no way to make a foreign call here")
			}
			p, marker := touch(t, nil)
			p.SelfTest = []plan.Act{tt.act}
			_, err := Run(p, Options{})
			require.NoError(t, err, "the same plan as it was made")
			require.NoError(t, os.Remove(marker))
			tt.change(p)
			_, err = Run(p, Options{seam: seam{target: targetFor(t, p, tt.act)}})
			var e *Error
			require.ErrorAs(t, err, &e, "what succeeds refuses the start")
			assert.Equal(t, stages.SelfTestStage, e.Stage)
			assert.Equal(t, string(tt.act), e.Op)
			assert.ErrorContains(t, err, "it succeeded: the sandbox does not hold")
			assert.NotEmpty(t, e.Hint)
			assert.NoFileExists(t, marker, "the command has not run")
			assert.Empty(t, children(t, "self"))
		})
	}
}

// foreignCalls reports whether a system call of the 32-bit ABI returns where nothing forbids it. Some kernels, and some virtual machines, have not
// got that ABI: the process then dies of SIGSEGV.
func foreignCalls(t *testing.T) bool {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		return false
	}
	var p sys.Program
	p.Foreign()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, pidfd, err := p.Fork(0, -1)
	require.NoError(t, err)
	unix.Close(pidfd)
	var status unix.WaitStatus
	for {
		if _, err = unix.Wait4(pid, &status, 0, nil); err != unix.EINTR {
			break
		}
	}
	require.NoError(t, err)
	require.True(t, status.Exited() || status.Signal() == unix.SIGSEGV, "%v", status)
	return status.Exited()
}

// targetFor is a target that names the writable directory as one that is not.
func targetFor(t *testing.T, p *plan.Plan, act plan.Act) *stages.SelfTestTarget {
	t.Helper()
	c, err := stages.NewSelfTestTarget(p)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	if act == plan.ActWrite {
		c.Inside = p.Dir
	}
	return c
}

func without(names []string, name string) (out []string) {
	for _, n := range names {
		if n != name {
			out = append(out, n)
		}
	}
	return out
}

// TestSelfTestTargetIsThere holds that what the self-test must not reach can be reached without a sandbox.
func TestSelfTestTargetIsThere(t *testing.T) {
	mine := t.TempDir() // which this user may write to, and the sandbox may not
	p, _ := touch(t, func(pol *policy.Policy) {
		*pol = pol.Grant(mine, false, "test")
		pol.SelfTest = true
	})
	fds := openFDs(t)
	c, err := stages.NewSelfTestTarget(p)
	require.NoError(t, err)
	require.NotEmpty(t, c.Outside)
	for _, dir := range c.Outside {
		_, err := os.ReadDir(dir)
		assert.NoError(t, err, "%s can be read outside", dir)
	}
	conn, err := net.Dial("unix", "@"+c.Socket)
	require.NoError(t, err, "the socket can be connected to outside")
	conn.Close()
	require.DirExists(t, c.Inside)
	assert.NoError(t, unix.Access(c.Inside, unix.W_OK))
	c.Close()
	_, err = net.Dial("unix", "@"+c.Socket)
	assert.Error(t, err, "and is gone afterwards")
	assert.LessOrEqual(t, openFDs(t), fds+2) // the poller of package net
}
