package policy

import (
	"errors"
	"reflect"
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
		"env":         {Policy{Env: Env{Pass: []string{"", "A=B"}, Set: []Var{{"A", "\x00"}, {"", ""}}}}, []string{"env.pass[0]", "env.pass[1]", "env.set[0]", "env.set[1]"}},
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
	for _, l := range LimitNames {
		assert.NoError(t, Limit{l.Name, l.Max}.Check())
		assert.Error(t, Limit{l.Name, l.Max + 1}.Check())
		assert.Error(t, Limit{l.Name, -1}.Check())
	}
}

func TestSecretNames(t *testing.T) {
	for _, name := range strings.Fields(`API_KEY OPENAI_API_KEY my_key MY_Key GITHUB_TOKEN GH_TOKEN X_TOKEN TOKEN CLIENT_SECRET SECRET PASSWORD DB_PASSWORD MYSQL_PASSWORD_FILE
		PGPASSWORD DATABASE_URL PROD_DATABASE_URL REDIS_URL GH_PAT GITHUB_PAT SSH_AUTH_SOCK SSH_AGENT_PID AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_PROFILE
		STRIPE_SK STRIPE_SECRET_KEY ANTHROPIC_BASE_URL HF_HOME GOOGLE_APPLICATION_CREDENTIALS KUBECONFIG SENTRY_DSN VAULT_ADDR NPM_CONFIG__AUTH`) {
		assert.Truef(t, SecretName(name), "B8: %s is taken for a secret", name)
	}
	for _, name := range strings.Fields(`PATH HOME LANG LC_ALL TERM TZ EDITOR KEYBOARD TOKENIZERS_PARALLELISM MONKEY KEY_FILE_NAME GOPATH PYTHONPATH CI USER MY_SECRETARY`) {
		assert.Falsef(t, SecretName(name), "%s is no secret", name)
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
	assert.Equal(t, []string{"GH_PAT"}, dropped, "secrets are dropped even when listed, and named")
	environ, dropped = Env{All: true}.Environ(caller, nil)
	assert.Contains(t, environ, "LD_PRELOAD=/x.so")
	assert.Equal(t, []string{"AWS_PROFILE", "GH_PAT"}, dropped)
	environ, _ = Env{Set: []Var{{"GH_PAT", "given"}}}.Environ(caller, nil)
	assert.Contains(t, environ, "GH_PAT=given", "what the policy sets is not the caller's")
}

// FuzzEnv checks that nothing is inherited that is not named, or a secret, and no name comes twice.
func FuzzEnv(f *testing.F) {
	f.Add("A=1,LD_PRELOAD=x,GCONV_PATH=y,LANG=z,GH_PAT=q", "A,GH_PAT", false)
	f.Add("A=1,A=2,=,x,LC_=,PATH=", "PATH,LD_PRELOAD", true)
	f.Fuzz(func(t *testing.T, caller, pass string, all bool) {
		e := Env{Pass: strings.Split(pass, ","), All: all}
		environ, dropped := e.Environ(strings.Split(caller, ","), nil)
		seen := map[string]bool{}
		for _, entry := range environ {
			name, _, _ := strings.Cut(entry, "=")
			assert.Falsef(t, seen[name], "%s comes twice", name)
			seen[name] = true
			named := all || strings.Contains(","+pass+",", ","+name+",")
			assert.Truef(t, BaseName(name) || named && !SecretName(name), "%s was not asked for", name)
		}
		for _, name := range dropped {
			assert.True(t, SecretName(name) && !seen[name])
		}
	})
}

func TestCeilingHasAPlaceForEveryGrantOfAPolicy(t *testing.T) {
	known := map[string]string{
		"Name": "a word", "FS": "FSRead FSWrite Sockets", "Dir": "a place inside", "HostEtc": "HostEtc", "Home": "a place inside", "Env": "PassEnv",
		"Network": "Network", "Hostname": "a word", "UID": "an id inside a namespace of its own", "GID": "the same", "Limits": "Limits",
		"Seccomp": "Seccomp", "NoLandlock": "NoLandlock", "Timeout": "Timeout", "KillGrace": "KillGrace", "Fallback": "Fallback", "Notes": "words",
		"Backend": "Fallback Isolation", "Isolation": "Isolation", "Require": "Require", "SelfTest": "only more",
	}
	for i := range reflect.TypeFor[Policy]().NumField() {
		name := reflect.TypeFor[Policy]().Field(i).Name
		assert.Containsf(t, known, name, "a new field of Policy: say in Ceiling.Under what the operator may cut of it")
	}
}
