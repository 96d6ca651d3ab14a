package probe

import (
	"errors"
	"os"
	"testing"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsrun/facts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/syndtr/gocapability/capability"
	"golang.org/x/sys/unix"
)

func TestQuickAnswersEveryFeatureItCanWithoutAChild(t *testing.T) {
	f := Quick()
	assert.NotEmpty(t, f.Kernel)
	assert.Equal(t, os.Geteuid(), f.UID)
	for _, name := range []facts.Name{facts.Landlock, facts.Seccomp, facts.Openat2, facts.MountAPI, facts.CloseR, facts.Pidfd} {
		assert.Contains(t, f.Answers, name)
	}
	assert.NotContains(t, f.Answers, facts.UserNS, "a run cannot afford to make namespaces only to ask")
}

func TestFullAnswersEveryRowOfTheTable(t *testing.T) {
	f := Full()
	for _, row := range facts.Table {
		require.Contains(t, f.Answers, row.Name)
		if a := f.Answers[row.Name]; a.State == facts.No {
			assert.NotEmpty(t, a.Detail, "%s: a no says why", row.Name)
		}
	}
}

func TestLastCapIsTheKernels(t *testing.T) {
	// gocapability reads /proc/sys/kernel/cap_last_cap when it is initialised: what ours does without opening a file.
	assert.Equal(t, int(capability.CAP_LAST_CAP), lastCap())
}

func TestARefusalIsANoWithItsStep(t *testing.T) {
	err := try(unix.CLONE_NEWUSER|unix.CLONE_NEWNS, func(p *sys.Program) {
		p.At(sys.Step{Stage: "mount", Op: "proc"})
		p.Fail(unix.EPERM)
	})
	require.ErrorIs(t, err, errors.ErrUnsupported)
	assert.Equal(t, "mount (proc): operation not permitted", err.Error())
	err = try(unix.CLONE_NEWNS|unix.CLONE_FS, nil)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	assert.Contains(t, err.Error(), "clone: ")
}

func TestProbesLeaveNoMountsAndNoChildren(t *testing.T) {
	before, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	Full()
	after, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	assert.Equal(t, string(before), string(after))
	_, err = unix.Wait4(-1, nil, unix.WNOHANG, nil)
	assert.ErrorIs(t, err, unix.ECHILD)
}
