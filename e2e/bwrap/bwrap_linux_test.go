package bwrap_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/require"
)

// tally counts what was compared.
var tally counts

type counts struct {
	compared, differing, known, unsteady atomic.Int64
	scenes                               sync.Map
}

func (n *counts) print() {
	scenes := 0
	n.scenes.Range(func(any, any) bool { scenes++; return true })
	fmt.Printf("e2e/bwrap: %d cases, %d comparisons, %d differing, %d times the judge varied, %d fields differing by the tables\n",
		scenes, n.compared.Load(), n.differing.Load(), n.unsteady.Load(), n.known.Load())
}

// TestCompatMode compares the binary under test with the version that is followed.
func TestCompatMode(t *testing.T) {
	eachScene(t, func(t *testing.T, p person, s scene) {
		judge(t, p, s, built.underway, func(field string, got outcome) bool {
			if field == "left" && len(got["left"]) == 0 {
				return true // a process of upstream's waits for ever when its monitor fails (#529, #700)
			}
			if built.isOurs && known(ours, s.name, field) >= 0 {
				return true
			}
			// With no newer oracle the followed one is old itself: where versions differ, it is no judge.
			return built.oracles[0].name != followed && known(built.oracles[0].name, s.name, field) >= 0
		})
	})
}

// judge runs a scene under a binary and compares it with what the followed version does. Where they differ, both are asked again: if only
// the followed version says now this, now that, it is no judge of a race of its own, and that is told and counted. The binary under test
// is given no second chance: what it did differently once is a failure, unless the followed version does the same at times.
func judge(t *testing.T, p person, s scene, binary string, explained func(field string, got outcome) bool) {
	t.Helper()
	tally.count(s)
	want, err := p.truth(s)
	require.NoError(t, err)
	if os.Getenv("NSRUN_BWRAP_SHOW") != "" {
		show(t, want)
	}
	got, err := p.runScene(s, binary)
	require.NoError(t, err)
	found := slices.DeleteFunc(compare(want, got, s.ignore), func(d difference) bool {
		if explained(d.field, got) {
			tally.known.Add(1)
			return true
		}
		return false
	})
	for range 5 {
		if len(found) == 0 {
			return
		}
		again, err := p.runScene(s, built.oracles[0].path)
		require.NoError(t, err)
		if binary != built.underway { // another judge, who may vary too
			got, err = p.runScene(s, binary)
			require.NoError(t, err)
		}
		now := compare(again, got, s.ignore)
		found = slices.DeleteFunc(found, func(d difference) bool {
			if slices.ContainsFunc(now, func(o difference) bool { return o.field == d.field }) {
				return false
			}
			tally.unsteady.Add(1)
			fmt.Printf("e2e/bwrap: %s: %s %s itself varies:\n%s", t.Name(), followed, d.field, d.text)
			return true
		})
	}
	if len(found) > 0 {
		tally.differing.Add(1)
	}
	for _, d := range found {
		t.Errorf("%s differs:\n%s", d.field, d.text)
	}
}

// followed is the version whose behaviour is promised.
const followed = "0.13.1"

// TestOracles compares the older versions with the newest: what differs must be in the table.
func TestOracles(t *testing.T) {
	testenv.SlowTest(t)
	if len(built.oracles) < 2 {
		t.Skip("there is only one version of bubblewrap")
	}
	for _, o := range built.oracles[1:] {
		t.Run(o.name, func(t *testing.T) {
			eachScene(t, func(t *testing.T, p person, s scene) {
				judge(t, p, s, o.path, func(field string, _ outcome) bool { return known(o.name, s.name, field) >= 0 })
			})
		})
	}
}

func (n *counts) count(s scene) {
	n.compared.Add(1)
	n.scenes.Store(s.name, true)
}

func show(t *testing.T, o outcome) {
	t.Helper()
	for _, field := range slices.Sorted(maps.Keys(o)) {
		for _, line := range o[field] {
			t.Logf("%s: %s", field, line)
		}
	}
}
