package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/result"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scenarios are the directories of examples whose README is typed into a shell, and how many commands it has at least.
var scenarios = map[string]int{"executor": 4, "conductor": 1, "shelltool": 6, "misbehaving": 2}

// TestScenarios types the commands of each README in a copy of its directory, and compares what they print: "..." there stands for anything.
// Then the host is as it was: its processes live, and no process, cgroup or file is left.
func TestScenarios(t *testing.T) {
	needSandbox(t)
	needPython(t)
	top, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	for name, least := range scenarios {
		t.Run(name, func(t *testing.T) {
			assert.Contains(t, string(top), "`examples/"+name+"`", "README lists it")
			s := newScene(t, filepath.Join("../../examples", name))
			commands := readme(t, filepath.Join(s.dir, "README.md"))
			require.GreaterOrEqual(t, len(commands), least, "the commands are found")
			if name == "misbehaving" {
				commands = s.misbehave(t, commands)
			}
			for _, c := range commands {
				got, written := s.types(t, c.line)
				assert.Regexp(t, pattern(here(c.prints)), got, "$ %s\n%s", c.line, written)
			}
			s.asItWas(t)
		})
	}
}

// needPython skips a test where sandboxes have no python3; in CI that is a failure.
func needPython(t *testing.T) {
	t.Helper()
	if got := call(t, "/", "nsrun", "run", "--", "python3", "-c", ""); got.code != 0 {
		require.Empty(t, os.Getenv("CI"), "CI must have python3: %s", got.stderr)
		t.Skip("needs python3 in the sandbox: " + got.stderr)
	}
}

// typed is a command of a README, and what it prints.
type typed struct{ line, prints string }

// readme returns the commands in the fenced blocks of a page: those after "$ ". Blocks in a language, as ```json, have none.
func readme(t *testing.T, page string) (commands []typed) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for i, block := range strings.Split(string(text), "```") {
		if i%2 == 0 || !strings.HasPrefix(block, "\n") {
			continue
		}
		for _, line := range strings.SplitAfter(strings.TrimPrefix(block, "\n"), "\n") {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				commands = append(commands, typed{line: strings.TrimSpace(command)})
				continue
			}
			require.NotEmpty(t, commands, "a block begins with a command")
			commands[len(commands)-1].prints += line
		}
	}
	return commands
}

// pattern makes a regular expression of what a README shows.
func pattern(text string) string {
	return `^` + strings.ReplaceAll(regexp.QuoteMeta(text), `\.\.\.`, `.*`) + `$`
}

// here is what a README shows as it is on this host: verdicts that are a cgroup's are "exit" without one.
func here(text string) string {
	for _, controller := range []string{"memory", "pids"} {
		if !canGroup(controller) {
			text = regexp.MustCompile(`(?m)  `+controller+`$`).ReplaceAllString(text, "  exit")
		}
	}
	return text
}

func canGroup(controller string) bool {
	can, _ := condition("cgroup:" + controller)
	return can
}

// expectation is a row of examples/misbehaving/expected.json.
type expectation struct {
	Verdict result.Verdict `json:"verdict"`
	Without result.Verdict `json:"without_cgroup"`
}

// misbehave runs all evil tools at once. That is the command ./run.sh of the README, whose table must be what expected.json says; it
// returns the other commands.
func (s *scene) misbehave(t *testing.T, commands []typed) (others []typed) {
	text, err := os.ReadFile(filepath.Join(s.dir, "expected.json"))
	require.NoError(t, err)
	var expected map[string]expectation
	require.NoError(t, json.Unmarshal(text, &expected))
	tools, err := filepath.Glob(filepath.Join(s.dir, "*.py"))
	require.NoError(t, err)
	require.Len(t, expected, len(tools), "each tool is expected to end somehow")
	bounded := canGroup("pids") || os.Getuid() != 0

	table := ""
	for _, tool := range slices.Sorted(maps.Keys(expected)) {
		e := expected[tool]
		table += row(tool, e.Verdict)
		want := e.Verdict
		switch {
		case !bounded: // by root, where nothing would stop the fork bomb
			want = result.Refused
		case e.Verdict != e.Without && !canGroup(string(e.Verdict)):
			want = e.Without
		}
		s.running.Go(func() {
			line := "./run.sh " + tool
			if want != result.Timeout { // no tool whose end is another reaches the manifest's time, however busy the machine is
				line = fmt.Sprintf("NSRUN_TEST_FLAGS='--timeout %s' %s", testenv.Limit(0), line)
			}
			got, written := s.types(t, line)
			assert.Equal(t, row(tool, want), got, written)
		})
	}
	s.running.Wait()
	require.Equal(t, typed{"./run.sh", table}, commands[0], "README shows what is expected")
	if !bounded {
		return nil
	}
	return commands[1:]
}

func row(tool string, verdict result.Verdict) string { return fmt.Sprintf("%-20s%s\n", tool, verdict) }
