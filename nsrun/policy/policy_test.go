package policy

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func ptr(n int) *int { return &n }

func TestValidatePasses(t *testing.T) {
	for name, p := range map[string]Policy{
		"zero":    {},
		"default": Default("/home/me"),
		"no home": Default("/"),
		"granted": Default("").Grant("/srv/data", true, "test"),
		"full": {FS: []FS{{Kind: Symlink, Source: "usr/bin", Dest: "/bin"}, {Kind: Socket, Source: "/run/x", Dest: "/dev/log"}, {Kind: File, Dest: "/etc/x"}},
			Dir: "/", Home: "/root", Network: NetworkHost, Hostname: "a.b-c_d", UID: ptr(0), GID: ptr(1<<31 - 1), Fallback: Degrade,
			Limits: []Limit{{"core", 0}, {"pids", 1}}, Env: Env{Pass: []string{"A"}, Set: []Var{{"B", "x\ny"}}}},
	} {
		assert.NoErrorf(t, p.Validate(), "%s", name)
	}
}

func TestValidateFindsEveryFault(t *testing.T) {
	long := strings.Repeat("a", 256)
	for name, c := range map[string]struct {
		p    Policy
		want []string
	}{
		"kind":        {Policy{FS: []FS{{Kind: "x", Dest: "/a"}}}, []string{`fs[0].kind: "x" is unknown`}},
		"root":        {Policy{FS: []FS{{Kind: Tmpfs, Dest: "/"}}}, []string{"fs[0].dest: / is the sandbox's own root"}},
		"whole host":  {Policy{FS: []FS{{Kind: Bind, Source: "/", Dest: "/host"}}}, []string{"fs[0].source: / is the whole host"}},
		"kernel":      {Policy{FS: []FS{{Kind: Bind, Source: "/proc/self/cwd", Dest: "/a"}, {Kind: Bind, Source: "/a", Dest: "/sys/a"}}}, []string{"fs[0].source", "fs[1].source"}},
		"paths":       {Policy{FS: []FS{{Kind: Bind, Source: "a", Dest: "/a/../b"}}, Dir: "x", Home: "/x/"}, []string{"relative", "..", "dir:", "home:", "not clean"}},
		"long name":   {Policy{Dir: "/" + long}, []string{"name of 256 bytes"}},
		"long path":   {Policy{Dir: strings.Repeat("/"+long[1:], 17)}, []string{"4095"}},
		"hidden text": {Policy{Dir: "/a\u202eb", Home: "/\xff"}, []string{"dir:", "home:"}},
		"symlink":     {Policy{FS: []FS{{Kind: Symlink, Dest: "/a"}}}, []string{"symlink needs a target"}},
		"sizes":       {Policy{FS: []FS{{Kind: Tmpfs, Dest: "/a", SizeMB: -1, Mode: 0o10000}}}, []string{"cannot be negative", "10000 is not a mode"}},
		"env":         {Policy{Env: Env{Pass: []string{"", "A=B", "A*", "B"}, Set: []Var{{"A", "\x00"}, {"", ""}}}}, []string{"env.pass[0]", "env.pass[1]", "env.pass[2]", "env.set[0]", "env.set[1]"}},
		"words":       {Policy{Network: "x", Hostname: "a b", Fallback: "x"}, []string{"network:", "hostname:", "fallback:"}},
		"ids":         {Policy{UID: ptr(-1), GID: ptr(1 << 31)}, []string{"uid:", "gid:"}},
		"limits":      {Policy{Limits: []Limit{{"x", 1}, {"pids", 0}, {"pids", 1}, {"core", -1}}}, []string{"unknown; known are", "pids: 0 is out of range", "given twice", "core: -1"}},
		"times":       {Policy{Timeout: -1}, []string{"durations cannot be negative"}},
	} {
		err := c.p.Validate()
		require.Errorf(t, err, "%s", name)
		var f *Fault
		assert.Truef(t, errors.As(err, &f), "%s gives Faults", name)
		for _, want := range c.want {
			assert.ErrorContainsf(t, err, want, "%s", name)
		}
	}
}

