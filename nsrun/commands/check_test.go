package commands

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// world is a resolver for a workspace /ws, where commands start, that holds these files and a link out of it.
func world(files ...string) Resolver {
	return func(name string) (bool, error) {
		if !path.IsAbs(name) {
			name = "/ws/" + name
		}
		if dir, ok := strings.CutSuffix(name, "/."); ok && path.Clean(dir) != "/ws" && path.Clean(dir) != "/ws/sub" {
			if slices.Contains(files, strings.TrimPrefix(path.Clean(dir), "/ws/")) {
				return false, errors.New("not a directory")
			}
		}
		name = path.Clean(name)
		switch {
		case !policy.Inside(name, "/ws"), policy.Inside(name, "/ws/link-out"):
			return false, nil
		case name == "/ws/loop":
			return false, errors.New("too many levels of symbolic links")
		case name == "/ws", name == "/ws/sub":
			return true, nil
		}
		for _, f := range files {
			if path.Join("/ws", f) == name {
				return true, nil
			}
		}
		return true, fs.ErrNotExist
	}
}

func TestRows(t *testing.T) {
	resolve := world("a.txt", "a.py", "a.rb", "a.go")
	require.GreaterOrEqual(t, len(rows), 120)
	for _, r := range rows {
		for name, want := range map[string]string{Passive: r.passive, Full: r.full} {
			argv := strings.Fields(r.argv)
			d := builtin(name).Check(argv, resolve)
			got := "y"
			if !d.Accepted {
				got = string(rune('0' + d.Index))
			}
			assert.Equalf(t, want, got, "%s of %q: %s", name, r.argv, d.Text())
			if d.Accepted {
				assert.NotEmpty(t, d.Rule, r.argv)
				continue
			}
			assert.NotEmptyf(t, d.Reason, "%q has a reason", r.argv)
			assert.NotEmptyf(t, d.Try, "%q is told what would be accepted", r.argv)
			if d.Index < len(argv) {
				assert.Equal(t, argv[d.Index], d.Word, r.argv)
			}
		}
		if d := builtin(Passive).Check(strings.Fields(r.argv), resolve); d.Accepted {
			assert.Contains(t, d.Rule, r.says, r.argv)
		} else {
			assert.Contains(t, d.Reason, r.says, r.argv)
		}
	}
}

func TestWordsThatFieldsCannotWrite(t *testing.T) {
	resolve := world("a b", "a.py")
	for _, c := range []struct {
		argv []string
		full string
		says string
	}{
		{nil, "no", "there is no command"},
		{[]string{""}, "no", "names this program"},
		{[]string{"ls -la | wc"}, "no", "a whole command line in one word"},
		{[]string{"cat", ""}, "no", "it is empty"},
		{[]string{"cat", "a b"}, "y", ""},
		{[]string{"cat", "a\x00b"}, "no", "control characters"},
		{[]string{"cat", "a\nb"}, "no", "control characters"},
		{[]string{"cat", "a\u202eb"}, "no", "reorder text"},
		{[]string{"python3", "-c", "print(1 > 0); x = `y`; $(z)"}, "y", ""},
		{[]string{"python3", "-c", "print(1)\x00"}, "no", "NUL"},
		{[]string{"python3", "-c", "x", ">", "out"}, "no", "no shell"},
		{[]string{"pytest", "-k", "a and not b"}, "y", ""},
	} {
		d := builtin(Full).Check(c.argv, resolve)
		assert.Equalf(t, c.full == "y", d.Accepted, "%q: %s", c.argv, d.Text())
		assert.Contains(t, d.Reason, c.says)
	}
}

