package tools_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/testenv"
	"github.com/nsrun/nsrun/nsrun/policy"
	"github.com/nsrun/nsrun/nsrun/tools"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the table of doc/tools.md anew")

func TestMain(m *testing.M) { os.Exit(testenv.Main(m.Run)) }

// hostOf is a host with a home directory and these variables.
func hostOf(home string, vars map[string]string) tools.Host {
	lookup := func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
	real := func(file string) (string, error) {
		switch {
		case slices.ContainsFunc([]string{"/gone/", "/sdk", "/mise/", "/go/bin", "/.pyenv", "/.nvm"}, func(name string) bool { return strings.Contains(file, name) }):
			return "", os.ErrNotExist
		case strings.Contains(file, "/link/"):
			return "/elsewhere", nil
		}
		return file, nil
	}
	return tools.Host{Home: home, Lookup: lookup, Real: real}
}

// add adds a preset to the default policy of a user with that home directory.
func add(t *testing.T, h tools.Host, p policy.Policy, names ...string) policy.Policy {
	t.Helper()
	p.Tools = names
	p, _, err := tools.Add(p, policy.Operator{}, h)
	require.NoError(t, err)
	_, err = policy.Normalize(p, policy.Operator{})
	require.NoError(t, err)
	return p
}

// of are the entries of presets, as "kind source dest".
func of(p policy.Policy) (all []string) {
	for _, e := range p.FS {
		if e.Tool != "" {
			all = append(all, strings.TrimSpace(string(e.Kind)+" "+e.Source+" "+e.Dest))
		}
	}
	return all
}

// keyless are places beside keys that hold none: files, an empty directory, and the socket of an agent that gives none away.
var keyless = []string{"~/.ssh/known_hosts", "~/.gnupg", "~/.gnupg/pubring.kbx", "~/.gnupg/trustdb.gpg", "$XDG_RUNTIME_DIR/gnupg/S.gpg-agent.extra|~/.gnupg/S.gpg-agent.extra"}

// TestTable holds what every row must have.
func TestTable(t *testing.T) {
	rows := tools.Table()
	require.Len(t, tools.Names, len(rows))
	assert.True(t, slices.IsSortedFunc(rows, func(a, b tools.Tool) int { return strings.Compare(a.Name, b.Name) }))
	for i, row := range rows {
		assert.Equal(t, tools.Names[i], row.Name)
		assert.NotEmpty(t, row.Help, row.Name)
		assert.NotEmpty(t, row.Opens, row.Name)
		for _, name := range row.Pass {
			assert.False(t, policy.SecretName(name), "%s: %s looks like a secret's name, and is never passed", row.Name, name)
		}
		for _, place := range row.Places {
			assert.NotEmpty(t, place.Why, "%s: %s", row.Name, place.Path)
			if slices.Contains(keyless, place.Path) {
				continue
			}
			for _, secret := range []string{".ssh", ".gnupg", ".aws", "credentials", ".npmrc", ".netrc", "settings.xml", ".docker", "id_"} {
				assert.NotContains(t, place.Path, secret, row.Name)
			}
		}
		h := hostOf("/home/me", nil)
		for _, e := range add(t, h, policy.Default("/home/me"), row.Name).FS {
			assert.False(t, e.Tool != "" && e.Kind == policy.Bind && e.Write, "%s: nothing of the host's is writable: %s", row.Name, e.Dest)
		}
		// A user's own row can say the same.
		data, err := json.Marshal(row)
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "row.json")
		require.NoError(t, os.WriteFile(file, data, 0o644))
		own, err := tools.Find(file)
		require.NoError(t, err, row.Name)
		assert.Equal(t, file, own.Name, "it is called by its file, so that no ceiling takes it for the row")
		own.Name = row.Name
		assert.Equal(t, row, own)
	}
}

// TestPresetsThatOpenNothing change variables, and nothing that is a wall.
func TestPresetsThatOpenNothing(t *testing.T) {
	plain := policy.Default("/home/me")
	for _, name := range []string{"browser", "jupyter", "office"} {
		with := add(t, hostOf("/home/me", nil), plain, name)
		assert.Equal(t, walls(plain), walls(with), name)
	}
	assert.NotEqual(t, walls(plain), walls(add(t, hostOf("/home/me", nil), plain, "cc")), "positive control")
}

// walls are a policy without its variables.
func walls(p policy.Policy) policy.Policy {
	p.Tools, p.Env, p.Notes = nil, policy.Env{}, nil
	p.FS = slices.Clone(p.FS)
	return p
}