func TestDefaultIsClosed(t *testing.T) {
	p := Default("/home/me")
	for _, e := range p.FS {
		assert.Truef(t, e.System, "%s is marked as what every sandbox has", e.Dest)
		assert.Falsef(t, e.Kind == Bind && e.Write, "%s is not writable", e.Dest)
	}
	assert.Empty(t, p.Network)
	assert.Equal(t, NetworkNone, p.Network.Mode())
	assert.Empty(t, p.Env)
}

// TestNothingElseOfTheKernelIsShown holds that the processors' directory is shown as Default shows it, and in no other way.
func TestNothingElseOfTheKernelIsShown(t *testing.T) {
	row := fact(cpuDir)
	assert.NoError(t, row.Check())
	for name, change := range map[string]func(*FS){
		"writable": func(e *FS) { e.Write = true }, "programs": func(e *FS) { e.NoExec = false }, "asked for": func(e *FS) { e.System = false },
		"elsewhere": func(e *FS) { e.Dest = "/cpu" }, "another source": func(e *FS) { e.Source = "/sys/devices/system/node" },
		"above": func(e *FS) { e.Source, e.Dest = "/sys/devices/system", "/sys/devices/system" }, "below": func(e *FS) { e.Source += "/cpu0"; e.Dest += "/cpu0" },
		"a socket": func(e *FS) { e.Kind = Socket },
	} {
		e := row
		change(&e)
		assert.ErrorContains(t, e.Check(), "nothing of the host's /sys can be shown", name)
	}
}

func TestLimits(t *testing.T) {
	p := Policy{}.WithLimit("pids", 5)
	q := p.WithLimit("pids", 7)
	v, ok := p.Limit("pids")
	assert.True(t, ok)
	assert.EqualValues(t, 5, v, "a policy is immutable")
	v, _ = q.Limit("pids")
	assert.EqualValues(t, 7, v)
	_, ok = q.Limit("core")
	assert.False(t, ok)
	for _, l := range LimitTable {
		assert.NoError(t, Limit{l.Name, l.Max}.Check())
		assert.Error(t, Limit{l.Name, l.Max + 1}.Check())
		assert.NoError(t, Limit{l.Name, l.Min}.Check())
		assert.Error(t, Limit{l.Name, l.Min - 1}.Check())
	}
}

func TestDefaultsOfLimitsAreThoseInForce(t *testing.T) {
	for name, want := range map[string]string{"core": "0", "tmpfs_mb": "2048, or ", "open_files": "65536", "pids": "4096, of root where ", "stack_mb": "",
		"memory_mb": "three quarters of the host's", "output_bytes": "10737418240, "} {
		l, ok := LookupLimit(name)
		assert.True(t, ok)
		assert.Truef(t, strings.HasPrefix(l.DefaultWords(), want) && (want == "") == (l.DefaultWords() == ""), "%s: %s", name, l.DefaultWords())
	}
	assert.Equal(t, DefaultKillGrace.String(), TimeTable[1].DefaultWords())
	for _, l := range slices.Concat(LimitTable, TimeTable) {
		assert.NotEmpty(t, l.EnforcedBy, l.Name)
	}
}

func TestUnknownLimitsNameWhatWasMeant(t *testing.T) {
	for name, want := range map[string]string{
		"memory": "did you mean memory_mb?", "Memory_MB": "did you mean memory_mb?", "cpu": "did you mean cpu_percent or cpu_seconds?",
		"open-files": "did you mean open_files?", "pid": "did you mean pids?", "colour": "known are memory_mb, ", "weight": "did you mean cpu_weight?", "": "known are memory_mb, ",
	} {
		assert.ErrorContains(t, Limit{name, 1}.Check(), want, name)
	}
}

