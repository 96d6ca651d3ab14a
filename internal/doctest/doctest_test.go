// Package doctest checks the documents of this repository: links, paths that they name, and their form. That their commands work is checked by
// TestDocCommands and TestScenarios of cmd/nsrun.
package doctest

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../.."

// documents lists all Markdown files that are no test data, by their path in the repository.
func documents(t *testing.T) (names []string) {
	require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "notes" || strings.HasPrefix(d.Name(), ".") && name != root):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".md"):
			rel, err := filepath.Rel(root, name)
			names = append(names, rel)
			return err
		}
		return nil
	}))
	for _, must := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "doc/security.md", "doc/adr/README.md", "examples/executor/README.md"} {
		require.Contains(t, names, must)
	}
	return names
}

func read(t *testing.T, name string) string {
	text, err := os.ReadFile(filepath.Join(root, name))
	require.NoError(t, err)
	return string(text)
}

// prose returns a document without its fenced blocks.
func prose(text string) string {
	var out strings.Builder
	for i, part := range strings.Split("\n"+text, "\n```") {
		if i%2 == 0 {
			out.WriteString(part)
		}
	}
	return out.String()
}

var (
	codeSpan = regexp.MustCompile("`[^`]*`")
	link     = regexp.MustCompile(`\]\(([^()\s]*)\)`)
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// anchors returns the anchors of a document's headings, as GitHub makes them.
func anchors(text string) (all []string) {
	drop := regexp.MustCompile(`[^\p{L}\p{N}\s_-]`)
	for _, h := range heading.FindAllStringSubmatch(prose(text), -1) {
		name := strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")
		anchor := name
		for n := 1; slices.Contains(all, anchor); n++ {
			anchor = name + "-" + strconv.Itoa(n)
		}
		all = append(all, anchor)
	}
	return all
}

// TestLinks follows each link that leads to a file or a heading of this repository.
func TestLinks(t *testing.T) {
	followed := 0
	for _, name := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(prose(read(t, name)), ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			followed++
			if problem := follow(t, name, m[1]); problem != "" {
				t.Errorf("%s: (%s): %s", name, m[1], problem)
			}
		}
	}
	assert.Greater(t, followed, 150, "links are found")
}

// follow returns why a link of a document leads nowhere, or nothing.
func follow(t *testing.T, from, target string) string {
	file, anchor, hasAnchor := strings.Cut(target, "#")
	to := from
	if file != "" {
		to = path.Join(path.Dir(from), file)
	}
	if strings.HasPrefix(to, "..") || strings.HasPrefix(file, "/") {
		return "it leads out of the repository"
	}
	info, err := os.Stat(filepath.Join(root, to))
	switch {
	case err != nil:
		return "there is no " + to
	case hasAnchor && (info.IsDir() || !slices.Contains(anchors(read(t, to)), anchor)):
		return to + " has no such heading"
	}
	return ""
}

// TestDeadLinksAreSeen is the positive control of TestLinks.
func TestDeadLinksAreSeen(t *testing.T) {
	for target, want := range map[string]string{
		"limits.md": "", "limits.md#exit-codes": "", "#the-ten-claims": "", "../LICENSE": "",
		"no-such.md": "there is no doc/no-such.md", "#no-such": "doc/security.md has no such heading", "limits.md#no": "doc/limits.md has no such heading",
		"../../x": "it leads out of the repository", "adr#x": "doc/adr has no such heading",
	} {
		assert.Equal(t, want, follow(t, "doc/security.md", target), target)
	}
	assert.Equal(t, []string{"a-b", "a-b-1", "it-is-b"}, anchors("# A b\n\n```\n# c\n```\n## A b\n### It is: `b`\n"))
}

// namedFile is a code span that names a file of this repository, or a directory of tests, examples and documents.
var namedFile = regexp.MustCompile("`((?:cmd|contrib|doc|e2e|examples|internal|landlock|mounts|nsrun|rlimit|scripts|seccomp)/[a-zA-Z0-9_/.-]*\\.[a-z]+|(?:doc|e2e|examples)/[a-zA-Z0-9_/-]+)`")

