package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/nsrun/policy"
)

// workTree makes a workspace beside a place that nobody granted.
func workTree(t *testing.T) (work, beside string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	work, beside = filepath.Join(root, "work"), filepath.Join(root, "work-beside")
	for _, dir := range []string{filepath.Join(work, "sub"), filepath.Join(work, "bin"), beside} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	for _, file := range []string{work + "/a.py", work + "/sub/b.py", beside + "/secret"} {
		require.NoError(t, os.WriteFile(file, []byte("x = 1\n"), 0o644))
	}
	for link, to := range map[string]string{"in": "a.py", "out": "../work-beside/secret", "abs": beside + "/secret", "absin": work + "/a.py", "dir": "../work-beside",
		"nowhere": "../work-beside/none", "dangling": "none", "loop": "loop", "sub/up": "../a.py", "magic": "/proc/self/root"} {
		require.NoError(t, os.Symlink(to, filepath.Join(work, link)))
	}
	return work, beside
}

func TestFilesOfCommandRulesResolveInTheWorkspace(t *testing.T) {
	work, beside := workTree(t)
	pol, err := NewPolicy().WorkspaceAt(work, "/ws").Commands("passive").Build()
	require.NoError(t, err)
	for name, want := range map[string]bool{
		"a.py": true, "./a.py": true, "sub/b.py": true, "sub/../a.py": true, "in": true, "sub/up": true, "none": true, "dangling": true, "none/x": true,
		"/ws/a.py": true, "/ws": true, "/ws/sub/../a.py": true, "/ws//a.py": true, ".": true,
		"out": false, "abs": false, "absin": false, "dir/secret": false, "nowhere": false, "loop": false, "magic/etc/passwd": false, "..": false, "../work/a.py": false,
		"sub/../../work-beside/secret": false, "/etc/passwd": false, "/ws/../etc/passwd": false, "/ws-beside/x": false, "/wsx": false, "/": false,
		beside + "/secret": false, work + "/a.py": false, "/proc/self/environ": false, "a.py/..": false,
	} {
		d, err := CheckCommand(pol, "", []string{"cat", name})
		require.NoError(t, err)
		assert.Equalf(t, want, d.Accepted, "cat %s: %s", name, d.Text())
	}
	// Ruby, Python and Go take .. away before they open a file: what the kernel and they make of it must both be inside.
	require.NoError(t, os.MkdirAll(work+"/deep/er/still", 0o755))
	require.NoError(t, os.Symlink("deep/er/still", work+"/short"))
	d, err := CheckCommand(pol, "", []string{"cat", "short/../../../a.py"})
	require.NoError(t, err)
	assert.False(t, d.Accepted, "by name it is ../../a.py")
	d, err = CheckCommand(pol, "/ws/sub", []string{"cat", "../a.py"})
	require.NoError(t, err)
	assert.True(t, d.Accepted, "paths start where the command does")
	d, err = CheckCommand(pol, "/etc", []string{"cat", "passwd"})
	require.NoError(t, err)
	assert.False(t, d.Accepted, "where a command starts does not widen what is the workspace")
}