func TestSecretNames(t *testing.T) {
	for _, name := range strings.Fields(`API_KEY OPENAI_API_KEY my_key MY_Key GITHUB_TOKEN GH_TOKEN X_TOKEN TOKEN CLIENT_SECRET SECRET PASSWORD DB_PASSWORD MYSQL_PASSWORD_FILE
		PGPASSWORD DATABASE_URL PROD_DATABASE_URL REDIS_URL GH_PAT GITHUB_PAT SSH_AUTH_SOCK SSH_AGENT_PID AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_PROFILE
		STRIPE_SK STRIPE_SECRET_KEY ANTHROPIC_BASE_URL HF_HOME GOOGLE_APPLICATION_CREDENTIALS KUBECONFIG SENTRY_DSN VAULT_ADDR NPM_CONFIG__AUTH
		PASSPHRASE GPGPASSPHRASE PRIVATEKEY DEPLOY_PRIVATEKEY SECRETKEY ACCESSKEY ACCESSTOKEN CREDS DB_CREDS CREDENTIALS COOKIE COOKIES SESSION_COOKIES
		K8S_BEARER BEARER PGPASS PASS DB_PASS OTP X_OTP TOTP JWT MY_JWT APP_SECRETS SECRET_SAUCE`) {
		assert.Truef(t, SecretName(name), "B8: %s is taken for a secret", name)
	}
	for _, name := range strings.Fields(`PATH HOME LANG LC_ALL TERM TZ EDITOR KEYBOARD TOKENIZERS_PARALLELISM MONKEY KEY_FILE_NAME GOPATH PYTHONPATH CI USER MY_SECRETARY
		COMPASS BYPASS PASSES MAX_TOKENS OTP_VERSION OLDPWD COOKIECUTTER_CONFIG`) {
		assert.Falsef(t, SecretName(name), "%s is no secret", name)
	}
}

// TestLocales: only the names of locale(7) are locales'. Anything could be called LC_*.
func TestLocales(t *testing.T) {
	for _, name := range strings.Fields(`LANG LC_ALL LC_CTYPE LC_NUMERIC LC_TIME LC_COLLATE LC_MONETARY LC_MESSAGES LC_PAPER LC_NAME LC_ADDRESS LC_TELEPHONE
		LC_MEASUREMENT LC_IDENTIFICATION`) {
		assert.Truef(t, BaseName(name), "%s is always passed", name)
		assert.Truef(t, PlainName(name), "a request may set %s", name)
	}
	for _, name := range strings.Fields(`LC_SECRET_TOKEN LC_ LC_X LC_ALL_ LC_PASSWORD`) {
		assert.Falsef(t, BaseName(name), "%s is not passed", name)
		assert.Falsef(t, PlainName(name), "no request may set %s", name)
	}
}

func TestEnviron(t *testing.T) {
	caller := []string{"LANG=de", "LC_ALL=C", "PATH=/mine", "FOO=1", "FOO=2", "GH_PAT=x", "AWS_PROFILE=y", "LD_PRELOAD=/x.so", "HOME=/h", "bogus", "=x"}
	base := []Var{{"PATH", DefaultPath}, {"HOME", "/home/me"}}
	environ, dropped := Env{}.Environ(caller, base)
	assert.Equal(t, []string{"HOME=/home/me", "LANG=de", "LC_ALL=C", "PATH=" + DefaultPath}, environ, "only the base is inherited")
	assert.Empty(t, dropped)
	environ, dropped = Env{Pass: []string{"FOO", "GH_PAT", "NONE"}, Set: []Var{{"A", "1"}, {"A", "2"}}}.Environ(caller, base)
	assert.Contains(t, environ, "FOO=2")
	assert.Contains(t, environ, "A=2", "a later value wins")
	assert.Equal(t, map[string][]string{"": {"GH_PAT"}}, dropped, "secrets are dropped even when listed, and named")
	environ, dropped = Env{All: true}.Environ(caller, nil)
	assert.Equal(t, []string{"FOO=2", "LANG=de", "LC_ALL=C"}, environ)
	assert.Equal(t, map[string][]string{"": {"AWS_PROFILE", "GH_PAT"}, "the loader and the C library act on it": {"LD_PRELOAD"},
		"it names places of the host; the sandbox has its own": {"HOME", "PATH"}}, dropped, "each with its reason")
	environ, dropped = Env{All: true, Pass: []string{"LD_PRELOAD", "GH_PAT"}}.Environ(caller, base)
	assert.Contains(t, environ, "LD_PRELOAD=/x.so", "FE06: a hook is passed where it is named")
	assert.Contains(t, environ, "PATH="+DefaultPath, "what is dropped leaves the sandbox's own")
	assert.Contains(t, dropped[""], "GH_PAT", "a secret is not")
	environ, _ = Env{Set: []Var{{"GH_PAT", "given"}, {"LD_PRELOAD", "/y.so"}}}.Environ(caller, nil)
	assert.Contains(t, environ, "GH_PAT=given", "what the policy sets is not the caller's")
	assert.Contains(t, environ, "LD_PRELOAD=/y.so")
}

