package profile

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

// Each row: passive, full: y or the number of the argument that is refused; words; a part of passive's reason, or its rule.
var rows = []struct{ passive, full, argv, says string }{
	// what passive is for
	{"y", "y", "python3 --version", "python3 --version"},
	{"y", "y", "python3 -V", "python3 -V"},
	{"y", "y", "python3 -m py_compile a.py", "python3 -m py_compile FILE"},
	{"y", "y", "ruff check", "ruff check"},
	{"y", "y", "mypy a.py", "mypy FILE"},
	{"y", "y", "pyflakes a.py", "pyflakes FILE"},
	{"y", "y", "node --version", "node --version"},
	{"y", "y", "node -v", "node -v"},
	{"y", "y", "npm --version", "npm --version"},
	{"y", "y", "ruby --version", "ruby --version"},
	{"y", "y", "ruby -v", "ruby -v"},
	{"1", "y", "ruby -c a.rb", "the file's first line"},
	{"y", "y", "bundle --version", "bundle --version"},
	{"y", "y", "rubocop a.rb", "rubocop FILE"},
	{"y", "y", "go version", "go version"},
	{"y", "y", "go vet ./...", "go vet PACKAGE..."},
	{"y", "y", "go vet", "go vet"},
	{"y", "y", "gofmt -l a.go", "gofmt -l FILE.go"},
	{"y", "y", "gofmt -d a.go", "gofmt -d FILE.go"},
	{"y", "y", "ls", "ls"},
	{"y", "y", "ls -la", "ls -la"},
	{"y", "y", "ls sub", "ls FILE"},
	{"y", "y", "cat a.txt", "cat FILE"},
	{"y", "y", "head a.txt", "head FILE"},
	{"y", "y", "head -20 a.txt", "head -N FILE"},
	{"y", "y", "head -n 20 a.txt", "head -n N FILE"},
	// what looks like a query, and runs code
	{"1", "y", "python3 -c import_os", "runs the code that follows"},
	{"1", "y", "python3 a.py --help", "it runs that file"},
	{"2", "y", "python3 -m json.tool --help", "a module's package runs before"},
	{"2", "y", "python3 -m pip --version", "a module's package runs before"},
	{"1", "y", "node a.js --help", "it runs that file"},
	{"1", "y", "ruby a.rb --help", "it runs that file"},
	// what full adds
	{"1", "y", "python3 a.py x -y", "it runs that file"},
	{"0", "y", "pytest -q tests", "no rule of the profile names this program"},
	{"0", "y", "npx tsc", "no rule of the profile names"},
	{"1", "y", "npm install", "npm's commands run scripts"},
	{"1", "y", "npm run build -- --watch", "npm's commands run scripts"},
	{"1", "y", "bundle exec rspec", "which is code"},
	{"0", "y", "rspec", ""},
	{"0", "y", "rake test", ""},
	{"1", "y", "go test ./...", "it builds, runs"},
	{"1", "y", "go run .", "it builds, runs"},
	{"1", "y", "gofmt -w a.go", "it writes"},
	{"0", "y", "bash a.sh", "a shell runs whatever it is told"},
	{"0", "1", "bash -c ls", "a shell runs"},
	{"0", "1", "bash a.txt", ""},
	{"0", "1", "bash", ""},
	{"0", "2", "bash a.sh x", ""},
	{"0", "0", "sh a.sh", "a shell runs"},
	// go
	{"2", "y", "go vet -vettool=/tmp/x ./...", "names a program to run"},
	{"2", "y", "go vet --vettool=x ./...", "names a program to run"},
	{"2", "y", "go vet -vettool x", "names a program to run"},
	{"2", "y", "go vet -toolexec=x ./...", "names a program to run"},
	{"2", "y", "go vet -overlay=x.json ./...", "replaces files"},
	{"2", "3", "go vet -C /etc ./...", "start in another directory"},
	{"1", "1", "go -C /etc vet", "start in another directory"},
	{"3", "y", "go vet ./... -vettool=x", "names a program"},
	{"2", "y", "go vet fmt", "named by their directories"},
	{"2", "y", "go vet example.com/x@latest", "named by their directories"},
	{"2", "2", "go vet ../...", "does not resolve inside"},
	{"2", "2", "go vet ./.../../../etc/...", "stands only at the end"},
	{"2", "y", "go vet ./...x", "stands only at the end"},
	{"2", "2", "go vet /...", "does not resolve inside"},
	{"y", "y", "go vet a.go b.go", "go vet FILE.go..."},
	{"3", "3", "go vet a.go /etc/b.go", "does not resolve inside"},
	{"2", "y", "go version -m a", "nothing may follow"},
	{"1", "y", "go env -w GOFLAGS=-toolexec=x", "it builds, runs"},
	{"1", "1", "go", "is missing"},
	{"1", "1", "gofmt -cpuprofile a.go", "it writes"},
	{"2", "2", "gofmt -l a.txt", "ends in .go"},
	{"2", "2", "gofmt -l .go/", "ends in .go"},
	{"2", "2", "gofmt -l -w", "it writes"},
	{"1", "1", "gofmt -lw a.go", "no rule names it"},
	{"1", "1", "gofmt a.go", "no rule names it"},
	{"3", "3", "gofmt -l a.go b.go", "nothing may follow"},
	// ruff, mypy, rubocop
	{"y", "y", "ruff check sub a.py", "ruff check FILE..."},
	{"2", "2", "ruff check --fix", "it writes"},
	{"3", "3", "ruff check a.py --fix", "it writes"},
	{"2", "2", "ruff check --config /etc/x.toml", "nobody has judged"},
	{"2", "2", "ruff check --config=lint.select=1", "nobody has judged"},
	{"2", "2", "ruff check @args", "nobody has judged"},
	{"2", "2", "ruff check -", "standard input"},
	{"2", "2", "ruff check -- a.py", "no need for it"},
	{"1", "1", "ruff format", "only check"},
	{"1", "1", "ruff", "is missing"},
	{"1", "1", "mypy @args", "nobody has judged"},
	{"1", "1", "mypy -c import_x", "does not name a file"},
	{"1", "1", "mypy --python-executable=./evil a.py", "it names"},
	{"1", "1", "mypy --config-file=evil.ini a.py", "it names"},
	{"y", "y", "mypy --config-file= a.py", "mypy --config-file= FILE"},
	{"2", "2", "mypy a.py --install-types", "it names"},
	{"1", "1", "rubocop -r ./evil a.rb", "it runs what it names"},
	{"1", "1", "rubocop --require=./evil a.rb", "it runs what it names"},
	{"1", "1", "rubocop -c evil.yml a.rb", "it runs what it names"},
	{"1", "1", "rubocop -A a.rb", "it writes"},
	{"y", "y", "rubocop --force-default-config a.rb", "--force-default-config FILE"},
	{"1", "1", "rubocop", "FILE is missing"},
	{"1", "1", "rubocop su*/x.rb", "rubocop would expand it"},
	{"2", "2", "rubocop --force-default-config {/etc/pass*,z}", "rubocop would expand it"},
	{"2", "2", "rubocop --force-default-config ./{..,z}/../x*.rb", "rubocop would expand it"},
	{"1", "1", "rubocop a?.rb", "rubocop would expand it"},
	{"1", "1", "rubocop [ab].rb", "rubocop would expand it"},
	{"1", "1", `rubocop a\*.rb`, "rubocop would expand it"},
	{"y", "y", "cat a*.txt", "cat FILE"}, // a name as any other
	{"1", "1", "pyflakes", "FILE is missing"},
	{"1", "1", "pyflakes -", "standard input"},
	// interpreters: combined, reordered, abbreviated
	{"1", "1", "python3 -Vc print(1)", "no rule names"},
	{"1", "1", "python3 -ic x", "no rule names"},
	{"1", "1", "python3 -", "standard input"},
	{"1", "1", "python3", "is missing"},
	{"2", "2", "python3 -V a.py", "nothing may follow"},
	{"2", "2", "python3 --version -c", "it runs the code"},
	{"1", "1", "python3 -Wignore -m py_compile a.py", "no rule names"},
	{"y", "y", "python3 -I -m py_compile a.py", "-I -m py_compile"},
	{"3", "y", "python3 -m py_compile -", "standard input"},
	{"4", "y", "python3 -m py_compile a.py b.py", "nothing may follow"},
	{"2", "2", "python3 -m -", "standard input says"},
	{"1", "1", "node -e 1", "it runs the code"},
	{"1", "1", "node --eval=1", "it runs the code"},
	{"1", "1", "node -pe 1", "it runs the code"},
	{"1", "1", "node --require=./evil.js", "is told by"},
	{"2", "2", "node --version --require=./evil.js", "is told by"},
	{"1", "1", "ruby -e puts(1)", "it runs the code"},
	{"1", "1", "ruby -ce puts(1)", "no rule names"},
	{"1", "1", "ruby -r./evil -c a.rb", "no rule names"},
	{"1", "2", "ruby -c -r./evil", "the file's first line"},
	{"1", "3", "ruby -c a.rb -r./evil", "the file's first line"},
	// ls, cat, head
	{"1", "1", "ls -R", "no rule names"},
	{"1", "1", "ls -al", "no rule names"},
	{"2", "2", "ls -la sub", "nothing may follow"},
	{"1", "1", "ls --hyperlink=always", "no rule names"},
	{"1", "1", "cat", "is missing"},
	{"1", "1", "cat -", "standard input"},
	{"1", "1", "cat -n a.txt", "no rule names"},
	{"2", "2", "cat a.txt b.txt", "nothing may follow"},
	{"1", "1", "cat -- a.txt", "no need for it"},
	{"1", "1", "head -c a.txt", "no rule names"},
	{"2", "2", "head -n -1 a.txt", "a number is wanted"},
	{"2", "2", "head -n 1k a.txt", "a number is wanted"},
	{"2", "2", "head -n 9999999999 a.txt", "a number is wanted"},
	{"2", "2", "head -20", "is missing"},
	{"2", "2", "head a.txt -n", "nothing may follow"},
	{"0", "0", "tail a.txt -f", ""},
	// places
	{"1", "1", "cat /etc/passwd", "does not resolve inside"},
	{"1", "1", "cat ../secret", "does not resolve inside"},
	{"1", "1", "cat sub/../../secret", "does not resolve inside"},
	{"y", "y", "cat sub/../a.txt", "cat FILE"},
	{"y", "y", "cat /ws/a.txt", "cat FILE"},
	{"1", "1", "cat /ws/../etc/passwd", "does not resolve inside"},
	{"1", "1", "cat link-out", "does not resolve inside"},
	{"1", "1", "cat link-out/x", "does not resolve inside"},
	{"1", "1", "cat loop", "too many levels"},
	{"y", "y", "cat not-there", "cat FILE"},
	{"1", "1", "ls /proc/self/environ", "does not resolve inside"},
	{"3", "3", "python3 -m py_compile /etc/a.py", "does not resolve inside"},
	{"1", "2", "python3 a.py /etc/passwd", "it runs that file"},
	{"1", "3", "python3 a.py -o ../x", "it runs that file"},
	{"1", "2", "python3 a.py sub/../../x", "it runs that file"},
	{"1", "y", "python3 a.py sub/../x /ws/y --z=/etc", "it runs that file"},
	{"1", "1", "python3 /etc/a.py", "it runs that file"},
	{"1", "1", "node ../a.js", "it runs that file"},
	{"0", "1", "pytest ../other", ""},
	{"0", "1", "rake ..", ""},
	{"1", "2", "go test /...", "it builds"},
	{"1", "2", "bundle exec /tmp/evil", "which is code"},
	{"0", "1", "bash /etc/profile.sh", ""},
	// programs
	{"0", "0", "/tmp/evil/ls", "a program is named as PATH has it"},
	{"0", "0", "./python3 --version", "a program is named as PATH has it"},
	{"0", "0", "bin/ls", "a program is named as PATH has it"},
	{"0", "0", "/usr/bin/../../tmp/ls", "a program is named as PATH has it"},
	{"0", "0", "/usr/bin//ls", "a program is named as PATH has it"},
	{"y", "y", "/usr/bin/ls", "ls"},
	{"y", "y", "/bin/cat a.txt", "cat FILE"},
	{"0", "0", "/usr/bin/env ls", "it runs another program"},
	{"0", "0", "python --version", "names this program"},
	{"0", "0", "python3.11 --version", "names this program"},
	{"0", "0", "LS", "names this program"},
	{"0", "0", "env python3 --version", "it runs another program"},
	{"0", "0", "sudo ls", "it runs another program"},
	{"0", "0", "find . -delete", "delete"},
	{"0", "0", "A=1 ls", "names this program"},
	// what means a shell
	{"2", "2", "cat a.txt | wc -l", "no shell ever expands"},
	{"1", "1", "ls && rm", "no shell ever expands"},
	{"1", "1", "ls ; rm", "no shell ever expands"},
	{"0", "0", "ls; rm", "no shell ever expands"},
	{"2", "2", "cat a.txt > b.txt", "no shell ever expands"},
	{"2", "2", "cat a.txt >b.txt", "no shell ever expands"},
	{"2", "2", "cat a.txt 2>&1", "no shell ever expands"},
	{"1", "1", "cat <<EOF", "no shell ever expands"},
	{"1", "1", "cat $(find)", "no shell ever expands"},
	{"1", "1", "cat `find`", "no shell ever expands"},
	{"1", "1", "cat ${HOME}/x", "no shell ever expands"},
	{"1", "1", "cat a.txt;", "no shell ever expands"},
	{"2", "2", "python3 -V || ls", "no shell ever expands"},
	{"2", "2", "npm test && ls", "no shell ever expands"},
	{"2", "2", "python3 a.py > out", "no shell ever expands"},
	{"2", "2", "ls -x | wc", "no shell ever expands"},
	{"0", "2", "pytest -q | head", "no shell ever expands"},
}

