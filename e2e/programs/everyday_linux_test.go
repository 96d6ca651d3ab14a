package programs

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the table of doc/programs.md anew")

// TestEveryday runs each program of the table by each backend, and twice by native: the fast tier those that are marked, and all of them an ordinary user in the tier all.
func TestEveryday(t *testing.T) {
	dir, nsrun := room(t)
	for i, r := range everydays() {
		if !r.fast && (!testenv.All() || os.Geteuid() == 0) {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			r.installed(t)
			project, home := filepath.Join(dir, fmt.Sprint("p", i)), filepath.Join(dir, fmt.Sprint("h", i))
			require.NoError(t, os.MkdirAll(home, 0o700))
			require.NoError(t, os.MkdirAll(project, 0o755))
			write(t, project, r.files)
			if r.prepare != "" {
				host(t, project, home, "sh", "-ec", r.prepare)
			}
			if without := r; r.tool != "" {
				without.tool = ""
				out, err := without.runs(nsrun, project, home, "native")
				assert.False(t, err == nil && strings.Contains(out, r.prints), "it works without the preset %s", r.tool)
				assert.Contains(t, out, "--tool "+r.tool, "its own output names the preset")
				without.explained(t, nsrun, project, home, "native")
			}
			for _, backend := range []string{"native", "landlock", "bwrap"} {
				r.try(t, nsrun, project, home, backend)
				if backend == "native" {
					r.try(t, nsrun, project, home, backend)
				}
			}
		})
	}
}

// installed skips a program that is not there; in CI that is a failure.
func (r everyday) installed(t *testing.T) {
	t.Helper()
	for _, name := range strings.Fields(r.packages) {
		if _, err := exec.LookPath("npm"); name == "npm" && err == nil { // other builds of nodejs than Debian's bring it along
			continue
		}
		out, err := exec.Command("dpkg-query", "-W", "-f", "${Status}", name).CombinedOutput()
		if err == nil && strings.Contains(string(out), "ok installed") {
			continue
		}
		require.Empty(t, os.Getenv("CI"), "the package %s has to be installed", name)
		t.Skipf("the package %s is not installed", name)
	}
}

// try runs a program by a backend, and holds it to what the table says.
func (r everyday) try(t *testing.T, nsrun, project, home, backend string) {
	t.Helper()
	out, err := r.runs(nsrun, project, home, backend)
	if r.copies && backend != "native" {
		require.Error(t, err, "%s: it works now\n%s", backend, out)
		out, _ = r.runs(nsrun, project, home, backend, "-v")
		assert.Contains(t, out, "starts empty: a copy of the host's takes an overlay mount (use the backend native)")
		return
	}
	refused := ""
	if backend == "landlock" {
		refused = r.landlock
	}
	switch works := err == nil && strings.Contains(out, r.prints); {
	case refused != "" && works:
		t.Errorf("%s: it works now", backend)
	case refused != "" && !strings.Contains(out, refused):
		t.Errorf("%s: it does not say %q\n%s", backend, refused, out)
	case refused != "":
		r.explained(t, nsrun, project, home, backend)
	case !works:
		t.Errorf("%s: %v; it prints no %q\n%s", backend, err, r.prints, out)
	}
}

// nothing is the cause where a variable is missing: no access is refused.
const nothing = "-"

// explained runs a program again that fails, and holds the report of what was refused to the cause in the table.
func (r everyday) explained(t *testing.T, nsrun, project, home, backend string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "result.json")
	_, err := r.runs(nsrun, project, home, backend, "--explain=all", "--result", file)
	assert.True(t, err != nil || backend == "landlock", "%s: it works with --explain", backend)
	report, err := exec.Command(nsrun, "explain", file).CombinedOutput()
	require.NoError(t, err, string(report))
	require.NotEmpty(t, r.cause, "the table says why it fails")
	if r.cause == nothing {
		assert.Contains(t, string(report), "nothing was refused")
		return
	}
	assert.Regexp(t, "(?m)^refused: .*"+r.cause, string(report), backend)
}

