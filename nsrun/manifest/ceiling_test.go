package manifest

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nsrun/nsrun/nsrun/policy"
)

func TestParseCeiling(t *testing.T) {
	want := policy.Ceiling{FSRead: []string{"/"}, FSWrite: []string{"/srv"}, Sockets: []string{"/run/mcp"}, Network: "allow", Allow: []string{"example.com", "*.pypi.org:443"}, PassEnv: []string{"CI_*", "*"},
		Limits: []policy.Limit{{Name: "pids", Value: 5}}, Timeout: time.Hour, KillGrace: 3 * time.Second, Seccomp: []string{"default", "off"}, Fallback: "degrade", NoLandlock: true, HostEtc: true, Force: true, KeepHome: true,
		Tools:     []string{"go", "/etc/nsrun/tool.json"},
		Isolation: "subprocess", Protect: "off", Explain: "on", Require: []string{"view"}, Commands: []string{"passive"}}
	for _, text := range []string{
		`{"version":1,"fs_read":["/"],"fs_write":["/srv"],"sockets":["/run/mcp"],"network":{"allow":["example.com","*.pypi.org:443"]},"pass_env":["CI_*","*"],"limits":{"pids":5,"timeout":"1h","kill_grace":3},"seccomp":["default","off"],"fallback":"degrade","isolation":"subprocess","protect":"off","explain":"on","require":["view"],"commands":["passive"],"landlock":false,"force":true,"keep_home":true,"tools":["go","/etc/nsrun/tool.json"],"host_etc":true}`,
		"fs_read: [/]\nfs_write:\n- /srv\nsockets: [/run/mcp]\nnetwork:\n  allow: [example.com, \"*.pypi.org:443\"]\npass_env: [\"CI_*\", \"*\"]\nlimits: {pids: 5, timeout: 1h, kill_grace: 3}\nseccomp: [default, \"off\"]\nfallback: degrade\nisolation: subprocess\nprotect: \"off\"\nexplain: \"on\"\nrequire: [view]\ncommands: [passive]\nlandlock: false\nforce: true\nkeep_home: true\ntools: [go, /etc/nsrun/tool.json]\nhost_etc: true\n",
	} {
		c, err := ParseCeiling("c", []byte(text))
		require.NoError(t, err)
		assert.Equal(t, want, c)
	}
	for i := range reflect.TypeFor[policy.Ceiling]().NumField() {
		field := reflect.TypeFor[policy.Ceiling]().Field(i)
		assert.Truef(t, field.Name == "File" || !reflect.ValueOf(want).Field(i).IsZero(), "%s can be written in a file", field.Name)
	}
	c, err := ParseCeiling("c", []byte("{}"))
	require.NoError(t, err)
	assert.Zero(t, c, "an empty ceiling is the closed one")
}

func TestCeilingFaults(t *testing.T) {
	for text, want := range map[string]string{
		`{"fs_read":["~/x"]}`:               `c:1:13: fs_read[0]: "~/x" is not an absolute path (give an absolute path)`,
		`{"fs_write":["/a/../b"]}`:          `c:1:14: fs_write[0]: "/a/../b" holds .. (give the path it leads to)`,
		`{"workspace":"/x"}`:                `c:1:2: workspace: a ceiling has no such key`,
		`{"fs_reed":["/x"]}`:                `(did you mean fs_read?)`,
		`{"network":"all"}`:                 `"all" is unknown (use none or host or {"allow": ["example.com:443"]})`,
		`{"pass_env":["A=*"]}`:              `is not a variable name`,
		`{"pass_env":["A?"]}`:               `holds a glob`,
		`{"limits":{"pids":0}}`:             `limits.pids: "0" is out of range`,
		`{"seccomp":"off"}`:                 `a string stands where a list is wanted`,
		`{"fs_read":["/x"],"fs_read":[]}`:   `the key is there already`,
		"network: none\nnetwork: host\n":    `c:2:1: network: the key is there already, in line 1`,
		`{"landlock":null}`:                 `null stands where true or false is wanted`,
		`{"require":["veiw"]}`:              `c:1:13: require[0]: "veiw" is unknown (did you mean view?)`,
		`{"isolation":"none"}`:              `c:1:14: isolation: "none" is unknown`,
		`{"version":2}`:                     `(give 1)`,
		`{"fs_read":["/a\u0000b","/a\n"]}x`: `c:1:33`,
	} {
		_, err := ParseCeiling("c", []byte(text))
		assert.ErrorContainsf(t, err, want, "%s", text)
	}
}
