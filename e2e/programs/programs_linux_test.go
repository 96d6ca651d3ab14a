package programs

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// row is one program that has to work.
type row struct {
	name    string
	needs   string                             // programs that have to be installed
	files   map[string]string                  // the project
	prepare func(t *testing.T, project string) // what is done on the host before
	command string                             // the words behind nsrun run --workspace . --
	prints  string                             // what has to be in its output
	leaves  string                             // a file that it makes in the project
}

var rows = []row{
	{name: "go test", needs: "go", command: "go test ./...", prints: "ok  \texample.com/p", files: map[string]string{
		"go.mod": "module example.com/p\n\ngo 1.21\n",
		"p.go":   "package p\n\nfunc Two() int { return 2 }\n",
		"p_test.go": "package p\n\nimport (\n\t\"os\"\n\t\"path/filepath\"\n\t\"testing\"\n)\n\nfunc TestTwo(t *testing.T) {\n" +
			"\tif Two() != 2 {\n\t\tt.Fatal()\n\t}\n\tif err := os.WriteFile(filepath.Join(t.TempDir(), \"f\"), nil, 0o600); err != nil {\n\t\tt.Fatal(err)\n\t}\n}\n",
	}},
	{name: "make", needs: "make cc", command: "make", prints: "hello from C", leaves: "hello", files: map[string]string{
		"Makefile": "all: hello\n\t./hello\n\nhello: hello.c\n\tcc -o hello hello.c\n",
		"hello.c":  "#include <stdio.h>\n\nint main(void) { puts(\"hello from C\"); return 0; }\n",
	}},
	{name: "npm ci from a cache", needs: "npm node", command: "npm ci", prints: "added 1 package", leaves: "node_modules/left/index.js", prepare: fillNpmCache, files: map[string]string{
		".npmrc":       "cache=.npm-cache\naudit=false\nupdate-notifier=false\n",
		"package.json": `{"name": "p", "version": "1.0.0", "dependencies": {"left": "1.0.0"}}`,
	}},
	{name: "pytest", needs: "pytest-3", command: "pytest-3 -p no:cacheprovider", prints: "2 passed", files: map[string]string{
		"test_p.py": "import os, subprocess, tempfile\n\ndef test_runs(tmp_path):\n    f = tmp_path / 'f'\n    f.write_text('#!/bin/sh\\necho ran\\n')\n    f.chmod(0o755)\n" +
			"    assert subprocess.check_output([str(f)]) == b'ran\\n'\n\ndef test_home():\n    with open(os.path.expanduser('~/f'), 'w') as f:\n        f.write('x')\n",
	}},
	{name: "cargo build", needs: "cargo", command: "sh -c 'cargo build && target/debug/p'", prints: "hello from Rust", leaves: "target/debug/p", files: map[string]string{
		"Cargo.toml": "[package]\nname = \"p\"\nversion = \"0.1.0\"\nedition = \"2021\"\n", "src/main.rs": "fn main() { println!(\"hello from Rust\"); }\n",
	}},
}

func TestMain(m *testing.M) { os.Exit(testenv.Main(m.Run)) }

func TestPrograms(t *testing.T) {
	dir, nsrun := room(t)
	for i, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			installed(t, r.needs)
			project := filepath.Join(dir, fmt.Sprint(i))
			write(t, project, r.files)
			if r.prepare != nil {
				r.prepare(t, project)
			}
			cmd := exec.Command("sh", "-c", nsrun+" run --workspace . -- "+r.command)
			cmd.Dir = project
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			assert.Contains(t, string(out), r.prints)
			assert.NotContains(t, string(out), "nsrun:", "nothing has to be said")
			if r.leaves != "" {
				assert.FileExists(t, filepath.Join(project, r.leaves), "as seen from the host")
			}
		})
	}
}

// room is a directory that every user can enter, with an nsrun in it.
func room(t *testing.T) (dir, nsrun string) {
	t.Helper()
	dir, err := testenv.MakeDir("nsrun-programs-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	nsrun = filepath.Join(dir, "nsrun")
	require.NoError(t, testenv.Build(nsrun, "../../cmd/nsrun"))
	return dir, nsrun
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		require.NoError(t, os.WriteFile(at, []byte(text), 0o644))
	}
}

// fillNpmCache puts one package into the project's cache of npm, as an earlier npm install on the host would.
func fillNpmCache(t *testing.T, project string) {
	cmd := exec.Command("npm", "cache", "add", packNpm(t, project))
	cmd.Dir = project
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// packNpm makes a package, puts its hash into the project's lock file, and returns its path.
func packNpm(t *testing.T, project string) string {
	packed := filepath.Join(t.TempDir(), "left-1.0.0.tgz")
	data := tarball(t, map[string]string{
		"package/package.json": `{"name": "left", "version": "1.0.0", "main": "index.js"}`, "package/index.js": "module.exports = 1\n",
	})
	require.NoError(t, os.WriteFile(packed, data, 0o644))
	sum := sha512.Sum512(data)
	write(t, project, map[string]string{"package-lock.json": fmt.Sprintf(`{"name": "p", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": {
"": {"name": "p", "version": "1.0.0", "dependencies": {"left": "1.0.0"}},
"node_modules/left": {"version": "1.0.0", "resolved": "https://registry.example/left/-/left-1.0.0.tgz", "integrity": "sha512-%s"}}}`,
		base64.StdEncoding.EncodeToString(sum[:]))})
	return packed
}

// tarball returns a compressed tar of files.
func tarball(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range files {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}))
		_, err := w.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return b.Bytes()
}
