package backend_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// matrix is what was seen, by user, backend and guarantee.
type matrix map[string]map[string]column

const legend = `
kept, lost  as the receipt says, and as was seen; kept-n: n acts had no control beside them
kept?       the receipt says so; no act with a control has tried it
lost?       the receipt says so; it was not seen
kept!       but for a known gap
-           not run: a skip or a failure above says why`

// log prints the matrix, and under it what stands behind each cell that is not plain.
func (m matrix) log(t *testing.T) {
	t.Helper()
	var out strings.Builder
	reasons := map[string][]string{} // the cells that each of them is given for
	for _, user := range names() {
		fmt.Fprintf(&out, "\n%-13s", "as "+user)
		for _, e := range backends {
			fmt.Fprintf(&out, "%-15s", e.name)
		}
		for _, g := range guarantees() {
			fmt.Fprintf(&out, "\n%-13s", g)
			for _, e := range backends {
				one, ran := m[user][e.name][g]
				if !ran {
					one.text = "-"
				}
				fmt.Fprintf(&out, "%-15s", one.text)
				for _, why := range slices.Concat(one.lone, one.untried) {
					why = g + ": " + strings.ReplaceAll(why, "\n", ", ")
					reasons[why] = append(reasons[why], e.name+"/"+user)
				}
			}
		}
		out.WriteString("\n")
	}
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(&out, "\n%s\n    %s", why, strings.Join(reasons[why], " "))
	}
	t.Logf("%s\n%s", legend, &out)
}