// What an accepted program would be told by must not be there.
func TestConfigurationThatRunsCode(t *testing.T) {
	for _, c := range []struct{ argv, file, try string }{
		{"mypy a.py", "mypy.ini", "mypy --config-file= FILE"}, {"mypy a.py", ".mypy.ini", "--config-file="}, {"mypy a.py", "pyproject.toml", "--config-file="},
		{"mypy sub/a.py", "sub/setup.cfg", "--config-file="}, {"mypy sub/a.py", "setup.cfg", "--config-file="},
		{"rubocop a.rb", ".rubocop.yml", "--force-default-config"}, {"rubocop sub/a.rb", "sub/.rubocop.yml", "--force-default-config"},
		{"rubocop a.rb", ".rubocop", "--force-default-config"}, {"rubocop --force-default-config a.rb", ".rubocop", "rubocop"},
		{"rubocop a.rb", ".bundle", "rubocop"}, {"rubocop --force-default-config a.rb", ".bundle", "rubocop"}, {"rubocop sub/a.rb", "sub/.bundle", "rubocop"}, {"bundle --version", ".bundle", "bundle"},
	} {
		argv := strings.Fields(c.argv)
		assert.True(t, builtin(Passive).Check(argv, world()).Accepted, c.argv)
		d := builtin(Passive).Check(argv, world(c.file))
		assert.Falsef(t, d.Accepted, "%s with %s", c.argv, c.file)
		assert.Contains(t, d.Reason, path.Base(c.file)+" is there")
		assert.Contains(t, d.Try, c.try)
	}
	d := builtin(Passive).Check([]string{"rubocop", "sub"}, world())
	assert.Contains(t, d.Reason, "it is a directory", "each directory below may have a configuration of its own")
	assert.Equal(t, []string{"./a/b", "a/b", "a", "."}, above("a/b/x"), "a/b may be a link: what is above it by name counts as well as what is above it")
	assert.Equal(t, []string{"/a/", "/a", "/"}, above("/a/x"))
	assert.Equal(t, []string{"./..", ".."}, above("../x"))
	assert.True(t, builtin(Passive).Check([]string{"mypy", "--config-file=", "a.py"}, world("mypy.ini")).Accepted, "it does not read it")
	assert.True(t, builtin(Full).Check([]string{"mypy", "a.py"}, world("mypy.ini")).Accepted, "full runs code")
	assert.False(t, builtin(Passive).Check([]string{"bundle", "--version"}, func(name string) (bool, error) { return true, nil }).Accepted, "a search without an end is one")
}

func TestRulesSetWhatKeepsCodeOut(t *testing.T) {
	d := builtin(Full).Check([]string{"python3", "-m", "py_compile", "a.py"}, world())
	assert.Contains(t, d.Env, "PYTHONSAFEPATH=1", "full uses passive's rule where there is one")
	d = builtin(Passive).Check([]string{"go", "vet"}, world())
	assert.Subset(t, d.Env, []string{"CGO_ENABLED=0", "GOTOOLCHAIN=local", "GOENV=off"})
	for argv, want := range map[string]string{
		"go vet": "GOPROXY=off GONOPROXY=none GOVCS=*:off", "go vet ./...": "GOPROXY=off", "go vet a.go": "GOPROXY=off", "go version": "GOTOOLCHAIN=local",
		"rubocop a.rb": "BUNDLE_APP_CONFIG=/dev/null BUNDLE_USER_HOME=/dev/null CI=true RUBOCOP_CACHE_ROOT=/tmp", "rubocop --force-default-config a.rb": "BUNDLE_APP_CONFIG=/dev/null CI=true RUBOCOP_CACHE_ROOT=/tmp",
		"bundle --version": "BUNDLE_APP_CONFIG=/dev/null BUNDLE_VERSION=system", "mypy a.py": "MYPY_CACHE_DIR=/dev/null PYTHONSAFEPATH=1",
		"mypy --config-file= a.py": "MYPY_CACHE_DIR=/dev/null", "ruff check": "RUFF_NO_CACHE=true", "ruff check a.py": "RUFF_NO_CACHE=true",
	} {
		assert.Subset(t, builtin(Passive).Check(strings.Fields(argv), world()).Env, strings.Fields(want), argv)
	}
	assert.NotContains(t, builtin(Passive).Check([]string{"python3", "-m", "py_compile", "a.py"}, world()).Env, "MYPY_CACHE_DIR=/dev/null", "each rule has its own")
}

// What a program writes beside its file must not be led out of the workspace.
func TestCachesThatLeadAway(t *testing.T) {
	out := func(name string) Resolver {
		return func(asked string) (bool, error) {
			if path.Clean(asked) == name {
				return false, nil
			}
			return world("a.py")(asked)
		}
	}
	for _, c := range []struct {
		argv, out string
		want      bool
	}{
		{"python3 -m py_compile a.py", "__pycache__", false}, {"python3 -I -m py_compile a.py", "__pycache__", false}, {"python3 -m py_compile a.py", "sub/__pycache__", true},
		{"python3 -m py_compile sub/b.py", "sub/__pycache__", false}, {"python3 -m py_compile sub/b.py", "__pycache__", true}, {"cat a.py", "__pycache__", true},
	} {
		d := builtin(Passive).Check(strings.Fields(c.argv), out(c.out))
		assert.Equal(t, c.want, d.Accepted, "%s, %s leads out: %s", c.argv, c.out, d.Text())
		if !c.want {
			assert.Contains(t, d.Reason, "where python3 would write")
		}
	}
}