func TestRows(t *testing.T) {
	resolve := world("a.txt", "a.py", "a.rb", "a.go")
	require.GreaterOrEqual(t, len(rows), 120)
	for _, r := range rows {
		for name, want := range map[string]string{Passive: r.passive, Full: r.full} {
			argv := strings.Fields(r.argv)
			d := builtin(name).Judge(argv, resolve)
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
		if d := builtin(Passive).Judge(strings.Fields(r.argv), resolve); d.Accepted {
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
		d := builtin(Full).Judge(c.argv, resolve)
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
		assert.True(t, builtin(Passive).Judge(argv, world()).Accepted, c.argv)
		d := builtin(Passive).Judge(argv, world(c.file))
		assert.Falsef(t, d.Accepted, "%s with %s", c.argv, c.file)
		assert.Contains(t, d.Reason, path.Base(c.file)+" is there")
		assert.Contains(t, d.Try, c.try)
	}
	d := builtin(Passive).Judge([]string{"rubocop", "sub"}, world())
	assert.Contains(t, d.Reason, "it is a directory", "each directory below may have a configuration of its own")
	assert.Equal(t, []string{"./a/b", "a/b", "a", "."}, above("a/b/x"), "a/b may be a link: what is above it by name counts as well as what is above it")
	assert.Equal(t, []string{"/a/", "/a", "/"}, above("/a/x"))
	assert.Equal(t, []string{"./..", ".."}, above("../x"))
	assert.True(t, builtin(Passive).Judge([]string{"mypy", "--config-file=", "a.py"}, world("mypy.ini")).Accepted, "it does not read it")
	assert.True(t, builtin(Full).Judge([]string{"mypy", "a.py"}, world("mypy.ini")).Accepted, "full runs code")
	assert.False(t, builtin(Passive).Judge([]string{"bundle", "--version"}, func(name string) (bool, error) { return true, nil }).Accepted, "a search without an end is one")
}

func TestRulesSetWhatKeepsCodeOut(t *testing.T) {
	d := builtin(Full).Judge([]string{"python3", "-m", "py_compile", "a.py"}, world())
	assert.Contains(t, d.Env, "PYTHONSAFEPATH=1", "full uses passive's rule where there is one")
	d = builtin(Passive).Judge([]string{"go", "vet"}, world())
	assert.Subset(t, d.Env, []string{"CGO_ENABLED=0", "GOTOOLCHAIN=local", "GOENV=off"})
	for argv, want := range map[string]string{
		"go vet": "GOPROXY=off GONOPROXY=none GOVCS=*:off", "go vet ./...": "GOPROXY=off", "go vet a.go": "GOPROXY=off", "go version": "GOTOOLCHAIN=local",
		"rubocop a.rb": "BUNDLE_APP_CONFIG=/dev/null BUNDLE_USER_HOME=/dev/null CI=true RUBOCOP_CACHE_ROOT=/tmp", "rubocop --force-default-config a.rb": "BUNDLE_APP_CONFIG=/dev/null CI=true RUBOCOP_CACHE_ROOT=/tmp",
		"bundle --version": "BUNDLE_APP_CONFIG=/dev/null BUNDLE_VERSION=system", "mypy a.py": "MYPY_CACHE_DIR=/dev/null PYTHONSAFEPATH=1",
		"mypy --config-file= a.py": "MYPY_CACHE_DIR=/dev/null", "ruff check": "RUFF_NO_CACHE=true", "ruff check a.py": "RUFF_NO_CACHE=true",
	} {
		assert.Subset(t, builtin(Passive).Judge(strings.Fields(argv), world()).Env, strings.Fields(want), argv)
	}
	assert.NotContains(t, builtin(Passive).Judge([]string{"python3", "-m", "py_compile", "a.py"}, world()).Env, "MYPY_CACHE_DIR=/dev/null", "each rule has its own")
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
		d := builtin(Passive).Judge(strings.Fields(c.argv), out(c.out))
		assert.Equal(t, c.want, d.Accepted, "%s, %s leads out: %s", c.argv, c.out, d.Text())
		if !c.want {
			assert.Contains(t, d.Reason, "where python3 would write")
		}
	}
}

func TestOwnProfiles(t *testing.T) {
	own := []policy.Profile{{Name: "lint", Extends: "passive", Programs: []policy.Program{{Name: "shellcheck", Shapes: []string{"", "FILE.sh...", "-f gcc FILE"}}}},
		{Name: "bare", Programs: []policy.Program{{Name: "ls", Shapes: []string{"-N WORD..."}}}}}
	lint, err := Find("lint", own)
	require.NoError(t, err)
	for argv, want := range map[string]bool{"shellcheck": true, "shellcheck a.sh b.sh": true, "shellcheck a.sh b": false, "shellcheck -f gcc x": true, "shellcheck -f": false,
		"ls": true, "python3 x.py": false} {
		assert.Equal(t, want, lint.Judge(strings.Fields(argv), world()).Accepted, argv)
	}
	bare, err := Find("bare", own)
	require.NoError(t, err)
	assert.True(t, bare.Judge([]string{"ls", "-3", "x", "y"}, world()).Accepted)
	assert.False(t, bare.Judge([]string{"ls"}, world()).Accepted, "it extends nothing")
	for name, says := range map[string]string{"lnt": "did you mean lint?", "Passive": "did you mean passive?", "nothing-like": "known are passive, full, lint, bare"} {
		_, err := Find(name, own)
		assert.ErrorContains(t, err, says)
	}
	for _, bad := range []policy.Profile{{Name: "full"}, {Name: ""}, {Name: "x", Extends: "lint"}, {Name: "x", Programs: []policy.Program{{Name: "/bin/ls"}}},
		{Name: "x", Programs: []policy.Program{{Name: "ls", Shapes: []string{"... x"}}}}} {
		assert.Error(t, Check(policy.Policy{Profiles: []policy.Profile{bad}}), "%v", bad)
	}
	assert.ErrorContains(t, Check(policy.Policy{Profiles: []policy.Profile{own[0], own[0]}}), "given twice")
	assert.ErrorContains(t, Check(policy.Policy{Profile: "ful"}), "did you mean full?")
	assert.NoError(t, Check(policy.Policy{Profile: "lint", Profiles: own}))
}

func TestShapes(t *testing.T) {
	for shape, says := range map[string]string{
		" a": "one blank", "a  b": "one blank", "... a": "put it last", "FILE... a": "put it last", "FIEL": "did you mean FILE?", "WHATEVER": "known are", "N...": "repeated",
		"CODE...": "repeated", "x...": "repeated", "a | b": "no argument", "a\x01": "no argument", ">x": "no argument",
	} {
		assert.ErrorContains(t, CheckShape(shape), says, "%q", shape)
	}
	for _, name := range []string{Passive, Full} {
		for _, r := range rules(name) {
			assert.NoError(t, CheckShape(r.Shape), r.String())
			assert.NoError(t, CheckProgram(r.Program))
			assert.Equal(t, len(r.Absent) > 0, r.Why != "", r.String())
			assert.Contains(t, builtin(name).String(), "\n  "+r.String()+"\n")
		}
	}
}

// FuzzProfile: no argv makes it panic; full accepts what passive does; and passive accepts no word that begins with a hyphen but those of
// its rules, so no interpreter is given code, and no file outside.
func FuzzProfile(f *testing.F) {
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
		passive, full := builtin(Passive).Judge(argv, resolve), builtin(Full).Judge(argv, resolve)
		require.NotEmpty(t, passive.Text())
		if !passive.Accepted {
			require.NotEmpty(t, passive.Reason)
			return
		}
		require.Truef(t, full.Accepted, "%q", argv)
		for _, w := range argv[1:] {
			number := strings.HasPrefix(w, "-") && strings.Trim(w[1:], "0123456789") == ""
			require.Falsef(t, strings.HasPrefix(w, "-") && !options[w] && !number, "%q", argv)
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
