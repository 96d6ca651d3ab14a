package verify

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
)

var update = flag.Bool("update", false, "write the tables of stages into doc/security.md anew")

// columns are the runners of a table, in words.
type columns []struct {
	by   Runner
	name string
}

var (
	initColumns = columns{{Pid1, "pid 1"}, {Server, "pid 1, session"}, {Subreaper, "subreaper"}, {SubreaperServer, "subreaper, session"},
		{Supervisor, "supervisor"}, {Watchdog, "watchdog of bubblewrap"}, {Compat, "as bwrap"}}
	execColumns = columns{{Command, "native"}, {Bare, "landlock"}, {Unconfined, "none"}, {Request | Shared, "session"}, {Remote, "in bubblewrap"},
		{Container, "in a container"}, {CompatCommand | CompatTail, "as bwrap"}, {Tester, "self-test"}, {ForeignTester, "self-test of a foreign call"}}
)

// markdown is a table of stages for the documents.
func markdown(table []Stage, by columns) string {
	var out strings.Builder
	out.WriteString("| stage |")
	for _, c := range by {
		out.WriteString(" " + c.name + " |")
	}
	out.WriteString(" why it is there, and there |\n|---|" + strings.Repeat("---|", len(by)+1) + "\n")
	for _, s := range table {
		fmt.Fprintf(&out, "| %s |", s.ID)
		for _, c := range by {
			mark := "–"
			if s.By&c.by != 0 {
				mark = "●"
			}
			out.WriteString(" " + mark + " |")
		}
		out.WriteString(" " + s.Why + " |\n")
	}
	return out.String()
}

// TestDocHasTheStages keeps the tables in doc/security.md in step; -update writes them anew.
func TestDocHasTheStages(t *testing.T) {
	for name, table := range map[string]string{"stages": markdown(Init[:], initColumns), "exec-stages": markdown(Confinement[:], execColumns)} {
		testenv.DocTable(t, "../../doc/security.md", name, table, *update)
	}
}

// TestStagesAreWhole: every stage is in a table, and no table has it twice.
func TestStagesAreWhole(t *testing.T) {
	for _, table := range [][]Stage{Init[:], Confinement[:]} {
		seen := map[StageID]bool{}
		for _, s := range table {
			assert.False(t, seen[s.ID], "%s has two rows in one table", s.ID)
			seen[s.ID] = true
			assert.NotEmpty(t, s.Why, s.ID)
		}
	}
	for id := range numStages {
		found := false
		for _, s := range append(Init[:len(Init):len(Init)], Confinement[:]...) {
			found = found || s.ID == id
		}
		assert.True(t, found, "%s is in a table", id)
	}
}
