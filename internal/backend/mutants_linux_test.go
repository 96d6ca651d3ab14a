package backend

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/internal/verify"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// mutant is a program of which one call is changed.
type mutant struct {
	sys.Mutant
	call int
	of   *sys.Program // the program that was changed
}

// harmless are the classes of mutants that the verifier accepts, each with the reason why such a program protects no less. No row may be for
// a call that opens, mounts, attaches, detaches, drops, maps, restricts or closes, and is left out or weakened, unless a later call does the
// same.
var harmless = []struct {
	name, reason string
	is           func(mutant) bool
}{
	{"a mount point is not made", "the call that opens it comes right after, and fails", func(m mutant) bool {
		return m.Class == "delete" && m.makes()
	}},
	{"a buffer begins with other bytes", "the kernel overwrites it, and nothing reads what it had before", func(m mutant) bool {
		return m.Class == "memory" && slices.Contains([]uintptr{unix.SYS_RECVFROM, unix.SYS_READLINKAT}, m.view().NR())
	}},
	{"a remount restricts more", "the flags of the plan are all there, and one that takes a right away", func(m mutant) bool {
		v := m.view()
		return m.Class == "argument" && v.NR() == unix.SYS_MOUNT && v.Arg(3)&unix.MS_REMOUNT != 0 && m.What == "3 with another bit 0" && v.Arg(3)&unix.MS_RDONLY != 0
	}},
	{"a process of the self-test tries another act", "it protects nothing: what confines that process is checked as for the command, and an act that does not fail still stops the start",
		func(m mutant) bool { return m.Class != "tolerate" && m.step().Stage == "self-test" && m.acts() }},
	{"two calls that do the same are exchanged", "the kernel sees no difference", mutant.same},
}

func (m mutant) view() sys.View { return m.of.View(m.call) }
func (m mutant) step() sys.Step { return m.of.Describe(m.call) }

// makes reports whether the call makes a directory or an empty file in a mount step.
func (m mutant) makes() bool {
	nr := m.view().NR()
	return m.step().Stage == "mount" && (nr == unix.SYS_MKDIRAT || nr == unix.SYS_MKNODAT)
}

// acts reports whether the call is an act of the self-test or gives one its argument: a step that always fails comes after it, unless the
// act fails.
func (m mutant) acts() bool {
	for i := m.call; i < m.call+3; i++ {
		if e, _, ok := m.of.View(i).Tolerated(0); ok && e == sys.Any && m.of.View(i+1).Kind() == sys.KindFail {
			return true
		}
	}
	return false
}

// same reports whether the call and the next one, which were exchanged, have the same arguments.
func (m mutant) same() bool {
	a, b := m.of.View(m.call), m.of.View(m.call+1)
	equal := m.Class == "swap" && a.Kind() == sys.KindCall && b.Kind() == sys.KindCall && a.NR() == b.NR() && a.Min() == b.Min() && a.Keep() == b.Keep()
	for i := range 6 {
		equal = equal && a.IsSlot(i) == b.IsSlot(i) && bytes.Equal(a.Mem(i), b.Mem(i)) && (a.Mem(i) != nil || a.Arg(i) == b.Arg(i))
	}
	return equal
}

// TestMutantsAreRejected changes each call of real programs in every way there is. The verifier must reject the result, unless a row of
// harmless has the reason why it need not. The fast tier takes a sample of the calls.
func TestMutantsAreRejected(t *testing.T) {
	programs := strictPrograms(t)
	maps.Copy(programs, remotePrograms(t))
	maps.Copy(programs, requests(t))
	var points []verify.Input // one for each call
	var calls []int
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		for i := range programs[name].Program.Len() {
			points, calls = append(points, programs[name]), append(calls, i)
		}
	}
	class := func(n int) string {
		p := points[n].Program
		return fmt.Sprintln(p.Describe(calls[n]).Stage, p.Describe(calls[n]).Op, p.CallName(calls[n]))
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	all, accepted := 0, map[string]int{}
	for i, n := range testenv.Sample(t, len(points), class) {
		if i%100 == 0 {
			runtime.GC() // when no program is changed
		}
		in, of := points[n], points[n].Program
		for m := range of.Mutants(calls[n]) {
			all++
			in.Program = m.Program
			if verify.Check(in) != nil {
				continue
			}
			row := rowFor(mutant{m, calls[n], of})
			if row == "" {
				t.Errorf("accepted without a reason: call %d, %s %s: %s %s", calls[n], of.Describe(calls[n]), of.CallName(calls[n]), m.Class, m.What)
			}
			accepted[row]++
		}
	}
	for _, row := range harmless {
		t.Logf("accepted %d: %s: %s", accepted[row.name], row.name, row.reason)
		all -= accepted[row.name]
		if testenv.All() && os.Geteuid() == 0 { // some calls are in root's programs alone
			require.NotZero(t, accepted[row.name], "the row %q is for nothing", row.name)
		}
	}
	testenv.Count(t, "rejected mutants", all)
}

func rowFor(m mutant) string {
	for _, row := range harmless {
		if row.is(m) {
			return row.name
		}
	}
	return ""
}
