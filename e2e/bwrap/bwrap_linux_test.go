package bwrap_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// tally counts what was compared.
var tally counts

type counts struct {
	compared, differing, known atomic.Int64
	scenes                     sync.Map
}

func (n *counts) print() {
	scenes := 0
	n.scenes.Range(func(any, any) bool { scenes++; return true })
	fmt.Printf("e2e/bwrap: %d cases, %d comparisons, %d differing, %d fields differing by the table of versions\n",
		scenes, n.compared.Load(), n.differing.Load(), n.known.Load())
}

// TestPersonality compares the binary under test with the version that is followed.
func TestPersonality(t *testing.T) {
	eachScene(t, func(t *testing.T, p person, s scene) {
		want, err := p.truth(s)
		require.NoError(t, err)
		if os.Getenv("NSRUN_BWRAP_SHOW") != "" {
			show(t, want)
		}
		got, err := p.runScene(s, built.underway)
		require.NoError(t, err)
		tally.count(s)
		differs(t, compare(want, got, s.ignore), func(field string) bool {
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

// followed is the version whose behaviour is promised.
const followed = "0.13.1"

// TestOracles compares the older versions with the newest: what differs must be in the table.
func TestOracles(t *testing.T) {
	if testing.Short() {
		t.Skip("versions are compared in the long run only")
	}
	if len(built.oracles) < 2 {
		t.Skip("there is only one version of bubblewrap")
	}
	for _, o := range built.oracles[1:] {
		t.Run(o.name, func(t *testing.T) {
			eachScene(t, func(t *testing.T, p person, s scene) {
				want, err := p.truth(s)
				require.NoError(t, err)
				got, err := p.runScene(s, o.path)
				require.NoError(t, err)
				tally.count(s)
				differs(t, compare(want, got, s.ignore), func(field string) bool {
					return known(o.name, s.name, field) >= 0
				})
			})
		})
	}
}

func (n *counts) count(s scene) {
	n.compared.Add(1)
	n.scenes.Store(s.name, true)
}

// differs reports differences, except what the table explains.
func differs(t *testing.T, found []difference, explained func(field string) bool) {
	t.Helper()
	bad := false
	for _, d := range found {
		if explained(d.field) {
			tally.known.Add(1)
			continue
		}
		bad = true
		t.Errorf("%s differs:\n%s", d.field, d.text)
	}
	if bad {
		tally.differing.Add(1)
	}
}

func show(t *testing.T, o outcome) {
	t.Helper()
	for _, field := range slices.Sorted(maps.Keys(o)) {
		for _, line := range o[field] {
			t.Logf("%s: %s", field, line)
		}
	}
}