// TestNamedFilesExist looks for each file that a document names in a code span.
func TestNamedFilesExist(t *testing.T) {
	seen := 0
	for _, name := range documents(t) {
		if name == "CHANGELOG.md" { // it names what was
			continue
		}
		for _, m := range namedFile.FindAllStringSubmatch(prose(read(t, name)), -1) {
			seen++
			_, here := os.Stat(filepath.Join(root, path.Dir(name), m[1]))
			_, err := os.Stat(filepath.Join(root, m[1]))
			assert.True(t, err == nil || here == nil, "%s names %s, which does not exist", name, m[1])
		}
	}
	assert.Greater(t, seen, 40, "names are found")
}

// TestReadmeIsShort keeps the front page a front page: the rest belongs into doc.
func TestReadmeIsShort(t *testing.T) {
	assert.LessOrEqual(t, strings.Count(read(t, "README.md"), "\n"), 250)
}

// languages are those of fenced blocks without commands.
var languages = strings.Fields("go hcl js json python yaml")

// TestBlocks requires each fenced block to begin with a command, which TestDocCommands runs, or to name its language.
func TestBlocks(t *testing.T) {
	for _, name := range documents(t) {
		if name != "README.md" && !strings.HasPrefix(name, "doc/") {
			continue
		}
		parts := strings.Split("\n"+read(t, name), "\n```")
		require.Equal(t, 1, len(parts)%2, "%s: each block ends", name)
		for i := 1; i < len(parts); i += 2 {
			language, body, _ := strings.Cut(parts[i], "\n")
			if language == "" {
				assert.True(t, strings.HasPrefix(body, "$ "), "%s: a block without a language begins with \"$ \":\n%s", name, body)
			} else {
				assert.Contains(t, languages, language, "%s: a block of commands has no language, and \"$ \" before each", name)
			}
		}
	}
}

// TestDecisions holds the decisions to their form: numbered without gaps, four sections, at most 200 words, and listed once by title.
func TestDecisions(t *testing.T) {
	files, err := filepath.Glob(root + "/doc/adr/[0-9]*.md")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 92)
	var listed []string
	for _, m := range regexp.MustCompile(`(?m)^- \[(.*)\]\((.*)\)$`).FindAllStringSubmatch(read(t, "doc/adr/README.md"), -1) {
		listed = append(listed, m[2]+": "+m[1])
	}
	assert.Len(t, listed, len(files), "the index lists each decision once")
	superseded := 0
	for i, file := range files { // in their order, as names begin with three digits
		name := filepath.Base(file)
		text := read(t, "doc/adr/"+name)
		title, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
		assert.Equal(t, strconv.Itoa(i+1), strings.TrimLeft(name[:3], "0"), name)
		assert.Regexp(t, "^"+strconv.Itoa(i+1)+`\. `, title, name)
		assert.Contains(t, listed, name+": "+title)
		assert.LessOrEqual(t, len(strings.Fields(text)), 200, "%s: words", name)
		var sections []string
		for _, h := range heading.FindAllStringSubmatch(text, -1) {
			sections = append(sections, h[1])
		}
		assert.Equal(t, []string{title, "Context", "Decision", "Consequences", "Status"}, sections, name)
		assert.Regexp(t, `\n## Status\n\n(Accepted|Superseded)`, text, name)
		for _, m := range regexp.MustCompile(`Superseded[^(]*\(([^)]*)\)`).FindAllStringSubmatch(text, -1) {
			assert.Regexp(t, `Supersedes[^(]*\(`+regexp.QuoteMeta(name)+`\)`, read(t, "doc/adr/"+m[1]), "%s: the status of both names the other", name)
			superseded++
		}
	}
	assert.Positive(t, superseded, "superseded decisions are found")
}