func TestHooks(t *testing.T) {
	for _, name := range strings.Fields(`LD_PRELOAD LD_LIBRARY_PATH ld_preload GCONV_PATH GLIBC_TUNABLES MALLOC_CHECK_ PYTHONPATH PYTHONSTARTUP NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS
		BASH_ENV ENV SHELLOPTS BASHOPTS PS4 PROMPT_COMMAND BASH_FUNC_ls%% GIT_SSH_COMMAND GIT_DIR PERL5LIB PERL5OPT RUBYOPT RUBYLIB JAVA_TOOL_OPTIONS _JAVA_OPTIONS
		JDK_JAVA_OPTIONS CLASSPATH LUA_INIT LUA_INIT_5_4 R_PROFILE_USER GOFLAGS GOROOT GOCACHEPROG GOWORK CGO_CFLAGS PYENV_HOOK_PATH RBENV_HOOK_PATH CARGO_HOME RUSTC_WRAPPER MAKEFLAGS EDITOR VISUAL PAGER MANPAGER GIT_PAGER LESSOPEN LESSCLOSE
		BROWSER XDG_RUNTIME_DIR DOCKER_HOST IFS CDPATH PATH HOME npm_config_script_shell OPENSSL_CONF TERMINFO XDG_CONFIG_HOME NSRUN_CEILING
		BUNDLER_SETUP JRUBY_OPTS ERL_FLAGS ERL_AFLAGS ERL_ZFLAGS ERL_LIBS JULIA_LOAD_PATH JULIA_DEPOT_PATH JULIA_PROJECT BUN_CONFIG_REGISTRY BUN_OPTIONS OCAMLPATH OCAMLLIB
		OCAMLRUNPARAM CAML_LD_LIBRARY_PATH DOTNET_ADDITIONAL_DEPS DOTNET_SHARED_STORE COV_CORE_SOURCE GOPRIVATE GONOPROXY GOSUMDB HGEDITOR GNUPGHOME
		ASDF_DATA_DIR MISE_DATA_DIR NODENV_VERSION GOENV_ROOT VOLTA_HOME NVM_DIR COREPACK_HOME TRUFFLERUBYOPT`) {
		why, ok := Hook(name)
		assert.Truef(t, ok && why != "", "FE06: %s is a hook", name)
	}
	for _, name := range strings.Fields(`LANG LC_ALL TERM TZ COLORTERM NO_COLOR COLUMNS LINES CI FOO USER LOGNAME HTTP_PROXY GOPATH GOCACHE DEBUG ENVIRONMENT OLD_X MODE HOSTNAME`) {
		_, ok := Hook(name)
		assert.Falsef(t, ok, "%s is none", name)
		assert.Falsef(t, ok && BaseName(name), "%s is always passed", name)
	}
	for _, h := range hooks {
		for shape := range strings.FieldsSeq(h.shapes) {
			assert.Equal(t, strings.ToUpper(shape), shape)
			assert.Truef(t, match(shape, strings.ReplaceAll(shape, "*", "X")), "%s is a shape that can be matched", shape)
		}
	}
	for _, name := range BaseEnv {
		_, ok := Hook(strings.ReplaceAll(name, "*", "ALL"))
		assert.Falsef(t, ok, "%s is always passed, and must be no hook", name)
	}
	for _, name := range PlainEnv {
		_, ok := Hook(strings.ReplaceAll(name, "*", "ALL"))
		assert.Falsef(t, ok, "a request may set %s, and it must be no hook", name)
	}
	for name, want := range map[string]bool{"LC_ALL": true, "CLICOLOR": true, "CLICOLOR_FORCE": true, "CI": true, "CI_TOKEN": false, "LANGUAGE": false, "lang": false, "LC": false, "PATH": false, "": false} {
		assert.Equal(t, want, PlainName(name), name)
	}
}