// TestDocHasTheTable compares the table in doc/tools.md with the one in the code; -update writes it anew.
func TestDocHasTheTable(t *testing.T) {
	table := "| preset | for | adds | opens |\n|---|---|---|---|\n"
	for _, row := range tools.Table() {
		var adds []string
		for _, p := range row.Places {
			names := strings.Split(p.Path, "|")
			if p.Path == "" {
				adds = append(adds, string(p.Kind))
				continue
			}
			adds = append(adds, fmt.Sprintf("%s `%s`", p.Kind, names[len(names)-1]))
		}
		for _, v := range slices.Concat(row.Set, row.Offline) {
			adds = append(adds, "`"+v.Name+"="+v.Value+"`")
		}
		if len(row.Pass) > 0 {
			adds = append(adds, "passes "+strings.Join(row.Pass, " "))
		}
		if row.Filter != "" {
			adds = append(adds, "filter "+row.Filter)
		}
		table += fmt.Sprintf("| `%s` | %s | %s | %s |\n", row.Name, row.Help, strings.Join(adds, ", "), row.Opens)
	}
	testenv.DocTable(t, "../../doc/tools.md", "tools", table, *update)
}

func TestPlacesFollowVariables(t *testing.T) {
	for _, tt := range []struct {
		vars map[string]string
		want []string
	}{
		{nil, []string{"bind /home/me/go/pkg/mod /home/me/go/pkg/mod", "overlay /home/me/.cache/go-build /home/me/.cache/go-build"}},
		{map[string]string{"GOPATH": "/data/go:/other"}, []string{"bind /data/go/pkg/mod /data/go/pkg/mod", "overlay /home/me/.cache/go-build /home/me/.cache/go-build"}},
		{map[string]string{"GOMODCACHE": "/m", "GOPATH": "/data/go", "GOCACHE": "/c/../d"}, []string{"bind /m /m", "overlay /d /d"}},
		{map[string]string{"GOMODCACHE": "/gone/m", "GOCACHE": "/gone/c"}, nil},
		{map[string]string{"GOMODCACHE": "relative", "GOCACHE": "off"}, []string{"bind /home/me/go/pkg/mod /home/me/go/pkg/mod", "overlay /home/me/.cache/go-build /home/me/.cache/go-build"}},
		{map[string]string{"GOMODCACHE": "/a\x01b"}, []string{"bind /home/me/go/pkg/mod /home/me/go/pkg/mod", "overlay /home/me/.cache/go-build /home/me/.cache/go-build"}},
	} {
		assert.Equal(t, tt.want, of(add(t, hostOf("/home/me", tt.vars), policy.Default("/home/me"), "go")), tt.vars)
	}
	moved := add(t, hostOf("/home/me", nil), policy.Default("/home/other"), "go")
	assert.Contains(t, of(moved), "overlay /home/me/.cache/go-build /home/other/.cache/go-build", "below the home directory that the sandbox has")
	assert.Empty(t, of(add(t, hostOf("", nil), policy.Default("/home/me"), "go")), "without a home directory there is none of it")
}