func TestOwnCommandRules(t *testing.T) {
	own := []policy.CommandRules{{Name: "lint", Extends: "passive", Programs: []policy.Program{{Name: "shellcheck", Shapes: []string{"", "FILE.sh...", "-f gcc FILE"}}}},
		{Name: "bare", Programs: []policy.Program{{Name: "ls", Shapes: []string{"-N WORD..."}}}}}
	lint, err := Find("lint", own)
	require.NoError(t, err)
	for argv, want := range map[string]bool{"shellcheck": true, "shellcheck a.sh b.sh": true, "shellcheck a.sh b": false, "shellcheck -f gcc x": true, "shellcheck -f": false,
		"ls": true, "python3 x.py": false} {
		assert.Equal(t, want, lint.Check(strings.Fields(argv), world()).Accepted, argv)
	}
	bare, err := Find("bare", own)
	require.NoError(t, err)
	assert.True(t, bare.Check([]string{"ls", "-3", "x", "y"}, world()).Accepted)
	assert.False(t, bare.Check([]string{"ls"}, world()).Accepted, "it extends nothing")
	for name, says := range map[string]string{"lnt": "did you mean lint?", "Passive": "did you mean passive?", "nothing-like": "known are passive, full, lint, bare"} {
		_, err := Find(name, own)
		assert.ErrorContains(t, err, says)
	}
	for _, bad := range []policy.CommandRules{{Name: "full"}, {Name: ""}, {Name: "x", Extends: "lint"}, {Name: "x", Programs: []policy.Program{{Name: "/bin/ls"}}},
		{Name: "x", Programs: []policy.Program{{Name: "ls", Shapes: []string{"... x"}}}}} {
		assert.Error(t, Check(policy.Policy{CommandRules: []policy.CommandRules{bad}}), "%v", bad)
	}
	assert.ErrorContains(t, Check(policy.Policy{CommandRules: []policy.CommandRules{own[0], own[0]}}), "given twice")
	assert.ErrorContains(t, Check(policy.Policy{Commands: "ful"}), "did you mean full?")
	assert.NoError(t, Check(policy.Policy{Commands: "lint", CommandRules: own}))
}

func TestShapes(t *testing.T) {
	for shape, says := range map[string]string{
		"-[]": "letters and digits", "-[a": "letters and digits", "-[a-z]": "letters and digits", " a": "one blank", "a  b": "one blank", "... a": "put it last", "FILE... a": "put it last", "FIEL": "did you mean FILE?", "WHATEVER": "known are", "N...": "repeated",
		"CODE...": "repeated", "x...": "repeated", "a | b": "no argument", "a\x01": "no argument", ">x": "no argument",
	} {
		assert.ErrorContains(t, CheckShape(shape), says, "%q", shape)
	}
	for _, name := range []string{Passive, Full} {
		for _, r := range rules(name) {
			assert.NoError(t, CheckShape(r.Shape), r.String())
			assert.NoError(t, CheckProgram(r.Program))
			assert.Equal(t, len(r.Absent) > 0 || r.Plain, r.Why != "", r.String())
			assert.Contains(t, builtin(name).String(), "\n  "+r.String()+"\n")
		}
	}
}

// lettersOf reports whether a rule of passive's for a program has options of one letter each that make up w.
func lettersOf(program, w string) bool {
	return slices.ContainsFunc(rules(Passive), func(r Rule) bool {
		letters, ok := strings.CutPrefix(r.Shape, "-[")
		letters, _, _ = strings.Cut(letters, "]")
		return ok && r.Program == program && strings.Trim(w[1:], letters) == ""
	})
}

// FuzzCommandRules: no argv makes it panic; full accepts what passive does; and passive accepts no word that begins with a hyphen but those of
// its rules, so no interpreter is given code, and no file outside.
func FuzzCommandRules(f *testing.F) {
	for _, r := range rows {
		f.Add(strings.ReplaceAll(r.argv, " ", "\x1f"))
	}
	f.Add("cat\x1f\x00")
	options := map[string]bool{}
	for _, r := range rules(Passive) {
		for w := range strings.FieldsSeq(r.Shape) {
			options[w] = true
		}
	}
	resolve := world("a.py")
	f.Fuzz(func(t *testing.T, line string) {
		argv := strings.Split(line, "\x1f")
		passive, full := builtin(Passive).Check(argv, resolve), builtin(Full).Check(argv, resolve)
		require.NotEmpty(t, passive.Text())
		if !passive.Accepted {
			require.NotEmpty(t, passive.Reason)
			return
		}
		require.Truef(t, full.Accepted, "%q", argv)
		for _, w := range argv[1:] {
			number := strings.HasPrefix(w, "-") && strings.Trim(w[1:], "0123456789") == ""
			require.Falsef(t, strings.HasPrefix(w, "-") && !options[w] && !number && !lettersOf(path.Base(argv[0]), w), "%q", argv)
			require.Empty(t, shellWord(w))
			require.NotContains(t, w, "\x00")
			if strings.HasPrefix(w, "/") {
				require.True(t, policy.Inside(path.Clean(strings.TrimSuffix(w, "...")), "/ws"))
			}
		}
		for _, runs := range []string{"-c", "-e", "-r", "--eval", "--require", "-p"} {
			for _, program := range []string{"python3", "node", "bash"} {
				require.False(t, path.Base(argv[0]) == program && len(argv) > 1 && argv[1] == runs)
			}
		}
	})
}