// What a program would be told by is found where links lead, and where names do.
func TestConfigurationIsFoundOnTheHost(t *testing.T) {
	work, beside := workTree(t)
	require.NoError(t, os.MkdirAll(work+"/real/dir", 0o755))
	require.NoError(t, os.MkdirAll(work+"/named", 0o755))
	require.NoError(t, os.Symlink("../real/dir", work+"/named/dir"))
	require.NoError(t, os.WriteFile(work+"/real/dir/x.rb", nil, 0o644))
	pol, err := NewPolicy().Workspace(work).Commands("passive").Build()
	require.NoError(t, err)
	accepts := func(argv ...string) (bool, string) {
		d, err := CheckCommand(pol, "", argv)
		require.NoError(t, err)
		return d.Accepted, d.Text()
	}
	for _, name := range []string{"none.rb", "none/none.rb", "named/dir/x.rb", work + "/real/dir/x.rb", "real/../named/dir/x.rb"} {
		ok, why := accepts("rubocop", name)
		assert.Truef(t, ok, "%s: %s", name, why)
	}
	ok, why := accepts("rubocop", "real")
	assert.False(t, ok)
	assert.Contains(t, why, "it is a directory")
	for _, at := range []string{"real/dir", "real", "named", "."} {
		require.NoError(t, os.WriteFile(filepath.Join(work, at, ".rubocop.yml"), nil, 0o644))
		ok, why := accepts("rubocop", "named/dir/x.rb")
		assert.Falsef(t, ok, "a configuration in %s", at)
		assert.Contains(t, why, ".rubocop.yml is there")
		require.NoError(t, os.Remove(filepath.Join(work, at, ".rubocop.yml")))
	}
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(work), ".rubocop.yml"), nil, 0o644))
	ok, why = accepts("rubocop", "a.rb")
	assert.Truef(t, ok, "what is above the workspace is not seen inside: %s", why)
	for name, b := range map[string]*Builder{"shown": NewPolicy().ReadOnly(filepath.Dir(work)).Workspace(work), "no sandbox": NewPolicy().Workspace(work).Backend(policy.BackendNone)} {
		pol, err := b.Dir(work).Commands("passive").Build()
		require.NoError(t, err)
		d, err := CheckCommand(pol, "", []string{"rubocop", "a.rb"})
		require.NoError(t, err)
		assert.Falsef(t, d.Accepted, "%s above the workspace", name)
		assert.Contains(t, d.Reason, filepath.Dir(work)+"/.rubocop.yml is there, above the workspace, and rubocop runs what its configuration requires")
	}
	require.NoError(t, os.Symlink(beside+"/secret", work+"/mypy.ini"))
	ok, _ = accepts("mypy", "a.py")
	assert.False(t, ok, "a link that leads out is there, wherever it leads")
}

func TestWithoutAWorkspaceThereAreNoFiles(t *testing.T) {
	work, _ := workTree(t)
	for name, c := range map[string]struct {
		pol  *Builder
		want bool
	}{
		"nothing granted":           {NewPolicy(), false},
		"a system directory":        {NewPolicy().Dir("/etc"), false},
		"read-only, and begun in":   {NewPolicy().ReadOnly(work).Dir(work), true},
		"read-only, begun below":    {NewPolicy().ReadOnly(filepath.Dir(work)).Dir(work), true},
		"read-only, begun besides":  {NewPolicy().ReadOnly(work).Dir("/tmp"), false},
		"writable, but no place":    {NewPolicy().ReadWrite(work).Dir("/tmp"), false},
		"the workspace, begun away": {NewPolicy().Workspace(work).Dir("/tmp"), true},
	} {
		pol, err := c.pol.Commands("full").Build()
		require.NoError(t, err)
		d, err := CheckCommand(pol, "", []string{"cat", work + "/a.py"})
		require.NoError(t, err)
		assert.Equalf(t, c.want, d.Accepted, "%s: %s", name, d.Text())
		d, err = CheckCommand(pol, "", []string{"cat", "/etc/passwd"})
		require.NoError(t, err)
		assert.Falsef(t, d.Accepted, "%s: %s", name, d.Text())
	}
}

