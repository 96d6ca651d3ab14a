package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// outcome is what a caller sees of a command.
type outcome struct {
	stdout, stderr string
	code           int
}

func call(t *testing.T, dir string, argv ...string) outcome {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = dir
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("from stdin\n"), &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	require.True(t, err == nil || errors.As(err, &exit), "%s: %v", argv[0], err)
	return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// wrapped asks for the argv of args, in both forms, which must agree.
func wrapped(t *testing.T, dir string, args ...string) []string {
	t.Helper()
	asJSON := call(t, dir, append([]string{"nsrun", "wrap"}, args...)...)
	require.Zero(t, asJSON.code, asJSON.stderr)
	var words []string
	require.NoError(t, json.Unmarshal([]byte(asJSON.stdout), &words))
	asNull := call(t, dir, append([]string{"nsrun", "wrap", "--null"}, args...)...)
	require.Equal(t, strings.Join(words, "\x00")+"\x00", asNull.stdout, "--null prints the same words as --json")
	return words
}

// The argv that wrap prints does what run with the same arguments does, from another directory too unless this one is what it shows.
func TestWrappedRunsAsRunDoes(t *testing.T) {
	needSandbox(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"in/a": "a\n", "link/b": "b\n",
		"m.json":   `{"capabilities": [{"kind": "fs", "mode": "read", "hints": ["in/**"]}], "set_env": {"X": "y"}}`,
		"own.json": `{"set_env": {"X": "own"}}`,
		"c.json":   `{"fs_read": ["` + dir + `"], "limits": {"open_files": 32}}`,
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "allow.bpf"), []byte("\x06\x00\x00\x00\x00\x00\xff\x7f"), 0o644))
	require.NoError(t, os.Symlink("in/deep", filepath.Join(dir, "jump")))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "in/deep"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "in/m.json"), []byte(`{"set_env": {"X": "jumped"}}`), 0o644))
	for _, c := range []struct {
		name string
		args []string
	}{
		{"a file that is shown", []string{"--chdir", "/", "--ro", "in", "--", "cat", dir + "/in/a"}},
		{"a path with ..", []string{"--chdir", "/", "--ro", "link/../in", "--", "cat", dir + "/in/a"}},
		{"a file that is not shown", []string{"--workspace", "in", "--", "cat", dir + "/link/b"}},
		{"a workspace", []string{"--workspace", "in", "--", "sh", "-c", "pwd; touch new && rm new && cat a"}},
		{"a workspace that is this directory", []string{"--workspace", ".", "--", "sh", "-c", "pwd; ls"}},
		{"a manifest", []string{"--manifest", "m.json", "--", "sh", "-c", `echo $X; cat "$0"/in/a`, dir}},
		{"a manifest by .. after a symlink", []string{"--manifest", "jump/../m.json", "--", "sh", "-c", "echo $X"}},
		{"a manifest and flags", []string{"--manifest=own.json", "--ro=link", "--setenv=Z=1", "--", "sh", "-c", `echo $X $Z; cat "$0"/link/b`, dir}},
		{"a ceiling", []string{"--manifest", "own.json", "--ceiling", "c.json", "--rw", "in", "--", "sh", "-c", `ulimit -n; touch "$0"/in/x`, dir}},
		{"a filter", []string{"--workspace", "in", "--seccomp", "./allow.bpf", "--", "grep", "Seccomp_filters", "/proc/self/status"}},
		{"standard input", []string{"--chdir", "/", "--", "cat"}},
		{"words that shells and JSON take apart", []string{"--chdir", "/", "--setenv", `A=" \<&>é`, "--", "printf", `%s|`, `"`, `\`, "", "a b", "$X", "<&>", "\t", "é"}},
		{"an exit code", []string{"--workspace", "in", "--", "sh", "-c", "exit 7"}},
		{"a signal", []string{"--workspace", "in", "--", "sh", "-c", "kill -9 $$"}},
		{"a timeout", []string{"--workspace", "in", "--timeout", "100ms", "--kill-grace", "1ms", "--", "sleep", "30"}},
		{"not found", []string{"--workspace", "in", "--", "no-such-program"}},
		{"what is granted is not there", []string{"--chdir", "/", "--ro", "missing", "--", "true"}},
		{"notes", []string{"--workspace", "in", "-v=false", "--env", "MY_TOKEN", "--", "true"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := call(t, dir, append([]string{"nsrun", "run"}, c.args...)...)
			words := wrapped(t, dir, c.args...)
			assert.True(t, filepath.IsAbs(words[0]), words[0])
			assert.Equal(t, want, call(t, dir, words...))
			if strings.Contains(strings.Join(c.args, " "), "--workspace") || strings.Contains(strings.Join(c.args, " "), "--manifest") {
				assert.Equal(t, want, call(t, t.TempDir(), words...), "from another directory")
			}
		})
	}
	nothingLeft(t)
}

// A prefix takes any command, also one that looks like flags.
func TestWrappedPrefixTakesCommands(t *testing.T) {
	needSandbox(t)
	dir := t.TempDir()
	prefix := wrapped(t, dir, "--workspace", ".", "--")
	require.Equal(t, "--", prefix[len(prefix)-1])
	for _, command := range [][]string{{"pwd"}, {"echo", "--ro", "/"}, {"sh", "-c", "exit 3"}, {"--version"}, {"--"}, {""}} {
		want := call(t, dir, append([]string{"nsrun", "run", "--workspace", ".", "--"}, command...)...)
		assert.Equal(t, want, call(t, t.TempDir(), append(slices.Clip(prefix), command...)...), "%q", command)
	}
}

// What JSON cannot hold comes through --null as it is.
func TestWrappedWordsThatAreNotUTF8(t *testing.T) {
	needSandbox(t)
	args := []string{"--workspace", ".", "--setenv", "A=\xff", "--", "sh", "-c", `printf "$A$0"`, "\xfe"}
	dir := t.TempDir()
	got := call(t, dir, append([]string{"nsrun", "wrap", "--null"}, args...)...)
	require.Zero(t, got.code, got.stderr)
	words := strings.Split(strings.TrimSuffix(got.stdout, "\x00"), "\x00")
	assert.Equal(t, outcome{stdout: "\xff\xfe"}, call(t, t.TempDir(), words...))
}

// The result is that of the command, by a descriptor of the caller's and by a file.
func TestWrappedWritesResults(t *testing.T) {
	needSandbox(t)
	dir := t.TempDir()
	require.Zero(t, call(t, t.TempDir(), wrapped(t, dir, "--chdir", "/", "--result", "r.json", "--", "true")...).code)
	data, err := os.ReadFile(filepath.Join(dir, "r.json"))
	require.NoError(t, err)
	assert.Contains(t, string(data), `"verdict":"ok"`)

	words := wrapped(t, dir, "--chdir", "/", "--result", "FD:3", "--", "sh", "-c", "exit 7")
	out, in, err := os.Pipe()
	require.NoError(t, err)
	defer out.Close()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.ExtraFiles = []*os.File{in}
	err = cmd.Run()
	require.NoError(t, in.Close())
	assert.Equal(t, 7, cmd.ProcessState.ExitCode(), err)
	var r struct {
		Verdict string
		Code    int
	}
	require.NoError(t, json.NewDecoder(out).Decode(&r))
	assert.Equal(t, 7, r.Code)
	assert.Equal(t, "exit", r.Verdict)
}

func TestPathsOfFlagsAreMadeAbsolute(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	t.Chdir(dir)
	for _, c := range []struct{ name, value, want string }{
		{"ro", "a/../b", dir + "/b"}, {"rw", ".", dir}, {"socket", "./s", dir + "/s"}, {"workspace", "w/", dir + "/w"}, {"ro", "/x//y/", "/x/y"},
		{"manifest", "m", dir + "/m"}, {"manifest", "l/../m", dir + "/l/../m"}, {"ceiling", "./c", dir + "/c"}, {"manifest", "/l/../m", "/l/../m"},
		{"seccomp", "./f", dir + "/f"}, {"seccomp", "default", "default"}, {"result", "r", dir + "/r"}, {"result", "FD:3", "FD:3"}, {"ask", "./answer", dir + "/answer"}, {"ask", "answer", "answer"},
		{"audit", "./a.jsonl", dir + "/a.jsonl"}, {"chdir", "sub", "sub"}, {"env", "A=./b", "A=./b"}, {"mount", "./a:/b:ro", dir + "/a:/b:ro"}, {"require", "files", "files"},
	} {
		got, err := given{name: c.name, value: c.value}.anywhere()
		require.NoError(t, err)
		assert.Equal(t, c.want, got, "--%s %s", c.name, c.value)
	}
}

// Wrap takes what run takes. A new flag that names something on the host must be made absolute too: add it here and there.
func TestEveryFlagOfRunIsOneOfWrap(t *testing.T) {
	var f flags
	var w wrapFlags
	paths := []string{"ask", "manifest", "ceiling", "audit", "ro", "rw", "force-rw", "home", "protect", "tool", "socket", "mount", "workspace", "seccomp", "result"}
	words := []string{"ask-timeout", "autonomy", "backend", "chdir", "env", "fallback", "gid", "hostname", "explain", "isolation", "kill-grace", "label", "limit", "net", "no-landlock", "noexec", "commands", "quiet", "require",
		"seccomp-deny", "self-test", "timeout", "tty", "uid", "verbose", "verify"}
	set := w.set()
	newFlags("run", f.runRows()...).VisitAll(func(g *flag.Flag) {
		require.NotNil(t, set.Lookup(g.Name), "wrap takes --%s", g.Name)
		if _, other := g.Value.(alias); other {
			return
		}
		require.Contains(t, slices.Concat(paths, words), g.Name, "a new flag: is it a path?")
		got, err := given{name: g.Name, value: "./x"}.anywhere()
		require.NoError(t, err)
		assert.Equal(t, slices.Contains(paths, g.Name), filepath.IsAbs(got), "--%s", g.Name)
	})
}
