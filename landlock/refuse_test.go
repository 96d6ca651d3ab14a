package landlock

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSettleNamesTheRightsThatAKernelRefuses(t *testing.T) {
	refusing := func(fs Access, net Net, scope Scope) func(Ruleset) bool {
		return func(r Ruleset) bool { return r.HandledFS&fs == 0 && r.HandledNet&net == 0 && r.Scoped&scope == 0 }
	}
	for name, c := range map[string]struct {
		abi     int
		takes   func(Ruleset) bool
		usable  int
		refused []string
	}{
		"a kernel that means what it says":      {7, refusing(0, 0, 0), 7, nil},
		"one right is refused":                  {7, refusing(Truncate, 0, 0), 7, []string{"truncate"}},
		"rights of all three kinds":             {6, refusing(IoctlDev, ConnectTCP, ScopeSignal), 6, []string{"connect_tcp", "ioctl_dev", "scope_signal"}},
		"no right on files is taken":            {3, refusing(AllFS, 0, 0), 0, nil},
		"nothing is taken":                      {5, func(Ruleset) bool { return false }, 0, nil},
		"each alone, but not more than ABI 2's": {4, func(r Ruleset) bool { return r.HandledFS&Truncate == 0 || r.HandledFS == Truncate && r.HandledNet == 0 }, 2, nil},
		"no Landlock":                           {0, refusing(0, 0, 0), 0, nil},
	} {
		usable, refused := fitKernel(c.abi, c.takes)
		assert.Equal(t, c.usable, usable, name)
		assert.Equal(t, c.refused, refused, name)
	}
}

func TestWithoutLeavesRightsOutEverywhere(t *testing.T) {
	r := Ruleset{
		Paths:      []PathRule{{Path: "/a", Access: ReadFile | Truncate}, {Path: "/b", Access: Truncate}},
		HandledFS:  AllFS,
		HandledNet: BindTCP | ConnectTCP,
		Ports:      []PortRule{{Port: 80, Access: ConnectTCP}, {Port: 81, Access: BindTCP}},
		Scoped:     ScopeAll,
	}
	got := Without(r, []string{"truncate", "connect_tcp", "scope_signal"})
	assert.Equal(t, Ruleset{
		Paths:      []PathRule{{Path: "/a", Access: ReadFile}},
		HandledFS:  AllFS &^ Truncate,
		HandledNet: BindTCP,
		Ports:      []PortRule{{Port: 81, Access: BindTCP}},
		Scoped:     ScopeAbstractUnix,
	}, got)
	assert.Equal(t, Truncate, r.Paths[1].Access, "the original is as it was")
	assert.Equal(t, r, Without(r, nil))
}