// A program that a sandbox could have put there is not told by its name.
func TestProgramsAreNotLookedForInWhatIsWritable(t *testing.T) {
	work, _ := workTree(t)
	for path, want := range map[string]bool{"/usr/bin:/bin": true, work + "/bin:/usr/bin": false, "/usr/bin:" + filepath.Dir(work): false, ".:/usr/bin": false, "/usr/bin:": false} {
		pol := NewPolicy().Workspace(work).Commands("passive").SetEnv("PATH", path)
		built, err := pol.Build()
		require.NoError(t, err)
		d, err := CheckCommand(built, "", []string{"ls"})
		require.NoError(t, err)
		assert.Equalf(t, want, d.Accepted, "PATH=%s: %s", path, d.Text())
	}
	spec := NewPolicy().Workspace(work).Commands("passive").spec.Grant("/usr/local/bin", true, "test")
	spec.FS[len(spec.FS)-1].Force = true
	built, err := FromPolicy(spec, policy.Operator{})
	require.NoError(t, err)
	d, err := CheckCommand(built, "", []string{"/usr/local/bin/ls"})
	require.NoError(t, err)
	assert.False(t, d.Accepted, "nor by its path")
	t.Setenv("PATH", work+"/bin")
	built, err = NewPolicy().Workspace(work).PassEnv("PATH").Commands("passive").Build()
	require.NoError(t, err)
	d, err = CheckCommand(built, "", []string{"ls"})
	require.NoError(t, err)
	assert.False(t, d.Accepted, "the caller's PATH is looked at as well")

	p := built
	for _, c := range []struct {
		change func(*policy.Policy)
		want   string
	}{
		{func(p *policy.Policy) {}, work + "/bin"},
		{func(p *policy.Policy) { p.Env.Pass, p.Env.All = nil, true }, policy.DefaultPath}, // a hook that is not named
		{func(p *policy.Policy) {
			p.Env.Set = []policy.Var{{Name: "PATH", Value: "/a"}, {Name: "PATH", Value: "/b"}}
		}, "/b"},
		{func(p *policy.Policy) {
			p.Isolation, p.Env.Set = policy.Permissive, []policy.Var{{Name: "PATH", Value: "/a"}}
		}, work + "/bin"},
	} {
		q := p
		c.change(&q)
		assert.Equal(t, c.want, searchPath(q))
	}
}

// shadowed shows a file of the workspace in the place of a program.
func shadowed(b *Builder, work string) *Builder {
	b.spec.FS = append(b.spec.FS, policy.FS{Kind: policy.Bind, Source: work + "/a.py", Dest: "/usr/bin/ls"})
	return b
}

// What is in the directory is the workspace's, or a sandbox's, even where this one cannot write to it; tools of one's own lie elsewhere.
func TestProgramsAreNotLookedForInTheWorkspace(t *testing.T) {
	work, beside := workTree(t)
	ro := func() *Builder { return NewPolicy().ReadOnly(work).Dir(work) }
	for name, c := range map[string]struct {
		pol  *Builder
		path string
		says string
	}{
		"tools of one's own":          {ro().ReadOnly(beside), beside + ":/usr/bin", ""},
		"the system's alone":          {ro(), "/usr/local/bin:/usr/bin:/bin", ""},
		"the workspace":               {ro(), work, "is in the workspace"},
		"below it":                    {ro().ReadOnly(beside), beside + ":" + work + "/bin", "is in the workspace"},
		"by another name":             {ro(), "/usr/bin://usr//bin/./" + ":/" + work + "//bin", "is in the workspace"},
		"by way of another":           {ro(), "/usr/bin:/proc/self/cwd/../../usr/bin", "where links decide what .. is"},
		"where the command starts":    {ro(), "/proc/self/cwd/bin", "leads wherever a command starts"},
		"a descriptor":                {ro(), "/dev/fd/3", "leads wherever a command starts"},
		"what a sandbox has written":  {ro(), "/tmp/bin:/usr/bin", "is empty when a sandbox begins"},
		"a workspace at its place":    {NewPolicy().WorkspaceAt(work, "/ws"), "/ws/bin", "is writable inside"},
		"the workspace, shown beside": {NewPolicy().WorkspaceAt(work, "/ws").ReadOnly(filepath.Dir(work)), work + "/bin", "is in the workspace"},
		"a file of it elsewhere":      {shadowed(ro(), work), "/usr/bin", "has a file of the workspace"},
		"above it":                    {NewPolicy().ReadOnly(filepath.Dir(work)).Dir(work), filepath.Dir(work), ""},
		"the host's own /tmp":         {ro().Backend(policy.BackendNone), "/tmp/bin:/usr/bin", ""},
		"without a sandbox":           {ro().Backend(policy.BackendNone), work + "/bin", "is in the workspace"},
	} {
		pol, err := c.pol.Commands("full").SetEnv("PATH", c.path).Build()
		require.NoError(t, err, name)
		d, err := CheckCommand(pol, "", []string{"ls"})
		require.NoError(t, err)
		assert.Equalf(t, c.says == "", d.Accepted, "%s: %s", name, d.Text())
		assert.Contains(t, d.Reason, c.says, name)
	}
}

