package main

import (
	"bytes"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/result"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// flagSets are those of the verbs that have flags.
func flagSets() map[string]*flag.FlagSet {
	var f flags
	var p planFlags
	var d doctorFlags
	var w wrapFlags
	var u auditFlags
	var s seccompFlags
	var served sessionFlags
	var here statusFlags
	var e explainFlags
	return map[string]*flag.FlagSet{"seccomp": newFlags("seccomp", s.rows()...), "session": newFlags("session", served.rows()...),
		"status": newFlags("status", here.rows()...), "commands": newFlags("commands", f.commandsRows()...), "run": newFlags("run", f.runRows()...), "plan": p.set(), "wrap": w.set(), "doctor": newFlags("doctor", d.rows()...),
		"audit": newFlags("audit", u.rows()...), "explain": newFlags("explain", e.rows()...)}
}

func TestHelpNamesEveryFlagAndNoOther(t *testing.T) {
	named := regexp.MustCompile(`(?m)(?:^  |, |\[)(--?[a-z-]+|-C\b)`)
	for verb, fs := range flagSets() {
		text := helpTexts()[verb]
		var inHelp []string
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			inHelp = append(inHelp, strings.TrimLeft(m[1], "-"))
		}
		fs.VisitAll(func(g *flag.Flag) {
			if verb == "plan" && slices.Contains([]string{"ask", "ask-timeout", "result", "verify", "q", "quiet"}, g.Name) {
				return // accepted, as run's arguments are plan's; it does nothing
			}
			assert.Contains(t, inHelp, g.Name, "nsrun help %s must name --%s", verb, g.Name)
		})
		for _, name := range inHelp {
			assert.NotNil(t, fs.Lookup(name), "nsrun help %s names --%s, which is no flag", verb, name)
		}
	}
}

func TestHelpOfEachVerb(t *testing.T) {
	for _, v := range verbs() {
		text, ok := helpTexts()[v.name]
		require.True(t, ok, "%s has help", v.name)
		if v.name != "help" {
			assert.Regexp(t, `(?m)^Examples?:\n  nsrun `, text, "help %s has examples", v.name)
		}
		assert.Contains(t, usage(), "nsrun "+strings.Replace(v.name, "probe", "doctor", 1), "usage names %s", v.name)
		for line := range strings.SplitSeq(text, "\n") {
			assert.LessOrEqual(t, len(line), 112, "help %s: a line is too long: %s", v.name, line)
		}
	}
}

func TestHelpOfEachTopic(t *testing.T) {
	for _, topic := range topics {
		text := topic.text()
		assert.Contains(t, usage(), "nsrun help "+topic.name+" ")
		for line := range strings.SplitSeq(text, "\n") {
			assert.LessOrEqual(t, len(line), 112, "help %s: a line is too long: %s", topic.name, line)
		}
	}
	for _, l := range policy.LimitTable {
		assert.Regexp(t, `(?m)^  `+l.Name+` .*\n      .*held by`, limitsHelp())
	}
	for _, v := range result.Verdicts {
		assert.Regexp(t, `(?m)^  `+string(v)+` {2,}[a-z0-9]`, verdictsHelp())
	}
}

// The examples' flags must be ones that the verb takes, in the order that works.
func TestHelpExamplesParse(t *testing.T) {
	example := regexp.MustCompile(`(?m)^  nsrun (run|plan|wrap|doctor) (.*?)(?:   .*| && .*| 3>.*)?$`)
	seen := 0
	for verb := range flagSets() {
		_, examples, _ := strings.Cut(helpTexts()[verb], "Example")
		for _, m := range example.FindAllStringSubmatch(examples, -1) {
			seen++
			fs := flagSets()[m[1]]
			a := &app{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}
			require.NoError(t, a.parse(fs, strings.Fields(m[2])), "nsrun %s %s", m[1], m[2])
			if m[1] == "run" || m[1] == "plan" {
				assert.NotZero(t, fs.NArg(), "nsrun %s %s has a command", m[1], m[2])
			}
		}
	}
	assert.GreaterOrEqual(t, seen, 8, "examples are found")
}

// Each limit that run can be given is named in its help.
func TestHelpNamesEveryLimit(t *testing.T) {
	for _, l := range policy.LimitTable {
		assert.Contains(t, helpTexts()["run"], l.Name)
	}
}

func TestPrintableTakesControlCharacters(t *testing.T) {
	assert.Equal(t, "a?[31mb?c\n\td?", printable("a\x1b[31mb\x7fc\n\td\u0085"))
}

// TestDocHasTheVerdicts compares the table in doc/limits.md with the one in the code; -update writes it anew.
func TestDocHasTheVerdicts(t *testing.T) {
	table := "| verdict | exit code | evidence |\n|---|---|---|\n"
	var all []result.Verdict
	for _, row := range result.VerdictTable {
		all = append(all, row.Verdict)
		table += fmt.Sprintf("| `%s` | %s | %s |\n", row.Verdict, row.Code, row.Evidence)
	}
	assert.Equal(t, result.Verdicts, all)
	testenv.DocTable(t, "../../doc/limits.md", "verdicts", table, *update)
}
