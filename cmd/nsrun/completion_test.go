package main

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// printedBy returns what a verb prints on standard output.
func printedBy(t *testing.T, args ...string) string {
	var out, errs bytes.Buffer
	require.Equal(t, 0, (&app{stdout: &out, stderr: &errs}).main(args), "%v: %s", args, errs.String())
	require.Empty(t, errs.String())
	return out.String()
}

// bashOffers returns what bash offers for the last of the words, in a directory of its own with some files.
func bashOffers(t *testing.T, script string, words ...string) []string {
	dir := filepath.Dir(script)
	command := `source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _nsrun; printf '%s\n' "${COMPREPLY[@]}"`
	cmd := exec.Command("bash", append([]string{"--norc", "--noprofile", "-c", command, script}, words...)...)
	cmd.Dir = filepath.Join(dir, "files")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%v: %s", words, out)
	return strings.Fields(string(out))
}

// TestCompletionOfBash calls the function that the script defines as bash does, which splits words at =.
func TestCompletionOfBash(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		require.Empty(t, os.Getenv("CI"), "CI must have bash")
		t.Skip("needs bash")
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "nsrun.bash")
	require.NoError(t, os.WriteFile(script, []byte(printedBy(t, "completion", "bash")), 0o644))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "files", "sub"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "files", "some.json"), nil, 0o644))
	for _, c := range []struct {
		line string
		want string
	}{
		{"nsrun r|", "run"}, {"nsrun man|", "manifest man"}, {"nsrun --v|", "--version"}, {"nsrun nosuch x|", ""},
		{"nsrun run --work|", "--workspace"}, {"nsrun run --mo|", "--mount"}, {"nsrun run --he|", "--help"}, {"nsrun plan --js|", "--json"}, {"nsrun run --js|", ""},
		{"nsrun run --net |", "none host allow:"}, {"nsrun run --net = h|", "host"}, {"nsrun run --net = |", "none host allow:"}, {"nsrun run --net none --fallback d|", "degrade"},
		{"nsrun plan --backend la|", "landlock"}, {"nsrun run --isolation s|", "subprocess"}, {"nsrun run --autonomy f|", "full"}, {"nsrun run --commands p|", "passive"},
		{"nsrun wrap --seccomp b|", "build"}, {"nsrun run --limit mem|", "memory_mb="}, {"nsrun run --require kil|", "kill_tree"},
		{"nsrun run --manifest so|", "some.json"}, {"nsrun run --workspace s|", "sub"}, {"nsrun run --ro s|", "some.json sub"}, {"nsrun run -w s|", "sub"},
		{"nsrun run --hostname x|", ""}, {"nsrun run -e A -- ba|", "bash"}, {"nsrun run ba|", "bash"}, {"nsrun run -v -t cat so|", "some.json"},
		{"nsrun run --tty = false ba|", "bash"}, {"nsrun run cat --net |", "some.json sub"}, {"nsrun run -- cat --ne|", ""},
		{"nsrun manifest |", "check schema"}, {"nsrun manifest check s|", "some.json sub"}, {"nsrun manifest --|", "--help"},
		{"nsrun commands c|", "check"}, {"nsrun commands check --commands f|", "full"}, {"nsrun commands check -- ba|", "bash"},
		{"nsrun completion |", "bash zsh fish"}, {"nsrun schema c|", "ceiling"}, {"nsrun help verd|", "verdicts"}, {"nsrun man ses|", "session"},
		{"nsrun seccomp compile -o so|", "some.json"}, {"nsrun audit show --l|", "--label"}, {"nsrun doctor --a|", "--all --apparmor-profile"},
	} {
		line := strings.TrimSuffix(c.line, "|")
		words := strings.Fields(line)
		if strings.HasSuffix(line, " ") {
			words = append(words, "")
		}
		got := bashOffers(t, script, words...)
		for _, want := range strings.Fields(c.want) {
			assert.Contains(t, got, want, c.line)
		}
		if c.want != "bash" { // of programs there are others on the host
			assert.Len(t, got, len(strings.Fields(c.want)), "%s: %v", c.line, got)
		}
	}
}

// Each flag of each verb is in each script, and in the manual page.
func TestGeneratedTextsHaveEachFlag(t *testing.T) {
	scripts := map[string]string{"man": printedBy(t, "man")}
	for _, shell := range shellNames() {
		scripts[shell] = printedBy(t, "completion", shell)
		if path, err := exec.LookPath(shell); err == nil {
			file := filepath.Join(t.TempDir(), "script")
			require.NoError(t, os.WriteFile(file, []byte(scripts[shell]), 0o644))
			out, err := exec.Command(path, "-n", file).CombinedOutput()
			assert.NoError(t, err, "%s -n: %s", shell, out)
		}
	}
	for verb, fs := range flagSets() {
		fs.VisitAll(func(g *flag.Flag) {
			for kind, text := range scripts {
				name := ""
				if verb == "plan" && slices.Contains([]string{"ask", "ask-timeout", "result", "verify"}, g.Name) {
					continue
				}
				switch kind {
				case "fish":
					name = " -l " + g.Name
					if !strings.HasPrefix(spelled(g.Name), "--") {
						name = " -[so] " + g.Name
					}
				case "man":
					name = regexp.QuoteMeta(`\fB` + roff(spelled(g.Name)) + `\fR`)
				default:
					name = `[ *'|)]` + spelled(g.Name) + `[] '=[]`
				}
				assert.Regexp(t, name, text, "%s of %s in %s", g.Name, verb, kind)
			}
		})
	}
}

// The manual page has only macros of man(7), at the beginning of a line, and each verb.
func TestManualPages(t *testing.T) {
	macro := regexp.MustCompile(`^\.(TH|SH|SS|PP|TP|B|BR|nf|fi)( |$)`)
	for _, v := range append([]verb{{name: "", help: "x"}}, shown()...) {
		if v.help == "" {
			continue
		}
		text := printedBy(t, strings.Fields("man "+v.name)...)
		assert.True(t, strings.HasPrefix(text, ".TH NSRUN"), v.name)
		lines := 0
		for line := range strings.Lines(text) {
			lines++
			if strings.HasPrefix(line, ".") {
				assert.Regexp(t, macro, strings.TrimSuffix(line, "\n"), v.name+" line "+strconv.Itoa(lines))
			}
			assert.NotRegexp(t, `^'|\\[^efR(&I\-B]`, line, v.name)
		}
		assert.Equal(t, strings.Count(text, ".nf\n"), strings.Count(text, ".fi\n"), v.name)
		assert.Contains(t, text, ".SH NAME\nnsrun", v.name)
		if groff, err := exec.LookPath("groff"); err == nil {
			cmd := exec.Command(groff, "-man", "-ww", "-Tutf8", "-z")
			cmd.Stdin = strings.NewReader(text)
			out, err := cmd.CombinedOutput()
			assert.NoError(t, err)
			assert.Empty(t, string(out), v.name)
		}
	}
	all := printedBy(t, "man")
	for _, v := range shown() {
		assert.Contains(t, all, ".TP\n.B "+roff(v.name)+"\n")
	}
	assert.Contains(t, printedBy(t, "man", "run"), `\fB\-\-net\fR \fInone|host|allow:RULE,...\fR`)
}