// Under passive a policy's own variables cannot undo what its rules keep out.
func TestPassiveTakesNoHookFromThePolicy(t *testing.T) {
	work, beside := workTree(t)
	for _, c := range []struct{ name, value, argv, says string }{
		{"PYTHONPATH", work, "python3 -I -m py_compile a.py", "the policy sets or passes PYTHONPATH: Python's programs load"},
		{"RUBYOPT", "-r./evil", "rubocop a.rb", "RUBYOPT: interpreters load"},
		{"BUNDLER_SETUP", work + "/evil.rb", "rubocop a.rb", "BUNDLER_SETUP: interpreters load"},
		{"LD_PRELOAD", work + "/evil.so", "ls", "LD_PRELOAD: the loader"},
		{"ld_preload", "x", "ls", "ld_preload: the loader"},
		{"XDG_CONFIG_HOME", work, "mypy a.py", "XDG_CONFIG_HOME"},
		{"HOME", work + "/sub", "mypy a.py", "is in the workspace"},
		{"HOME", ".", "mypy a.py", "is not absolute"},
		{"HOME", "/proc/self/cwd", "mypy a.py", "leads wherever a command starts"},
		{"HOME", beside + "/../work", "mypy a.py", "is in the workspace"},
		{"HOME", "/proc/self/cwd/../../../srv", "mypy a.py", "climbs by .."},
		{"LC_ALL", work, "ls", "the file that it names"},
		{"LANGUAGE", "de:" + work, "ls", "the file that it names"},
		{"TZ", ":" + work + "/zone", "ls", "the file that it names"},
		{"TZ", "Europe/Berlin", "ls", ""},
		{"ASDF_DATA_DIR", work, "ls", "managers of versions"},
		{"HOME", beside, "mypy a.py", ""},
		{"HOME", "/tmp", "ls", ""},
		{"HOME", filepath.Dir(work), "ls", ""},
		{"TMPDIR", "/tmp", "ls", ""},
		{"PATH", "/usr/bin", "ls", ""},
		{"GOFLAGS", "-toolexec=x", "go vet", ""}, // the rule sets it anew
		{"GOFLAGS", "-toolexec=x", "gofmt -l a.go", "GOFLAGS"},
		{"PYTHONSAFEPATH", "", "mypy --config-file= a.py", ""},
		{"MODE", "batch", "ls", ""},
	} {
		for commands, says := range map[string]string{"passive": c.says, "full": "", "mine": ""} {
			pol, err := NewPolicy().ReadOnly(work).ReadOnly(beside).Dir(work).SetEnv(c.name, c.value).Commands(commands).
				DefineCommands(policy.CommandRules{Name: "mine", Extends: "passive"}).Build()
			require.NoError(t, err)
			d, err := CheckCommand(pol, "", strings.Fields(c.argv))
			require.NoError(t, err)
			assert.Equalf(t, says == "", d.Accepted, "%s, %s=%s: %s", commands, c.name, c.value, d.Text())
			assert.Contains(t, d.Reason, says)
			if says != "" {
				assert.Equal(t, "leave "+c.name+" out of the policy, or use command rules of your own", d.Try)
			}
		}
	}
	t.Setenv("PATH", "/usr/bin:/bin")
	d, err := CheckCommand(built(t, NewPolicy().Workspace(work).PassEnv("LANG", "PATH", "NODE_OPTIONS").Commands("passive")), "", []string{"ls"})
	require.NoError(t, err)
	assert.Contains(t, d.Reason, "NODE_OPTIONS", "nor from the caller's")
}

// Nor can a policy put something else in the place of what programs consist of.
func TestPassiveTakesTheSystemAsItIs(t *testing.T) {
	work, _ := workTree(t)
	for dest, accepted := range map[string]bool{"/ws": true, "/opt/ws": true, "/etc": false, "/etc/gems": false, "/usr/lib/python3.11": false, "/lib64": false, "/usr": false} {
		for commands, accepted := range map[string]bool{"passive": accepted, "full": true} {
			pol, err := NewPolicy().WorkspaceAt(work, dest).Commands(commands).SetEnv("PATH", "/bin").Build()
			require.NoError(t, err)
			d, err := CheckCommand(pol, "", []string{"ls"})
			require.NoError(t, err)
			assert.Equalf(t, accepted, d.Accepted, "%s at %s: %s", commands, dest, d.Text())
			if !accepted {
				assert.Contains(t, d.Reason, work+" at "+dest+", where programs and libraries are looked for")
			}
		}
	}
}