func TestWhatIsAskedForWins(t *testing.T) {
	h := hostOf("/home/me", map[string]string{"GOFLAGS": "-v", "GOOS": "linux"})
	p := policy.Default("/home/me").Grant("/home/me/go/pkg/mod", true, "--rw")
	p.Env = policy.Env{Pass: []string{"GOPROXY"}, Set: []policy.Var{{Name: "GOSUMDB", Value: "mine"}}}
	p = add(t, h, p, "go", "go")
	assert.Equal(t, []string{"overlay /home/me/.cache/go-build /home/me/.cache/go-build"}, of(p), "what is granted to be written is not covered")
	assert.Equal(t, []string{"go"}, p.Tools)
	assert.Equal(t, []string{"GOPROXY", "GOFLAGS", "GOOS"}, p.Env.Pass)
	assert.Equal(t, []policy.Var{{Name: "GOSUMDB", Value: "off"}, {Name: "GOSUMDB", Value: "mine"}}, p.Env.Set, "the last one counts")

	p = policy.Default("/home/me").Grant("/home/me/.npm", false, "--ro")
	p = add(t, h, p, "node")
	p, err := policy.Normalize(p, policy.Operator{})
	require.NoError(t, err)
	at := p.At("/home/me/.npm/x")
	assert.True(t, at.Kind == policy.Bind && at.Tool == "" && !at.Write, at)

	for _, change := range []func(*policy.Policy){
		func(p *policy.Policy) { p.Network = policy.NetworkHost },
		func(p *policy.Policy) { p.Autonomy = policy.FullAccess },
		func(p *policy.Policy) { p.Isolation = policy.Subprocess },
	} {
		p = policy.Default("/home/me")
		change(&p)
		assert.Empty(t, add(t, h, p, "go").Env.Set, "with a network there is no reason to say that there is none")
	}

	p = policy.Default("/home/me")
	p.Seccomp.Filter = "compute"
	p = add(t, h, p, "cc")
	assert.Equal(t, "compute", p.Seccomp.Filter)
	assert.Contains(t, p.Notes[len(p.Notes)-1].Loss, "compute was asked for, which stays")
	assert.Equal(t, "build", add(t, h, policy.Default("/home/me"), "cc").Seccomp.Filter)

	p = policy.Default("/home/me")
	p.KeepHome = "/home/me/proj"
	assert.Equal(t, []string{"bind /home/me/go/pkg/mod /home/me/go/pkg/mod"}, of(add(t, h, p, "go")), "a kept home directory has what its runs have built")
	given := policy.Default("/home/me").WithHomeDir("/data/home", "--home")
	assert.Equal(t, []string{"bind /home/me/go/pkg/mod /home/me/go/pkg/mod"}, of(add(t, h, given, "go")))
}

func TestUnknownPresets(t *testing.T) {
	for word, says := range map[string]string{
		"nde": "did you mean node?", "x": "use browser, cc,", "": "is no preset", "./none.json": "no such file", "/": "not a file", "/dev/zero": "not a file",
	} {
		p := policy.Default("/home/me")
		p.Tools = []string{word}
		_, _, err := tools.Add(p, policy.Operator{}, hostOf("/home/me", nil))
		assert.ErrorContains(t, err, says, word)
	}
	for text, says := range map[string]string{
		"": "EOF", "{": "unexpected EOF", "[]": "a row is one object", `{"nme": "x"}`: `unknown field "nme"`, `{} {}`: "more after the row",
		`{"places": [{"path": "x", "kind": "read"}]}`:            "places[0]: path",
		`{"places": [{"path": "~", "kind": "read"}]}`:            "something below it",
		`{"places": [{"path": "/", "kind": "read"}]}`:            "something below it",
		`{"places": [{"path": "~/../x", "kind": "read"}]}`:       "clean path",
		`{"places": [{"path": "$A-B/x", "kind": "read"}]}`:       "",
		`{"places": [{"path": "~/x|y", "kind": "read"}]}`:        `"y" begins with none of`,
		`{"places": [{"path": "~/x", "kind": "write"}]}`:         `kind: "write" is unknown; use read, cache`,
		`{"places": [{"path": "~/x", "kind": "read", "up": 1}]}`: `unknown field "up"`,
		`{"places": [{"path": "go", "kind": "program"}]}`:        `kind: "program" is unknown`,
		`{"places": [{"kind": "repository"}]}`:                   "",
		`{"places": [{"path": "/x", "kind": "repository"}]}`:     `path: "/x"; leave it out`,
		`{"places": [{"kind": "read"}]}`:                         "places[0]: path",
		`{"pass": ["A=B"]}`:                                      `pass: "A=B"`,
		`{"set": [{"name": "", "value": "x"}]}`:                  "set:",
		`{"filter": "off"}`:                                      `filter: "off" is unknown; use default, compute, network, build`,
	} {
		file := filepath.Join(t.TempDir(), "row.json")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		_, err := tools.Find(file)
		if says == "" {
			assert.NoError(t, err, text)
			continue
		}
		assert.ErrorContains(t, err, says, text)
		assert.ErrorContains(t, err, file, text)
	}
	big := filepath.Join(t.TempDir(), "row.json")
	require.NoError(t, os.WriteFile(big, []byte(strings.Repeat(" ", 70000)), 0o644))
	_, err := tools.Find(big)
	assert.ErrorContains(t, err, "more than 65536 bytes")
}

