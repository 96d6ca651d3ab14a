package backend_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// cell is a guarantee, as one backend's receipt has it and as it was seen.
type cell struct {
	holds        bool
	kept, broken []string // what was seen
	lone         []string // acts that were refused without a sandbox too
	untried      []string
	text         string
}

type column map[string]cell

// newCells makes sure that a receipt has each guarantee in one of its two lists.
func newCells(t *testing.T, r receipt) column {
	t.Helper()
	cells := column{}
	for _, name := range slices.Concat(r.Holds, r.Lost) {
		assert.NotContains(t, cells, name, "it holds or it is lost")
		cells[name] = cell{holds: slices.Contains(r.Holds, name)}
	}
	for _, r := range rows() {
		assert.Contains(t, cells, r.guarantee, "the receipt has every guarantee")
	}
	assert.Len(t, cells, len(guarantees()), "every guarantee has a row here")
	return cells
}

func guarantees() (names []string) {
	for _, r := range rows() {
		if !slices.Contains(names, r.guarantee) {
			names = append(names, r.guarantee)
		}
	}
	return names
}

func (c column) holds(name string) bool { return c[name].holds }

func (c column) add(r row, s sight, lone string) {
	one := c[r.guarantee]
	switch {
	case s.untried != "":
		one.untried = append(one.untried, s.untried)
	case lone != "" && s.kept:
		one.lone = append(one.lone, r.act+": "+lone)
	case s.kept:
		one.kept = append(one.kept, s.what)
	default:
		one.broken = append(one.broken, s.what)
	}
	c[r.guarantee] = one
}

// compare holds what was seen against what the receipt says.
func (c cell) compare(t *testing.T, b box, name string) cell {
	t.Helper()
	why := explanation(b, name)
	switch {
	case c.holds && len(c.broken) > 0:
		c.text = "BROKEN"
		assert.Fail(t, "a guarantee is broken", "%s as %s: the receipt says that %s holds, but\n%s", b.backend, b.name, name, strings.Join(c.broken, "\n"))
	case c.holds && len(c.kept) > 0:
		c.text = "kept"
		if len(c.lone) > 0 {
			c.text = fmt.Sprintf("kept-%d", len(c.lone))
		}
		if slices.ContainsFunc(c.untried, func(why string) bool { return strings.HasPrefix(why, "KNOWN GAP") }) {
			c.text = "kept!"
		}
	case !c.holds && len(c.broken) > 0:
		c.text = "lost"
	case !c.holds && why != "":
		c.text = "lost?"
		c.untried = append(c.untried, why)
	case !c.holds && len(c.kept) > 0:
		c.text = "MODEST"
		assert.Fail(t, "the receipt is too modest", "%s as %s: it says that %s is lost, but\n%s", b.backend, b.name, name, strings.Join(c.kept, "\n"))
	case c.holds:
		c.text = "kept?"
	default:
		c.text = "lost?"
	}
	return c
}