// No list of hooks is complete: under passive, what a request may set is a list of what is known to choose no code.
func TestPassiveTakesFewVariablesFromRequests(t *testing.T) {
	work, _ := workTree(t)
	s := opened(t, NewPolicy().Workspace(work).Commands("passive"))
	_, err := s.Exec(t.Context(), []string{"cat", "a.py"}, &ExecOptions{Env: []string{"LC_ALL=" + work + "/sub"}})
	assert.ErrorContains(t, err, "LC_ALL cannot be set under the command rules passive: the C library would read the file that it names")
	for name, says := range map[string]string{"LANG": "", "LC_ALL": "", "TZ": "", "NO_COLOR": "", "CLICOLOR_FORCE": "", "CI": "", "A": "it takes from requests only LANG, LC_ALL, ", "GOCACHE": "it takes from requests only",
		"PYTHONPATH": "Python's programs", "PATH": "places of the host"} {
		_, err := s.Exec(t.Context(), []string{"cat", "a.py"}, &ExecOptions{Env: []string{name + "=C"}})
		if says == "" {
			assert.NoError(t, err, name)
			continue
		}
		var no *RefusedError
		require.ErrorAs(t, err, &no, name)
		assert.Equal(t, "env", no.Field)
		assert.Contains(t, no.Text, name+" cannot be set under the command rules passive: ")
		assert.Contains(t, no.Text, says)
		assert.NotEmpty(t, no.Fix)
	}
}

// A command without a sandbox is checked all the same.
func TestCommandRulesNeedNoSandbox(t *testing.T) {
	work, _ := workTree(t)
	pol, err := NewPolicy().Workspace(work).Backend(policy.BackendNone).Commands("passive").Build()
	require.NoError(t, err)
	_, err = Run(t.Context(), pol, []string{"touch", work + "/ran"}, nil)
	var no *RefusedError
	require.ErrorAs(t, err, &no)
	assert.NoFileExists(t, work+"/ran")
	_, err = Run(t.Context(), pol, []string{"cat", "out"}, nil)
	require.ErrorAs(t, err, &no)
	r, err := Run(t.Context(), pol, []string{"cat", "a.py"}, nil)
	require.NoError(t, err)
	assert.Equal(t, "x = 1\n", string(r.Stdout))
	_, err = Run(t.Context(), pol, nil, nil)
	require.ErrorAs(t, err, &no)
	assert.Equal(t, "no command", no.Text)
}

func TestAPolicyWithWrongCommandRulesIsRefused(t *testing.T) {
	_, err := NewPolicy().Commands("pasive").Build()
	assert.ErrorContains(t, err, `commands: there are no command rules "pasive"; did you mean passive?`)
	_, err = NewPolicy().DefineCommands(policy.CommandRules{Name: "full"}).Build()
	assert.ErrorContains(t, err, "command_rules[0]: full names built-in command rules")
}