// TestWhatVariablesName is not shown where it is more than the preset is for, or where a command could have put a link.
func TestWhatVariablesName(t *testing.T) {
	for dir, says := range map[string]string{
		"/home/me": "is your home directory", "/home": "is a directory above your home directory", "/home/me/.ssh": "is where keys or tokens are kept",
		"/home/me/.gnupg/private": "is where keys", "/home/me/.config": "is where keys or sessions of browsers are kept", "/": "is the whole host", "/etc": "is a directory of the system",
		"/link/x": "$PIP_CACHE_DIR leads through a symlink to /elsewhere", "/proc/1": "nothing of the host's /proc can be shown", "/gone/x": "",
	} {
		p := add(t, hostOf("/home/me", map[string]string{"PIP_CACHE_DIR": dir}), policy.Default("/home/me"), "python")
		for _, e := range p.FS {
			assert.False(t, e.Tool != "" && (e.Source == dir || e.Source == "/elsewhere"), "%s is shown", dir)
		}
		assert.NotContains(t, p.Env.Pass, "PIP_CACHE_DIR")
		if says != "" {
			assert.Contains(t, p.Notes[len(p.Notes)-1].Loss, says, dir)
		}
	}
	p := add(t, hostOf("/home/me", map[string]string{"PIP_CACHE_DIR": "/data/pip"}), policy.Default("/home/me"), "python")
	assert.Contains(t, of(p), "overlay /data/pip /data/pip", "control")
	assert.Contains(t, p.Env.Pass, "PIP_CACHE_DIR", "else the program would look elsewhere")
	ceiling := policy.Ceiling{Tools: []string{"python"}}
	for _, roots := range [][]string{nil, {"/data"}} {
		ceiling.FSRead = roots
		cut, err := policy.Normalize(p, policy.Operator{Ceilings: []policy.Ceiling{ceiling}})
		require.NoError(t, err)
		at := cut.At("/data/pip")
		assert.Equal(t, len(roots) > 0, at != nil, "under a ceiling it is a grant")
	}
	for _, home := range []string{"", "relative"} {
		t.Setenv("HOME", home)
		assert.Empty(t, tools.Here().Home)
	}
}

// TestARowIsOutOfReach of the command: else it could change the row for the next run.
func TestARowIsOutOfReach(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir+"/ws", 0o755))
	require.NoError(t, os.Symlink("ws", dir+"/alias"))
	require.NoError(t, os.WriteFile(dir+"/ws/row.json", []byte("{}"), 0o644))
	require.NoError(t, os.Symlink("ws/row.json", dir+"/row.json"))
	h := tools.Here()
	for _, file := range []string{dir + "/ws/row.json", dir + "/alias/row.json", dir + "/row.json"} {
		for _, ws := range []string{dir + "/ws", dir + "/alias"} {
			p := policy.Default("/home/me").Grant(ws, true, "--workspace")
			p.Tools = []string{file}
			_, _, err := tools.Add(p, policy.Operator{}, h)
			assert.ErrorContains(t, err, "which the command can write (--workspace); keep the row out of it")
		}
		p := policy.Default("/home/me").Grant(dir+"/ws", false, "--ro")
		p.Tools = []string{file}
		_, files, err := tools.Add(p, policy.Operator{}, h)
		assert.NoError(t, err, "control")
		assert.Equal(t, []string{file}, files, "no sandbox may be able to write it")
	}
}

func TestACeilingPermitsByName(t *testing.T) {
	h := hostOf("/home/me", nil)
	file := filepath.Join(t.TempDir(), "go")
	require.NoError(t, os.WriteFile(file, []byte(`{"name": "go", "places": [{"path": "/etc/x", "kind": "read"}, {"path": "/srv/y", "kind": "private"}]}`), 0o644))
	for _, tt := range []struct {
		tools, permits, left []string
	}{
		{[]string{"go", "git"}, nil, nil},
		{[]string{"go", "git"}, []string{"go"}, []string{"/home/me/.cache/go-build", "/home/me/go/pkg/mod"}},
		{[]string{file}, []string{"go"}, nil},
		{[]string{file}, []string{file}, []string{"/srv/y"}},
	} {
		op := policy.Operator{Ceilings: []policy.Ceiling{{Tools: []string{"git", "go", file}}, {Tools: tt.permits}}}
		p := policy.Default("/home/me")
		p.Tools = tt.tools
		p, _, err := tools.Add(p, op, h)
		require.NoError(t, err)
		p, err = policy.Normalize(p, op)
		require.NoError(t, err)
		all := add(t, h, policy.Default("/home/me"), tt.tools...) // by a front end that has not asked the operator
		all, err = policy.Normalize(all, op)
		require.NoError(t, err)
		assert.Equal(t, of(p), of(all))
		var left []string
		for _, e := range p.FS {
			if e.Tool != "" {
				left = append(left, e.Dest)
			}
		}
		assert.ElementsMatch(t, tt.left, left, tt)
		if len(tt.left) == 0 {
			assert.Contains(t, p.Notes[len(p.Notes)-1].Fix, `"tools": [`)
		}
	}
}

