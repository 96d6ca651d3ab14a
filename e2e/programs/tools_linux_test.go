package programs

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// toolRow is a program that works with a preset. Without it, it does not: that is the control.
type toolRow struct {
	tool    string
	needs   string
	files   map[string]string
	prepare func(t *testing.T, project, home string) // what the user has done on the host before
	command string
	prints  string
	cache   string // a directory below the home directory that has to stay as it is
}

var toolRows = []toolRow{
	{tool: "node", needs: "npm node", command: "npm ci", prints: "added 1 package", cache: ".npm", prepare: fillNpm, files: map[string]string{
		"package.json": `{"name": "p", "version": "1.0.0", "dependencies": {"left": "1.0.0"}}`,
	}},
	{tool: "git", needs: "git", command: "sh -c 'git init -q . && git add . && git commit -qm one && git log --format=%an'", prints: "Ann Tester", files: map[string]string{"a": "a\n"},
		prepare: func(t *testing.T, _, home string) {
			write(t, home, map[string]string{".gitconfig": "[user]\n\tname = Ann Tester\n\temail = ann@example.com\n[commit]\n\tgpgsign = true\n"})
		}},
	{tool: "go", needs: "go", command: "go run .", prints: "dep says 7", cache: "go/pkg/mod", prepare: fetchModule, files: map[string]string{
		"go.mod":  "module example.com/p\n\ngo 1.21\n\nrequire example.com/dep v1.0.0\n",
		"main.go": "package main\n\nimport \"example.com/dep\"\n\nfunc main() { println(\"dep says\", dep.Seven) }\n",
	}},
	{tool: "cc", needs: "strace", command: "strace -f sh -c 'true; /bin/true'", prints: "execve(\"/bin/true\"", files: map[string]string{"a": "a\n"}},
}

// TestProgramsWithPresets runs each program twice with its preset, and once without.
func TestProgramsWithPresets(t *testing.T) {
	dir, nsrun := room(t)
	for _, r := range toolRows {
		t.Run(r.tool, func(t *testing.T) {
			installed(t, r.needs)
			project, home := filepath.Join(dir, r.tool), filepath.Join(dir, r.tool+"-home")
			require.NoError(t, os.MkdirAll(home, 0o700))
			write(t, project, r.files)
			if r.prepare != nil {
				r.prepare(t, project, home)
			}
			run := func(flags string) (string, error) {
				cmd := exec.Command("sh", "-c", nsrun+" run "+flags+" --workspace . -- "+r.command)
				cmd.Dir, cmd.Env = project, environ(home)
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			out, err := run("")
			require.Error(t, err, "control: it does not work without\n%s", out)
			require.Contains(t, out, "--tool "+r.tool, "its own output names the preset")
			before := tree(t, filepath.Join(home, r.cache))
			for range 2 {
				out, err = run("--tool " + r.tool)
				require.NoError(t, err, out)
				assert.Contains(t, out, r.prints)
				assert.NotContains(t, out, "nsrun:", "nothing has to be said")
				require.NoError(t, os.RemoveAll(filepath.Join(project, ".git")))
			}
			assert.Equal(t, before, tree(t, filepath.Join(home, r.cache)), "the host's is as it was")
		})
	}
}

// environ is the environment of a user with that home directory.
func environ(home string) []string {
	env := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}
	if out, err := exec.Command("go", "env", "GOCACHE").Output(); err == nil {
		env = append(env, "GOCACHE="+strings.TrimSpace(string(out))) // else the tests' Go compiles its own library
	}
	return env
}

// installed skips a test whose programs are not there; in CI that is a failure.
func installed(t *testing.T, programs string) {
	t.Helper()
	for _, program := range strings.Fields(programs) {
		if _, err := exec.LookPath(program); err != nil && os.Getenv("CI") != "" {
			t.Fatalf("%s is not installed; in CI it has to be", program)
		} else if err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
}

// tree lists a directory: names, modes, sizes and times.
func tree(t *testing.T, dir string) (all []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			all = append(all, fmt.Sprint(name, info.Mode(), info.Size(), info.ModTime()))
		}
		return err
	}))
	return all
}

// host runs a program of the user's outside of any sandbox.
func host(t *testing.T, project, home string, argv ...string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = project, environ(home)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// fillNpm puts the package into the user's cache of npm.
func fillNpm(t *testing.T, project, home string) {
	packed := packNpm(t, project)
	host(t, project, home, "npm", "cache", "add", packed)
}

// fetchModule has go fetch a module from a proxy that is a directory.
func fetchModule(t *testing.T, project, home string) {
	proxy := t.TempDir()
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for name, text := range map[string]string{"go.mod": "module example.com/dep\n", "dep.go": "package dep\n\nconst Seven = 7\n"} {
		f, err := w.Create("example.com/dep@v1.0.0/" + name)
		require.NoError(t, err)
		_, err = f.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	write(t, filepath.Join(proxy, "example.com/dep/@v"), map[string]string{"list": "v1.0.0\n", "v1.0.0.info": `{"Version": "v1.0.0"}`,
		"v1.0.0.mod": "module example.com/dep\n", "v1.0.0.zip": archive.String()})
	host(t, project, home, "env", "GOPROXY=file://"+proxy, "GONOSUMDB=*", "GOFLAGS=-modcacherw -mod=mod", "go", "mod", "download", "all")
	require.FileExists(t, filepath.Join(project, "go.sum"))
}