// FuzzEnv checks that nothing is inherited that is not named, no secret, no hook that is not named by itself, and no name twice.
func FuzzEnv(f *testing.F) {
	f.Add("A=1,LD_PRELOAD=x,GCONV_PATH=y,LANG=z,GH_PAT=q", "A,GH_PAT", "", false)
	f.Add("A=1,A=2,=,x,LC_=,PATH=", "PATH,LD_PRELOAD", "A", true)
	f.Add("Bash_Env=1,PYTHONPATH=2,GIT_X=y,GIT_X=z", "GIT_X", "PYTHONPATH", true)
	f.Fuzz(func(t *testing.T, caller, pass, set string, all bool) {
		e := Env{Pass: strings.Split(pass, ","), All: all}
		if ValidEnvName(set) {
			e.Set = []Var{{set, "set"}}
		}
		environ, dropped := e.Environ(strings.Split(caller, ","), nil)
		seen := map[string]bool{}
		for _, entry := range environ {
			name, value, _ := strings.Cut(entry, "=")
			assert.Falsef(t, seen[name], "%s comes twice", name)
			seen[name] = true
			if len(e.Set) > 0 && name == set {
				assert.Equal(t, "set", value, "what is set wins")
				continue
			}
			listed := strings.Contains(","+pass+",", ","+name+",")
			_, hook := Hook(name)
			assert.Truef(t, BaseName(name) || (all && !hook || listed) && !SecretName(name), "%s was not asked for", name)
			assert.Containsf(t, ","+caller+",", ","+entry+",", "%s is the caller's", entry)
		}
		for reason, names := range dropped {
			for i, name := range names {
				why, hook := Hook(name)
				assert.True(t, !seen[name] || name == set)
				assert.True(t, reason == "" && SecretName(name) || hook && reason == why && all)
				assert.True(t, i == 0 || names[i-1] < name, "each is named once")
			}
		}
	})
}

func TestCeilingHasAPlaceForEveryGrantOfAPolicy(t *testing.T) {
	known := map[string]string{
		"Name": "a word", "FS": "FSRead FSWrite Sockets", "Dir": "a place inside", "HostEtc": "HostEtc", "Home": "a place inside", "Env": "PassEnv",
		"Network": "Network", "Allow": "Allow", "AllowMost": "only less", "ProxyEnv": "a way to what Allow permits", "Hostname": "a word", "UID": "an id inside a namespace of its own", "GID": "the same", "Limits": "Limits",
		"Seccomp": "Seccomp", "NoLandlock": "NoLandlock", "Timeout": "Timeout", "MaxProcessTime": "Timeout", "KillGrace": "KillGrace", "Fallback": "Fallback", "Notes": "words",
		"Backend": "Fallback Isolation", "Isolation": "Isolation", "Require": "Require", "SelfTest": "only more",
		"Autonomy": "Network", "Commands": "Commands", "CommandRules": "Commands",
		"Audit": "a word to the caller, that opens nothing to the command", "ManifestSHA256": "a word", "Labels": "words", "NoExec": "only less", "KeepHome": "KeepHome",
		"Protect": "Protect", "Explain": "Explain", "ProtectPaths": "only less", "Tools": "Tools",
	}
	for i := range reflect.TypeFor[Policy]().NumField() {
		name := reflect.TypeFor[Policy]().Field(i).Name
		assert.Containsf(t, known, name, "a new field of Policy: say in Ceiling.Under what the operator may cut of it")
	}
}

func TestLabelsAreBounded(t *testing.T) {
	all, err := WithLabels([]Var{{"task", "1"}}, Var{"role", "tester"}, Var{"task", "2"})
	require.NoError(t, err)
	assert.Equal(t, []Var{{"role", "tester"}, {"task", "2"}}, all)
	for _, bad := range []struct{ name, value, says string }{
		{"", "x", "the name is empty"}, {"Task", "x", `"Task" cannot be`}, {"1task", "x", "cannot be"}, {"a b", "x", "cannot be"},
		{strings.Repeat("a", 65), "x", "at most 64"}, {"a", "x\ny", "control characters"}, {"a", "\xff", "not UTF-8"},
		{"a", strings.Repeat("x", MaxLabelBytes), "are too many"},
	} {
		_, err := WithLabels(nil, Var{bad.name, bad.value})
		assert.ErrorContains(t, err, bad.says, "%q", bad.name)
	}
	all = nil
	for i := range MaxLabels {
		all, err = WithLabels(all, Var{fmt.Sprintf("a%d", i), ""})
		require.NoError(t, err)
	}
	_, err = WithLabels(all, Var{"one-more", ""})
	assert.ErrorContains(t, err, "17 labels")
	p := Default("/home/nobody")
	p.Labels = []Var{{"b", ""}, {"a", ""}}
	assert.ErrorContains(t, p.Validate(), "out of order")
}
