package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// notRun lists the commands of README.md and doc that TestDocCommands does not run, each with the reason.
var notRun = map[string]string{
	"scripts/demo.sh": "it builds nsrun; .ci/run runs it",
	"scripts/test.sh": "it runs this test; .ci/run runs it",
	"CGO_ENABLED=0 go build -o bin/nsrun ./cmd/nsrun":                      "scripts/demo.sh runs it",
	"install -D bin/nsrun ~/.local/bin/nsrun":                              "it changes the home directory",
	"nsrun run --tty --workspace . -- bash":                                "it needs a terminal; TestTerminal has one",
	"nsrun run --ro ~/.nvm -- node --version":                              "it needs an nvm",
	"nsrun run --net host --env HTTP_PROXY -- curl -s https://example.org": "it needs the internet",
	"nsrun run --net allow:example.com --ask ./ask.sh -- npm ci":           "it needs the internet; e2e/network has one, and asks",
	"nsrun run --workspace . --net allow:npm.test -- sh agent.sh":          "it needs registries; e2e/network has some, and compares what is printed",
	"systemd-run --user --scope -p Delegate=yes nsrun session":             "it needs a login session with systemd",
	"nsrun run -- make":                                                "it fails only in a container; e2e/container does the same there",
	"docker rmi $(docker images -q nsrun-root)":                        "it changes Docker's images",
	"sudo install -m 755 nsrun /usr/local/bin/nsrun":                   "it changes the host",
	"nsrun doctor --apparmor-profile | sudo tee /etc/apparmor.d/nsrun": "it changes the host",
	"sudo apparmor_parser -r /etc/apparmor.d/nsrun":                    "it changes the host",
	"docker run --rm --user 1000 --security-opt seccomp=unconfined --security-opt systempaths=unconfined agent nsrun doctor": "it needs Docker; e2e/container does the same",
}

// pages lists README.md and the pages of doc, with how many commands they have at least.
func pages(t *testing.T) map[string]int {
	found, err := filepath.Glob("../../doc/*.md")
	require.NoError(t, err)
	least := map[string]int{"../../README.md": 10}
	for _, name := range found {
		least[name] = 1
	}
	least["../../doc/library.md"] = 0 // its examples are Go, and nsrun/example_linux_test.go runs them
	return least
}

// docCommands returns the commands of a page, without the comments behind them.
func docCommands(t *testing.T, page string, least int) []typed {
	commands := readme(t, page)
	require.GreaterOrEqual(t, len(commands), least, "%s: the commands are found", page)
	comment := regexp.MustCompile(`\s+# .*$`)
	for i := range commands {
		commands[i].line = comment.ReplaceAllString(commands[i].line, "")
	}
	return commands
}

// TestDocCommands types the commands of README.md and of each page of doc, page by page, in a directory with the files of testdata/doc and the
// examples. It compares what they print on both streams: "..." stands for anything within a line, and a line of "..." for any lines.
func TestDocCommands(t *testing.T) {
	needSandbox(t)
	needPython(t)
	for page, least := range pages(t) {
		t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
			s := newScene(t, "testdata/doc")
			require.NoError(t, os.CopyFS(filepath.Join(s.dir, "examples"), os.DirFS("../../examples")))
			require.NoError(t, os.Mkdir(filepath.Join(s.dir, "bin"), 0o755))
			require.NoError(t, os.Symlink(s.nsrun, filepath.Join(s.dir, "bin", "nsrun")))
			for _, c := range docCommands(t, page, least) {
				if _, ok := notRun[c.line]; ok || lacks(t, c.line) {
					continue
				}
				got, _ := s.types(t, "exec 2>&1\n"+c.line)
				assert.Regexp(t, linesPattern(c.prints), got, "$ %s", c.line)
			}
			s.nothingRuns(t)
		})
	}
}

// lacks reports whether the program of a command is not installed; in CI that is a failure.
func lacks(t *testing.T, line string) bool {
	program := strings.Fields(line)[0]
	if strings.ContainsAny(program, "=/") {
		return false
	}
	_, err := exec.LookPath(program)
	if err != nil {
		require.Empty(t, os.Getenv("CI"), "CI must have %s", program)
		t.Logf("not run, as %s is not installed: $ %s", program, line)
	}
	return err != nil
}

// TestNotRunIsUsed fails for a row of notRun that no page has.
func TestNotRunIsUsed(t *testing.T) {
	seen := map[string]bool{}
	for page, least := range pages(t) {
		for _, c := range docCommands(t, page, least) {
			seen[c.line] = true
		}
	}
	for line, reason := range notRun {
		assert.True(t, seen[line], "no page has the command %q any more", line)
		assert.NotEmpty(t, reason, line)
	}
	assert.Less(t, 2*len(notRun), len(seen), "most commands are run")
}

// linesPattern makes a regular expression of what a page shows.
func linesPattern(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if line == "...\n" {
			out.WriteString(`(.*\n)*`)
			continue
		}
		out.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, `.*`))
	}
	return `^` + out.String() + `$`
}

// TestLinesPattern is the positive control: what a page does not show does not match.
func TestLinesPattern(t *testing.T) {
	shown := "a ...c\n...\nend\n"
	for _, text := range []string{"a bc\nend\n", "a bc\nx\ny\nend\n"} {
		assert.Regexp(t, linesPattern(shown), text)
	}
	for _, text := range []string{"", "a bc\n", "a b\nend\n", "a bc\nx\nend\nmore\n"} {
		assert.NotRegexp(t, linesPattern(shown), text)
	}
	assert.NotRegexp(t, linesPattern(""), "text\n")
}