// TestSettingsOfGit reads a configuration as git does, and writes those that run nothing, as git reads them.
func TestSettingsOfGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		require.Empty(t, os.Getenv("CI"), "CI must have git")
		t.Skip("git is not installed")
	}
	home := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(home, name), []byte(text), 0o644))
	}
	write(".config/git/config", "[user]\n\tname = Other\n[init]\n\tdefaultBranch = trunk\n")
	write(".gitconfig", `[user]
	name = "Ann \"B\" \\ #1; x"
	email = ann@example.com
	signingkey = ABC
[commit]
	gpgsign = true
[include]
	path = more
	path = ~/.gitmore
	path = none
[includeIf "gitdir:~/work/"]
	path = evil
[alias]
	x = !evil
[core]
	pager = evil
	editor = evil
	fsmonitor = evil
	hooksPath = /evil
	autocrlf = input
[credential]
	helper = store
[color "diff"]
	meta = yellow bold
[url "ssh://evil/"]
	insteadOf = https://
[filter "x"]
	clean = evil
[merge "x"]
	driver = evil
[diff "x"]
	textconv = evil
[difftool "x"]
	cmd = evil
`)
	write("more", "[pull]\n\trebase = true\n[include]\n\tpath = more\n")
	write(".gitmore", "[push]\n\tdefault = current\n[core]\n\tsshCommand = evil\n")
	write("evil", "[user]\n\tname = evil\n")
	p := add(t, hostOf(home, nil), policy.Default("/home/me"), "git")
	file := p.At("/home/me/.gitconfig")
	require.Equal(t, policy.File, file.Kind)
	assert.NotContains(t, string(file.Data), "evil")
	at := filepath.Join(t.TempDir(), "made")
	require.NoError(t, os.WriteFile(at, file.Data, 0o644))
	cmd := exec.Command(git, "config", "--file", at, "--list")
	cmd.Env = []string{"HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "PATH=" + os.Getenv("PATH")}
	out, err := cmd.Output()
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	assert.Equal(t, []string{"user.name=Other", "init.defaultbranch=trunk", `user.name=Ann "B" \ #1; x`, "user.email=ann@example.com"}, lines[:4])
	assert.Equal(t, []string{"push.default=current", "core.autocrlf=input", "color.diff.meta=yellow bold"}, lines[len(lines)-3:])
	assert.Contains(t, lines, "pull.rebase=true")

	write(".gitconfig", "[user\n")
	p = add(t, hostOf(home, nil), policy.Default("/home/me"), "git")
	assert.Contains(t, p.Notes[len(p.Notes)-1].Loss, "is not git's syntax", "what cannot be read is a note")
	assert.Contains(t, string(p.At("/home/me/.gitconfig").Data), "Other")
}

func TestSuggestionsByProgram(t *testing.T) {
	home := t.TempDir()
	h := hostOf(home, nil)
	p := policy.Default("/home/me")
	assert.Empty(t, tools.SuggestFor(p, []string{"npm", "ci"}, h), "it would show nothing")
	require.NoError(t, os.Mkdir(home+"/.npm", 0o755))
	for _, command := range [][]string{{"npm", "ci"}, {"/usr/bin/npx", "x"}, {"sh", "-c", "cd x && npm ci"}, {"sh", "-c", "x=$(npm ci)"}, {"bash", "-c", "CI=1 npm ci"}, {"sh", "-c", "set -e\nif npm ci; then echo; fi"}} {
		assert.Equal(t, []string{"node"}, tools.SuggestFor(p, command, h), command)
	}
	for _, command := range [][]string{{"ls"}, {"echo", "npmx"}, {"cat", "npm"}, {"sh", "-c", "ls ~/npm; cat npm"}, {"grep", "a npm"}, nil} {
		assert.Empty(t, tools.SuggestFor(p, command, h), command)
	}
	assert.Equal(t, []string{"cc"}, tools.SuggestFor(p, []string{"gdb", "x"}, h), "the filter")
	assert.Empty(t, tools.SuggestFor(add(t, h, p, "node"), []string{"npm"}, h), "it is used already")
}