// Every way to a command checks the command rules, and nothing is made of a refusal but a refusal.
func TestSessionsObeyTheCommandRules(t *testing.T) {
	work, _ := workTree(t)
	ctx := t.Context()
	pol := built(t, NewPolicy().Workspace(work).Commands("mine").DefineCommands(policy.CommandRules{Name: "mine", Extends: "passive",
		Programs: []policy.Program{{Name: "no-such-program", Shapes: []string{""}}}}))
	s, err := Open(ctx, pol)
	require.NoError(t, err)
	defer s.Close()
	refusedBy := func(err error, field, says string) {
		t.Helper()
		var no *RefusedError
		require.ErrorAs(t, err, &no)
		assert.Equal(t, field, no.Field)
		assert.Contains(t, no.Text, says)
		assert.NotEmpty(t, no.Fix)
	}
	_, err = s.Exec(ctx, []string{"touch", "ran"}, nil)
	refusedBy(err, "args", "no rule names this program")
	_, err = s.Exec(ctx, Shell("touch ran"), nil)
	refusedBy(err, "args", "a shell runs whatever it is told")
	_, err = start(ctx, s, []string{"cat", "/etc/passwd"}, ExecOptions{})
	refusedBy(err, "args", "does not resolve inside")
	for _, dir := range []string{"/etc", "..", "dir", "sub/../.."} {
		_, err = s.Exec(ctx, []string{"ls"}, &ExecOptions{Dir: dir})
		refusedBy(err, "dir", "is outside of the workspace, which the command rules mine keep commands in")
	}
	_, err = s.Exec(ctx, []string{"ls"}, &ExecOptions{Env: []string{"PATH=" + work}})
	refusedBy(err, "env", "PATH cannot be set under the command rules mine")
	_, err = s.Exec(ctx, []string{"ls"}, &ExecOptions{Env: []string{"A=b", "LD_PRELOAD=./evil.so"}})
	refusedBy(err, "env", "LD_PRELOAD cannot be set under the command rules mine: the loader")
	_, err = Run(ctx, pol, []string{"touch", "ran"}, nil)
	refusedBy(err, "args", "no rule names")
	assert.NoFileExists(t, work+"/ran")

	r, err := s.Exec(ctx, []string{"cat", "b.py"}, &ExecOptions{Dir: "sub"})
	require.NoError(t, err)
	assert.Equal(t, "x = 1\n", string(r.Stdout))
	r, err = s.Exec(ctx, []string{"cat", "none"}, nil)
	require.NoError(t, err, "what ran and failed is a result")
	assert.Equal(t, 1, r.Code)
	_, err = s.Exec(ctx, []string{"no-such-program"}, nil)
	assert.ErrorIs(t, err, ErrNotFound, "what is not installed is told as such")
	r, err = Run(ctx, pol, []string{"cat", "a.py"}, nil)
	require.NoError(t, err)
	assert.Equal(t, OK, r.Verdict)
}

// What keeps code out of an accepted command is set over what the policy says.
func TestARuleSetsItsVariables(t *testing.T) {
	work, beside := workTree(t)
	require.NoError(t, os.WriteFile(beside+"/python3", []byte("#!/bin/sh\nenv\n"), 0o755))
	s := opened(t, NewPolicy().Workspace(work).ReadOnly(beside).SetEnv("PATH", beside+":/usr/bin:/bin").SetEnv("PYTHONSAFEPATH", "").
		Commands("mine").DefineCommands(policy.CommandRules{Name: "mine", Extends: "passive"}))
	r, err := s.Exec(t.Context(), []string{"python3", "-m", "py_compile", "a.py"}, &ExecOptions{Env: []string{"A=b"}})
	require.NoError(t, err)
	assert.Contains(t, "\n"+string(r.Stdout), "\nPYTHONSAFEPATH=1\n")
	assert.Contains(t, "\n"+string(r.Stdout), "\nA=b\n")
	r, err = s.Exec(t.Context(), []string{"python3", "--version"}, nil)
	require.NoError(t, err)
	assert.NotContains(t, string(r.Stdout), "PYTHONSAFEPATH=1", "what one command's rule sets is not the next one's")
}

// A Python that does not know the variable would run runpy.py of the workspace.
func TestAnOldPythonIsRefused(t *testing.T) {
	for name, accepted := range map[string]bool{"python3.6": false, "python3.10": false, "python3.11": true, "python3.14": true, "python3.6m": false, "platform-python3.6": false, "interpreter": true} {
		t.Run(name, func(t *testing.T) {
			work, beside := workTree(t)
			require.NoError(t, os.WriteFile(filepath.Join(beside, name), []byte("#!/bin/sh\n"), 0o755))
			require.NoError(t, os.Symlink(name, beside+"/python3"))
			for commands, want := range map[string]bool{"passive": accepted, "full": true} {
				p := built(t, NewPolicy().Workspace(work).ReadOnly(beside).SetEnv("PATH", beside+":/usr/bin:/bin").Commands(commands))
				for argv, want := range map[string]bool{"python3 -m py_compile a.py": want, "python3 -I -m py_compile a.py": true, "python3 --version": true} {
					d, err := CheckCommand(p, "", strings.Fields(argv))
					require.NoError(t, err)
					assert.Equal(t, want, d.Accepted, "%s, %s: %s", commands, argv, d.Text())
				}
			}
		})
	}
}