// runs runs it, and returns all output.
func (r everyday) runs(nsrun, project, home, backend string, more ...string) (string, error) {
	flags := append([]string{"run", "--workspace", ".", "--backend", backend}, more...)
	if r.tool != "" {
		flags = append(flags, "--tool", r.tool)
	}
	argv := append(append([]string{nsrun}, flags...), "--", "sh", "-ec", r.run)
	if r.around != "" {
		argv = append([]string{"ssh-agent", "sh", "-ec", r.around + `; exec "$@"`, "sh"}, argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = filepath.Join(project, r.in), append(environ(home), "TERM=xterm")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestGitRefuses what nothing names back: its own output has the cause, and the flags that it names are all it takes.
func TestGitRefuses(t *testing.T) {
	dir, nsrun := room(t)
	everyday{packages: "git"}.installed(t)
	project, home := filepath.Join(dir, "p"), filepath.Join(dir, "h")
	write(t, home, map[string]string{".gitconfig": "[user]\n\tname = Ann\n\temail = ann@example.com\n"})
	write(t, project, map[string]string{"base/d/f": "x\n"})
	host(t, project, home, "sh", "-ec", "git init -q base; git -C base add .; git -C base commit -qm one; git clone -qs base copy; git clone -q --separate-git-dir=$PWD/sep base work")
	for _, tt := range []struct{ in, says, flags string }{
		{"copy", "borrows objects from $P/base/.git/objects, which is not shown (look at it; if it is right, grant it with --ro $P/base/.git/objects)", "--ro $P/base/.git/objects"},
		{"copy/d", "borrows objects from $P/base/.git/objects, which is not shown", "--ro $P/base/.git/objects"},
		{"work", "$P/work/.git names $P/sep, and that is neither a worktree's nor", "--rw $P/sep"},
		{"work/d", "grant it with --rw $P/sep --ro $P/work)", "--rw $P/sep --ro $P/work"},
	} {
		for _, backend := range []string{"native", "bwrap", "landlock"} {
			r := everyday{tool: "git", in: tt.in, run: "git log --format=%s && git commit -q --allow-empty -m two && git log --format=%s -1"}
			in := strings.NewReplacer("$P", project)
			out, err := r.runs(nsrun, project, home, backend)
			assert.Error(t, err, "%s by %s: %s", tt.in, backend, out)
			assert.Regexp(t, `(?m)^nsrun: exit code \d+: tools: git: .*`+regexp.QuoteMeta(in.Replace(tt.says)), out, "%s by %s", tt.in, backend)
			out, err = r.runs(nsrun, project, home, backend, strings.Fields(in.Replace(tt.flags))...)
			assert.NoError(t, err, "%s by %s: %s", tt.in, backend, out)
			assert.Contains(t, out, "one\ntwo\n", "%s by %s", tt.in, backend)
			host(t, project, home, "git", "-C", tt.in, "reset", "-q", "--hard", "HEAD^")
		}
	}
}

// TestDocHasTheEverydayTable compares the table in doc/programs.md with the one in the code; -update writes it anew.
func TestDocHasTheEverydayTable(t *testing.T) {
	table, group, plain := "", "", 0
	rows := everydays()
	for _, r := range rows {
		if r.group != group {
			group = r.group
			table += "\n| " + group + " | native, bwrap | landlock |\n|---|---|---|\n"
		}
		works, landlock := "works", "works"
		if r.tool != "" {
			works = "works with `--tool " + r.tool + "`"
			landlock = works
		} else {
			plain++
		}
		if r.copies {
			works, landlock = works+"; by bwrap the copies are empty", "refused: the copies are empty"
		}
		if r.landlock != "" {
			landlock = "refused: " + strings.TrimSuffix(r.landlock, ": ")
		}
		table += fmt.Sprintf("| %s | %s | %s |\n", r.name, works, landlock)
	}
	table = fmt.Sprintf("%d of %d work without a preset, and the others with one.\n", plain, len(rows)) + table
	require.GreaterOrEqual(t, len(rows), 70)
	require.GreaterOrEqual(t, 10*plain, 7*len(rows), "seven of ten work without a preset")
	require.GreaterOrEqual(t, len(rows)-plain, 10, "so many failures name their preset, and are tried")
	testenv.DocTable(t, "../../doc/programs.md", "programs", table+"\n", *update)
}
